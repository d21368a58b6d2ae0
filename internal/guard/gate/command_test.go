package gate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// TestACommandIsJudgedWithoutAHook holds that the shell of an agent that asks no hook is judged and recorded like any other.
func TestACommandIsJudgedWithoutAHook(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	wall := &confine.Wall{Best: true}
	f.Confine(wall, []string{"TMPDIR=/t"}, nil)
	for _, c := range []struct {
		command, cwd, rule string
		allowed            bool
	}{
		{"ls -l", "/work", "tool.Bash", true},
		{"touch forbidden", "/work", "R1", false},
		{"ls", "work", ruleInput, false},
	} {
		before := len(f.ledger.records())
		a := f.ask(client.Request{Kind: client.KindCommand, Command: c.command, Cwd: c.cwd})
		rows := f.ledger.records()[before:]
		if len(rows) != 1 || rows[0].Allowed != c.allowed || rows[0].Rule != c.rule || rows[0].Gate != ops.GateShell || rows[0].Tool != toolBash {
			t.Errorf("%s: recorded %+v", c.command, rows)
		}
		if (a.Verdict == client.Allow) != c.allowed {
			t.Errorf("%s: %+v", c.command, a)
		}
		if c.allowed && (a.Script != c.command || a.Wall == nil || len(a.Env) != 1) {
			t.Errorf("%s is run as %+v", c.command, a)
		}
		if !c.allowed && (a.Script != "" || a.Reason == "") {
			t.Errorf("%s is refused as %+v", c.command, a)
		}
	}
}

// TestOnlyTheCommandOfARuleGetsWhatItLends holds that a door in the wall of one command is in no other wall.
func TestOnlyTheCommandOfARuleGetsWhatItLends(t *testing.T) {
	t.Parallel()
	f := open(t, func(o *Options, _ *Gate) {
		o.Judge = judgeFunc(func(tier ops.Tier, tool string, input json.RawMessage, facts guard.Facts) guard.Decision {
			d := plainJudge(tier, tool, input, facts)
			if d.Script == "reindex" {
				d.Writable = []string{"/srv/index", "/srv/unknown"}
			}
			return d
		})
	})
	place := confine.Place{Path: "/srv/index", Device: 1, Inode: 2}
	f.Confine(&confine.Wall{Write: []string{"/t"}}, nil, []confine.Place{place, {Path: "/srv/other"}})
	for _, command := range []string{"reindex", "ls", "reindex"} {
		a := f.ask(client.Request{Kind: client.KindCommand, Command: command, Cwd: "/work"})
		var want []confine.Place
		if command == "reindex" {
			want = []confine.Place{place}
		}
		if a.Wall == nil || !slices.Equal(a.Wall.Lent, want) || !slices.Equal(a.Wall.Write, []string{"/t"}) {
			t.Errorf("%s runs behind %+v", command, a.Wall)
		}
	}
}

func TestShellsInThePlaceOfOthersAreSweptAway(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	dir := filepath.Join(f.gate.o.Dir, "15-1")
	abandon(t, dir, true, true)
	shells := filepath.Join(dir, confine.ShellsFolder)
	if err := os.Mkdir(shells, 0o755); err != nil { //nolint:gosec // as it is made
		t.Fatal(err)
	}
	must(t, os.WriteFile(filepath.Join(shells, confine.UsersFile), nil, 0o600))
	hourAgo := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(dir, hourAgo, hourAgo))
	if n, err := f.gate.Sweep(t.Context()); err != nil || n != 1 {
		t.Errorf("swept %d, %v", n, err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}
