package cycle_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/cycle"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// gates is a pair of gates in memory.
type gates struct {
	err    error
	down   []string
	opened int
	closed int
	alarm  func(ops.GuardRecord)
}

func (g *gates) Judge() bool { return true }

func (g *gates) Open(_ context.Context, _ ops.Environment, _ ops.Session, _ bool, alarm func(ops.GuardRecord)) (cycle.Held, error) {
	if g.err != nil {
		return nil, g.err
	}
	g.alarm = alarm
	g.opened++
	return g, nil
}

func (g *gates) Spec() ops.GateSpec {
	return ops.GateSpec{Settings: []byte("{}"), Allowed: func(string) bool { return true }}
}

func (g *gates) Close(context.Context) ([]string, error) { g.closed++; return g.down, nil }

func TestASessionIsHeldToItsGates(t *testing.T) {
	for name, tt := range map[string]struct {
		known bool
		held  bool
	}{
		"a known version is held to them":      {known: true, held: true},
		"an unknown one runs without the hold": {},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gates{}
			var seen *ops.GateSpec
			s := newStage(t, policy(), func(*stage) play { return nil }, func(p *cycle.Parts) { p.Gates = g })
			agent := play(func(_ context.Context, spec ops.SessionSpec) ops.RunResult { seen = spec.Gate; return success() })
			s.Runners["claude"] = agent
			if tt.known {
				s.Runners["claude"] = structured{agent}
			}
			s.advance(t)
			if seen == nil || (seen.Allowed != nil) != tt.held || g.opened != g.closed {
				t.Errorf("gate %+v, opened %d, closed %d", seen, g.opened, g.closed)
			}
		})
	}
}

func TestWithoutGatesNothingStarts(t *testing.T) {
	ran := false
	s := newStage(t, policy(), func(*stage) play {
		return func(context.Context, ops.SessionSpec) ops.RunResult { ran = true; return success() }
	}, func(p *cycle.Parts) { p.Gates = &gates{err: errors.New("no socket")} })
	s.advance(t)
	if ran || s.journal.cycle.Status != ops.CycleFailed || !strings.Contains(s.journal.cycle.Reason, "no socket") {
		t.Errorf("ran %v; the cycle is %s: %s", ran, s.journal.cycle.Status, s.journal.cycle.Reason)
	}
}

func TestAServiceThatWasLeftDownIsTold(t *testing.T) {
	s := newStage(t, policy(), func(*stage) play {
		return func(context.Context, ops.SessionSpec) ops.RunResult { return success() }
	}, func(p *cycle.Parts) { p.Gates = &gates{down: []string{"web"}} })
	s.advance(t)
	found := false
	for _, e := range s.journal.events {
		found = found || (e.Level == ops.LevelCritical && strings.Contains(notice.Words(e).Words(), "did not bring up again: web"))
	}
	if !found || len(s.journal.notices) != 1 {
		t.Errorf("events %+v, notices %+v", s.journal.events, s.journal.notices)
	}
}

func TestAToolThatRanUnallowedIsCritical(t *testing.T) {
	s := newStage(t, policy(), func(*stage) play {
		return func(context.Context, ops.SessionSpec) ops.RunResult {
			return ops.RunResult{ExitCode: ops.Ptr(0), Stop: ops.StopInvariant, StopWhy: "the tool call t1 ran although no gate had allowed it"}
		}
	})
	s.advance(t)
	if s.journal.cycle.Status != ops.CycleFailed || s.journal.events[0].Level != ops.LevelCritical || len(s.journal.notices) != 1 {
		t.Errorf("the cycle is %s, events %+v", s.journal.cycle.Status, s.journal.events)
	}
}

// ungated is an agent that asks no gate.
type ungated struct{ play }

func (ungated) Able(context.Context, []string) ops.Ability {
	return ops.Ability{Version: "command", Known: true, Ungated: true}
}

// brokered are gates with a variable for the agent.
type brokered struct{ gates }

func (g *brokered) Open(ctx context.Context, env ops.Environment, s ops.Session, dryRun bool, alarm func(ops.GuardRecord)) (cycle.Held, error) {
	_, err := g.gates.Open(ctx, env, s, dryRun, alarm)
	return g, err
}

func (g *brokered) Spec() ops.GateSpec {
	spec := g.gates.Spec()
	spec.Env = []string{"DOCKER_HOST=unix:///s"}
	return spec
}

func TestAnAgentThatAsksNoGateStillGetsTheBrokeredSockets(t *testing.T) {
	g := &brokered{}
	var seen *ops.GateSpec
	s := newStage(t, policy(), func(*stage) play { return nil }, func(p *cycle.Parts) { p.Gates = g })
	s.Runners["claude"] = ungated{func(_ context.Context, spec ops.SessionSpec) ops.RunResult { seen = spec.Gate; return success() }}
	s.advance(t)
	if seen == nil || len(seen.Env) != 1 || seen.Allowed != nil || seen.Settings != nil || g.opened != 1 || g.closed != 1 {
		t.Errorf("gate %+v, opened %d, closed %d", seen, g.opened, g.closed)
	}
}

// judged is an agent that asks no gate, but whose commands are judged; it changes a file itself if it is told to.
type judged struct {
	ungated

	patches bool
}

func (judged) Gated(ops.SessionSpec) bool { return true }

func (j judged) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	if j.patches {
		spec.Watch(ops.Activity{Kind: ops.ActivityCall, UseID: "1", Tool: "file_change"})
	}
	return j.ungated.Run(ctx, spec, rec)
}

// effects answers what the gates let a session do.
type effects struct {
	cycle.Record

	read func(context.Context, ops.SessionID) (ops.Effects, error)
}

func (r effects) Effects(ctx context.Context, id ops.SessionID) (ops.Effects, error) {
	return r.read(ctx, id)
}

func TestAnAgentWhoseCommandsAreJudgedIsHeldToItsGates(t *testing.T) {
	for _, patches := range []bool{false, true} {
		asked := 0
		var seen *ops.GateSpec
		s := newStage(t, policy(), func(*stage) play { return nil }, func(p *cycle.Parts) {
			p.Gates = &gates{}
			p.Record = effects{p.Record, func(context.Context, ops.SessionID) (ops.Effects, error) { asked++; return ops.Effects{}, nil }}
		})
		s.Runners["claude"] = judged{ungated{func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
			seen = spec.Gate
			return ops.RunResult{ExitCode: ops.Ptr(1), Failure: ops.FailureAgent, Err: "it broke"}
		}}, patches}
		s.advance(t)
		if seen == nil || seen.Allowed == nil || seen.Settings == nil {
			t.Errorf("gate %+v", seen)
		}
		if (asked > 0) == patches {
			t.Errorf("patches %v: its effects were asked for %d times", patches, asked)
		}
	}
}

// telling is an agent whose output says which tools it used.
type telling struct{ play }

func (telling) Able(context.Context, []string) ops.Ability {
	return ops.Ability{Known: true, Tells: true}
}

func TestOnlyAnAgentThatTellsItsCallsIsKnownToHaveDoneNothing(t *testing.T) {
	fails := play(func(context.Context, ops.SessionSpec) ops.RunResult {
		return ops.RunResult{ExitCode: ops.Ptr(1), Failure: ops.FailureAgent, Err: "it broke"}
	})
	for agent, want := range map[cycle.Runner]bool{&telling{fails}: true, &ungated{fails}: false} {
		s := newStage(t, policy(), func(*stage) play { return nil }, func(p *cycle.Parts) { p.Gates = &gates{} })
		s.Runners["claude"] = agent
		s.advance(t)
		if known := len(s.journal.effects) > 0; known != want {
			t.Errorf("%T: what it did is known: %v", agent, known)
		}
	}
}

// talker is an agent whose output is recorded.
type talker struct {
	play

	lines []string
}

func (a talker) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	for _, line := range a.lines {
		if err := rec.Lines(ctx, []ops.Line{{Text: line}}); err != nil {
			return ops.RunResult{Err: err.Error()}
		}
	}
	return a.play(ctx, spec)
}

// walled are gates of a session whose walls leave it one folder.
type walled struct{ gates }

func (g *walled) Open(ctx context.Context, env ops.Environment, s ops.Session, dryRun bool, alarm func(ops.GuardRecord)) (cycle.Held, error) {
	_, err := g.gates.Open(ctx, env, s, dryRun, alarm)
	return g, err
}

func (g *walled) Spec() ops.GateSpec {
	spec := g.gates.Spec()
	spec.Walled = func(path string) bool { return !strings.HasPrefix(path, "/srv/") }
	return spec
}

// hiding are gates of a session that does not see what lies in /srv.
type hiding struct{ gates }

func (g *hiding) Open(ctx context.Context, env ops.Environment, s ops.Session, dryRun bool, alarm func(ops.GuardRecord)) (cycle.Held, error) {
	_, err := g.gates.Open(ctx, env, s, dryRun, alarm)
	return g, err
}

func (g *hiding) Spec() ops.GateSpec {
	spec := g.gates.Spec()
	spec.Unseen = func(path string) bool { return strings.HasPrefix(path, "/srv/") }
	return spec
}

// saying is an agent with one line of output.
type saying struct {
	structured

	line string
}

func (a saying) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	return talker{a.play, []string{a.line}}.Run(ctx, spec, rec)
}

func TestWhatASessionCouldNotSeeIsRecordedOnce(t *testing.T) {
	const call = `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cat /etc/x; ls '/srv/data/in'"}}]}}`
	const answer = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"cat: /srv/app/db: Permission denied\n/srv/listed\nls: /srv/data/in: Permission denied"}]}}`
	s := newStage(t, policy(), func(*stage) play { return nil }, func(p *cycle.Parts) { p.Gates = &hiding{} })
	s.Runners["claude"] = talker{lines: []string{call, answer, call}, play: func(context.Context, ops.SessionSpec) ops.RunResult { return success() }}
	s.advance(t)
	var got []string
	for _, e := range s.journal.events {
		if e.Verb == ops.VerbPathUnseen {
			got = append(got, notice.Words(e).Words())
		}
	}
	want := []string{
		"/srv/data/in is not visible to agents: sandbox.readable does not name it.", "/srv/app/db is not visible to agents: sandbox.readable does not name it.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestWhatAWallRefusedIsRecorded(t *testing.T) {
	const answer = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"`
	agent := talker{lines: []string{
		answer + `touch: cannot touch '/etc/x': Read-only file system"}]}}`,
		answer + `touch: cannot touch '/etc/x': Read-only file system\ncat: /srv/x: Permission denied"}]}}`,
	}, play: func(context.Context, ops.SessionSpec) ops.RunResult { return success() }}
	for name, tt := range map[string]struct {
		gates cycle.Gates
		want  []string
	}{
		"behind walls":  {&walled{}, []string{"A wall refused /etc/x."}},
		"without walls": {&gates{}, nil},
	} {
		s := newStage(t, policy(), func(*stage) play { return nil }, func(p *cycle.Parts) { p.Gates = tt.gates })
		s.Runners["claude"] = agent
		s.advance(t)
		var got []string
		for _, e := range s.journal.events {
			if e.Kind() == ops.EventGuard {
				got = append(got, notice.Words(e).Words())
			}
			if e.Kind() == ops.EventGuard && (e.SessionID == nil || e.Level != ops.LevelWarning) {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
