package wall

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// canaryName is the file in the state folder that no session may read or write.
const canaryName = "canary"

// PrepareSession makes the folders that only this session has. It comes after Prepare.
func (s *Sandbox) PrepareSession(tier ops.Tier, session Session) error {
	temp := s.Temp(session)
	if temp == "" || !s.c.Confine {
		return nil
	}
	who := person{uid: os.Geteuid(), gid: os.Getegid()}
	if uid := s.c.UIDs[tier]; uid != 0 {
		var err error
		if who, err = lookUp(uid); err != nil {
			return err
		}
	}
	parent := filepath.Dir(temp)
	if err := s.clearTemps(parent, filepath.Base(temp)); err != nil {
		return err
	}
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return fmt.Errorf("make temporary folder of the session: %w", err)
	}
	if s.c.UIDs[tier] != 0 { // the agent's user passes through the folder above and sees nothing else in it
		if err := errors.Join(os.Chmod(parent, 0o711), s.give(temp, who)); err != nil { //nolint:gosec // to pass through
			return fmt.Errorf("give temporary folder to user %d: %w", who.uid, err)
		}
	}
	return nil
}

// clearTemps removes the temporary folders of earlier sessions: the sessions of an environment run one after the other.
func (s *Sandbox) clearTemps(parent, keep string) error {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return os.MkdirAll(parent, 0o700)
	}
	if err != nil {
		return fmt.Errorf("read temporary folders: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(parent, entry.Name())); err != nil {
			return fmt.Errorf("remove temporary folder of an earlier session: %w", err)
		}
	}
	return nil
}

// plan is what the process of an agent does before it becomes the agent. A session with an id first tries its walls from inside, as its
// commands will run: files outside cannot be written, secrets cannot be read, other processes cannot be signalled, and the sockets
// of docker and the supervisor do not answer.
func (s *Sandbox) plan(tier ops.Tier, session Session, program string) (confine.Plan, error) {
	plan := confine.Plan{Walls: []*confine.Wall{s.around(tier, session, program)}}
	if session.Net != nil {
		plan.Network = session.Net.Relay
	}
	if session.ID == "" {
		return plan, nil
	}
	trial, err := s.trial(tier, session)
	if err != nil {
		return plan, err
	}
	if session.Ungated {
		tried := *plan.Walls[0]
		tried.Trial = trial
		plan.Trial = []*confine.Wall{&tried}
		return plan, nil
	}
	inner := s.Command(tier, session)
	inner.Trial = trial
	plan.Trial = []*confine.Wall{plan.Walls[0], inner}
	return plan, nil
}

// Verdict reads the first line that a session prints: one sentence for the record when its walls hold, or a *LayerError. Mine reports
// whether the line is from the trial.
func (s *Sandbox) Verdict(tier ops.Tier, line string) (sentence string, mine bool, err error) {
	report, mine := strings.CutPrefix(line, confine.Report)
	switch {
	case !mine:
		return "", false, &LayerError{Layer: LayerLandlock, Why: "the session did not try its walls", Fix: "run claudeops doctor"}
	case report != confine.Hold:
		return "", true, &LayerError{Layer: LayerLandlock, Why: report, Fix: "run claudeops doctor; no session starts until its walls hold"}
	}
	return s.sentence(tier), true, nil
}

// trial is what the walls of this machine must hold.
func (s *Sandbox) trial(tier ops.Tier, session Session) (*confine.Trial, error) {
	canary := filepath.Join(s.c.StateDir, canaryName)
	if err := os.WriteFile(canary, []byte("Agents must not be able to read or change this file.\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write canary: %w", err)
	}
	t := &confine.Trial{Own: s.Temp(session)}
	version := confine.LandlockVersion()
	if version > 0 || s.wraps(tier) {
		t.Write = []string{canary, "/etc/passwd", "/etc/hostname"}
		t.Read = []string{canary, "/etc/shadow"}
	} else if s.c.UIDs[tier] != 0 {
		t.Write, t.Read = []string{canary}, []string{canary}
	}
	if version >= confine.ScopedVersion && !s.c.Bubblewrap {
		t.Process = os.Getpid()
	}
	if s.socketsHidden(tier) || confine.SeccompAvailable() {
		t.Sockets = slices.Clone(s.c.Sockets)
		if s.c.UIDs[tier] != 0 && !s.wraps(tier) { // a docker socket that the operator opened to this user is meant to be reached
			t.Sockets = slices.DeleteFunc(t.Sockets, func(path string) bool { return !inside(path, s.c.RootDir) })
		}
	}
	if session.Net != nil {
		t.Network = session.Net.Trial
	}
	return t, nil
}

// sentence says what was proven, and what is missing.
func (s *Sandbox) sentence(tier ops.Tier) string {
	var on, missing []string
	for _, row := range s.Report(tier) {
		switch {
		case row.Missing:
			missing = append(missing, row.Wall)
		case row.Wall == LayerNetwork && row.State == "on" && !s.Namespaced(tier):
			on = append(on, row.Wall+" (ports, not addresses)")
		case row.State == "on":
			on = append(on, row.Wall)
		}
	}
	text := "The walls of the session hold: " + strings.Join(on, ", ") + "."
	if len(missing) > 0 {
		text += " Missing on this machine: " + strings.Join(missing, ", ") + "."
	}
	return text
}

// mostEntries bounds how many entries of one folder get a rule of their own. What is beyond it in a folder that also holds something
// protected cannot be read.
const mostEntries = 1000

// except lists the folders and files below / that hold nothing protected: Landlock can only allow, so "all but" is the list of
// everything beside it. Links are left out, because a rule for a link is a rule for its target.
func except(protected []string) []string {
	paths := make([]string, 0, len(protected))
	for _, path := range protected {
		if at, err := filepath.EvalSymlinks(path); err == nil {
			paths = append(paths, at)
		}
		paths = append(paths, filepath.Clean(path))
	}
	slices.Sort(paths)
	return beside("/", slices.Compact(paths))
}

func beside(dir string, protected []string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for i, entry := range entries {
		if i == mostEntries {
			break
		}
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.Type()&fs.ModeSymlink != 0 || slices.Contains(protected, path):
		case entry.IsDir() && slices.ContainsFunc(protected, func(p string) bool { return inside(p, path) }):
			out = append(out, beside(path, protected)...)
		default:
			out = append(out, path)
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

// kernelSecrets are not on a disk, so mounts do not hide them.
func kernelSecrets() []string { return []string{"/dev", "/sys/kernel/debug", "/sys/kernel/tracing"} }

// systemSecrets are files and folders that hold keys, passwords or the data of other programs.
func systemSecrets() []string {
	out := append(kernelSecrets(),
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private",
		"/etc/kubernetes", "/etc/rancher", "/etc/letsencrypt/archive", "/etc/letsencrypt/live", "/etc/letsencrypt/keys",
		"/etc/letsencrypt/accounts", "/etc/wireguard", "/etc/openvpn", "/etc/NetworkManager/system-connections", "/etc/krb5.keytab",
		"/etc/ppp", "/etc/ipsec.secrets", "/etc/docker/key.json", "/etc/crypttab", "/etc/security/opasswd", "/etc/mysql/debian.cnf",
		"/etc/credstore", "/etc/credstore.encrypted", "/etc/pki/private", "/etc/pki/tls/private", "/etc/vault.d", "/etc/consul.d",
		"/var/lib/docker", "/var/lib/containers", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/rancher", "/var/lib/etcd",
		"/var/lib/sss", "/var/lib/private", "/var/lib/postgresql", "/var/lib/mysql", "/var/lib/redis", "/var/lib/vault",
		"/var/lib/systemd/credential.secret", "/var/spool/cron", "/var/backups",
		"/run/secrets", "/run/credentials", "/run/user",
	)
	for _, pattern := range []string{"/etc/ssh/ssh_host_*_key", "/etc/ssl/*.key", "/etc/*.keytab"} {
		found, _ := filepath.Glob(pattern) // the pattern is right
		out = append(out, found...)
	}
	return out
}

// Sockets through which a program gets more power than it has.
func powerSockets() []string {
	out := []string{
		"/run/docker.sock", "/run/docker", "/run/containerd", "/run/podman", "/run/crio", "/run/k3s", "/run/dbus/system_bus_socket",
		"/run/systemd/private", "/run/systemd/io.systemd.sysext", "/run/libvirt", "/run/snapd.socket", "/run/lxd.socket",
		"/run/incus", "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket", "/run/udev/control",
	}
	more, _ := filepath.Glob("/run/user/*/docker.sock") // the pattern is right
	return append(out, more...)
}

// homeSecrets are the hidden files of all home folders, but for those in which programs are installed.
func homeSecrets() []string {
	homes := []string{"/root"}
	if found, err := filepath.Glob("/home/*"); err == nil {
		homes = append(homes, found...)
	}
	if own, err := os.UserHomeDir(); err == nil && filepath.IsAbs(own) && own != "/" && !slices.Contains(homes, own) {
		homes = append(homes, own)
	}
	var out []string
	for _, home := range homes {
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
