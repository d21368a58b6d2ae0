package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func healthCases() []testCase {
	return []testCase{
		{"each bucket tells its worst finding", bucketsTellTheWorst},
		{"days begin at midnight UTC", bucketsOfDays},
		{"uptime is the share of checks that were not down", uptimeIsAShare},
		{"a bucket is of whole hours or days", oddBucketIsRefused},
		{"what waits for people is counted once", attentionIsCounted},
		{"an incident has a history", incidentHasHistory},
		{"incidents are filtered by their status", incidentsByStatus},
		{"events are filtered by what they are about", eventsByKindAndService},
	}
}

func (f *Fixture) check(t *testing.T, environment, service string, status ops.Health, at time.Time) {
	t.Helper()
	must(t, f.Store.Watch.AddChecks(t.Context(), []ops.Check{{
		At: at, Environment: environment, Purpose: ops.ProbeObserve, Service: service, Probe: "tcp", Type: ops.CheckService, Status: status,
	}}))
}

// drawn is one line per service: a letter per bucket, the worst of it.
func (f *Fixture) drawn(t *testing.T, filter store.HealthFilter) string {
	t.Helper()
	found, err := f.Store.Reports.Health(t.Context(), filter)
	must(t, err)
	var lines []string
	for _, h := range found {
		line := h.Environment + "/" + h.Service + " "
		for _, b := range h.Buckets {
			line += map[ops.Health]string{"": ".", ops.Healthy: "h", ops.Degraded: "g", ops.Down: "D"}[b.Worst()]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func bucketsTellTheWorst(t *testing.T, f *Fixture) {
	filter := store.HealthFilter{Since: Start.Add(-4 * time.Hour), Until: Start, Bucket: time.Hour}
	equal(t, "none", f.drawn(t, filter), "")
	for _, c := range []struct {
		environment, service string
		status               ops.Health
		before               time.Duration
	}{
		{"home", "web", ops.Healthy, 4 * time.Hour},
		{"home", "web", ops.Healthy, 3*time.Hour - time.Minute},
		{"home", "web", ops.Degraded, 3*time.Hour - 2*time.Minute},
		{"home", "web", ops.Healthy, 3*time.Hour - 3*time.Minute},
		{"home", "web", ops.Down, 2*time.Hour - time.Microsecond},
		{"home", "web", ops.Degraded, time.Hour + time.Microsecond},
		{"home", "web", ops.Down, 4*time.Hour + time.Microsecond}, // before the time
		{"home", "web", ops.Down, 0},                              // after it
		{"home", "db", ops.Healthy, time.Minute},
		{"office", "web", ops.Down, time.Minute},
	} {
		f.check(t, c.environment, c.service, c.status, Start.Add(-c.before))
	}
	equal(t, "all", f.drawn(t, filter), "home/db ...h\nhome/web hgD.\noffice/web ...D")
	filter.Environment = "office"
	equal(t, "office", f.drawn(t, filter), "office/web ...D")
	filter.Environment, filter.Until = "", Start.Add(time.Minute)
	equal(t, "widened", f.drawn(t, filter), "home/db ...h.\nhome/web hgD.D\noffice/web ...D.")
	filter.Bucket = 2 * time.Hour
	equal(t, "two hours", f.drawn(t, filter), "home/db .h.\nhome/web gDD\noffice/web .D.")
}

func bucketsOfDays(t *testing.T, f *Fixture) {
	f.check(t, "home", "web", ops.Down, day(0).Add(-time.Microsecond))
	f.check(t, "home", "web", ops.Healthy, day(0))
	f.check(t, "home", "web", ops.Degraded, Start)
	filter := store.HealthFilter{Since: day(-2).Add(time.Hour), Until: Start, Bucket: 24 * time.Hour}
	equal(t, "days", f.drawn(t, filter), "home/web .Dg")
	found, err := f.Store.Reports.Health(t.Context(), filter)
	must(t, err)
	equal(t, "today", found[0].Buckets[2], store.HealthBucket{From: day(0), Until: day(1), Healthy: 1, Degraded: 1})
}

func uptimeIsAShare(t *testing.T, f *Fixture) {
	for n, status := range []ops.Health{ops.Healthy, ops.Degraded, ops.Healthy, ops.Down} {
		f.check(t, "home", "web", status, Start.Add(-time.Duration(n)*time.Minute))
	}
	found, err := f.Store.Reports.Health(t.Context(), store.HealthFilter{Since: day(0), Until: Start.Add(time.Second), Bucket: time.Hour})
	must(t, err)
	share, known := found[0].Uptime()
	if share != 0.75 || !known {
		t.Errorf("uptime is %v (known %t)", share, known)
	}
	if _, known := (store.ServiceHealth{}).Uptime(); known {
		t.Error("without a check the uptime is known")
	}
}

func oddBucketIsRefused(t *testing.T, f *Fixture) {
	for _, bucket := range []time.Duration{0, -time.Hour, 90 * time.Minute, 25 * time.Hour, 36 * time.Hour} {
		if _, err := f.Store.Reports.Health(t.Context(), store.HealthFilter{Since: day(0), Until: Start, Bucket: bucket}); err == nil {
			t.Errorf("a bucket of %s was accepted", bucket)
		}
	}
}

func (f *Fixture) attention(t *testing.T, at time.Time) store.Attention {
	t.Helper()
	a, err := f.Store.Reports.Attention(t.Context(), at)
	must(t, err)
	if at.Equal(Start) { // the clock of the store
		listed, err := f.Store.People.Incidents(t.Context(), store.IncidentFilter{NeedsYou: true})
		must(t, err)
		equal(t, "as many are listed as are counted", len(listed), a.Open)
		page, err := f.Store.Reports.PageState(t.Context())
		must(t, err)
		equal(t, "and as pages count", page.Incidents, a.Open)
	}
	return a
}

func attentionIsCounted(t *testing.T, f *Fixture) {
	equal(t, "none", f.attention(t, Start), store.Attention{})
	waits := report("web")
	waits.Waits = true
	f.await(t, "home", ops.Step{Approval: question(), Incident: &waits})
	equal(t, "asked", f.attention(t, Start), store.Attention{Approvals: 1})
	open, taken, later, over := f.incident(t, "office", "a"), f.incident(t, "office", "b"), f.incident(t, "office", "c"),
		f.incident(t, "office", "d")
	_, err := f.Store.People.Acknowledge(t.Context(), taken.ID, "alice", "", Start)
	must(t, err)
	_, err = f.Store.People.Snooze(t.Context(), later.ID, "alice", Start.Add(time.Hour), "", Start)
	must(t, err)
	_, err = f.Store.People.ResolveIncident(t.Context(), over.ID, "alice", "", Start)
	must(t, err)
	got := f.attention(t, Start)
	equal(t, "all", got, store.Attention{Approvals: 1, Open: 1, Acknowledged: 1, Snoozed: 1})
	equal(t, "need you", got.NeedYou(), 2)
	equal(t, "snooze over", f.attention(t, Start.Add(time.Hour)), store.Attention{Approvals: 1, Open: 2, Acknowledged: 1})
	approvals, err := f.Store.People.Approvals(t.Context(), store.ApprovalFilter{Status: ops.ApprovalPending})
	must(t, err)
	_, err = f.Store.People.Answer(t.Context(), approvals[0].ID, ops.ApprovalDenied, "alice", "no", Start)
	must(t, err)
	equal(t, "answered", f.attention(t, Start), store.Attention{Open: 2, Acknowledged: 1, Snoozed: 1})
	equal(t, "still open", open.Status, ops.IncidentOpen)
}

func incidentHasHistory(t *testing.T, f *Fixture) {
	first := f.incident(t, "home", "web")
	other := f.incident(t, "home", "db")
	for n := range 9 { // so that ids share their beginning
		f.incident(t, "home", fmt.Sprintf("other-%d", n))
	}
	f.incident(t, "home", "web")
	_, err := f.Store.People.Acknowledge(t.Context(), first.ID, "alice", "on it", Start)
	must(t, err)
	_, err = f.Store.People.Acknowledge(t.Context(), other.ID, "bob", fmt.Sprintf("same as incident %d (web)", first.ID), Start)
	must(t, err)
	eleventh, err := f.Store.People.Incident(t.Context(), 11)
	must(t, err)
	_, err = f.Store.People.ResolveIncident(t.Context(), eleventh.ID, "carol", "", Start)
	must(t, err)
	seen, err := f.Store.People.Incident(t.Context(), first.ID)
	must(t, err)
	got, err := f.Store.Reports.IncidentHistory(t.Context(), seen)
	must(t, err)
	if len(got) != 1 || got[0].Verb != ops.VerbIncidentAcknowledged || got[0].Actor != ops.Person("alice") || got[0].Reason != "on it" {
		t.Errorf("history is %+v", got)
	}
	story, err := f.Store.Reports.IncidentStory(t.Context(), first.ID)
	must(t, err)
	equal(t, "events of the report", story.Events, got)
	_, err = f.Store.People.ResolveIncident(t.Context(), first.ID, "alice", "new disk", Start)
	must(t, err)
	got, err = f.Store.Reports.IncidentHistory(t.Context(), seen)
	must(t, err)
	if len(got) != 2 || got[1].Reason != "new disk" {
		t.Errorf("history is %+v", got)
	}
}

func incidentsByStatus(t *testing.T, f *Fixture) {
	a, b := f.incident(t, "home", "a"), f.incident(t, "home", "b")
	_, err := f.Store.People.Acknowledge(t.Context(), a.ID, "alice", "", Start)
	must(t, err)
	for status, want := range map[ops.IncidentStatus][]int64{
		ops.IncidentAcknowledged: {a.ID}, ops.IncidentOpen: {b.ID}, ops.IncidentResolved: {}, "": {b.ID, a.ID},
	} {
		got, err := f.Store.People.Incidents(t.Context(), store.IncidentFilter{Status: status})
		must(t, err)
		equal(t, string(status), ids(got, func(i ops.Incident) int64 { return i.ID }), want)
	}
}

func eventsByKindAndService(t *testing.T, f *Fixture) {
	var all []int64
	for _, e := range []ops.Event{
		{Verb: ops.VerbProbeFailed, Service: "web", Environment: "home"},
		{Verb: ops.VerbProbeFailed, Service: "db", Environment: "home"},
		{Verb: ops.VerbCycleResolved, Service: "web", Environment: "office"},
	} {
		e.Level = ops.LevelInfo
		id, err := f.Store.Journal.AddEvent(t.Context(), e)
		must(t, err)
		all = append(all, id)
	}
	for _, tt := range []struct {
		name   string
		filter store.EventFilter
		want   []int64
	}{
		{"kind", store.EventFilter{Kind: "probe"}, []int64{all[1], all[0]}},
		{"service", store.EventFilter{Service: "web"}, []int64{all[2], all[0]}},
		{"environment", store.EventFilter{Environment: "office"}, []int64{all[2]}},
		{"all", store.EventFilter{Kind: "probe", Service: "web", Environment: "home"}, []int64{all[0]}},
		{"none", store.EventFilter{Kind: "cycle", Service: "db"}, []int64{}},
	} {
		got, err := f.Store.Journal.Events(t.Context(), tt.filter)
		must(t, err)
		equal(t, tt.name, eventIDs(got), tt.want)
	}
}
