package postmortem_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/postmortem"
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
	guarded.Cycles[0].Refused = nil
	guarded.Cycles[0].Journal.Effects = map[ops.SessionID]ops.Effects{118: {
		Mutating: true, Done: []ops.GuardRecord{{At: at(30), Allowed: true, Tool: "Bash", Input: `{"command":"docker restart web"}`}},
		Denied: []ops.GuardRecord{{At: at(25), Tool: "Bash", Input: "rm -rf /srv", Reason: "it deletes data"}},
	}}
	claimed := demo()
	claimed.Incident.ResolvedAt, claimed.Cycles[0].Cycle.Status, claimed.Cycles[0].Journal.Runs = nil, ops.CycleNeedsHuman, nil
	claimed.Cycles[0].Journal.Checks[1].Status = ops.Down
	for name, c := range map[string]struct {
		story ops.IncidentStory
		want  string
	}{
		"a claim that does not hold": {claimed, `Down 1 min · mediabox: HTTP 502 · needs a person
+0 s detected: mediabox is down: HTTP 502 (by a probe)
+2 s looked: Tier 1: mediabox answers 502
+6 s looked: Tier 2: the cache was not it
+13 s looked: Tier 3 claims, and nothing confirms: restored the configuration
+22 s verified: Our own probes still find it wrong: mediabox is down`},
		"undone, then repaired": {demo(), `Down 22 s · wrong upstream · restore-config of mediabox · verified
+0 s detected: mediabox is down: HTTP 502 (by a probe)
+2 s looked: Tier 1: mediabox answers 502
+8 s tried: Tier 2: rebuild-cache of mediabox: player healthy → down
+10 s undone: Undid rebuild-cache of mediabox: player down → healthy
+18 s repaired: Tier 3: restore-config of mediabox: mediabox down → healthy
+22 s verified: Our own probes find mediabox healthy`},
		"many tries": {many, `Down 22 s · wrong upstream · restore-config of mediabox · verified
+0 s detected: mediabox is down: HTTP 502 (by a probe)
+2 s looked: Tier 1: mediabox answers 502
+8 s tried: Tier 2: rebuild-cache of mediabox: player healthy → down
+10 s undone: Undid rebuild-cache of mediabox: player down → healthy
+11 s tried: restart of mediabox
+11 s tried: restart of mediabox
+18 s repaired: Tier 3: restore-config of mediabox: mediabox down → healthy
+22 s verified: Our own probes find mediabox healthy`},
		"nobody was told": {open, `Down 1 min · mediabox: HTTP 502 · needs a person; nobody was told
+0 s detected: mediabox is down: HTTP 502 (by a probe)
+2 s looked: Tier 1: mediabox answers 502
+8 s tried: Tier 2: rebuild-cache of mediabox: player healthy → down
+10 s undone: Undid rebuild-cache of mediabox: player down → healthy
+21 s asked: A human is needed: Nobody was told: no notification target`},
		"did not hold": {refuted, `Down 1 min · mediabox: HTTP 502 · needs a person
+0 s detected: mediabox is down: HTTP 502 (by a probe)
+2 s looked: Tier 1: mediabox answers 502
+8 s tried: Tier 2: rebuild-cache of mediabox: player healthy → down
+10 s undone: Undid rebuild-cache of mediabox: player down → healthy
+18 s tried: Tier 3: restore-config of mediabox: mediabox down → healthy
+22 s verified: Our own probes find mediabox healthy
+50 s verified: The repair did not hold: the same check failed again`},
		"all well": {calm, `Everything is healthy
+0 s looked: Our own probes find everything healthy`},
		"by the agent's own hands": {guarded, `Down 1 min 54 s · web: HTTP 502 · set the port to 8090 · verified
+0 s detected: web is down: HTTP 502 (by a probe)
+3 s looked: Tier 1: web answers 502
+19 s asked: may Tier 2 start? approved by ada after 1 s
+24 s refused: The guard refused 1 call of Tier 2: it deletes data
+29 s tried: redeploy of web
+39 s undone: Undid redeploy of web
+1 min 49 s repaired: Tier 2: set the port to 8090
+1 min 54 s verified: Our own probes find web healthy`},
	} {
		got := postmortem.Tell(c.story, at(60))
		if got.Text() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got.Text(), c.want)
		}
		if len(got.Steps) > 8 {
			t.Errorf("%s: %d steps", name, len(got.Steps))
		}
	}
}

// Everything on record is evidence of a step, and the incident opens before the decision of the same moment.
func TestStepsHaveTheirEvidence(t *testing.T) {
	var all []string
	for _, step := range postmortem.Tell(demo(), at(60)).Steps {
		for _, e := range step.Evidence {
			all = append(all, string(e.Kind)+" "+e.Code)
		}
	}
	got := strings.Join(all, ",")
	want := "detected ,cycle ,session ,opened ,escalation ,session ,action box rebuild-cache,action ,session ,action box redeploy,probe ,cycle ,resolved "
	if got != want {
		t.Errorf("evidence is %s, want %s", got, want)
	}
}
