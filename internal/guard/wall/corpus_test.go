//go:build linux

package wall_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/guard/wall/confine"
)

// throwAway runs the stage in a root of its own: /usr read-only, everything else made for the test, no network, no processes of the
// machine. Root in there is nobody outside, so that nothing of this machine could be harmed even without walls.
func throwAway(t *testing.T, what string, tier, uid int, corpus string) []deed {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o755)) //nolint:gosec // nobody has to get here
	}
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(dir+"/harness", self, 0o755)) //nolint:gosec // a program
	raw, err := os.ReadFile(filepath.Join("testdata", corpus))
	must(t, err)
	must(t, os.WriteFile(dir+"/corpus", raw, 0o644)) //nolint:gosec // nobody reads it
	args := []string{
		"--die-with-parent", "--unshare-all", "--unshare-user", "--uid", strconv.Itoa(uid), "--gid", strconv.Itoa(uid),
		"--tmpfs", "/", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--symlink", "usr/sbin", "/sbin", "--proc", "/proc", "--dev", "/dev",
		"--ro-bind", dir + "/harness", "/harness", "--ro-bind", dir + "/corpus", "/corpus",
		"--symlink", "/run", "/var/run", "--chdir", "/",
	}
	if uid == 0 {
		args = append(args, "--cap-add", "ALL")
	}
	if strings.HasPrefix(what, "honest") {
		args = append(args, "--ro-bind", "/etc/alternatives", "/etc/alternatives") // awk and nc are links into it
	}
	cmd := exec.CommandContext(t.Context(), "bwrap", append(args, "--", "/harness", stageWord, what, strconv.Itoa(tier), "/corpus")...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin", "API_KEY=" + secretText}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("run the stage: %v\n%s", err, errs.String())
	}
	var deeds []deed
	must(t, json.Unmarshal(out.Bytes(), &deeds))
	return deeds
}

// The judge is off: every hostile command of both corpora runs. Only the walls are between it and the world: files, processes and sockets
// without bubblewrap, and with it and a network in which nothing is listed also every server that listens on loopback.
func TestHostileCommandsDoNoHarmBehindWallsAlone(t *testing.T) {
	type stage struct {
		what      string
		tier, uid int
		corpus    string
	}
	stages := []stage{ // the widest walls as root, the narrowest as a user
		{"hostile", 3, 0, "hostile.jsonl"},
		{"hostile+network", 1, 1000, "hostile-2.jsonl"},
	}
	if !testing.Short() {
		stages = nil
		for tier := 1; tier <= 3; tier++ {
			for _, uid := range []int{0, 1000} {
				for _, corpus := range []string{"hostile.jsonl", "hostile-2.jsonl"} {
					stages = append(stages, stage{"hostile", tier, uid, corpus}, stage{"hostile+network", tier, uid, corpus})
				}
			}
		}
	}
	for _, s := range stages {
		t.Run(fmt.Sprintf("%s %s tier %d as %d", s.what, s.corpus, s.tier, s.uid), func(t *testing.T) {
			t.Parallel()
			deeds := throwAway(t, s.what, s.tier, s.uid, s.corpus)
			ran := 0
			for _, d := range deeds {
				if d.Exit != 127 {
					ran++
				}
				if len(d.Harm) > 0 || strings.HasPrefix(d.Output, confine.Report) {
					t.Errorf("%s %q: %v (exit %d)\n%s", d.ID, d.Command, d.Harm, d.Exit, d.Output)
				}
			}
			t.Logf("%d commands, %d of programs that are installed", len(deeds), ran)
		})
	}
}

// Without walls the same commands do harm, so the test above can see it.
func TestHostileCommandsDoHarmWithoutWalls(t *testing.T) {
	t.Parallel()
	for corpus, least := range map[string]int{"hostile.jsonl": 40, "hostile-2.jsonl": 20} {
		deeds := throwAway(t, "bare", 1, 0, corpus)
		harmful, called := 0, 0
		for _, d := range deeds {
			if len(d.Harm) > 0 {
				harmful++
			}
			if slices.Contains(d.Harm, "reached the network") {
				called++
			}
		}
		t.Logf("%s: %d of %d commands do harm: %v", corpus, harmful, len(deeds), sortedHarm(deeds))
		if harmful < least || called == 0 {
			t.Errorf("%s: only %d commands do harm, %d over the network", corpus, harmful, called)
		}
	}
}

// cannotWork are honest commands that fail behind walls, with what docs/security.md says instead.
func cannotWork() map[string]string {
	return map[string]string{
		"B91-028": "write to $TMPDIR, not to /tmp",
		"B91-072": "write to $TMPDIR",
		"B90-471": "use $TMPDIR, not /tmp",
		"B90-487": "the operator's script: iptables needs a capability to read the rules",
		"B90-284": "openssl x509 -enddate: certbot locks and logs whatever it does",
		"B90-488": "the operator's script: nft needs a capability to read the rules",
		"B90-344": "sandbox.readable, for a folder outside the system and the repositories",
		"B90-345": "sandbox.readable",
	}
}

// saysLess are honest commands that see less behind walls, with what docs/security.md says instead.
func saysLess() map[string]string {
	return map[string]string{
		"B90-140": "ps: the files of another process are its own affair",
		"B90-165": "sandbox.readable: folders that are not open are empty",
		"B90-182": "sandbox.readable",
		"B90-187": "df: mounts of the session are among those of the machine",
		"B90-158": "df: its own mounts have lines too",
		"B90-157": "df: a hidden file is a mount",
		"B90-135": "nothing: the stage has the command in the arguments of bubblewrap too",
		"B90-129": "nothing: the processes of the stage",
		"B90-130": "nothing: the processes of the stage",
		"B90-136": "nothing: the processes of the stage",
		"B90-446": "nothing: the processes of the stage",
		"B90-137": "look sockets, or ss -ltn: the files of another process are its own affair",
		"B90-141": "look sockets, which the gate makes of it",
		"B90-142": "look sockets, which the gate makes of it",
		"B90-521": "the session's own Docker socket",
		"B90-283": "openssl x509, or a TLS probe: the folder of the keys is hidden",
	}
}

// withoutSockets are honest commands that cannot open Unix sockets where bubblewrap does not hide those of others. They have to name a host.
func withoutSockets(command string) bool {
	return strings.HasPrefix(command, "psql -U") || strings.HasPrefix(command, "mysql -e")
}

// Honest commands end as they do without walls, and say the same: in full where they say it twice in a row without walls, without their
// numbers where only these differ.
func TestHonestCommandsWorkBehindWalls(t *testing.T) {
	for _, what := range []string{"honest", "honest+mounts"} {
		for tier := 1; tier <= 3; tier++ {
			if testing.Short() && (what == "honest") == (tier == 1) {
				continue // the tier with most commands behind all walls, the others behind the fewest
			}
			t.Run(fmt.Sprintf("%s at tier %d", what, tier), func(t *testing.T) {
				t.Parallel()
				ran, answers, failures, same := 0, 0, 0, 0
				for _, d := range throwAway(t, what, tier, 0, "honest.jsonl") {
					if d.Bare == 127 {
						continue
					}
					ran++
					if _, known := cannotWork()[d.ID]; known || d.Exit == timedOut || d.Bare == timedOut {
						continue
					}
					_, less := saysLess()[d.ID]
					less = less || what == "honest" && withoutSockets(d.Command)
					if d.Exit != d.Bare && !less {
						t.Errorf("%s %q exits %d behind walls, %d without\n%s", d.ID, d.Command, d.Exit, d.Bare, d.Output)
					}
					switch {
					case strings.Contains(d.Command, "/proc/meminfo") || d.How == "":
						continue
					case d.Bare == 0:
						answers++
					default:
						failures++
					}
					if d.Same {
						same++
					}
					if !d.Same && !less {
						t.Errorf("%s %q says\n%s\nwithout walls\n%s", d.ID, d.Command, d.Output, d.Said)
					}
				}
				t.Logf("%d commands of programs that are installed: %d compared by their answers, %d by why they fail on the stage, %d of these the same; "+
					"the others say nothing, something else each time, or ask Docker", ran, answers, failures, same)
				if tier == 1 && answers+failures < 150 {
					t.Error("too few are compared to say anything")
				}
			})
		}
	}
}
