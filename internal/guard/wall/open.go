package wall

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sharedMemory is private where a session has mounts of its own.
const sharedMemory = "/dev/shm"

// systemPlaces is what every session may read: the files of the system, its logs and what the kernel tells. Everything else is closed
// until somebody opens it: reading is a list of what is open.
func systemPlaces() []string {
	out := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/boot", "/snap", "/nix/store", "/proc", "/sys",
		"/var/log", "/var/cache/apt", "/var/lib/apt", "/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman", "/var/lib/systemd/timers",
		"/run/log", "/run/mount", "/run/systemd/system", "/run/systemd/generator", "/run/resolvconf",
	}
	for _, pattern := range []string{
		"/opt/*/bin", "/opt/*/sbin", "/opt/*/lib", "/opt/*/lib64", "/run/*.pid", "/run/*/*.pid", "/run/utmp", "/run/motd*",
		"/run/reboot-required*", "/run/systemd/resolve/*.conf", "/run/NetworkManager/*.conf",
	} {
		found, _ := filepath.Glob(pattern) // the pattern is right
		out = append(out, found...)
	}
	return out
}

// close hides everything that is not open. Folders of the root and of /var are hidden one by one, so that their file systems stay
// what they are to df; of the others only what is open is mounted again.
func (p *profile) close() {
	open := systemPlaces()
	for _, dir := range []string{"/", "/var"} {
		entries, _ := os.ReadDir(dir) // what cannot be listed is not there
		for _, entry := range entries {
			at := filepath.Join(dir, entry.Name())
			known := func(path string) bool { return inside(at, path) }
			if entry.Type()&fs.ModeSymlink != 0 || at == "/var" || at == "/dev" || slices.ContainsFunc(open, known) {
				continue
			}
			p.mounts[at], p.usual[at] = hidden, true
		}
	}
	for _, path := range open {
		p.offer(path)
	}
	for _, disk := range disks() {
		p.outline(disk)
	}
}

// offer shows something that is only closed because nothing opens it.
func (p *profile) offer(path string) {
	at, err := realPath(path)
	if _, taken := p.mounts[at]; err == nil && at != "/" && p.invisible(at) && (!taken || p.usual[at]) {
		p.mounts[at], p.usual[at], p.loose[at] = readOnly, true, true
	}
}

// mostOutlined is how many entries the folder of a disk may have to be shown.
const mostOutlined = 64

// outline shows a disk that is mounted in something hidden as a mount that holds nothing: its size and what is left of it are facts that an
// agent needs, and df would miss it.
func (p *profile) outline(disk string) {
	if !p.invisible(disk) {
		return
	}
	entries, err := os.ReadDir(disk)
	if err != nil || len(entries) > mostOutlined {
		return
	}
	p.mounts[disk], p.usual[disk], p.loose[disk] = readOnly, true, true
	for _, entry := range entries {
		if at := filepath.Join(disk, entry.Name()); entry.Type()&fs.ModeSymlink == 0 {
			p.mounts[at], p.usual[at] = hidden, true
		}
	}
}

// disks are the folders at which disks of this machine are mounted.
func disks() []string {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		const at = 4
		before, after, _ := strings.Cut(line, " - ")
		mount, source := strings.Fields(before), strings.Fields(after)
		if len(mount) <= at || len(source) < 2 || strings.Contains(mount[at], `\`) || !isFolder(mount[at]) {
			continue
		}
		if strings.HasPrefix(source[1], "/dev/") || source[0] == "zfs" {
			out = append(out, mount[at])
		}
	}
	slices.Sort(out)
	return out
}

// boundSockets are the sockets that somebody on this machine listens to by path.
func boundSockets() []string {
	raw, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		i := strings.Index(line, " /")
		if i < 0 {
			continue
		}
		path := strings.TrimSuffix(line[i+1:], "\n")
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 { // it may be a name in another namespace
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// socketsIn are the sockets below some folders, also those that somebody listens to from another network.
func socketsIn(folders []string) []string {
	var out []string
	for _, dir := range folders {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type() == fs.ModeSocket {
				out = append(out, path)
			}
			return nil // what cannot be listed shows nothing either
		})
	}
	return out
}

// programPlaces is what has to be visible of some programs, and what lies there if it is not the same: each with the links on the way to
// it, and its folder, because other files of it may lie there, or the folder that its kind of installation fills. A home is never
// shown for it. Links are the folders on those ways that are links, with where they lead to: the programs may name others by them.
func programPlaces(programs []string) (out, links map[string]string) {
	out, links = map[string]string{}, map[string]string{}
	for _, program := range programs {
		target, err := filepath.EvalSymlinks(program)
		if err != nil {
			continue
		}
		for _, path := range hops(program, links) {
			switch place := programPlace(path); {
			case place != path:
				out[place] = ""
			case path != target:
				out[path] = target
			default:
				out[path] = ""
			}
		}
	}
	return out, links
}

// mostHops bounds how many links follow each other, as the kernel does.
const mostHops = 40

// hops are a file and what its links lead to, each in the real folder that it lies in. It notes the folders that are links.
func hops(path string, links map[string]string) []string {
	var out []string
	for range mostHops {
		dir := "/"
		for name := range strings.SplitSeq(strings.Trim(filepath.Dir(path), "/"), "/") {
			at := filepath.Join(dir, name)
			to, err := filepath.EvalSymlinks(at)
			if err != nil {
				return out
			}
			if dir = to; to != at {
				links[at] = to
			}
		}
		path = filepath.Join(dir, filepath.Base(path))
		out = append(out, path)
		next, err := os.Readlink(path)
		if err != nil {
			break
		}
		if path = next; !filepath.IsAbs(next) {
			path = filepath.Join(dir, next)
		}
	}
	return out
}

// packages is the folder in which packages of Node lie, beside those that they need.
const packages = "/node_modules"

func programPlace(path string) string {
	if before, _, found := strings.Cut(path, packages+"/"); found {
		return before + packages
	}
	for _, home := range homes() {
		if rest, below := strings.CutPrefix(path, home+"/"); below {
			if first, _, deep := strings.Cut(rest, "/"); deep && first != ".local" && !secretInHome(first) && strings.HasPrefix(first, ".") {
				return filepath.Join(home, first)
			}
		}
	}
	narrow := func(dir string) bool { // nothing else lies there
		return strings.Count(dir, "/") > 1 && filepath.Base(dir) != ".local" && !slices.Contains(homes(), dir)
	}
	dir := filepath.Dir(path)
	switch {
	case !narrow(dir):
		return path
	case filepath.Base(dir) == "bin" && narrow(filepath.Dir(dir)):
		return filepath.Dir(dir)
	}
	return dir
}

// mostEntries bounds how many entries of one folder get a rule of their own.
const mostEntries = 1000

// within lists what may be changed below a folder: everything but the files in own, and no folder that holds one of them or one of the
// anchors, because whoever may rename a folder can replace what lies in it.
func within(dir string, own, anchors []string) []string {
	holds := func(paths []string, strictly bool) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return inside(p, dir) && (!strictly || p != dir) })
	}
	if slices.Contains(own, dir) {
		return nil
	}
	if !holds(own, false) && !holds(anchors, true) {
		return []string{dir}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for i, entry := range entries {
		if path := filepath.Join(dir, entry.Name()); i < mostEntries && entry.Type()&fs.ModeSymlink == 0 {
			out = append(out, within(path, own, anchors)...)
		}
	}
	return out
}

// homeSecrets are the hidden files of all home folders, but for those in which programs are installed.
func homeSecrets() []string {
	var out []string
	for _, home := range homes() {
		entries, err := os.ReadDir(home)
		if err != nil {
			out = append(out, home)
			continue
		}
		for _, entry := range entries {
			if secretInHome(entry.Name()) {
				out = append(out, filepath.Join(home, entry.Name()))
			}
		}
		out = append(out, filepath.Join(home, ".local/share/keyrings"))
	}
	return out
}

// homes are the home folders of this machine.
func homes() []string {
	out := []string{"/root"}
	if found, err := filepath.Glob("/home/*"); err == nil {
		out = append(out, found...)
	}
	if own, err := os.UserHomeDir(); err == nil && filepath.IsAbs(own) && own != "/" {
		out = append(out, own)
	}
	for _, home := range out {
		if at, err := filepath.EvalSymlinks(home); err == nil && at != "/" {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func secretInHome(name string) bool {
	if slices.Contains([]string{
		".local", ".pyenv", ".nvm", ".npm-global", ".cargo", ".rustup", ".rbenv", ".sdkman", ".asdf", ".volta", ".bun", ".deno",
		".profile", ".bashrc", ".bash_profile",
	}, name) {
		return false
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "id_") || strings.HasSuffix(name, ".pem") || strings.HasSuffix(name, ".key")
}

// devices can be used by every program.
func devices() []string {
	return []string{
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/console",
	}
}
