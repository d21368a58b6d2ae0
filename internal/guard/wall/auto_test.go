//go:build linux

package wall_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// auto makes a sandbox as the default settings do, with or without a bubblewrap that works.
func (p *place) auto(bwrap string) *wall.Sandbox {
	p.config.Confine, p.config.Bwrap = true, bwrap
	p.config.Sockets = []string{p.state + "/control.sock"}
	return wall.New(p.config)
}

// proven starts a session and returns what its walls report.
func proven(t *testing.T, s *wall.Sandbox, tier ops.Tier, session wall.Session) (string, error) {
	t.Helper()
	c, err := s.WrapSession(tier, session, wall.Command{
		Path: "/bin/sh", Argv: []string{"sh", "-c", "echo started"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
	})
	must(t, err)
	out, code := runCommand(t, c)
	line, rest, _ := strings.Cut(out, "\n")
	text, mine, err := s.Verdict(tier, line)
	if started := strings.Contains(rest, "started"); !mine || (err == nil) != started || (code == 0) != started {
		t.Errorf("the report is %q, %v, exit %d, then: %s", text, err, code, rest)
	}
	return text, err
}

func TestASessionProvesItsWalls(t *testing.T) {
	for name, bwrap := range map[string]string{"with namespaces": "", "without namespaces": "/nowhere/bwrap"} {
		for _, uid := range []int{0, agentUID} {
			for _, ungated := range []bool{false, true} {
				t.Run(name, func(t *testing.T) {
					p := newPlace(t)
					if uid != 0 {
						p.uid(uid)
					}
					l, err := net.Listen("unix", p.state+"/control.sock")
					must(t, err)
					defer func() { _ = l.Close() }()
					s := p.auto(bwrap)
					session := wall.Session{ID: "7", Ungated: ungated}
					must(t, s.Check(ops.Tier1))
					must(t, s.Prepare(ops.Tier1))
					must(t, s.PrepareSession(ops.Tier1, session))
					text, err := proven(t, s, ops.Tier1, session)
					if err != nil || !strings.HasPrefix(text, "they hold: landlock") {
						t.Errorf("as %d, ungated %v: %q, %v", uid, ungated, text, err)
					}
					if missing := strings.Contains(text, "missing"); missing != (bwrap != "" && uid == 0) {
						t.Errorf("as %d: %q", uid, text)
					}
					if dir := filepath.Dir(filepath.Dir(s.Temp(session))); filepath.Base(dir) != "agent" {
						t.Errorf("the temporary folder is not among those that are removed after a session: %s", dir)
					}
				})
			}
		}
	}
}

func TestAWallWithAHoleStopsTheSession(t *testing.T) {
	p := newPlace(t)
	// Somebody gave the agent a folder that holds the canary.
	p.config.Named = []string{p.state}
	s := p.auto("/nowhere/bwrap")
	session := wall.Session{ID: "7"}
	must(t, s.Prepare(ops.Tier3))
	must(t, s.PrepareSession(ops.Tier3, session))
	_, err := proven(t, s, ops.Tier3, session)
	if err == nil || !strings.Contains(err.Error(), "canary can be written") {
		t.Errorf("%v", err)
	}
	if _, err := proven(t, s, ops.Tier1, session); err != nil {
		t.Errorf("Tier 1 does not have that folder: %v", err)
	}
}

func TestRequiredRefusesAMissingWall(t *testing.T) {
	p := newPlace(t)
	p.config.Required = true
	if err := p.auto("/nowhere/bwrap").Check(ops.Tier1); err == nil || !strings.Contains(err.Error(), "bubblewrap") {
		t.Errorf("%v", err)
	}
	if err := p.auto("").Check(ops.Tier1); err != nil {
		t.Errorf("nothing is missing: %v", err)
	}
}

// The trial is the same for all tiers, and a session waits for it. The start of the daemon, which only asks whether the least is there, does
// not where Landlock is.
func TestBubblewrapIsTriedOnceForAllTiers(t *testing.T) {
	p := newPlace(t)
	count := filepath.Join(t.TempDir(), "count")
	bwrap := filepath.Join(t.TempDir(), "bwrap")
	must(t, os.WriteFile(bwrap, []byte("#!/bin/sh\necho tried >> "+count+"\n"), 0o700)) //nolint:gosec // it is run
	s := p.auto(bwrap)
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		must(t, s.Check(tier))
		s.Lacks(tier)
	}
	if _, err := os.Stat(count); confine.LandlockVersion() > 0 && confine.SeccompAvailable() && err == nil {
		t.Error("bubblewrap was tried although nothing asked for it")
	}
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		s.Layers(tier)
		s.Lacks(tier)
	}
	if tried, err := os.ReadFile(count); err != nil || string(tried) != "tried\n" {
		t.Errorf("%q, %v", tried, err)
	}
}

func TestADryRunChangesNoRepository(t *testing.T) {
	for name, bwrap := range map[string]string{"with namespaces": "", "without namespaces": "/nowhere/bwrap"} {
		for _, dry := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				p := newPlace(t)
				s := p.auto(bwrap)
				session := wall.Session{ID: "7", LookOnly: dry}
				must(t, s.Prepare(ops.Tier2))
				must(t, s.PrepareSession(ops.Tier2, session))
				c, err := s.WrapSession(ops.Tier2, session, wall.Command{
					Path: "/bin/sh", Argv: []string{"sh", "-c", "echo x > " + p.repos + "/app/file"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: p.state + "/work",
				})
				must(t, err)
				out, code := runCommand(t, c)
				if (code == 0) == dry {
					t.Errorf("dry run %v: exit %d: %s", dry, code, out)
				}
			})
		}
	}
}

func TestFilesOfTheSupervisorInARepositoryStayAsTheyAre(t *testing.T) {
	for name, bwrap := range map[string]string{"with namespaces": "", "without namespaces": "/nowhere/bwrap"} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			own := p.repos + "/ops/claudeops.yaml"
			must(t, os.MkdirAll(p.repos+"/ops/.git", 0o755))        //nolint:gosec // a test folder
			must(t, os.WriteFile(own, []byte("precious\n"), 0o666)) //nolint:gosec // so open that a wall is needed
			p.config.Own = []string{own}
			s := p.auto(bwrap)
			session := wall.Session{ID: "7"}
			must(t, s.Prepare(ops.Tier2))
			must(t, s.PrepareSession(ops.Tier2, session))
			c, err := s.WrapSession(ops.Tier2, session, wall.Command{
				Path: "/bin/sh", Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Argv: []string{"sh", "-c", "cd " + p.repos + `
echo x > ops/claudeops.yaml; rm -f ops/claudeops.yaml; mv ops/claudeops.yaml app/gone; mv app/file ops/claudeops.yaml
mv ops moved && mkdir ops && echo x > ops/claudeops.yaml; ln -sf /etc/passwd ops/claudeops.yaml
echo fixed > app/new && echo x > ops/.git/index && cat ops/claudeops.yaml`},
			})
			must(t, err)
			out, code := runCommand(t, c)
			raw, err := os.ReadFile(own)
			if err != nil || string(raw) != "precious\n" {
				t.Errorf("the file is now %q (%v): %s", raw, err, out)
			}
			if _, err := os.Stat(p.repos + "/app/new"); err != nil || code != 0 {
				t.Errorf("honest work failed: %v: %s", err, out)
			}
		})
	}
}
