package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func totalsCases() []testCase {
	return []testCase{
		{"sessions are added up by kind within a stretch of time", sessionsAreAddedUp},
		{"escalations are counted by both tiers", escalationsAreCounted},
		{"ends of cycles are told one by one", endsAreTold},
		{"feeds are counted from where one left off", feedsAreCounted},
		{"what stands is read at once", standingIsRead},
	}
}

func sessionsAreAddedUp(t *testing.T, f *Fixture) {
	end := func(cost *float64, turns *int64, ms int64, at time.Time) {
		session := f.RunningSession(t, "home")
		ended := f.Ended(session, 0)
		ended.CostUSD, ended.NumTurns, ended.DurationMS, ended.EndedAt = cost, turns, &ms, &at
		ended.InputTokens = ops.Ptr[int64](1 << 40)
		f.Commit(t, ops.Transition{
			Cycle: session.CycleID, At: at, Result: ops.Result{Session: &ended},
			Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved},
		})
	}
	end(ops.Ptr(9.0), nil, 1, Start)
	end(ops.Ptr(0.25), ops.Ptr[int64](3), 1_000, Start.Add(time.Minute))
	end(nil, nil, 2_500, Start.Add(2*time.Minute))
	end(ops.Ptr(0.5), ops.Ptr[int64](8), 60_000, Start.Add(3*time.Minute))
	end(ops.Ptr(9.0), nil, 1, Start.Add(4*time.Minute))
	got, err := f.Store.SessionTotals(t.Context(), store.Span{After: Start, Until: Start.Add(3 * time.Minute)}, []int64{1_000, 5_000},
		[]int64{5})
	must(t, err)
	equal(t, "totals", got, []store.Totals{{
		Tier: ops.Tier1, Model: "haiku", Trigger: ops.TriggerManual, Outcome: string(ops.OutcomeEscalate),
		Sessions: 3, CostUSD: 0.75, InputTokens: 3 << 40,
		Durations: store.Distribution{Count: 3, Sum: 63_500, Below: []int64{1, 2}},
		Turns:     store.Distribution{Count: 2, Sum: 11, Below: []int64{1}},
	}})
}

func escalationsAreCounted(t *testing.T, f *Fixture) {
	for _, environment := range []string{"home", "office"} {
		session := f.RunningSession(t, environment)
		second := *f.Commit(t, f.Escalation(session, 1)).Journal.Last()
		must(t, f.Start(t, second.ID, "planned", f.At))
		f.Commit(t, f.Escalation(second, 1))
	}
	got, err := f.Store.EscalationTotals(t.Context(), store.Span{After: Start.Add(-time.Hour)})
	must(t, err)
	equal(t, "escalations", got, []store.Count{{Words: []string{"1", "2"}, Rows: 2}})
}

func endsAreTold(t *testing.T, f *Fixture) {
	first, err := f.Store.FirstEnd(t.Context())
	must(t, err)
	equal(t, "before any end", first, time.Time{})
	f.spend(t, "home", nil, Start.Add(2*time.Minute))
	f.spend(t, "home", nil, Start.Add(time.Minute))
	f.spend(t, "home", nil, Start.Add(3*time.Minute))
	first, err = f.Store.FirstEnd(t.Context())
	must(t, err)
	equal(t, "first end", first, Start.Add(time.Minute))
	var got []time.Time
	must(t, f.Store.CycleEnds(t.Context(), store.Span{After: Start.Add(time.Minute), Until: Start.Add(3 * time.Minute)},
		func(e store.CycleEnd) {
			equal(t, "status", e.Status, ops.CycleResolved)
			got = append(got, e.EndedAt)
		}))
	slices.SortFunc(got, time.Time.Compare)
	equal(t, "ends", got, []time.Time{Start.Add(2 * time.Minute), Start.Add(3 * time.Minute)})
}

func feedsAreCounted(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.hook(t, session, "toolu_1")
	_, _, marks, err := f.Store.FeedTotals(t.Context(), store.Marks{})
	must(t, err)
	f.hook(t, session, "toolu_2")
	f.hook(t, session, "toolu_3")
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At, Step: ops.Step{Kind: ops.StepRest, Recovery: &ops.Recovery{
		SessionID: session.ID, Tier: ops.Tier1, Level: 1, ErrorType: "network", Reason: "again",
	}}})
	guard, recoveries, now, err := f.Store.FeedTotals(t.Context(), marks)
	must(t, err)
	equal(t, "judgements", guard, []store.Count{{Words: []string{"2", "allow", "R4"}, Rows: 2}})
	equal(t, "recoveries", recoveries, []store.Count{{Words: []string{"1", "network"}, Rows: 1}})
	guard, recoveries, again, err := f.Store.FeedTotals(t.Context(), now)
	must(t, err)
	equal(t, "nothing new", len(guard)+len(recoveries), 0)
	equal(t, "marks", again, now)
}

func standingIsRead(t *testing.T, f *Fixture) {
	f.RunningSession(t, "home")
	f.spend(t, "office", nil, Start.Add(time.Minute))
	waiting := f.Claim(t, "garden").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: waiting, At: f.At, Step: ops.Step{
		Kind: ops.StepAwait, Reason: "asks", Approval: &ops.Approval{Tier: ops.Tier2, Handler: "tier2"},
		Incident: &ops.IncidentReport{Title: "It is down", Level: ops.LevelCritical, Services: []string{"web"}},
	}})
	pending, err := f.Store.Approvals(t.Context(), store.ApprovalFilter{})
	must(t, err)
	got, err := f.Store.Gauges(t.Context(), []string{"home", "office"})
	must(t, err)
	equal(t, "pending", got.PendingApprovals, int64(1))
	equal(t, "running", got.Running, []store.Count{{Words: []string{"1"}, Rows: 1}})
	equal(t, "incidents", got.OpenIncidents, []store.Count{{Words: []string{"critical"}, Rows: 1}})
	equal(t, "last successes", got.LastSuccess, map[string]time.Time{"office": Start.Add(time.Minute)})
	_, err = f.Store.Answer(t.Context(), pending[0].ID, ops.ApprovalApproved, "ann", strings.Repeat("x", 10), f.At.Add(time.Minute))
	must(t, err)
	got, err = f.Store.Gauges(t.Context(), nil)
	must(t, err)
	equal(t, "pending", got.PendingApprovals, int64(0))
	equal(t, "waits", got.ApprovalWaits, []time.Duration{time.Minute})
}
