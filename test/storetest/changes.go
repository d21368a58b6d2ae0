package storetest

import (
	"testing"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func changeCases() []testCase {
	return []testCase{
		{"a look stores states and changes of its host", lookIsStored},
		{"changes are listed newest first, page by page", changesAreListed},
		{"what changed begins where a service was last healthy", changedSinceHealthy},
		{"what could not be seen is told while its host looks", unseenIsTold},
	}
}

func (f *Fixture) look(t *testing.T, host string, l ops.Look, at time.Time) {
	t.Helper()
	must(t, f.Store.Watch.RecordLook(t.Context(), "home", host, l, at))
}

func changed(service, text string, at, notBefore time.Time) ops.Change {
	return ops.Change{Kind: ops.ChangeContainer, Subject: "box", Service: service, Text: text, At: at, NotBefore: notBefore}
}

func texts(changes []ops.Change) []string {
	out := []string{}
	for _, c := range changes {
		out = append(out, c.Text)
	}
	return out
}

func lookIsStored(t *testing.T, f *Fixture) {
	web := ops.Resource{Kind: ops.ChangeContainer, Subject: "web", Service: "web", Parts: []ops.Part{{Name: "image", Value: "a"}}}
	db := ops.Resource{Kind: ops.ChangeContainer, Subject: "db", Unseen: "too slow"}
	f.look(t, "a", ops.Look{Resources: []ops.Resource{web, db}}, Start)
	f.look(t, "b", ops.Look{Resources: []ops.Resource{db}}, Start)
	web.Parts[0].Value = "b"
	c := changed("web", "image a → b", Start.Add(time.Minute), Start)
	f.look(t, "a", ops.Look{Resources: []ops.Resource{web}, Gone: []ops.Resource{db}, Changes: []ops.Change{c}}, Start.Add(time.Hour))
	got, err := f.Store.Watch.Resources(t.Context(), "home", "a")
	must(t, err)
	web.At = Start.Add(time.Hour)
	equal(t, "resources of a", got, []ops.Resource{web})
	got, err = f.Store.Watch.Resources(t.Context(), "home", "b")
	must(t, err)
	equal(t, "resources of b", len(got), 1)
	rows, err := f.Store.Watch.Changes(t.Context(), store.ChangeFilter{Environment: "home"})
	must(t, err)
	c.ID, c.Environment, c.Host, c.SeenAt = 1, "home", "a", Start.Add(time.Hour)
	equal(t, "changes", rows, []ops.Change{c})
	rows, err = f.Store.Watch.Changes(t.Context(), store.ChangeFilter{Environment: "office"})
	must(t, err)
	equal(t, "changes of another environment", len(rows), 0)
}

func changesAreListed(t *testing.T, f *Fixture) {
	at := func(minutes int) time.Time { return Start.Add(time.Duration(minutes) * time.Minute) }
	f.look(t, "a", ops.Look{Changes: []ops.Change{changed("web", "late", at(5), at(5)), changed("db", "of db", at(3), at(3))}}, at(6))
	f.look(t, "b", ops.Look{Changes: []ops.Change{changed("", "of all", at(1), at(1)), changed("web", "same", at(5), at(0))}}, at(7))
	list := func(filter store.ChangeFilter) []ops.Change {
		t.Helper()
		rows, err := f.Store.Watch.Changes(t.Context(), filter)
		must(t, err)
		return rows
	}
	all := list(store.ChangeFilter{})
	equal(t, "all", texts(all), []string{"same", "late", "of db", "of all"})
	equal(t, "the next page", texts(list(store.ChangeFilter{Before: all[1].ID, Limit: 1})), []string{"of db"})
	equal(t, "of a service", texts(list(store.ChangeFilter{Services: []string{"web"}})), []string{"same", "late", "of all"})
	equal(t, "since", texts(list(store.ChangeFilter{Since: at(2)})), []string{"same", "late", "of db"})
	equal(t, "until", texts(list(store.ChangeFilter{Until: at(3)})), []string{"same", "of db", "of all"})
}

func changedSinceHealthy(t *testing.T, f *Fixture) {
	opened := Start.Add(30 * time.Hour)
	before := func(d time.Duration) time.Time { return opened.Add(-d) }
	state, _ := health.Observe(ops.CheckState{}, look("web", ops.Down), health.Thresholds{FailAfter: 1}, Start)
	healthy, failing := look("web", ops.Healthy), look("web", ops.Down)
	healthy.At, failing.At = before(time.Hour), before(time.Minute)
	must(t, f.Store.Watch.RecordResults(t.Context(), "home", []ops.Check{healthy, failing}, nil, []ops.CheckState{state}, nil, nil))
	f.look(t, "a", ops.Look{Changes: []ops.Change{
		changed("web", "long before", before(2*time.Hour), before(2*time.Hour)),
		changed("web", "just before", before(time.Hour+ops.ChangeShows/2), before(time.Hour+ops.ChangeShows/2)),
		changed("db", "of what it needs", before(30*time.Minute), before(30*time.Minute)),
		changed("mail", "of another", before(20*time.Minute), before(20*time.Minute)),
		changed("", "of all", before(10*time.Minute), before(10*time.Minute)),
		changed("web", "seen after it", opened.Add(time.Second), before(4*time.Minute)),
		changed("web", "the repair", opened.Add(2*time.Second), opened.Add(2*time.Second)),
	}}, opened.Add(5*time.Second))
	what := func(services, needs []string, check string) ops.WhatChanged {
		t.Helper()
		got, err := f.Store.Watch.WhatChanged(t.Context(), "home", services, needs, check, opened)
		must(t, err)
		return got
	}
	for _, check := range []string{"", "GET", "unknown"} {
		got := what([]string{"web"}, []string{"web", "db"}, check)
		equal(t, "since", got.Since.Equal(healthy.At), true)
		equal(t, "what changed", texts(got.Changes), []string{"seen after it", "of all", "of what it needs", "just before"})
	}
	// A service that nobody saw healthy is looked at for a day.
	got := what([]string{"mail"}, nil, "")
	equal(t, "since a day", got.Since.Equal(before(24*time.Hour)), true)
	equal(t, "of another", texts(got.Changes), []string{"of all", "of another"})
	equal(t, "without a service", len(what(nil, nil, "").Changes), 6)
	var many []ops.Change
	for range 2 * ops.ChangeLines {
		many = append(many, changed("web", "again", before(time.Minute), before(time.Minute)))
	}
	f.look(t, "a", ops.Look{Changes: many}, opened)
	got = what([]string{"web"}, nil, "")
	equal(t, "at most", len(got.Changes), ops.ChangeLines)
	equal(t, "more", got.More, true)
}

func unseenIsTold(t *testing.T, f *Fixture) {
	resource := func(kind ops.ChangeKind, subject, why string) ops.Resource {
		return ops.Resource{Kind: kind, Subject: subject, Unseen: why}
	}
	now := f.Store.Clock()
	f.look(t, "b", ops.Look{Resources: []ops.Resource{resource(ops.ChangeUnit, "web.service", "refused"), resource(ops.ChangeBoot, "", "")}}, now)
	f.look(t, "a", ops.Look{Resources: []ops.Resource{resource(ops.ChangePackage, "", "no log")}}, now)
	f.look(t, "gone", ops.Look{Resources: []ops.Resource{resource(ops.ChangePackage, "", "no log")}}, now.Add(-24*time.Hour))
	got, err := f.Store.Watch.WhatChanged(t.Context(), "home", nil, nil, "", now)
	must(t, err)
	equal(t, "not seen", got.Unseen, []string{"packages, a: no log", "unit web.service, b: refused"})
}

func oldChangesGo(t *testing.T, f *Fixture) {
	f.look(t, "a", ops.Look{Changes: []ops.Change{changed("web", "old", Start, Start)}}, Start)
	f.look(t, "a", ops.Look{Changes: []ops.Change{changed("web", "new", Start, Start)}}, Start.Add(2*aDay))
	f.removeAll(t, forADay(), Start.Add(2*aDay+time.Hour))
	got, err := f.Store.Watch.Changes(t.Context(), store.ChangeFilter{})
	must(t, err)
	equal(t, "kept", texts(got), []string{"new"})
}
