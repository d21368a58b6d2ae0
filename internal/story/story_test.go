package story_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/story"
	"claudeops/test/storytest"
)

// demo is an outage in which Tier 2 makes it worse, the supervisor undoes that, and Tier 3 repairs it.
func demo() ops.IncidentStory {
	health := func(service string, h ops.Health) []ops.ServiceHealth {
		return []ops.ServiceHealth{{Service: service, Status: h}}
	}
	second, third := ops.SessionID(2), ops.SessionID(3)
	session := func(id ops.SessionID, tier ops.Tier, from, to int, o ops.OutcomeKind, said string) ops.Session {
		return ops.Session{
			ID: id, CycleID: 1, Tier: tier, Status: ops.SessionCompleted, Outcome: o, StartedAt: ops.Ptr(at(from)), EndedAt: ops.Ptr(at(to)),
			OutcomeJSON: []byte(fmt.Sprintf(`{"summary":%q}`, said)),
		}
	}
	return ops.IncidentStory{
		Incident: ops.Incident{
			ID: 1, Service: "mediabox", Title: "mediabox: HTTP 502", FirstCycle: 1, OpenedAt: at(5), ResolvedAt: ops.Ptr(at(22)), ResolvedBy: ops.Supervisor,
			Status: ops.IncidentResolved,
		},
		Cycles: []ops.CycleStory{{
			Cycle: ops.Cycle{
				ID: 1, Trigger: ops.TriggerProbe, Status: ops.CycleResolved, CreatedAt: at(1), StartedAt: ops.Ptr(at(1)), EndedAt: ops.Ptr(at(22)),
				VerifiedBy: ops.ProofProbe,
			},
			Journal: ops.Journal{
				Sessions: []ops.Session{
					session(1, ops.Tier1, 2, 5, ops.OutcomeEscalate, "mediabox answers 502. It needs a repair."),
					session(2, ops.Tier2, 6, 12, ops.OutcomeEscalate, "the cache was not it"),
					session(3, ops.Tier3, 13, 20, ops.OutcomeResolved, "restored the configuration"),
				},
				Decisions: []ops.Decision{{SessionID: 1, Verdict: ops.VerdictEscalate, TargetHandler: "tier2", Reason: "Tier 2 is next", At: at(5).Add(-time.Millisecond)}},
				Checks: []ops.Check{
					{At: at(0), Service: "mediabox", Purpose: ops.ProbeObserve, Status: ops.Down, Error: "HTTP 502"},
					{At: at(22), Service: "mediabox", Purpose: ops.ProbeVerify, Status: ops.Healthy},
				},
				Runs: []ops.ActionRun{
					{
						ID: 1, Tier: ops.Tier2, Service: "mediabox", Action: "rebuild-cache", SessionID: &second, Status: ops.ActionUndone, Does: "box rebuild-cache",
						RequestedAt: at(8), Before: health("player", ops.Healthy), After: health("player", ops.Down), Why: "the cache may be old",
					},
					{
						ID: 2, UndoOf: 1, Service: "mediabox", Action: "restore-cache", Status: ops.ActionDone, RequestedAt: at(10),
						Before: health("player", ops.Down), After: health("player", ops.Healthy),
					},
					{
						ID: 3, Tier: ops.Tier3, Service: "mediabox", Action: "restore-config", SessionID: &third, Status: ops.ActionDone, Does: "box redeploy",
						RequestedAt: at(18), Before: health("mediabox", ops.Down), After: health("mediabox", ops.Healthy), Why: "wrong upstream",
					},
				},
			},
		}},
	}
}

// Failures are grouped before a cycle starts: the headline counts from the first. An agent that could not be started has not looked.
func TestAStoryBeginsWithTheFailureAndTellsOnlyWhoLooked(t *testing.T) {
	rows := demo()
	rows.Cycles[0].Began = ops.Ptr(at(-30))
	first := &rows.Cycles[0].Journal.Sessions[0]
	first.Status, first.Failure, first.Outcome, first.OutcomeJSON = ops.SessionFailed, ops.FailureNotFound, "", nil
	got := story.Tell(rows, at(60))
	if !strings.HasPrefix(got.Headline, "Down 52 s · ") || got.Steps[0].Kind != story.StepDetected || !got.Steps[0].At.Equal(at(-30)) {
		t.Errorf("%s\n%+v", got.Headline, got.Steps[0])
	}
	for _, step := range got.Steps {
		if step.Subject == ops.About(ops.SubjectSession, ops.SessionID(1)) {
			t.Errorf("session 1 never ran, and the story says: %s", step.Text)
		}
	}
}

func TestStories(t *testing.T) {
	many := demo()
	for i := range 30 {
		many.Cycles[0].Journal.Runs = append(many.Cycles[0].Journal.Runs[:2:2], append([]ops.ActionRun{{
			ID: int64(100 + i), Service: "mediabox", Action: "restart", Status: ops.ActionDone, RequestedAt: at(11),
		}}, many.Cycles[0].Journal.Runs[2:]...)...)
	}
	open := demo()
	open.Incident.ResolvedAt, open.Incident.ResolvedBy, open.Incident.CalledAt = nil, "", ops.Ptr(at(21))
	open.Incident.Status = ops.IncidentOpen
	open.Cycles[0].Cycle.Status, open.Cycles[0].Journal.Runs = ops.CycleNeedsHuman, open.Cycles[0].Journal.Runs[:2]
	open.Cycles[0].Journal.Sessions, open.Cycles[0].Journal.Checks = open.Cycles[0].Journal.Sessions[:2], open.Cycles[0].Journal.Checks[:1]
	open.Notices = []ops.Notice{{Status: ops.NoticeSkipped, Error: ops.SkippedNoTarget, CreatedAt: at(21)}}
	refuted := demo()
	refuted.Incident.ResolvedAt, refuted.Cycles[0].Cycle.RefutedAt = nil, ops.Ptr(at(50))
	calm := ops.IncidentStory{Cycles: []ops.CycleStory{{
		Cycle:   ops.Cycle{ID: 9, Trigger: ops.TriggerScheduled, Status: ops.CycleHealthy, CreatedAt: at(0), EndedAt: ops.Ptr(at(1))},
		Journal: ops.Journal{Checks: []ops.Check{{At: at(0), Service: "web", Purpose: ops.ProbeObserve, Status: ops.Healthy}}},
	}}}
	guarded := repaired()
	guarded.Cycles[0].Journal.Effects = map[ops.SessionID]ops.Effects{118: {Mutating: true}}
	claimed := demo()
	claimed.Incident.ResolvedAt, claimed.Cycles[0].Cycle.Status, claimed.Cycles[0].Journal.Runs = nil, ops.CycleNeedsHuman, nil
	claimed.Cycles[0].Journal.Checks[1].Status = ops.Down
	person := demo()
	person.Cycles[0].Journal.Runs[2].Status = ops.ActionUndone
	person.Cycles[0].Journal.Runs = append(person.Cycles[0].Journal.Runs, ops.ActionRun{
		ID: 4, UndoOf: 3, Service: "mediabox", Action: "restore-config", Status: ops.ActionDone, Person: "ada", Why: "I need the new upstream",
		RequestedAt: at(40),
	})
	watched := demo()
	watched.Cycles[0].Cycle.Status, watched.Cycles[0].Cycle.Reason = ops.CycleSuppressed, "no agent is installed"
	watched.Cycles[0].Journal.Runs, watched.Cycles[0].Journal.Sessions = nil, nil
	watched.Cycles[0].Journal.Checks = watched.Cycles[0].Journal.Checks[:1]
	for name, rows := range map[string]ops.IncidentStory{
		"a-claim-that-does-not-hold": claimed, "undone-then-repaired": demo(), "many-tries": many, "nobody-was-told": open, "did-not-hold": refuted,
		"all-well": calm, "by-its-own-hands": guarded, "undone-by-a-person": person, "nothing-tried": watched, "relapsed": relapsed(), "waiting": waiting(),
	} {
		got := story.Tell(rows, at(60))
		storytest.Golden(t, filepath.Join("testdata", name+".txt"), got, *update)
	}
}
