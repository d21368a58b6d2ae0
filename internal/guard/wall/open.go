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

// programPlaces is what has to be visible of a program, and what lies there if it is not the same: its folder, because other files of it
// may lie there, or the folder that its kind of installation fills. A home is never shown for it.
func programPlaces(program string) map[string]string {
	out := map[string]string{}
	target, err := filepath.EvalSymlinks(program)
	if err != nil {
		return out
	}
	paths := []string{target}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(program)); err == nil {
		paths = append(paths, filepath.Join(dir, filepath.Base(program)))
	}
	for _, path := range paths {
		if place := programPlace(path); place != path {
			out[place] = ""
		} else if path != target {
			out[path] = target
		} else {
			out[path] = ""
		}
	}
	return out
}

func programPlace(path string) string {
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

// mostEntries bounds how many entries of one folder get a rule of their own. What is beyond it in a folder that also holds something
// protected cannot be read.
const mostEntries = 1000

// except lists the folders and files of what is open that hold nothing protected: Landlock can only allow, so "all but" is the list of
// everything beside it. Links are left out, because a rule for a link is a rule for its target.
func except(open, protected []string) []string {
	paths := make([]string, 0, len(protected))
	for _, path := range protected {
		if at, err := filepath.EvalSymlinks(path); err == nil {
			paths = append(paths, at)
		}
		paths = append(paths, filepath.Clean(path))
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	var out []string
	for _, path := range open {
		if at, err := filepath.EvalSymlinks(path); err == nil && !slices.ContainsFunc(paths, func(p string) bool { return inside(at, p) }) {
			out = append(out, beside(at, paths)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// beside lists a folder or file, or what lies beside the protected parts of it.
func beside(at string, protected []string) []string {
	if !slices.ContainsFunc(protected, func(p string) bool { return inside(p, at) }) {
		return []string{at}
	}
	if slices.Contains(protected, at) {
		return nil
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil
	}
	var out []string
	for i, entry := range entries {
		if i == mostEntries {
			break
		}
		if entry.Type()&fs.ModeSymlink == 0 {
			out = append(out, beside(filepath.Join(at, entry.Name()), protected)...)
		}
	}
	return out
}

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

// systemSecrets are files and folders that hold keys, passwords or the data of other programs.
func systemSecrets() []string {
	out := []string{
		"/sys/kernel/debug", "/sys/kernel/tracing",
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private",
		"/etc/kubernetes", "/etc/rancher", "/etc/letsencrypt/archive", "/etc/letsencrypt/live", "/etc/letsencrypt/keys",
		"/etc/letsencrypt/accounts", "/etc/wireguard", "/etc/openvpn", "/etc/NetworkManager/system-connections", "/etc/krb5.keytab",
		"/etc/ppp", "/etc/ipsec.secrets", "/etc/docker/key.json", "/etc/crypttab", "/etc/security/opasswd", "/etc/mysql/debian.cnf",
		"/etc/credstore", "/etc/credstore.encrypted", "/etc/pki/private", "/etc/pki/tls/private", "/etc/vault.d", "/etc/consul.d",
		"/var/lib/docker", "/var/lib/containers", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/rancher", "/var/lib/etcd",
		"/var/lib/sss", "/var/lib/private", "/var/lib/postgresql", "/var/lib/mysql", "/var/lib/redis", "/var/lib/vault",
		"/var/lib/systemd/credential.secret", "/var/spool/cron", "/var/backups",
		"/run/secrets", "/run/credentials", "/run/user",
	}
	for _, pattern := range []string{"/etc/ssh/ssh_host_*_key", "/etc/ssl/*.key", "/etc/*.keytab"} {
		found, _ := filepath.Glob(pattern) // the pattern is right
		out = append(out, found...)
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
	if own, err := os.UserHomeDir(); err == nil && filepath.IsAbs(own) && own != "/" && !slices.Contains(out, own) {
		out = append(out, own)
	}
	return out
}

func secretInHome(name string) bool {
	switch name {
	case ".local", ".pyenv", ".nvm", ".npm-global", ".cargo", ".rustup", ".rbenv", ".sdkman", ".asdf", ".volta", ".bun", ".deno",
		".profile", ".bashrc", ".bash_profile":
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
