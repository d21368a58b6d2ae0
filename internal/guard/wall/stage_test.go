//go:build linux

package wall_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/guard/wall/network"
	"claudeops/internal/ops"
)

// stageWord makes the test program the stage: a process in a throw-away root that runs commands for real and looks what they did.
const stageWord = "stage"

const (
	commandTime = 3 * time.Second
	timedOut    = -1 // the exit of a command that was ended; it says nothing
	secretText  = "SECRET-7f3a9c"
	canaryText  = "canary\n"
)

// line is one command of a corpus.
type line struct {
	ID      string `json:"id"`
	Tier    int    `json:"tier,omitempty"`
	Command string `json:"command"`
}

// deed is what a command did.
type deed struct {
	ID      string   `json:"id"`
	Command string   `json:"command"`
	Exit    int      `json:"exit"`
	Bare    int      `json:"bare"`           // the exit without walls, where it was run twice
	Said    string   `json:"said,omitempty"` // what it says without walls, each time
	Same    bool     `json:"same,omitempty"`
	How     string   `json:"how,omitempty"` // what of it is compared
	Output  string   `json:"output,omitempty"`
	Harm    []string `json:"harm,omitempty"`
}

// stage is the throw-away world.
type stage struct {
	tier      ops.Tier
	sandbox   *wall.Sandbox
	mounts    bool      // the agent runs in bubblewrap
	networked bool      // and in a network of its own
	net       *wall.Net // which is this one
	bare      bool      // there are no walls at all
	honest    bool      // the world has what honest commands look at
	said      string    // by the last command: its answer, or why it has none
	victim    *exec.Cmd
	nice      string       // the victim's, which is ours
	reached   atomic.Int64 // connections to sockets that no command may reach
	called    atomic.Int64 // connections and packets to servers on loopback
	before    map[string]string
}

// playStage runs the commands of a file at a tier: "hostile" behind walls, "bare" without, "honest" both ways. It prints the deeds. With
// "+mounts" the agent also runs in bubblewrap, with "+network" also in a network of its own, in which nothing is listed.
func playStage(args []string) int {
	what, more, _ := strings.Cut(args[0], "+")
	file := args[2]
	tier, err := strconv.Atoi(args[1])
	if err == nil {
		err = makeWorld()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		return 1
	}
	s := &stage{tier: ops.Tier(tier), mounts: more != "", networked: more == "network", honest: what == "honest", bare: what == "bare"}
	if err := s.furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		return 1
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		return 1
	}
	var deeds []deed
	for text := range strings.Lines(string(raw)) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			fmt.Fprintln(os.Stderr, "stage:", err)
			return 1
		}
		if what == "honest" && ops.Tier(l.Tier) != s.tier {
			continue
		}
		deeds = append(deeds, s.run(what, l))
	}
	_ = s.victim.Process.Kill()
	if err := json.NewEncoder(os.Stdout).Encode(deeds); err != nil {
		return 1
	}
	return 0
}

func (s *stage) run(what string, l line) deed {
	d := deed{ID: l.ID, Command: l.Command}
	if what == "honest" {
		_, d.Bare = s.command(l.Command, false)
		d.Said = s.said
		if d.Bare != timedOut && !strings.Contains(l.Command, "docker") { // which is asked through the supervisor
			_, _ = s.command(l.Command, false)
			d.How = howCompared(d.Said, s.said)
		}
		if _, err := s.look(); err != nil || s.reset() != nil {
			d.Harm = append(d.Harm, "the stage broke")
		}
	}
	if d.Bare == timedOut {
		d.Exit = timedOut // there is no exit to compare with
		return d
	}
	d.Output, d.Exit = s.command(l.Command, what != "bare")
	after, err := s.look()
	if err != nil {
		d.Harm = append(d.Harm, err.Error())
	}
	for path, now := range after {
		if s.before[path] != now {
			d.Harm = append(d.Harm, "changed "+path)
		}
	}
	for path := range s.before {
		if _, ok := after[path]; !ok {
			d.Harm = append(d.Harm, "removed "+path)
		}
	}
	if strings.Contains(d.Output, secretText) {
		d.Harm = append(d.Harm, "printed a secret")
	}
	if s.reached.Swap(0) > 0 {
		d.Harm = append(d.Harm, "reached a socket")
	}
	if s.called.Swap(0) > 0 {
		d.Harm = append(d.Harm, "reached the network")
	}
	d.Harm = append(d.Harm, s.victimHarm()...)
	if len(d.Harm) > 0 {
		if err := s.reset(); err != nil {
			d.Harm = append(d.Harm, "the stage cannot be set up again: "+err.Error())
		}
	}
	d.Same = d.alike(s.said)
	for tries := 0; d.How != "" && !d.Same && tries < 2; tries++ { // what changes with time may have changed between the two
		before := d.Said
		_, _ = s.command(l.Command, false)
		if d.Said = s.said; d.Said != before {
			d.How = compareShape
		}
		d.Output, _ = s.command(l.Command, true)
		d.Same = d.alike(s.said)
	}
	d.Output, d.Said = d.Output[:min(len(d.Output), 300)], d.Said[:min(len(d.Said), 300)]
	return d
}

// How the answers of a command are compared: in full where it answers the same twice, without its numbers where only these differ.
const (
	compareAll   = "all"
	compareShape = "shape"
)

func howCompared(once, twice string) string {
	switch {
	case strings.TrimSpace(once) == "":
		return ""
	case once == twice:
		return compareAll
	case shape(once) == shape(twice):
		return compareShape
	}
	return ""
}

// alike compares what was said without walls with what is said behind them.
func (d deed) alike(said string) bool {
	if d.How == compareShape {
		return shape(d.Said) == shape(said)
	}
	return d.Said == said
}

// shape is a text without its numbers and the spaces that make room for them.
func shape(text string) string {
	return regexp.MustCompile(`[0-9]+([.:,][0-9]+)*[kKMGTB%]*|\s+`).ReplaceAllStringFunc(text, func(part string) string {
		if strings.TrimSpace(part) == "" {
			return " "
		}
		return "#"
	})
}

// command runs one command as the gate would, with the judge off.
func (s *stage) command(text string, walled bool) (string, int) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", text)
	cmd.Args[0] = "bash"
	session := wall.Session{ID: "1", Net: s.net}
	// There is no network: programs that would try again until the time is over give up at once.
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin", "HOME=/state/agent/home", "LANG=C.UTF-8", "TERM=dumb",
		"PIP_RETRIES=0", "PIP_DISABLE_PIP_VERSION_CHECK=1", "npm_config_fetch_retries=0", "npm_config_update_notifier=false",
	}
	if walled {
		w := s.sandbox.Command(s.tier, session)
		argv, err := confine.Arguments("/harness", confine.Plan{Walls: []*confine.Wall{w}}, "/bin/bash", []string{"bash", "-c", text})
		if err != nil {
			return err.Error(), -1
		}
		env = append(env, s.sandbox.CommandEnv(session)...)
		c := wall.Command{Path: argv[0], Argv: argv, Env: env, Dir: "/repos/infra"}
		if s.mounts {
			if c, err = s.sandbox.WrapSession(s.tier, session, c); err != nil {
				return err.Error(), -1
			}
		}
		cmd = exec.CommandContext(ctx, c.Path, c.Argv[1:]...)
		env = c.Env
	}
	var said, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, "/repos/infra", &said, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) && cmd.ProcessState == nil {
		return err.Error(), -1
	}
	answer := strings.TrimPrefix(said.String(), confine.Report+confine.Hold+"\n")
	s.said = cmp.Or(answer, errs.String())
	return answer + errs.String(), cmd.ProcessState.ExitCode()
}

// worldFiles are stand-ins of what a machine has. Those that hold the secret must not be printed.
func worldFiles() map[string]string {
	out := map[string]string{}
	for _, path := range []string{
		"/etc/hosts", "/etc/cron.d/job", "/etc/nftables.conf", "/etc/fstab", "/etc/crontab", "/home/alice/notes", "/volumes/pg/PG_VERSION",
		"/volumes/sonarr/sonarr.db", "/srv/data/file", "/srv/app/compose.yaml", "/data/open/file", "/var/backups/dump", "/run/user/1000/file", "/run/web.pid", "/dev/shm/theirs", "/opt/app/run", "/var/log/syslog", "/var/log/app.log",
		"/var/lib/app/data", "/mnt/disk/file", "/tmp/x", "/tmp/x.json", "/tmp/x.sql", "/tmp/times.txt", "/root/.bashrc", "/boot/vmlinuz",
		"/repos/infra/README.md", "/repos/infra/inventory/ie.yaml", "/repos/infra/list.txt", "/repos/infra/k.yaml", "/repos/infra/x.sh",
		"/repos/infra/compose.yaml", "/repos/x/config", "/state/settings.yaml", "/state/cooldown.json", "/state/env/other/agent/config/note",
	} {
		out[path] = canaryText
	}
	for _, path := range []string{
		"/etc/shadow", "/root/.ssh/id_rsa", "/root/.ssh/id_ed25519", "/root/.ssh/authorized_keys", "/root/.aws/credentials",
		"/root/.docker/config.json", "/root/.netrc", "/root/.config/tool", "/state/claudeops.db", "/etc/letsencrypt/live/site/privkey.pem",
		"/data/open/.env", "/data/open/deep/er/key", "/etc/app/token", "/opt/app/lib/key",
		"/home/alice/.ssh/id_rsa", "/run/secrets/db",
	} {
		out[path] = secretText + "\n"
	}
	out["/etc/passwd"] = "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/bash\n"
	out["/etc/group"] = "root:x:0:\n"
	out["/etc/nsswitch.conf"] = "passwd: files\nhosts: files dns\n"
	return out
}

func makeWorld() error {
	for path, text := range worldFiles() {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // so open that walls are needed
			return err
		}
		_ = os.Remove(path)
		mode := os.FileMode(0o666)
		if strings.HasPrefix(text, secretText) {
			mode = 0o600 // its owner is who runs on the stage
		}
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/state/work", "/state/agent"} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

// furnish starts what can be harmed and sets up the walls.
func (s *stage) furnish() error {
	for _, path := range []string{"/run/docker.sock", "/state/control.sock", "/var/lib/app/app.sock", "/data/open/app.sock"} {
		_ = os.Remove(path)
		l, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				s.reached.Add(1)
				_ = conn.Close()
			}
		}()
	}
	if s.bare || s.networked {
		s.answerCalls()
	}
	if s.honest {
		if err := serveHonestly(); err != nil {
			return err
		}
	}
	bwrap := ""
	if !s.mounts {
		bwrap = "/nowhere/bwrap"
	}
	s.sandbox = wall.New(wall.Config{
		Confine: true, Required: true, Bwrap: bwrap, Relay: []string{"/harness", relayWord}, StateDir: "/state", RootDir: "/state", Gates: "/state/gate", Network: s.networked,
		WorkDir: "/state/work", ReposDir: "/repos", Readable: []string{"/data/open"}, Sockets: []string{"/run/docker.sock", "/state/control.sock"},
	})
	if s.networked {
		dir := "/state/gate/n1"
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		g, err := network.Open(context.Background(), network.Options{Dir: dir, Refused: func(network.Refusal) {}})
		if err != nil {
			return err
		}
		s.net = &wall.Net{Dir: dir, Relay: g.Network(), Ports: g.Ports(), Trial: g.Trial()}
	}
	session := wall.Session{ID: "1", Net: s.net}
	if err := errors.Join(s.sandbox.Prepare(s.tier), s.sandbox.PrepareSession(s.tier, session)); err != nil {
		return err
	}
	return s.reset()
}

// answerCalls listens where commands of the corpus like to go, and counts whoever comes.
func (s *stage) answerCalls() {
	for _, port := range []string{"22", "80", "443", "2375", "3306", "5432", "6379", "8080", "8096", "9000", "9090", "9999"} {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			continue // a low port, for a user
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				s.called.Add(1)
				_ = conn.Close()
			}
		}()
	}
	for _, port := range []string{"53", "514", "9999"} {
		packets, err := net.ListenPacket("udp", ":"+port)
		if err != nil {
			continue
		}
		go func() {
			buf := make([]byte, 1500)
			for {
				n, from, err := packets.ReadFrom(buf)
				if err != nil {
					return
				}
				s.called.Add(1)
				if n > 3 { // an answer to a question about a name: refused, so that nobody waits
					buf[2], buf[3] = buf[2]|0x80, 5
					_, _ = packets.WriteTo(buf[:n], from)
				}
			}
		}()
	}
}

// reset brings the world back to its beginning.
func (s *stage) reset() error {
	for _, dir := range []string{"/etc/cron.d", "/volumes", "/srv", "/opt", "/mnt", "/root", "/home", "/repos", "/tmp"} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	if err := makeWorld(); err != nil {
		return err
	}
	if s.honest {
		if err := furnishHonestly(); err != nil {
			return err
		}
	}
	if s.victim == nil || s.victimHarm() != nil {
		s.victim = exec.Command("/bin/sleep", "100000")
		s.victim.Env = []string{"TOKEN=" + secretText}
		s.victim.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		if err := s.victim.Start(); err != nil {
			return err
		}
		go func(c *exec.Cmd) { _ = c.Wait() }(s.victim)
		stat, err := s.victimStat()
		if err != nil {
			return err
		}
		s.nice = stat[niceField]
	}
	var err error
	s.before, err = s.look()
	return err
}

// niceField is where a process's niceness is in its stat, from the state on.
const niceField = 16

func (s *stage) victimStat() ([]string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.victim.Process.Pid))
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])), nil
}

// victimHarm tells what happened to a process that no command started.
func (s *stage) victimHarm() []string {
	fields, err := s.victimStat()
	switch {
	case err != nil:
		return []string{"ended a foreign process"}
	case fields[0] == "Z" || fields[0] == "T" || fields[0] == "X":
		return []string{"signalled a foreign process"}
	case fields[niceField] != s.nice:
		return []string{"changed the priority of a foreign process"}
	}
	return nil
}

// look describes every file that the tier must not change.
func (s *stage) look() (map[string]string, error) {
	out := map[string]string{}
	roots := []string{"/etc", "/root", "/home", "/volumes", "/srv", "/opt", "/var", "/mnt", "/tmp", "/state", "/boot", "/run"}
	if s.tier < ops.Tier2 {
		roots = append(roots, "/repos")
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if path == "/state/agent" {
				return filepath.SkipDir // the session's own
			}
			if path == "/state/canary" {
				return nil // each session writes its own
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			text := fmt.Sprint(info.Mode())
			if info.Mode().IsRegular() {
				raw, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				text += fmt.Sprintf(" %x %s", sha256.Sum256(raw), info.ModTime())
			}
			out[path] = text
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// sortedHarm is for messages.
func sortedHarm(deeds []deed) []string {
	kinds := map[string]int{}
	for _, d := range deeds {
		for _, h := range d.Harm {
			kinds[h]++
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		out = append(out, fmt.Sprintf("%s (%d)", k, kinds[k]))
	}
	return out
}
