package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// Checks that were recorded before health was counted by the hour are counted when the database is migrated.
func TestOldChecksAreCountedOnMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claudeops.db")
	db := raw(t, path)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("migrations"), goose.WithDisableGlobalRegistry(true))
	succeeds(t, err)
	if _, err := p.UpTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"10:00:00", "healthy"}, {"10:59:59", "down"}, {"11:00:00", "healthy"}, {"11:30:00", "healthy"}} {
		run(t, db, `INSERT INTO checks (at, environment, purpose, service, probe, type, status)
			VALUES (?, 'home', 'observe', 'web', 'tcp', 'service', ?)`, "2026-03-14T"+c[0]+".000000Z", c[1])
	}
	succeeds(t, db.Close())
	s := openFile(t, path)
	err = s.AddChecks(t.Context(), []ops.Check{{
		At: storetest.Start.Add(-10 * time.Minute), Environment: "home", Purpose: ops.ProbeObserve, Service: "web", Probe: "tcp",
		Type: ops.CheckService, Status: ops.Degraded,
	}})
	succeeds(t, err)
	found, err := s.Health(t.Context(), store.HealthFilter{
		Since: storetest.Start.Add(-2 * time.Hour), Until: storetest.Start,
		Bucket: time.Hour,
	})
	if err != nil || len(found) != 1 || len(found[0].Buckets) != 2 {
		t.Fatalf("health is %+v, %v", found, err)
	}
	if got := found[0].Buckets[0]; got.Healthy != 1 || got.Down != 1 || got.Worst() != ops.Down {
		t.Errorf("ten o'clock is %+v", got)
	}
	if got := found[0].Buckets[1]; got.Healthy != 2 || got.Degraded != 1 || got.Worst() != ops.Degraded {
		t.Errorf("eleven o'clock is %+v", got)
	}
}

// A claimed repair that nothing confirms is open, but needs nobody: it is counted in a word of its own, and listed by it.
func TestAnUnverifiedIncidentIsCountedInItsOwnWord(t *testing.T) {
	path := storetest.NewFile(t)
	s, err := store.Open(t.Context(), store.Options{Path: path, Clock: func() time.Time { return storetest.Start }})
	succeeds(t, err)
	t.Cleanup(func() { _ = s.Close() })
	f := storetest.NewFixture(t, s)
	cycle := f.Claim(t, "home").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: cycle, At: storetest.Start, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman,
		Incident: &ops.IncidentReport{Title: "no answer", Level: ops.LevelCritical, Class: "down", Services: []string{"a", "b"}},
	}})
	run(t, raw(t, path), `UPDATE incidents SET status = 'unverified' WHERE service = 'a'`)
	counts, err := s.Attention(t.Context(), storetest.Start)
	if err != nil || counts != (store.Attention{Open: 1, Unverified: 1}) || counts.NeedYou() != 1 {
		t.Errorf("counted are %+v, %v", counts, err)
	}
	page, err := s.PageState(t.Context())
	if err != nil || page.Incidents != 1 || page.Unverified != 1 {
		t.Errorf("pages count %+v, %v", page, err)
	}
	for filter, want := range map[store.IncidentFilter]string{{NeedsYou: true}: "b", {Status: ops.IncidentUnverified}: "a"} {
		found, err := s.Incidents(t.Context(), filter)
		if err != nil || len(found) != 1 || found[0].Service != want {
			t.Errorf("%+v lists %+v, %v", filter, found, err)
		}
	}
}
