//go:build linux

package wall_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// lending is a machine with a folder and a file that a rule opens from Tier 2 on.
func lending(t *testing.T, bwrap string, uid int) (*place, *wall.Sandbox) {
	t.Helper()
	p := newPlace(t)
	if uid != 0 {
		p.uid(uid)
	}
	for _, dir := range []string{"/srv/index", "/srv/data"} {
		must(t, os.MkdirAll(p.root+dir, 0o777)) //nolint:gosec // so open that a wall is needed
		must(t, os.Chmod(p.root+dir, 0o777))    //nolint:gosec // past the umask
	}
	for _, file := range []string{"/srv/state.json", "/srv/data/file", "/srv/index/old"} {
		must(t, os.WriteFile(p.root+file, []byte("precious\n"), 0o666)) //nolint:gosec // so open that a wall is needed
		must(t, os.Chmod(p.root+file, 0o666))                           //nolint:gosec // past the umask
	}
	must(t, os.Symlink(p.root+"/srv/data", p.root+"/srv/index/out"))
	p.config.Lent = []wall.Loan{{Path: p.root + "/srv/index", Tier: ops.Tier2}, {Path: p.root + "/srv/state.json", Tier: ops.Tier2}}
	return p, p.auto(bwrap)
}

// gated runs a command as the gate does: behind the walls of the program and a wall of its own, with what is lent to it.
func (p *place) gated(s *wall.Sandbox, tier ops.Tier, lent []confine.Place, script string) (string, int) {
	p.t.Helper()
	session := wall.Session{ID: "7"}
	must(p.t, s.Prepare(tier))
	must(p.t, s.PrepareSession(tier, session))
	own := s.Command(tier, session)
	own.Lent = lent
	argv, err := confine.Arguments(p.config.Relay[0], confine.Plan{Walls: []*confine.Wall{own}}, "/bin/sh", []string{"sh", "-c", script})
	must(p.t, err)
	c, err := s.WrapSession(tier, session, wall.Command{Path: argv[0], Argv: argv, Env: []string{"PATH=/usr/bin:/bin", "P=" + p.root + "/srv"}, Dir: "/"})
	must(p.t, err)
	return runCommand(p.t, c)
}

// TestARuleOpensItsPathsToItsCommandOnly is the proof behind the promise that a rule may open a path.
func TestARuleOpensItsPathsToItsCommandOnly(t *testing.T) {
	for name, bwrap := range map[string]string{"with namespaces": "", "without namespaces": "/nowhere/bwrap"} {
		for _, uid := range []int{0, agentUID} {
			t.Run(name, func(t *testing.T) {
				p, s := lending(t, bwrap, uid)
				lent := s.Lent(ops.Tier2, wall.Session{ID: "7"})
				if len(lent) != 2 {
					t.Fatalf("lent is %+v", lent)
				}
				out, code := p.gated(s, ops.Tier2, lent, `set -e
echo new > $P/index/new; rm $P/index/old; mkdir $P/index/deep; echo x > $P/index/deep/x; echo new > $P/state.json`)
				if code != 0 {
					t.Errorf("as %d its own command: exit %d: %s", uid, code, out)
				}
				for _, script := range []string{
					"echo x > $P/data/file", "echo x > $P/index/out/file", "echo x > $P/data/new", "mv $P/index $P/gone", "rm $P/state.json",
					"ln $P/data/file $P/index/hard && echo x > $P/index/hard", "echo x >> /etc/hosts", "echo x >> " + p.state + "/settings.yaml",
				} {
					if out, code := p.gated(s, ops.Tier2, lent, script); code == 0 {
						t.Errorf("as %d %s: %s", uid, script, out)
					}
				}
				for _, script := range []string{"echo x > $P/index/new", "echo x > $P/state.json", "rm $P/index/new"} {
					if out, code := p.gated(s, ops.Tier2, nil, script); code == 0 {
						t.Errorf("as %d another command: %s: %s", uid, script, out)
					}
				}
				if out, code := p.gated(s, ops.Tier1, lent, "echo x > $P/index/new"); code == 0 {
					t.Errorf("as %d at Tier 1: %s", uid, out)
				}
				if raw, err := os.ReadFile(p.root + "/srv/data/file"); err != nil || string(raw) != "precious\n" {
					t.Errorf("the file beside is %q (%v)", raw, err)
				}
			})
		}
	}
}

func TestALinkInThePlaceOfALentPathIsNotFollowed(t *testing.T) {
	for name, bwrap := range map[string]string{"with namespaces": "", "without namespaces": "/nowhere/bwrap"} {
		t.Run(name, func(t *testing.T) {
			p, s := lending(t, bwrap, 0)
			lent := s.Lent(ops.Tier2, wall.Session{ID: "7"})
			index := p.root + "/srv/index"
			must(t, os.Rename(index, index+".old"))
			must(t, os.Symlink(p.root+"/srv/data", index))
			if now := s.Lent(ops.Tier2, wall.Session{ID: "7"}); len(now) != 1 {
				t.Errorf("a link is lent: %+v", now)
			}
			if out, code := p.gated(s, ops.Tier2, lent, "echo x > $P/index/file"); code == 0 {
				t.Errorf("the link was followed: %s", out)
			}
			// Nor is another folder that somebody moved there after the session began.
			must(t, os.Remove(index))
			must(t, os.Rename(p.root+"/srv/data", index))
			if out, code := p.gated(s, ops.Tier2, lent, "echo x > $P/index/file"); code == 0 {
				t.Errorf("another folder was taken for the one that was meant: %s", out)
			}
			must(t, os.Rename(index, p.root+"/srv/data"))
			// A link above it is one, too.
			must(t, os.Rename(index+".old", index))
			must(t, os.Rename(p.root+"/srv", p.root+"/real"))
			must(t, os.Symlink(p.root+"/real", p.root+"/srv"))
			if now := s.Lent(ops.Tier2, wall.Session{ID: "7"}); len(now) != 0 {
				t.Errorf("a path over a link is lent: %+v", now)
			}
			if raw, err := os.ReadFile(p.root + "/real/data/file"); err != nil || string(raw) != "precious\n" {
				t.Errorf("the file is %q (%v)", raw, err)
			}
		})
	}
}

func TestWhatNoRuleOpens(t *testing.T) {
	p, _ := lending(t, "", 0)
	l, err := net.Listen("unix", p.root+"/srv/own.sock")
	must(t, err)
	defer func() { _ = l.Close() }()
	p.config.Own, p.config.Sockets = []string{p.root + "/srv/etc/claudeops.yaml", "/opt/claudeops/claudeops"}, []string{p.root + "/srv/own.sock"}
	p.config.VolumesDirs, p.config.ReadOnly = []string{p.volume}, []string{p.root + "/srv/inventory/ie.yaml"}
	p.config.Confine = true
	s := wall.New(p.config)
	must(t, os.Symlink(p.root+"/srv/data", p.root+"/srv/link"))
	for _, path := range []string{
		p.state, p.state + "/x", p.root, p.root + "/srv", p.root + "/srv/etc", p.root + "/srv/own.sock", p.root + "/srv/inventory", p.volume,
		p.volume + "/data", "/etc", "/etc/cron.d", "/proc/sys", "/usr/local/bin", "/opt/claudeops", "/dev/shm", "/run/x", "/var/run/x", "/var", "/home",
		"/root/.ssh", "/var/lib/docker", "/var/spool/cron/root", p.root + "/srv/link", p.root + "/srv/link/x",
	} {
		if s.Lendable(path) == nil {
			t.Errorf("%s can be opened", path)
		}
	}
	for _, path := range []string{p.root + "/srv/index", p.root + "/srv/state.json", p.root + "/srv/not/there"} {
		if err := s.Lendable(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, session := range []wall.Session{{ID: "7", Ungated: true}, {ID: "7", LookOnly: true}} {
		if lent := s.Lent(ops.Tier3, session); len(lent) > 0 {
			t.Errorf("%+v is lent %+v", session, lent)
		}
	}
	p.config.Confine = false
	if box := wall.New(p.config); box.WallsCommands() || len(box.Lent(ops.Tier3, wall.Session{ID: "7"})) > 0 {
		t.Error("something is lent where no command has a wall")
	}
	if err := s.Lendable(p.root + "/srv/link"); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("the reason is %v", err)
	}
}
