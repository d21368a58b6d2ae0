package store_test

import (
	"fmt"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func addAudits(t *testing.T, s *store.Store, n int) (ids []int64) {
	t.Helper()
	for i := range n {
		id, err := s.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Kind: ops.EventAudit, Message: fmt.Sprintf("ann did %d", i)})
		succeeds(t, err)
		ids = append(ids, id)
	}
	return ids
}

func TestAChangedAuditRecordIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change string // of the rows with the ids 1 to 5
		broken int64
		says   string
	}{
		"another text":         {`UPDATE events SET message = 'bob did it' WHERE id = 3`, 3, "was changed"},
		"another time":         {`UPDATE events SET at = '2020-01-01T00:00:00.000000Z' WHERE id = 3`, 3, "was changed"},
		"another level":        {`UPDATE events SET level = 'warning' WHERE id = 2`, 2, "was changed"},
		"no longer an audit":   {`UPDATE events SET kind = 'agent' WHERE id = 2`, 2, "was changed"},
		"one is removed":       {`DELETE FROM events WHERE id = 3`, 4, "missing"},
		"the first is removed": {`DELETE FROM events WHERE id = 1`, 2, "missing"},
		"the last is removed":  {`DELETE FROM events WHERE id = 5`, 5, "newest records are missing"},
		"all are removed":      {`DELETE FROM events`, 5, "newest records are missing"},
		"one is added": {
			`INSERT INTO events (id, at, level, kind, message) VALUES (9, '2026-01-01T00:00:00.000000Z', 'info', 'audit', 'eve')`, 9, "without a hash",
		},
		"the hash is removed":  {`UPDATE events SET hash = NULL, previous_hash = NULL WHERE id = 4`, 4, "without a hash"},
		"the end is not known": {`DELETE FROM audit_chain WHERE name = 'head'`, 5, "end of the chain was removed"},
		"two are exchanged":    {`UPDATE events SET id = CASE id WHEN 2 THEN -3 ELSE -2 END WHERE id IN (2, 3); UPDATE events SET id = -id WHERE id < 0`, 2, "does not follow"},
	} {
		t.Run(name, func(t *testing.T) {
			path := newFile(t)
			s := openFile(t, path)
			addAudits(t, s, 5)
			if got, err := s.VerifyAudit(t.Context(), store.AuditMark{}); err != nil || got.Problem != "" || got.Records != 5 || len(got.Hash) != 64 {
				t.Fatalf("before: %+v, %v", got, err)
			}
			run(t, raw(t, path), c.change)
			got, err := s.VerifyAudit(t.Context(), store.AuditMark{})
			if err != nil || got.BrokenID != c.broken || !strings.Contains(got.Problem, c.says) {
				t.Errorf("%+v, %v; want record %d and %q", got, err, c.broken, c.says)
			}
		})
	}
}

func TestAnUpgradedInstallationBeginsItsChain(t *testing.T) {
	path := installation(t, 20)
	run(t, raw(t, path), `INSERT INTO events (at, level, kind, message) VALUES ('2026-03-14T11:00:00.000000Z', 'info', 'audit', 'before')`)
	s := openFile(t, path)
	ids := addAudits(t, s, 3)
	got, err := s.VerifyAudit(t.Context(), store.AuditMark{})
	if err != nil || got.Problem != "" || got.Records != 3 || got.FirstID != ids[0] {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestANotedRecordMustBeInTheChain(t *testing.T) {
	path := newFile(t)
	s := openFile(t, path)
	addAudits(t, s, 3)
	early, err := s.VerifyAudit(t.Context(), store.AuditMark{})
	succeeds(t, err)
	addAudits(t, s, 2)
	ask := func(m store.AuditMark) store.AuditReport {
		t.Helper()
		got, err := s.VerifyAudit(t.Context(), m)
		succeeds(t, err)
		return got
	}
	for _, m := range []store.AuditMark{{Hash: early.Hash}, {Hash: early.Hash, ID: 3}} {
		if got := ask(m); got.Problem != "" || got.Records != 5 {
			t.Errorf("%+v: %+v", m, got)
		}
	}
	if got := ask(store.AuditMark{Hash: early.Hash, ID: 2}); got.BrokenID != 2 || !strings.Contains(got.Problem, "written again") {
		t.Errorf("%+v", got)
	}
	if got := ask(store.AuditMark{Hash: strings.Repeat("0", 64)}); !strings.Contains(got.Problem, "no record of the chain") {
		t.Errorf("%+v", got)
	}
	// Somebody removes everything and writes a chain that is whole again.
	run(t, raw(t, path), `DELETE FROM events; DELETE FROM audit_chain`)
	if got := ask(store.AuditMark{}); got.Problem != "" {
		t.Errorf("%+v", got)
	}
	if _, err := s.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Kind: ops.EventAudit, Message: "eve did nothing"}); err != nil {
		t.Fatal(err)
	}
	addAudits(t, s, 3)
	if got := ask(store.AuditMark{}); got.Problem != "" || got.Records != 4 {
		t.Errorf("%+v", got)
	}
	for _, m := range []store.AuditMark{{Hash: early.Hash}, {Hash: early.Hash, ID: 3}} {
		if got := ask(m); got.Problem == "" {
			t.Errorf("a new chain passes for the old one: %+v", got)
		}
	}
	// Retention removed the noted record.
	run(t, raw(t, path), `UPDATE audit_chain SET event_id = 8, hash = (SELECT hash FROM events WHERE id = 8) WHERE name = 'anchor';
		INSERT INTO audit_chain (name, event_id, hash) SELECT 'anchor', id, hash FROM events WHERE id = 8 ON CONFLICT DO NOTHING; DELETE FROM events WHERE id <= 8`)
	if got := ask(store.AuditMark{Hash: early.Hash, ID: 3}); !strings.Contains(got.Problem, "removed by retention") {
		t.Errorf("%+v", got)
	}
}
