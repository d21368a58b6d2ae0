package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func answerCases() []testCase {
	return []testCase{
		{"an acknowledgement counts once", acknowledgementCountsOnce},
		{"a snooze has an end", snoozeHasAnEnd},
		{"an acknowledged incident may be snoozed", acknowledgedMayBeSnoozed},
		{"resolving beats everything", resolvingBeatsEverything},
		{"of many resolutions at once exactly one counts", oneResolutionCounts},
		{"each answer is told", eachAnswerIsTold},
		{"an incident that is not there has no answer", unknownIncident},
	}
}

func acknowledgementCountsOnce(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	at := Start.Add(time.Minute)
	got, err := f.Store.Acknowledge(t.Context(), i.ID, "alice", "on it", at)
	must(t, err)
	want := i
	want.Status, want.AcknowledgedAt, want.AcknowledgedBy, want.UpdatedAt = ops.IncidentAcknowledged, &at, "alice", at
	equal(t, "incident", got, want)
	if !got.Holds(at.Add(1000 * time.Hour)) {
		t.Error("an acknowledged incident does not hold")
	}
	_, err = f.Store.Acknowledge(t.Context(), i.ID, "bob", "", at.Add(time.Minute))
	wantErr(t, err, ops.ErrConflict)
	wantParts(t, err.Error(), "alice", "acknowledged", "2026-03-14T12:01:00Z")
	// A repeat leaves it acknowledged.
	equal(t, "after a repeat", f.incident(t, "home", "web").Status, ops.IncidentAcknowledged)
}

func snoozeHasAnEnd(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	until := Start.Add(time.Hour)
	got, err := f.Store.Snooze(t.Context(), i.ID, "alice", until, "tomorrow", Start)
	must(t, err)
	equal(t, "status", got.Status, ops.IncidentSnoozed)
	equal(t, "until", got.SnoozedUntil, &until)
	if !got.Holds(until.Add(-time.Second)) || got.Holds(until) {
		t.Error("the snooze does not hold until its end")
	}
	equal(t, "a repeat before", f.incident(t, "home", "web").Status, ops.IncidentSnoozed)
	f.At = until
	equal(t, "a repeat after", f.incident(t, "home", "web").Status, ops.IncidentOpen)
	later := until.Add(time.Hour)
	got, err = f.Store.Snooze(t.Context(), i.ID, "bob", later, "", until)
	must(t, err)
	equal(t, "again", got.SnoozedUntil, &later)
}

func acknowledgedMayBeSnoozed(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	_, err := f.Store.Acknowledge(t.Context(), i.ID, "alice", "", Start)
	must(t, err)
	got, err := f.Store.Snooze(t.Context(), i.ID, "bob", Start.Add(time.Hour), "", Start)
	must(t, err)
	equal(t, "status", got.Status, ops.IncidentSnoozed)
	got, err = f.Store.Acknowledge(t.Context(), i.ID, "carol", "", Start.Add(time.Minute))
	must(t, err)
	equal(t, "who", got.AcknowledgedBy, "carol")
	if got.SnoozedUntil != nil {
		t.Errorf("it is snoozed until %s", got.SnoozedUntil)
	}
}

func resolvingBeatsEverything(t *testing.T, f *Fixture) {
	answers := map[string]func(id int64) error{
		"open": func(int64) error { return nil },
		"acknowledged": func(id int64) error {
			_, err := f.Store.Acknowledge(t.Context(), id, "bob", "", Start)
			return err
		},
		"snoozed": func(id int64) error {
			_, err := f.Store.Snooze(t.Context(), id, "bob", Start.Add(time.Hour), "", Start)
			return err
		},
	}
	for service, answer := range answers {
		i := f.incident(t, "home", service)
		must(t, answer(i.ID))
		got, err := f.Store.ResolveIncident(t.Context(), i.ID, "alice", "new disk", Start.Add(time.Minute))
		must(t, err)
		equal(t, "status", got.Status, ops.IncidentResolved)
		equal(t, "by", got.ResolvedBy, "alice")
		equal(t, "how", got.Resolution, "new disk")
		_, resolved := f.Store.ResolveIncident(t.Context(), i.ID, "bob", "", Start.Add(time.Hour))
		_, acknowledged := f.Store.Acknowledge(t.Context(), i.ID, "bob", "", Start.Add(time.Hour))
		_, snoozed := f.Store.Snooze(t.Context(), i.ID, "bob", Start.Add(2*time.Hour), "", Start.Add(time.Hour))
		for _, err := range []error{resolved, acknowledged, snoozed} {
			wantErr(t, err, ops.ErrConflict)
			wantParts(t, err.Error(), "alice", "resolved", "2026-03-14T12:01:00Z")
		}
		again, err := f.Store.Incident(t.Context(), i.ID)
		must(t, err)
		equal(t, "incident", again, got)
	}
}

func oneResolutionCounts(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	won := race(t, 20, ops.ErrConflict, func(int) error {
		_, err := f.Store.ResolveIncident(t.Context(), i.ID, "somebody", "", Start)
		return err
	})
	equal(t, "resolutions", won, 1)
}

func eachAnswerIsTold(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	_, err := f.Store.Acknowledge(t.Context(), i.ID, "alice", "on it", Start)
	must(t, err)
	_, err = f.Store.Snooze(t.Context(), i.ID, "bob", Start.Add(time.Hour), "the disk comes", Start)
	must(t, err)
	_, err = f.Store.ResolveIncident(t.Context(), i.ID, "carol", "new disk", Start)
	must(t, err)
	events, err := f.Store.Events(t.Context(), store.EventFilter{CycleID: &i.LastCycle})
	must(t, err)
	if len(events) != 3 {
		t.Fatalf("%d events", len(events))
	}
	for n, parts := range [][]string{
		{"carol", "resolved", "new disk"}, {"bob", "snoozed until 2026-03-14T13:00:00Z", "the disk comes"}, {"alice", "acknowledged", "on it"},
	} {
		wantParts(t, events[n].Message, parts...)
		equal(t, "kind", string(events[n].Kind)+events[n].Service+events[n].Environment, "incidentwebhome")
	}
}

func unknownIncident(t *testing.T, f *Fixture) {
	_, acknowledged := f.Store.Acknowledge(t.Context(), 999, "alice", "", Start)
	_, snoozed := f.Store.Snooze(t.Context(), 999, "alice", Start.Add(time.Hour), "", Start)
	_, resolved := f.Store.ResolveIncident(t.Context(), 999, "alice", "", Start)
	for _, err := range []error{acknowledged, snoozed, resolved} {
		wantErr(t, err, ops.ErrNotFound)
	}
}
