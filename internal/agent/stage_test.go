package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// stagingWalls are walls whose process is a shell that says that they hold and then waits for the program.
type stagingWalls struct {
	report string // what it says
	stamp  string
	place  string
	staged int // how many processes became a program
	usual  int // how many programs were started the usual way
	proven []string
}

const wallsHold = "walls hold"

func (w *stagingWalls) Layers(ops.Tier) []string { return nil }
func (w *stagingWalls) Prepare(ops.Tier) error   { return nil }
func (w *stagingWalls) Collect(ops.Tier) error   { return nil }
func (w *stagingWalls) Stages(ops.Tier) bool     { return true }

func (w *stagingWalls) Wrap(_ ops.Tier, p agent.Program) (agent.Program, error) {
	w.usual++
	return p, nil
}

func (w *stagingWalls) Place(_ ops.Tier, p agent.Program) string {
	return p.Path + agent.Variable(p.Env, "HOME") + w.place
}

func (w *stagingWalls) Stage(tier ops.Tier, p agent.Program, _ string) (agent.Stage, error) {
	return agent.Stage{
		Place: w.Place(tier, p), Stamp: w.stamp, Proven: wallsHold, Tell: w.tell,
		Program: agent.Program{
			Path: "/bin/sh", Dir: "/",
			Argv: []string{"sh", "-c", `echo "` + w.report + `"; read -r line || exit 0; exec sh -c "$line" </dev/null`},
			Env: []string{
				"PATH=" + agent.StandardPath, "CLAUDEOPS_SESSION_KEY=" + agent.Variable(p.Env, "CLAUDEOPS_SESSION_KEY"),
			},
		},
	}, nil
}

func (w *stagingWalls) Staged(_ ops.Tier, p agent.Program) agent.Program {
	p.Proof = func(line string) (bool, error) {
		w.proven = append(w.proven, line)
		return true, nil
	}
	return p
}

func (w *stagingWalls) tell(conn, _ *os.File, p agent.Program) error {
	w.staged++
	quote := func(words []string) string {
		out := make([]string, len(words))
		for i, word := range words {
			out[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		return strings.Join(out, " ")
	}
	_, err := fmt.Fprintf(conn, "cd %s && exec env -i %s %s\n", p.Dir, quote(p.Env), quote(append([]string{p.Path}, p.Argv[1:]...)))
	return errors.Join(err, conn.Close())
}

func stagingRunner(t *testing.T, w *stagingWalls) *agent.Runner {
	t.Helper()
	bin := agenttest.Fake(t, play(say(agenttest.Init(), agenttest.Result(0.1, "done"))...))
	return agent.NewRunner(claude.New(claude.Options{Bin: bin}), agent.Options{Walls: func(string) agent.Walls { return w }})
}

// nothingStaged checks that no process, group or folder is left.
func nothingStaged(t *testing.T, spec ops.SessionSpec) {
	t.Helper()
	if n, group, err := agent.Left(spec.Session.Key); n > 0 || group != "" || err != nil {
		t.Errorf("%d processes and the group %q are left (%v)", n, group, err)
	}
	gone(t, filepath.Join(spec.StateDir, "staged", spec.Session.Key))
}

func TestAStageBecomesTheSession(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*stagingWalls)
		staged bool
	}{
		"nothing changed":                {func(*stagingWalls) {}, true},
		"a path names another file":      {func(w *stagingWalls) { w.stamp = "other" }, false},
		"the walls are of another place": {func(w *stagingWalls) { w.place = "other" }, false},
		"other arguments":                {func(w *stagingWalls) { w.report = wallsHold + " well" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, spec := &stagingWalls{report: wallsHold}, testSpec(t)
			spec.WorkDir = filepath.Join(spec.StateDir, "work")
			runner := stagingRunner(t, w)
			if err := runner.Stage(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(spec.StateDir, "cooldown.json"), "{}")
			tt.change(w)
			begun := false
			spec.Begin = func() error {
				begun = w.staged == 0
				return nil
			}
			res := runner.Run(t.Context(), spec, &memory{})
			if !res.Success() || res.Text != "done" {
				t.Fatalf("got %+v", res)
			}
			if (w.staged == 1) != tt.staged || (w.usual == 1) == tt.staged || !begun {
				t.Errorf("%d were staged, %d started the usual way, begun before: %t", w.staged, w.usual, begun)
			}
			if tt.staged && (len(w.proven) != 1 || w.proven[0] != wallsHold) {
				t.Errorf("the walls reported %q", w.proven)
			}
			nothingStaged(t, spec)
			gone(t, filepath.Join(spec.StateDir, "agent"), spec.WorkDir)
		})
	}
}

func TestASessionThatMayNotBeginIsNotTold(t *testing.T) {
	w, spec := &stagingWalls{report: wallsHold}, testSpec(t)
	runner := stagingRunner(t, w)
	if err := runner.Stage(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	spec.Begin = func() error { return errors.New("it was not journaled") }
	res := runner.Run(t.Context(), spec, &memory{})
	if res.Success() || !strings.Contains(res.Err, "it was not journaled") || w.staged+w.usual > 0 {
		t.Errorf("got %+v, %d staged, %d usual", res, w.staged, w.usual)
	}
	nothingStaged(t, spec)
}

func TestAStageWhoseWallsDoNotHoldIsNotUsed(t *testing.T) {
	w, spec := &stagingWalls{report: "the walls do not hold: /etc/shadow can be read"}, testSpec(t)
	runner := stagingRunner(t, w)
	if err := runner.Stage(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "/etc/shadow can be read") {
		t.Errorf("got %v", err)
	}
	nothingStaged(t, spec)
	if res := runner.Run(t.Context(), spec, &memory{}); !res.Success() || w.staged != 0 || w.usual != 1 {
		t.Errorf("got %+v, %d staged, %d usual", res, w.staged, w.usual)
	}
}

func TestAStageThatIsNotNeededLeavesNothing(t *testing.T) {
	w, spec := &stagingWalls{report: wallsHold}, testSpec(t)
	runner := stagingRunner(t, w)
	if err := runner.Stage(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := agent.Left(spec.Session.Key); n == 0 {
		t.Error("nothing waits")
	}
	if err := runner.Unstage(t.Context(), spec.Session.Key); err != nil {
		t.Error(err)
	}
	nothingStaged(t, spec)
	runner.Refresh(spec.Session.Key)
	nothingStaged(t, spec)
}

func TestTheStageOfADeadSupervisorIsSwept(t *testing.T) {
	w, spec := &stagingWalls{report: wallsHold}, testSpec(t)
	if err := stagingRunner(t, w).Stage(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if err := agent.SweepFolders(t.Context(), spec.StateDir, func(ops.CycleID) bool { return false }, nil); err != nil {
		t.Fatal(err)
	}
	nothingStaged(t, spec)
}
