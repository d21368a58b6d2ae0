package storetest

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func updateCases() []testCase {
	return []testCase{
		{"an update holds what it touches, and tells its end", updateIsHeld},
		{"only one update runs at a time", oneUpdateAtATime},
		{"the schedule asks once for each of its times, and a person says yes", scheduleAsksOnce},
		{"an update that cannot be taken back is an incident", stuckUpdateIsAnIncident},
		{"a phase is written once, by the host that still works", updateIsFenced},
		{"what was seen of an image is remembered", versionsAreKept},
	}
}

func (f *Fixture) askUpdate(t *testing.T, service, person string) ops.Update {
	t.Helper()
	u, err := f.Store.Acts.AskUpdate(t.Context(), ops.Update{Environment: "home", Service: service, Person: person}, f.At)
	must(t, err)
	return u
}

func (f *Fixture) advance(t *testing.T, u ops.Update, to ops.UpdatePhase) ops.Update {
	t.Helper()
	from := u.Phase
	f.At = f.At.Add(time.Minute)
	u.Phase, u.PhaseAt = to, f.At
	must(t, f.Store.Acts.AdvanceUpdate(t.Context(), f.Owner, u, from, 10*time.Minute))
	u, err := f.Store.Acts.Update(t.Context(), u.ID)
	must(t, err)
	return u
}

func (f *Fixture) changed(t *testing.T, service string) ops.Update {
	t.Helper()
	u := f.advance(t, f.askUpdate(t, service, "ada"), ops.UpdatePulling)
	u.Before, u.After = ops.Image{Ref: "web:1", Digest: "sha256:a", ID: "a"}, ops.Image{Ref: "web:1", Digest: "sha256:b", ID: "b"}
	u.Kept, u.Touches, u.States = "kept/web:1", []string{service, "shop"}, []ops.ServiceHealth{{Service: service, Status: ops.Healthy}}
	return f.advance(t, f.advance(t, u, ops.UpdateTagged), ops.UpdateRecreating)
}

func (f *Fixture) silenced(t *testing.T) []string {
	t.Helper()
	all, err := f.Store.Watch.Silences(t.Context(), store.SilenceFilter{Environment: "home", Active: f.At})
	must(t, err)
	var out []string
	for _, q := range all {
		out = append(out, q.Service+": "+q.Reason)
	}
	return out
}

func updateIsHeld(t *testing.T, f *Fixture) {
	u := f.changed(t, "web")
	equal(t, "images", u.Before.ID+u.After.ID+u.States[0].Service, "abweb")
	equal(t, "silences", strings.Join(f.silenced(t), ", "), "shop: update 1 of web, web: update 1 of web")
	u.Owner = "" // whoever advances it owns it
	u = f.advance(t, u, ops.UpdateWatching)
	equal(t, "host", u.Owner, Host)
	u.Result = "nothing was worse"
	u = f.advance(t, u, ops.UpdateKept)
	equal(t, "ended", u.EndedAt != nil, true)
	equal(t, "host", u.Owner, Host)
	equal(t, "silences after it", len(f.silenced(t)), 0)
	told, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 5})
	must(t, err)
	equal(t, "notices", len(told), 1)
	for _, want := range []string{"Before: web:1 (sha256:a)", "After: web:1 (sha256:b)"} {
		if !strings.Contains(told[0].Body, want) {
			t.Errorf("%q does not say %q", told[0].Body, want)
		}
	}
}

func oneUpdateAtATime(t *testing.T, f *Fixture) {
	first, second := f.askUpdate(t, "web", "ada"), f.askUpdate(t, "db", "ada")
	_, err := f.Store.Acts.AskUpdate(t.Context(), ops.Update{Environment: "home", Service: "web", Person: "bob"}, f.At)
	wantErr(t, err, ops.ErrConflict)
	first = f.advance(t, first, ops.UpdatePulling)
	second.Phase = ops.UpdatePulling
	wantErr(t, f.Store.Acts.AdvanceUpdate(t.Context(), f.Owner, second, ops.UpdateAsked, 0), ops.ErrConflict)
	f.advance(t, first, ops.UpdateRefused)
	second.Phase = ops.UpdateAsked
	f.advance(t, second, ops.UpdatePulling)
}

func scheduleAsksOnce(t *testing.T, f *Fixture) {
	slot := f.At
	scheduled := ops.Update{Environment: "home", Service: "web", Slot: &slot}
	u, err := f.Store.Acts.AskUpdate(t.Context(), scheduled, f.At)
	must(t, err)
	u = f.advance(t, u, ops.UpdateWaiting)
	_, err = f.Store.Acts.AskUpdate(t.Context(), scheduled, f.At)
	wantErr(t, err, ops.ErrConflict)
	yes := f.askUpdate(t, "web", "ada")
	equal(t, "the same", yes.ID, u.ID)
	equal(t, "asked", yes.Phase, ops.UpdateAsked)
	f.advance(t, yes, ops.UpdateRefused)
	_, err = f.Store.Acts.AskUpdate(t.Context(), scheduled, f.At)
	wantErr(t, err, ops.ErrConflict)
}

func stuckUpdateIsAnIncident(t *testing.T, f *Fixture) {
	u := f.advance(t, f.changed(t, "web"), ops.UpdateGoingBack)
	u.Result = "it answers 500; with the old image, too"
	f.advance(t, u, ops.UpdateStuck)
	open, err := f.Store.People.Incidents(t.Context(), store.IncidentFilter{NeedsYou: true})
	must(t, err)
	equal(t, "incidents", len(open), 1)
	report, err := open[0].Known()
	must(t, err)
	equal(t, "report", report.Seen, u.Result)
	equal(t, "silences", len(f.silenced(t)), 0)
	told, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 5})
	must(t, err)
	equal(t, "notices", len(told), 1)
	equal(t, "of the incident", told[0].Incident, open[0].ID)
	// It is over when probes find the service healthy.
	n, err := f.Store.Watch.ServiceRecovered(t.Context(), "home", "web", Start, "healthy again", f.At.Add(time.Minute))
	must(t, err)
	equal(t, "closed", n, 1)
}

func updateIsFenced(t *testing.T, f *Fixture) {
	u := f.askUpdate(t, "web", "ada")
	f.advance(t, u, ops.UpdatePulling)
	u.Phase = ops.UpdateRefused
	wantErr(t, f.Store.Acts.AdvanceUpdate(t.Context(), f.Owner, u, ops.UpdateAsked, 0), ops.ErrConflict)
	old := f.Owner
	_, err := f.Store.Journal.RegisterHost(t.Context(), Host)
	must(t, err)
	wantErr(t, f.Store.Acts.AdvanceUpdate(t.Context(), old, u, ops.UpdatePulling, 0), ops.ErrFenced)
}

func versionsAreKept(t *testing.T, f *Fixture) {
	v := ops.Version{Environment: "home", Service: "web", Image: ops.Image{Ref: "web:1", ID: "a"}, Unknown: "no registry", At: f.At}
	must(t, f.Store.Acts.SeeVersion(t.Context(), v))
	v.Unknown, v.Newest, v.At = "", "sha256:b", f.At.Add(time.Hour)
	must(t, f.Store.Acts.SeeVersion(t.Context(), v))
	got, err := f.Store.Acts.Versions(t.Context(), "home")
	must(t, err)
	equal(t, "versions", got, []ops.Version{v})
}
