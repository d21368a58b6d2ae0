package store_test

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// A claimed repair that nothing confirms is open, but needs nobody: it is counted in a word of its own, and listed by it.
func TestAnUnverifiedIncidentIsCountedInItsOwnWord(t *testing.T) {
	path := storetest.NewFile(t)
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: path, Clock: func() time.Time { return storetest.Start }}))
	succeeds(t, err)
	t.Cleanup(func() { _ = s.Close() })
	f := storetest.NewFixture(t, s)
	cycle := f.Claim(t, "home").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: cycle, At: storetest.Start, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman,
		Incident: &ops.IncidentReport{Title: "no answer", Level: ops.LevelCritical, Class: "down", Services: []string{"a", "b"}},
	}})
	run(t, raw(t, path), `UPDATE incidents SET status = 'unverified' WHERE service = 'a'`)
	counts, err := s.Reports.Attention(t.Context(), storetest.Start)
	if err != nil || counts != (store.Attention{Open: 1, Unverified: 1}) || counts.NeedYou() != 1 {
		t.Errorf("counted are %+v, %v", counts, err)
	}
	page, err := s.Reports.PageState(t.Context())
	if err != nil || page.Incidents != 1 || page.Unverified != 1 {
		t.Errorf("pages count %+v, %v", page, err)
	}
	for filter, want := range map[store.IncidentFilter]string{{NeedsYou: true}: "b", {Status: ops.IncidentUnverified}: "a"} {
		found, err := s.People.Incidents(t.Context(), filter)
		if err != nil || len(found) != 1 || found[0].Service != want {
			t.Errorf("%+v lists %+v, %v", filter, found, err)
		}
	}
}
