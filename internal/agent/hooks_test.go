package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/process"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// surroundings note what is set up around a session and what is ended, and may refuse a part.
type surroundings struct {
	refuse string
	noted  []string
}

func (s *surroundings) note(what string) error {
	s.noted = append(s.noted, what)
	if what == s.refuse {
		return errors.New(what + " is refused")
	}
	return nil
}

type adapter struct {
	*surroundings
	agent.Adapter
	dir string
}

func (a adapter) Prepare(context.Context, ops.SessionSpec, agent.Walls) (*agent.Prepared, error) {
	if err := a.note("prepare"); err != nil {
		return nil, err
	}
	file := filepath.Join(a.dir, "settings")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	program := agent.Program{Path: "/bin/sh", Argv: []string{"sh", "-c", ":"}, Dir: a.dir}
	if a.refuse == "start" {
		program.Path = filepath.Join(a.dir, "nowhere")
	}
	return &agent.Prepared{
		Name: "sh", Program: program, Decoder: silence{}, Files: []string{file},
		Verify: func() error { return a.note("verify") },
	}, nil
}

type silence struct{}

func (silence) Line(string) agent.Progress          { return agent.Progress{} }
func (silence) Activities(string) []ops.Activity    { return nil }
func (silence) Finish(res *ops.RunResult, _ string) { res.ResultRead = true }

type noted struct{ *surroundings }

func (noted) Layers(ops.Tier) []string                        { return nil }
func (n noted) Prepare(ops.Tier) error                        { return n.note("walls") }
func (n noted) Collect(ops.Tier) error                        { return n.note("collect") }
func (noted) Hides(ops.Tier, agent.Program) func(string) bool { return nil }
func (noted) GatesShells(ops.Tier) bool                       { return false }
func (n noted) Check(context.Context) error                   { return nil }
func (n noted) Release(string)                                { _ = n.note("release") }

func (noted) Wrap(_ ops.Tier, p agent.Program) (agent.Program, error) { return p, nil }

func (n noted) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	_ = n.note("bound")
	return ctx, func() { _ = n.note("free") }
}

func (n noted) Register(context.Context, string, string) (func(process.Ident), error) {
	return func(process.Ident) {}, n.note("register")
}

// TestWhatWasSetUpIsEndedInReverse: whatever is refused, all that was set up before it is ended, and nothing else.
func TestWhatWasSetUpIsEndedInReverse(t *testing.T) {
	for refuse, want := range map[string][]string{
		"":         {"bound", "prepare", "walls", "verify", "register", "collect", "release", "free"},
		"prepare":  {"bound", "prepare", "release", "free"},
		"walls":    {"bound", "prepare", "walls", "release", "free"},
		"verify":   {"bound", "prepare", "walls", "verify", "release", "free"},
		"register": {"bound", "prepare", "walls", "verify", "register", "release", "free"},
		"start":    {"bound", "prepare", "walls", "verify", "register", "release", "free"},
	} {
		t.Run(refuse, func(t *testing.T) {
			s, dir, state := &surroundings{refuse: refuse}, t.TempDir(), t.TempDir()
			res := agent.NewRunner(adapter{surroundings: s, dir: dir}, agent.Options{
				Walls: func(string) agent.Walls { return noted{s} }, Keeper: noted{s},
			}).Run(t.Context(), ops.SessionSpec{
				Session: ops.Session{ID: 1, CycleID: 1, Tier: ops.Tier1, Key: "hooks-" + refuse}, Environment: "default", StateDir: state,
			}, &agenttest.Recorder{})
			if !slices.Equal(s.noted, want) {
				t.Errorf("got  %v\nwant %v", s.noted, want)
			}
			if started := res.ExitCode != nil; started != (refuse == "") {
				t.Errorf("result: %+v", res)
			}
			for _, left := range []string{filepath.Join(dir, "settings"), filepath.Join(state, "agent")} {
				if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is left", left)
				}
			}
		})
	}
}

// A reload that comes while the trial of a program is looked up stops the session: it has not failed.
func TestASessionThatIsStoppedBeforeItsProgramRunsHasNotFailed(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	res := agent.NewRunner(adapter{surroundings: &surroundings{}, dir: t.TempDir()}, agent.Options{
		Trial: func(ctx context.Context, _ string) error {
			stop(nil)
			return ctx.Err()
		},
	}).Run(ctx, ops.SessionSpec{
		Session: ops.Session{ID: 1, CycleID: 1, Tier: ops.Tier1, Key: "hooks-trial"}, Environment: "default", StateDir: t.TempDir(),
	}, &agenttest.Recorder{})
	if res.Stop != ops.StopShutdown || res.Failure == ops.FailureStart {
		t.Errorf("result: %+v", res)
	}
}
