package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func dryRunCases() []testCase {
	return []testCase{
		{"a dry run keeps its incident, whichever check finds it", dryRunKeepsIncident},
		{"a dry run is told once, a later call is reminded of", dryRunIsNotReminded},
		{"a dry run that the watch started knows what was told", dryRunKnowsWhatWasTold},
		{"the end of what several cycles found is told once", endIsToldOnce},
	}
}

// dry reports a service in a dry run, found by a check.
func (f *Fixture) dry(t *testing.T, found ops.CheckType) ops.Incident {
	t.Helper()
	policy := Policy()
	policy.Approval.Remind, policy.Approval.Reminds = time.Hour, 3
	claimed, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	r := report("web")
	r.DryRun, r.Checks = found != "", nil
	if found != "" {
		r.Checks = []ops.CheckResult{{Service: "web", CheckType: found, Status: ops.Down}}
	}
	opened := f.open(t, claimed.Cycle.ID, r)
	f.EndCycle(t, claimed.Cycle.ID)
	equal(t, "open incidents", len(opened), 1)
	return opened[0]
}

func dryRunKeepsIncident(t *testing.T, f *Fixture) {
	first := f.dry(t, ops.CheckHTTP)
	for n, found := range []ops.CheckType{ops.CheckContainer, ops.CheckDNS, ops.CheckHTTP} {
		next := f.dry(t, found)
		equal(t, "incident", next.ID, first.ID)
		equal(t, "check", next.Check, string(ops.CheckHTTP))
		equal(t, "occurrences", next.Occurrences, n+2)
	}
}

func dryRunIsNotReminded(t *testing.T, f *Fixture) {
	told := f.dry(t, ops.CheckHTTP)
	equal(t, "told", told.CalledAt != nil, true)
	equal(t, "reminder", told.RemindAt, nil)
	f.At = Start.Add(time.Minute)
	equal(t, "reminder of a repeat", f.dry(t, ops.CheckHTTP).RemindAt, nil)
	claimed, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), func() ops.Policy {
		p := Policy()
		p.Approval.Remind = time.Hour
		return p
	}(), f.At)
	must(t, err)
	called := f.open(t, claimed.Cycle.ID, report("web"))
	equal(t, "the same incident", called[0].ID, told.ID)
	equal(t, "reminder of a call", called[0].RemindAt, ops.Ptr(f.At.Add(time.Hour)))
}

func endIsToldOnce(t *testing.T, f *Fixture) {
	c, _ := f.openCause(t, cause("web"), nil)
	for _, id := range []ops.CycleID{c.Cycle, f.Submit(t, "home")} { // the cycle of the cause, and a later one that finds the same
		_, err := f.Store.Claim(t.Context(), f.Owner, id, Policy(), f.At)
		must(t, err)
		f.open(t, id, report("web"))
		f.EndCycle(t, id)
	}
	over := func() int {
		t.Helper()
		all, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{Limit: 10})
		must(t, err)
		n := 0
		for _, one := range all {
			if one.Kind == ops.NoticeResolved {
				n++
			}
		}
		return n
	}
	_, err := f.Store.ServiceRecovered(t.Context(), "home", "web", Start.Add(-time.Hour), "web recovered", Start.Add(time.Minute))
	must(t, err)
	equal(t, "told by the service", over(), 1)
	must(t, f.Store.ResolveCause(t.Context(), c, "web recovered", ending("web has recovered"), Start.Add(time.Minute)))
	equal(t, "told by the cause", over(), 1)
}

func dryRunKnowsWhatWasTold(t *testing.T, f *Fixture) {
	notice := func() *ops.Notice {
		return &ops.Notice{Kind: ops.NoticeOpened, Level: ops.LevelCritical, Title: "web is down", Key: "opened:k"}
	}
	told := func(id ops.CycleID, dry bool) []string {
		t.Helper()
		policy := Policy()
		policy.DryRun = dry
		claimed, err := f.Store.Claim(t.Context(), f.Owner, id, policy, f.At)
		must(t, err)
		return claimed.Journal.Told
	}
	c := cause("web")
	c.Affected = []string{"shop"}
	first, _ := f.openCause(t, c, notice())
	equal(t, "told", told(first.Cycle, true), []string{"web", "shop"})
	f.EndCycle(t, first.Cycle)

	again, _ := f.openCause(t, c, notice())
	equal(t, "a notice that is not sent again tells nobody", told(again.Cycle, true), nil)
	f.EndCycle(t, again.Cycle)

	f.At = Start.Add(24 * time.Hour)
	c.At = f.At
	for _, tt := range []struct {
		name   string
		status ops.NoticeStatus
		dry    bool
		want   []string
	}{
		{"sent", ops.NoticeSent, true, []string{"web", "shop"}},
		{"to nobody", ops.NoticeSkipped, true, nil},
		{"in vain", ops.NoticeDead, true, nil},
		{"nobody asks", ops.NoticeSent, false, nil},
	} {
		n := notice()
		n.Key += tt.name
		next, _ := f.openCause(t, c, n)
		all, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{Limit: 1})
		must(t, err)
		all[0].Status = tt.status
		must(t, f.Store.SettleNotice(t.Context(), all[0], nil))
		equal(t, tt.name, told(next.Cycle, tt.dry), tt.want)
		f.EndCycle(t, next.Cycle)
	}
}
