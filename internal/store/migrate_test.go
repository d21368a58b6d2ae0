package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// firstRelease is a database as the first release left it, with a row in every table that has changed since.
func firstRelease(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claudeops.db")
	db := raw(t, path)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("migrations"), goose.WithDisableGlobalRegistry(true))
	succeeds(t, err)
	if _, err := p.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, insert := range []string{
		`INSERT INTO hosts (host, term, registered_at) VALUES ('host-a', 4, '2026-03-14T11:00:00.000000Z')`,
		`INSERT INTO cycles (environment, "trigger", status, reason, policy, created_at, started_at, ended_at) VALUES ('home', 'manual',
			'resolved', 'all is well', '{"max_tier":3}', '2026-03-14T11:00:00.000000Z', '2026-03-14T11:00:00.000000Z',
			'2026-03-14T11:10:00.000000Z')`,
		`INSERT INTO cycles (environment, "trigger", status, policy, owner, term, created_at, started_at) VALUES ('home', 'manual',
			'running', '{"max_tier":3,"max_depth":2}', 'host-a', 4, '2026-03-14T11:30:00.000000Z', '2026-03-14T11:30:00.000000Z')`,
		`INSERT INTO sessions (cycle_id, environment, attempt, tier, handler, key, status, context_mode, cost_usd, created_at, ended_at)
			VALUES (1, 'home', 1, 2, 'tier2', 'k1', 'completed', 'fresh', 0.25, '2026-03-14T11:00:00.000000Z', '2026-03-14T11:10:00.000000Z')`,
		`INSERT INTO sessions (cycle_id, environment, attempt, tier, handler, key, status, context_mode, created_at)
			VALUES (2, 'home', 1, 1, 'tier1', 'k2', 'queued', 'fresh', '2026-03-14T11:30:00.000000Z')`,
		`INSERT INTO escalations (cycle_id, session_id, source_handler, target_handler, reason, depth, max_depth, target_validated,
			self_escalation_rejected, process_mode, manager_present, path, decision, at)
			VALUES (1, 1, 'tier2', 'tier3', 'why', 1, 2, TRUE, FALSE, 'typed_handoff', FALSE, '["tier2"]', 'refused',
			'2026-03-14T11:10:00.000000Z')`,
		`INSERT INTO recoveries (cycle_id, session_id, tier, level, action, error_type, entered_at, reason)
			VALUES (1, 1, 2, 1, 'retry', 'network', '2026-03-14T11:05:00.000000Z', 'again')`,
		`INSERT INTO approvals (cycle_id, session_id, tier, handler, status, requested_at)
			VALUES (1, 1, 2, 'tier2', 'approved', '2026-03-14T11:05:00.000000Z')`,
		`INSERT INTO incidents (environment, service, title, level, status, opened_at, updated_at)
			VALUES ('home', 'web', 'web is down', 'critical', 'open', '2026-03-14T11:00:00.000000Z', '2026-03-14T11:00:00.000000Z')`,
		`INSERT INTO incidents (environment, service, title, level, status, opened_at, updated_at)
			VALUES ('home', 'db', 'db is down', 'critical', 'open', '2026-03-14T11:00:00.000000Z', '2026-03-14T11:00:00.000000Z')`,
		`INSERT INTO memories (environment, category, service, observation, created_at, updated_at)
			VALUES ('home', 'timing', 'web', 'starts slowly', '2026-03-14T11:00:00.000000Z', '2026-03-14T11:00:00.000000Z')`,
	} {
		run(t, db, insert)
	}
	succeeds(t, db.Close())
	return path
}

func TestDatabaseOfTheFirstReleaseIsMigratedWithItsRows(t *testing.T) {
	path := firstRelease(t)
	if _, err := store.OpenReadOnly(t.Context(), store.Options{Path: path}); !errors.Is(err, store.ErrOlder) {
		t.Errorf("read-only before: error is %v, want %v", err, store.ErrOlder)
	}
	s := openFile(t, path)
	succeeds(t, s.QuickCheck(t.Context()))
	old, err := s.Load(t.Context(), 1)
	succeeds(t, err)
	j := old.Journal
	if len(j.Sessions) != 1 || len(j.Decisions) != 1 || len(j.Recoveries) != 1 || len(j.Approvals) != 1 || len(j.Incidents) != 2 {
		t.Fatalf("journal is %+v", j)
	}
	if got := j.Sessions[0]; got.Role != ops.RoleWork || got.Permissions != ops.Tier2 || *got.CostUSD != 0.25 || got.BudgetUSD != nil {
		t.Errorf("session is %+v", got)
	}
	if got := j.Decisions[0]; got.Reason != "why" || got.Services != nil {
		t.Errorf("decision is %+v", got)
	}
	if got := j.Recoveries[0]; got.Action != "retry" || got.Variant != 0 {
		t.Errorf("recovery is %+v", got)
	}
	if got := j.Approvals[0]; got.Kind != ops.ApprovalTier || got.Status != ops.ApprovalApproved {
		t.Errorf("approval is %+v", got)
	}
	known, err := s.Recall(t.Context(), "home", []string{"web"}, storetest.Start, 0)
	if err != nil || len(known) != 1 || known[0].Source != "agent" || known[0].Confidence != 0.5 {
		t.Errorf("recalled %+v, %v", known, err)
	}

	// The cycle that ran goes on.
	f := storetest.NewFixture(t, s)
	claimed, err := s.Claim(t.Context(), f.Owner, 2, storetest.Policy(), storetest.Start)
	succeeds(t, err)
	if claimed.Journal.Spend.DayUSD != 0.25 || claimed.Journal.Last() == nil {
		t.Errorf("claimed %+v", claimed)
	}
	if err := f.Start(t, claimed.Journal.Last().ID, "planned", storetest.Start); err != nil {
		t.Error(err)
	}
	if _, err := s.ResolveIncident(t.Context(), 1, "alice", "new disk", storetest.Start.Add(time.Minute)); err != nil {
		t.Error(err)
	}
}
