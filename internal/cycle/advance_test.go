package cycle_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"claudeops/internal/cycle"
	"claudeops/internal/ops"
)

func escalating(s *stage) play {
	return func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
		if spec.Session.Tier < 3 {
			s.file.raw = handoffJSON(spec.Session.Tier + 1)
		}
		return success()
	}
}

func TestWhatRanIsRecordedWithWhatFollows(t *testing.T) {
	s := newStage(t, policy(), escalating)
	s.advance(t)
	for i, step := range s.journal.steps {
		if step.Kind == ops.StepRun {
			t.Errorf("write %d is a step that only follows from the journal", i)
		}
	}
	// The end of Tier 1, its decision and the intent of Tier 2 are one write.
	if d := s.journal.steps[1]; d.Decision == nil || d.Session == nil || d.Session.Handler.ID != "tier2" {
		t.Errorf("the second write is %+v", d)
	}
}

func TestAHandoffIsDeletedInEveryPath(t *testing.T) {
	ends := map[string]ops.RunResult{
		"success":  success(),
		"failure":  {ExitCode: ops.Ptr(1), Err: "exit 1"},
		"stopped":  {ExitCode: ops.Ptr(0), Stop: ops.StopUser},
		"shutdown": {ExitCode: ops.Ptr(0), Stop: ops.StopShutdown},
		"limit":    {ExitCode: ops.Ptr(0), Stop: ops.StopWall},
	}
	for name, end := range ends {
		for _, dry := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := newStage(t, policy(func(p *ops.Policy) { p.DryRun = dry }), func(s *stage) play {
					return func(context.Context, ops.SessionSpec) ops.RunResult {
						if s.file.deleted == 0 {
							t.Error("a stale handoff file was not deleted before the session")
						}
						s.file.raw = []byte(`{"broken":`)
						return end
					}
				})
				s.file.raw = handoffJSON(2)
				s.advance(t)
				if s.file.raw != nil {
					t.Error("the handoff file is still there")
				}
			})
		}
	}
}

func TestAFailedSessionHandsUpNothing(t *testing.T) {
	s := newStage(t, policy(), func(s *stage) play {
		return func(context.Context, ops.SessionSpec) ops.RunResult {
			s.file.raw = handoffJSON(2)
			return ops.RunResult{ExitCode: ops.Ptr(3), Err: "exit 3", Failure: "exit"}
		}
	})
	s.advance(t)
	x := s.journal.journal.Sessions[0]
	if len(s.journal.journal.Sessions) != 1 || x.Status != ops.SessionFailed || len(x.HandoffJSON) > 0 || s.journal.cycle.Status != ops.CycleFailed {
		t.Errorf("cycle %s, session %+v", s.journal.cycle.Status, x)
	}
}

func TestAShutdownLeavesACycleThatContinues(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newStage(t, policy(), func(s *stage) play {
		return func(runCtx context.Context, spec ops.SessionSpec) ops.RunResult {
			if spec.Session.Attempt == 1 && spec.Session.Tier == 1 {
				cancel(ops.Stop(ops.StopShutdown, "bye"))
				return ops.RunResult{ExitCode: ops.Ptr(0), Stop: ops.StopShutdown, StopWhy: "bye"}
			}
			return success()
		}
	})
	must(t, s.Advance(ctx, 1, "default"))
	if s.journal.cycle.Status != ops.CycleQueued || s.journal.journal.Last().Status != ops.SessionQueued {
		t.Fatalf("after the shutdown: cycle %s, last session %s", s.journal.cycle.Status, s.journal.journal.Last().Status)
	}
	s.advance(t)
	sessions := s.journal.journal.Sessions
	if s.journal.cycle.Status != ops.CycleHealthy || len(sessions) != 2 || sessions[0].Status != ops.SessionInterrupted || *sessions[1].RetryOf != sessions[0].ID {
		t.Errorf("after the restart: cycle %s, sessions %+v", s.journal.cycle.Status, sessions)
	}
}

// What follows from a session that ends after a reload is decided under the new configuration, and done by another worker.
func TestANewConfigurationDecidesWhatIsNext(t *testing.T) {
	for most, want := range map[ops.Tier]struct {
		status   ops.CycleStatus
		sessions int
	}{ops.LastTier: {ops.CycleQueued, 2}, ops.Tier1: {ops.CycleNeedsHuman, 1}} {
		replaced, ran := false, 0
		s := newStage(t, policy(), func(s *stage) play {
			return func(ctx context.Context, spec ops.SessionSpec) ops.RunResult {
				replaced = true
				ran++
				return escalating(s)(ctx, spec)
			}
		}, func(p *cycle.Parts) {
			p.Host = host{owner: p.Host.Owner, newer: func(env ops.Environment) (ops.Environment, bool) {
				env.Policy.MaxTier = most
				return env, replaced
			}}
		})
		s.advance(t)
		if got := s.journal.cycle.Status; got != want.status || len(s.journal.journal.Sessions) != want.sessions || ran != 1 {
			t.Errorf("up to %s: the cycle is %s, %d sessions ran, the journal is %+v", most, got, ran, s.journal.journal.Sessions)
		}
	}
}

func TestAnOrphanIsEndedBeforeAnythingElse(t *testing.T) {
	for tier, end := range map[ops.Tier]ops.CycleStatus{1: ops.CycleHealthy, 2: ops.CycleFailed, 3: ops.CycleFailed} {
		s := newStage(t, policy(), func(*stage) play {
			return func(context.Context, ops.SessionSpec) ops.RunResult { return success() }
		})
		s.journal.journal.Sessions = []ops.Session{{
			ID: 1, CycleID: 1, Tier: tier, Handler: []string{"", "tier1", "tier2", "tier3"}[tier], Attempt: 1, Status: ops.SessionRunning, Key: "orphan",
		}}
		s.advance(t)
		first := s.journal.journal.Sessions[0]
		if !slices.Equal(s.swept, []string{"orphan"}) || first.Status != ops.SessionInterrupted || first.StopCause != ops.StopCrash {
			t.Errorf("%s: swept %v, session %s by %s", tier, s.swept, first.Status, first.StopCause)
		}
		if s.journal.cycle.Status != end {
			t.Errorf("%s: the cycle ended %s (%s), want %s", tier, s.journal.cycle.Status, s.journal.cycle.Reason, end)
		}
	}
}

func TestAWriteThatFailsReleasesTheCycle(t *testing.T) {
	broken := errors.New("disk full")
	s := newStage(t, policy(), escalating)
	writes := 0
	s.journal.fail = func(string) error {
		if writes++; writes == 3 { // the end of Tier 1
			return broken
		}
		return nil
	}
	if err := s.Advance(t.Context(), 1, "default"); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if s.journal.cycle.Status != ops.CycleQueued {
		t.Fatalf("the slot is still held: %s", s.journal.cycle.Status)
	}
	s.journal.fail = func(string) error { return nil }
	s.advance(t)
	if got := s.journal.journal.Sessions[0].Status; got != ops.SessionInterrupted {
		t.Errorf("a session whose end was not journaled is %s", got)
	}
}

func TestVerificationGivesAServiceTimeToComeBack(t *testing.T) {
	for name, tt := range map[string]struct {
		greenAfter int
		want       ops.CycleStatus
	}{"it comes back": {3, ops.CycleResolved}, "it stays down": {1000, ops.CycleNeedsHuman}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				verified := 0
				prober := probes(func(specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
					check := ops.Check{Service: "web", Type: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 502", At: time.Now()}
					if purpose == ops.ProbeVerify {
						if verified++; verified >= tt.greenAfter {
							check.Status, check.Error = ops.Healthy, ""
						}
					}
					return []ops.Check{check}
				})
				p := policy(func(p *ops.Policy) {
					p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "web", Probed: true}}}
				})
				s := newStage(t, p, escalating, func(parts *cycle.Parts) {
					parts.Prober, parts.Health = prober, oneRound(10*time.Second)
				})
				s.advance(t)
				if s.journal.cycle.Status != tt.want {
					t.Errorf("the cycle ended %s: %s", s.journal.cycle.Status, s.journal.cycle.Reason)
				}
			})
		})
	}
}

func TestEveryTierIsToldWhatItNeeds(t *testing.T) {
	seen := map[ops.Tier]ops.SessionSpec{}
	s := newStage(t, policy(func(p *ops.Policy) {
		p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "web", Aliases: []string{"nginx"}}}}
	}), func(s *stage) play {
		return func(ctx context.Context, spec ops.SessionSpec) ops.RunResult {
			seen[spec.Session.Tier] = spec
			return escalating(s)(ctx, spec)
		}
	})
	s.journal.cycle.Prompt = "look at the certificates"
	s.advance(t)
	if p := seen[1].Prompt; !strings.Contains(p, "look at the certificates") || !strings.Contains(p, "nginx") || !strings.Contains(p, "handoff.json") {
		t.Errorf("Tier 1 is told:\n%s", p)
	}
	if strings.Contains(seen[1].SystemPrompt, "## Escalation Context") {
		t.Error("Tier 1 has an escalation context")
	}
	if p := seen[2].SystemPrompt; strings.Count(p, "## Escalation Context") != 1 || !strings.Contains(p, "HTTP 502") {
		t.Errorf("Tier 2's system prompt is:\n%s", p)
	}
	if p := seen[3].SystemPrompt; !strings.Contains(p, "wrong upstream") || !strings.Contains(p, "restarted it, no change") {
		t.Errorf("Tier 3's system prompt is:\n%s", p)
	}
	for tier, spec := range seen {
		if strings.Contains(spec.Prompt, "Task tool") {
			t.Errorf("%s is told about the Task tool", tier)
		}
		if !strings.HasPrefix(spec.SystemPrompt, "Environment: default") {
			t.Errorf("%s's system prompt begins %.40q", tier, spec.SystemPrompt)
		}
	}
}

func TestAnOperatorsPromptIsPassedAsItIs(t *testing.T) {
	own := map[ops.Tier]ops.PromptFiles{1: {Fresh: "my first {{.Names}}\n"}, 2: {Fresh: "my second {{.Names}}\n"}}
	seen := map[ops.Tier]string{}
	s := newStage(t, policy(), func(s *stage) play {
		return func(ctx context.Context, spec ops.SessionSpec) ops.RunResult {
			seen[spec.Session.Tier] = spec.Prompt
			return escalating(s)(ctx, spec)
		}
	}, func(p *cycle.Parts) {
		e := p.Environments["default"]
		e.Prompts = own
		p.Environments["default"] = e
	})
	s.advance(t)
	if seen[2] != own[2].Fresh {
		t.Errorf("Tier 2 got %q", seen[2])
	}
	if !strings.HasPrefix(seen[1], "my first {{.Names}}\n\n## Facts about this environment") {
		t.Errorf("Tier 1 got %q", seen[1])
	}
}

func TestTheCooldownSnapshotReplacesWhateverIsThere(t *testing.T) {
	s := newStage(t, policy(), func(*stage) play {
		return func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
			raw, err := os.ReadFile(spec.StateDir + "/cooldown.json")
			if err != nil || !strings.Contains(string(raw), "2 per service in 4 h") {
				t.Errorf("the snapshot is %q, %v", raw, err)
			}
			return success()
		}
	})
	elsewhere := t.TempDir() + "/precious"
	must(t, os.WriteFile(elsewhere, []byte("keep"), 0o600))
	must(t, os.Symlink(elsewhere, s.Environments["default"].StateDir+"/cooldown.json"))
	s.advance(t)
	if raw, _ := os.ReadFile(elsewhere); string(raw) != "keep" {
		t.Error("the snapshot followed a symlink")
	}
}

// For any outcomes, failures and policies a chain ends, stays within its limits and runs one session at a time.
func TestEveryChainEnds(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		p := policy(func(p *ops.Policy) {
			p.DryRun = rapid.Bool().Draw(r, "dry run")
			p.MaxTier = ops.Tier(rapid.IntRange(1, 3).Draw(r, "max tier"))
			p.MaxDepth = rapid.IntRange(1, 2).Draw(r, "max depth")
			p.BudgetChainUSD = rapid.SampledFrom([]float64{0, 0.15, 5}).Draw(r, "budget")
			if rapid.Bool().Draw(r, "probes") {
				p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "web", Probed: true}}}
			}
		})
		runs, live := 0, 0
		s := &stage{journal: newMemory(p), file: &files{}}
		agent := play(func(context.Context, ops.SessionSpec) ops.RunResult {
			if runs++; runs > 10 {
				r.Fatal("the chain does not end")
			}
			if live++; live > 1 {
				r.Fatal("two sessions run at once")
			}
			defer func() { live-- }()
			switch rapid.IntRange(0, 3).Draw(r, "file") {
			case 0:
				s.file.raw = handoffJSON(ops.Tier(rapid.IntRange(0, 4).Draw(r, "recommended")))
			case 1:
				s.file.raw = []byte(`{"schema_version":2}`)
			case 2:
				s.file.err = errors.New("handoff.json is a FIFO")
			}
			res := success()
			if rapid.IntRange(0, 9).Draw(r, "end") == 0 {
				res.ExitCode, res.Err = ops.Ptr(rapid.IntRange(1, 255).Draw(r, "exit")), "failed"
			}
			res.Stop = rapid.SampledFrom([]ops.StopCause{"", "", "", "", ops.StopUser, ops.StopWall, ops.StopIdle, ops.StopTool, ops.StopShutdown}).Draw(r, "stop")
			return res
		})
		parts := s.parts(dir, p, agent)
		parts.Prober = probes(func([]ops.ProbeSpec, ops.ProbePurpose) []ops.Check {
			return []ops.Check{{Service: "web", Status: rapid.SampledFrom([]ops.Health{ops.Healthy, ops.Down}).Draw(r, "health")}}
		})
		s.Advancer = cycle.New(parts)
		// The journal refuses a second running session and a second end, and now and then it fails altogether.
		s.journal.fail = func(string) error {
			if rapid.IntRange(0, 19).Draw(r, "disk") == 0 {
				return errors.New("disk full")
			}
			return nil
		}
		for range 200 {
			if s.journal.cycle.Status.Ended() {
				break
			}
			_ = s.Advance(context.Background(), 1, "default")
		}
		if !s.journal.cycle.Status.Ended() {
			r.Fatalf("the cycle is %s after 200 attempts", s.journal.cycle.Status)
		}
		finished := map[ops.Tier]bool{}
		for _, x := range s.journal.journal.Sessions {
			if x.Tier > p.MaxTier && x.Tier > 1 {
				r.Fatalf("%s ran although the maximum is %d", x.Tier, p.MaxTier)
			}
			if p.DryRun && x.Tier > 1 {
				r.Fatalf("%s ran in a dry run", x.Tier)
			}
			if finished[x.Tier] {
				r.Fatalf("%s ran again after it had finished", x.Tier)
			}
			finished[x.Tier] = x.Status == ops.SessionCompleted
			if x.Status == ops.SessionRunning {
				r.Fatal("a session is still running")
			}
		}
		if depth := len(s.journal.journal.Sessions); depth > 2*(p.MaxDepth+1) {
			r.Fatalf("%d sessions at depth %d", depth, p.MaxDepth)
		}
	})
}

func TestAProbeThatWasCutShortProvesNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	p := policy(func(p *ops.Policy) {
		p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "web", Probed: true}}}
	})
	s := newStage(t, p, escalating, func(parts *cycle.Parts) {
		parts.Prober = probes(func(_ []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
			if purpose == ops.ProbeVerify && ctx.Err() == nil {
				cancel(ops.Stop(ops.StopShutdown, "bye"))
				return nil // nothing came back in time
			}
			return []ops.Check{{Service: "web", Status: ops.Down, Error: "HTTP 502"}}
		})
	})
	must(t, s.Advance(ctx, 1, "default"))
	if s.journal.cycle.Status != ops.CycleQueued {
		t.Fatalf("the cycle is %s: %s", s.journal.cycle.Status, s.journal.cycle.Reason)
	}
	s.advance(t)
	if s.journal.cycle.Status != ops.CycleNeedsHuman {
		t.Errorf("the cycle ended %s: %s", s.journal.cycle.Status, s.journal.cycle.Reason)
	}
}

func TestATierOneThatKeepsFailingIsToldOnce(t *testing.T) {
	for before, notices := range map[ops.CycleStatus]int{"": 1, ops.CycleHealthy: 1, ops.CycleNeedsHuman: 1, ops.CycleFailed: 0} {
		s := newStage(t, policy(), func(*stage) play {
			return func(context.Context, ops.SessionSpec) ops.RunResult {
				return ops.RunResult{ExitCode: ops.Ptr(1), Err: "no key"}
			}
		})
		if before != "" {
			s.journal.journal.Before = []ops.Ending{{Status: before}}
		}
		s.advance(t)
		if len(s.journal.notices) != notices {
			t.Errorf("after a cycle that ended %q there are %d notices", before, len(s.journal.notices))
		}
	}
}

func TestASessionThatMayNotStartHereStaysQueued(t *testing.T) {
	full := errors.New("the disk is full")
	held := true
	s := newStage(t, policy(), escalating, func(p *cycle.Parts) {
		p.Host = host{owner: p.Host.Owner, hold: func(tier ops.Tier) error {
			if held && tier == ops.Tier2 {
				return full
			}
			return nil
		}}
	})
	if err := s.Advance(t.Context(), 1, "default"); !errors.Is(err, full) {
		t.Fatalf("advance returns %v", err)
	}
	if last := s.journal.journal.Sessions[len(s.journal.journal.Sessions)-1]; len(s.journal.journal.Sessions) != 2 || last.Tier != ops.Tier2 || last.Status != ops.SessionQueued {
		t.Fatalf("%d sessions, the last is %s, %s", len(s.journal.journal.Sessions), last.Tier, last.Status)
	}
	held = false
	s.advance(t)
	if s.journal.cycle.Status != ops.CycleResolved || len(s.journal.journal.Sessions) != 3 {
		t.Errorf("the cycle is %s after %d sessions", s.journal.cycle.Status, len(s.journal.journal.Sessions))
	}
}

// A process that no row tells of would not be found after a crash.
func TestASessionStartsOnlyWhenThatIsJournaled(t *testing.T) {
	ran := 0
	s := newStage(t, policy(), func(s *stage) play {
		return func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
			ran++
			if now := s.journal.journal.Session(spec.Session.ID); now.Status != ops.SessionRunning || now.PlannedID != spec.Session.PlannedID {
				t.Errorf("the agent runs while its row is %s, planned as %q", now.Status, now.PlannedID)
			}
			return success()
		}
	})
	full := errors.New("disk full")
	s.journal.fail = func(op string) error {
		if op == "start" {
			return full
		}
		return nil
	}
	if err := s.Advance(t.Context(), 1, "default"); !errors.Is(err, full) || ran != 0 {
		t.Fatalf("advance returns %v after %d runs", err, ran)
	}
	if last := s.journal.journal.Last(); last.Status != ops.SessionQueued {
		t.Fatalf("the session is %s", last.Status)
	}
	s.journal.fail = func(string) error { return nil }
	s.advance(t)
	if ran != 1 || s.journal.journal.Last().Status != ops.SessionCompleted {
		t.Errorf("%d runs, the session is %s", ran, s.journal.journal.Last().Status)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
