//go:build linux

package wall_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/guard/wall/relay"
	"claudeops/internal/ops"
	"claudeops/test/needs"
)

const (
	relayWord = relay.Word // importing the package makes this program one
	dialWord  = "dial"
	agentUID  = 61_001
	otherUID  = 61_002
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == confine.Word {
		syscall.Exit(confine.Main(os.Args[2:], os.Environ(), os.Stdout, os.Stderr)) //nolint:forbidigo // passed on unread; os.Exit waits a second under the race detector
	}
	if len(os.Args) > 1 && os.Args[1] == stageWord {
		syscall.Exit(playStage(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == dialWord {
		if _, err := net.Dial("unix", os.Args[2]); err != nil {
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
	os.Exit(m.Run())
}

// place is a machine in small: a state folder, repositories, volumes.
type place struct {
	t                          *testing.T
	root, state, repos, volume string
	config                     wall.Config
}

func newPlace(t *testing.T) *place {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{root, filepath.Dir(root)} { // another user has to get here
		must(t, os.Chmod(dir, 0o755)) //nolint:gosec // a test folder
	}
	p := &place{t: t, root: root, state: root + "/state", repos: root + "/repos", volume: root + "/volumes"}
	for _, dir := range []string{p.state + "/work", p.state + "/env/other", p.repos + "/app", p.volume + "/data"} {
		must(t, os.MkdirAll(dir, 0o755)) //nolint:gosec // so open that a layer is needed
	}
	for _, file := range []string{
		p.state + "/claudeops.db", p.state + "/lock", p.state + "/settings.yaml", p.state + "/cooldown.json",
		p.repos + "/app/file", p.volume + "/data/file",
	} {
		must(t, os.WriteFile(file, []byte("precious\n"), 0o666)) //nolint:gosec // so open that a layer is needed
		must(t, os.Chmod(file, 0o666))                           //nolint:gosec // past the umask
	}
	// The relay has to be where another user can run it.
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	relay := root + "/relay"
	must(t, os.WriteFile(relay, self, 0o755)) //nolint:gosec // a program
	p.config = wall.Config{
		Relay: []string{relay, relayWord}, StateDir: p.state, WorkDir: p.state + "/work", ReposDir: p.repos, VolumesDirs: []string{p.volume},
	}
	return p
}

// mounts puts all walls around the agent.
func (p *place) mounts() *place { p.config.Confine = true; return p }

func (p *place) uid(uid int) *place {
	p.config.UIDs = map[ops.Tier]int{ops.Tier1: uid, ops.Tier2: uid}
	return p
}

// command makes a shell command ready to run as an agent of the tier would.
func (p *place) command(tier ops.Tier, script string) *exec.Cmd {
	p.t.Helper()
	s := wall.New(p.config)
	must(p.t, s.Check(tier))
	must(p.t, s.Prepare(tier))
	env := []string{"PATH=/usr/bin:/bin", "CLAUDEOPS_SESSION_KEY=key-1", "HOME=" + p.state + "/agent/home", "S=" + p.state, "R=" + p.repos, "V=" + p.volume}
	w, err := s.Wrap(tier, "/bin/sh", []string{"sh", "-c", script}, env, p.state+"/work")
	must(p.t, err)
	return &exec.Cmd{Path: w.Path, Args: w.Argv, Env: w.Env, Dir: w.Dir, SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Credential: w.Credential}}
}

// run returns what the script said and its exit code.
func (p *place) run(tier ops.Tier, script string) (string, int) {
	p.t.Helper()
	cmd := p.command(tier, script)
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		p.t.Fatalf("run %q: %v", script, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func runCommand(t *testing.T, c wall.Command) (string, int) {
	t.Helper()
	cmd := &exec.Cmd{Path: c.Path, Args: c.Argv, Env: c.Env, Dir: c.Dir, SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Credential: c.Credential}}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEachLayerStopsWhatWorksWithoutIt(t *testing.T) {
	bwrap := func(p *place) *place { return p.mounts() }
	user := func(p *place) *place { return p.uid(agentUID) }
	both := func(p *place) *place { return p.mounts().uid(agentUID) }
	type layer struct {
		name string
		on   func(*place) *place
	}
	b, u, ub := layer{"mounts", bwrap}, layer{"uid", user}, layer{"both", both}
	for _, c := range []struct {
		name, script string
		layers       []layer // that refuse it; behind mounts the state folder is one of the session's own, where a write changes nothing
	}{
		{"write the database", `echo x >> $S/claudeops.db`, []layer{u}},
		{"read the database", `cat $S/claudeops.db`, []layer{b, u, ub}},
		{"write the settings", `echo x >> $S/settings.yaml`, []layer{u}},
		{"take the lock", `: >> $S/lock`, []layer{u}},
		{"delete the database", `rm $S/claudeops.db`, []layer{b, u, ub}},
		{"replace the settings", `echo x > $S/agent/home/new && mv $S/agent/home/new $S/settings.yaml`, []layer{u}},
		{"change the cooldowns", `echo x > $S/cooldown.json`, []layer{b, u, ub}},
		{"look into another environment", `ls $S/env/other`, []layer{b, u, ub}},
		{"write a repository at Tier 1", `echo x >> $R/app/file`, []layer{b, ub}},
		{"read a volume", `cat $V/data/file`, []layer{b, ub}},
		{"write a volume", `echo x > $V/new`, []layer{b, ub}},
		{"write to the system", `: >> /etc/hosts`, []layer{b, u, ub}},
		{"set the kernel", `: >> /proc/sys/kernel/core_pattern`, []layer{b, u, ub}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, code := newPlace(t).run(ops.Tier1, `mkdir -p $S/agent/home;`+c.script); code != 0 {
				t.Fatalf("without a layer it exits %d, so this test proves nothing: %s", code, out)
			}
			for _, l := range []layer{b, u, ub} {
				p := l.on(newPlace(t))
				refuses := slices.ContainsFunc(c.layers, func(o layer) bool { return o.name == l.name })
				if out, code := p.run(ops.Tier1, c.script); code == 0 && refuses {
					t.Errorf("%s does not stop it: %s", l.name, out)
				}
				kept := []string{p.state + "/claudeops.db", p.state + "/settings.yaml", p.state + "/cooldown.json"}
				if refuses {
					kept = append(kept, p.repos+"/app/file")
				}
				for _, file := range kept {
					if raw, err := os.ReadFile(file); err != nil || string(raw) != "precious\n" {
						t.Errorf("%s: %s is now %q, %v", l.name, file, raw, err)
					}
				}
			}
		})
	}
}

func TestAnAgentStillHasWhatItNeeds(t *testing.T) {
	script := `set -e
echo x > $S/agent/home/f; echo x > $S/agent/config/f; echo x > file
cat $S/cooldown.json; cat $S/agent/settings-1.json; cat $R/app/file; echo "$CLAUDEOPS_SESSION_KEY"; pwd
echo handed > $S/handoff.json; cat $S/handoff.json`
	for name, on := range map[string]func(*place) *place{
		"mounts": func(p *place) *place { return p.mounts() },
		"uid":    func(p *place) *place { return p.uid(agentUID) },
		"both":   func(p *place) *place { return p.mounts().uid(agentUID) },
	} {
		t.Run(name, func(t *testing.T) {
			p := on(newPlace(t))
			must(t, os.MkdirAll(p.state+"/agent", 0o700))
			must(t, os.WriteFile(p.state+"/agent/settings-1.json", []byte("{}\n"), 0o600))
			out, code := p.run(ops.Tier1, script)
			if want := "precious\n{}\nprecious\nkey-1\n" + p.state + "/work\nhanded\n"; code != 0 || out != want {
				t.Fatalf("exit %d, %q, want %q", code, out, want)
			}
			must(t, wall.New(p.config).Collect(ops.Tier1))
			info, err := os.Lstat(p.state + "/handoff.json")
			must(t, err)
			if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.Mode().IsRegular() || int(stat.Uid) != os.Geteuid() {
				t.Errorf("the handoff is %v, want a plain file of the supervisor", info.Mode())
			}
		})
	}
}

func TestRepositoriesAreWritableFromTier2(t *testing.T) {
	p := newPlace(t).mounts()
	if out, code := p.run(ops.Tier2, `echo x > $R/app/file && ! ls $V/data; echo x >> $S/claudeops.db`); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	for file, want := range map[string]string{p.repos + "/app/file": "x\n", p.state + "/claudeops.db": "precious\n"} {
		if raw, err := os.ReadFile(file); err != nil || string(raw) != want {
			t.Errorf("%s holds %q, %v", file, raw, err)
		}
	}
}

func TestRootInTheSandboxCannotTakeItApart(t *testing.T) {
	p := newPlace(t).mounts()
	for _, script := range []string{`umount $V`, `mount -o remount,rw,bind /`, `unshare -m true`, `unshare -Urm umount $V`, `chroot / true`, `mknod disk b 1 1`} {
		if out, code := p.run(ops.Tier2, script); code == 0 {
			t.Errorf("%q works: %s", script, out)
		}
	}
}

// started starts a script and waits until it says ready.
func started(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer func() { _ = w.Close() }()
	t.Cleanup(func() { _ = r.Close() })
	cmd.Stdout = w
	must(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	must(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
	var all bytes.Buffer
	for buf := make([]byte, 64); !strings.Contains(all.String(), "ready\n"); {
		n, err := r.Read(buf)
		must(t, err)
		all.Write(buf[:n])
	}
}

func TestAnInterruptReachesTheAgentAndItsExitCodeIsKept(t *testing.T) {
	for name, on := range map[string]func(*place) *place{
		"mounts": func(p *place) *place { return p.mounts() },
		"both":   func(p *place) *place { return p.mounts().uid(agentUID) },
	} {
		t.Run(name, func(t *testing.T) {
			p := on(newPlace(t))
			cmd := p.command(ops.Tier1, `trap 'echo polite > $S/work/end; exit 7' INT; echo ready; while :; do sleep 0.05; done`)
			started(t, cmd)
			must(t, cmd.Process.Signal(os.Interrupt))
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 7 {
				t.Errorf("exit code %d, want 7", code)
			}
			if raw, err := os.ReadFile(p.state + "/work/end"); err != nil || string(raw) != "polite\n" {
				t.Errorf("the agent left %q, %v", raw, err)
			}
		})
	}
	t.Run("exit code", func(t *testing.T) {
		p := newPlace(t).mounts()
		for script, want := range map[string]int{`exit 0`: 0, `exit 42`: 42, `kill -TERM $$`: 128 + 15} {
			if out, code := p.run(ops.Tier1, script); code != want {
				t.Errorf("%q exits %d, want %d: %s", script, code, want, out)
			}
		}
	})
}

// sleeping reports whether a process with this argument is there.
func sleeping(t *testing.T, seconds string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && string(raw) == "sleep\x00"+seconds+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestAnEscapeeDiesWithTheSandbox(t *testing.T) {
	for _, c := range []struct {
		name, seconds string
		on            func(*place) *place
		survives      bool
	}{
		{"without a layer", "86391", func(p *place) *place { return p }, true},
		{"mounts", "86392", func(p *place) *place { return p.mounts() }, false},
		{"both", "86393", func(p *place) *place { return p.mounts().uid(agentUID) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := c.on(newPlace(t)).command(ops.Tier1, `env -i setsid -f sleep `+c.seconds+`; echo ready; while :; do sleep 0.05; done`)
			started(t, cmd)
			wait := time.Now().Add(time.Minute)
			for len(sleeping(t, c.seconds)) == 0 {
				if time.Now().After(wait) {
					t.Fatal("the escapee never started, so this test proves nothing")
				}
				time.Sleep(5 * time.Millisecond) //nolint:forbidigo // a process of the kernel's, nobody tells
			}
			must(t, cmd.Process.Kill())
			_ = cmd.Wait()
			left := sleeping(t, c.seconds)
			if c.survives {
				if len(left) != 1 {
					t.Errorf("%d escapees are left, want the one", len(left))
				}
				for _, pid := range left {
					must(t, syscall.Kill(pid, syscall.SIGKILL))
				}
				return
			}
			for wait := time.Now().Add(time.Minute); len(left) > 0; left = sleeping(t, c.seconds) {
				if time.Now().After(wait) {
					t.Fatalf("the escapees %v are left", left)
				}
				time.Sleep(5 * time.Millisecond) //nolint:forbidigo // as above
			}
		})
	}
}

func TestCheckNamesTheLayerAndTheFix(t *testing.T) {
	fake := func(t *testing.T, text string) string {
		path := filepath.Join(t.TempDir(), "bwrap")
		must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755)) //nolint:gosec // a program
		return path
	}
	for _, c := range []struct {
		name, layer, says string
		change            func(*testing.T, *wall.Config)
	}{
		{"bubblewrap is not installed", wall.LayerBubblewrap, "apt-get install bubblewrap", func(_ *testing.T, c *wall.Config) {
			c.Confine, c.Required, c.Bwrap = true, true, "/nowhere/bwrap"
		}},
		{"no namespaces", wall.LayerBubblewrap, "No permissions to create new namespace", func(t *testing.T, c *wall.Config) {
			c.Confine, c.Required, c.Bwrap = true, true, fake(t, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
		}},
		{"no relay", wall.LayerBubblewrap, "relay", func(_ *testing.T, c *wall.Config) { c.Confine, c.Required, c.Relay = true, true, nil }},
		{"no user id", wall.LayerUID, "useradd", func(_ *testing.T, c *wall.Config) { c.UIDs = map[ops.Tier]int{ops.Tier1: -1} }},
		{"a folder of somebody else", wall.LayerUID, "chown 61001", func(t *testing.T, c *wall.Config) {
			c.UIDs = map[ops.Tier]int{ops.Tier1: agentUID}
			c.ExtraReadWrite = []string{t.TempDir()}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			c.change(t, &p.config)
			err := wall.New(p.config).Check(ops.Tier1)
			var layer *wall.LayerError
			if !errors.As(err, &layer) || layer.Layer != c.layer || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want the layer %s and %q", err, c.layer, c.says)
			}
		})
	}
	if err := wall.New(newPlace(t).config).Check(ops.Tier1); err != nil {
		t.Errorf("with no layer on: %v", err)
	}
}

func TestAWorkingFolderInTheRepositoriesIsRefused(t *testing.T) {
	p := newPlace(t).mounts()
	p.config.WorkDir = p.config.ReposDir + "/app"
	s := wall.New(p.config)
	must(t, s.Prepare(ops.Tier1))
	if _, err := s.Wrap(ops.Tier1, "/bin/sh", []string{"sh"}, nil, p.config.WorkDir); err == nil || !strings.Contains(err.Error(), "outside of") {
		t.Errorf("%v", err)
	}
}

func TestPrepareFollowsNoLinkOfTheAgent(t *testing.T) {
	p := newPlace(t).uid(agentUID)
	s := wall.New(p.config)
	must(t, s.Prepare(ops.Tier1))
	home := p.state + "/agent/home"
	must(t, os.Symlink(p.state+"/claudeops.db", home+"/soft"))
	must(t, os.Link(p.state+"/claudeops.db", home+"/hard"))
	must(t, os.WriteFile(home+"/mine", nil, 0o600))
	must(t, os.Symlink(p.repos, home+"/folder"))
	p.config.UIDs[ops.Tier2] = otherUID
	must(t, wall.New(p.config).Prepare(ops.Tier2))
	for path, want := range map[string]int{p.state + "/claudeops.db": os.Geteuid(), p.repos: os.Geteuid(), home + "/mine": otherUID, home: otherUID} {
		info, err := os.Stat(path)
		must(t, err)
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != want {
			t.Errorf("%s belongs to %d, want %d", path, stat.Uid, want)
		}
	}
}

// Bubblewrap 0.12 reads each folder on the way to what it mounts, as the agent's user. The state folder itself is only passed through.
func TestTheWayToASessionsFoldersCanBeRead(t *testing.T) {
	p := newPlace(t).uid(agentUID)
	must(t, wall.New(p.config).Prepare(ops.Tier1))
	for path, want := range map[string]os.FileMode{p.state: 0o711, p.state + "/agent": 0o755} {
		info, err := os.Stat(path)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestASocketThatIsLentCannotBeReplaced(t *testing.T) {
	for name, on := range map[string]func(*place) *place{
		"mounts": func(p *place) *place { return p.mounts() },
		"uid":    func(p *place) *place { return p.uid(agentUID) },
	} {
		t.Run(name, func(t *testing.T) {
			p := on(newPlace(t))
			must(t, os.MkdirAll(p.state+"/gate", 0o700))
			l, err := net.Listen("unix", p.state+"/gate/sock")
			must(t, err)
			defer func() { _ = l.Close() }()
			p.config.ExtraReadOnly = []string{p.state + "/gate", p.root + "/relay"}
			script := p.root + `/relay dial $S/gate/sock || exit 3; rm -f $S/gate/sock && exit 4; touch $S/gate/new && exit 5; exit 0`
			if out, code := p.run(ops.Tier1, script); code != 0 {
				t.Errorf("exit %d: %s", code, out)
			}
		})
	}
}

// The folder of the program is open for its other files, not for the sockets that somebody keeps there.
func TestASocketBesideTheProgramIsAbsent(t *testing.T) {
	for _, uid := range []int{0, agentUID} {
		p := newPlace(t)
		if uid != 0 {
			p.uid(uid)
		}
		s := p.auto("")
		if !s.Namespaced(ops.Tier1) {
			needs.End(t, needs.Absent("bubblewrap"))
		}
		tool := p.root + "/tool"
		must(t, os.MkdirAll(tool+"/lib/deep", 0o755)) //nolint:gosec // a test folder
		must(t, os.Link(p.root+"/relay", tool+"/agent"))
		for _, path := range []string{tool + "/a.sock", tool + "/lib/deep/b.sock"} {
			l, err := net.Listen("unix", path)
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
			must(t, os.Chmod(path, 0o777)) //nolint:gosec // so open that a wall is needed
			must(t, s.Check(ops.Tier1))
			must(t, s.Prepare(ops.Tier1))
			w, err := s.Wrap(ops.Tier1, tool+"/agent", []string{"agent", dialWord, path}, nil, p.state+"/work")
			must(t, err)
			if out, code := runCommand(t, w); code != 1 {
				t.Errorf("user %d reached %s: %d %s", uid, path, code, out)
			}
			w, err = s.Wrap(ops.Tier1, "/bin/ls", []string{"ls", tool}, nil, p.state+"/work")
			must(t, err)
			if out, code := runCommand(t, w); code == 0 {
				t.Errorf("another program sees the folder: %s", out)
			}
		}
	}
}
