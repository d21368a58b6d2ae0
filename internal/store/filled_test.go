package store_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// rowsOfALife is what an installation holds after a while: one ended chain, one cycle that runs, and a row in every table.
func rowsOfALife() []string {
	const at, end = `'2026-03-14T11:00:00.000000Z'`, `'2026-03-14T11:10:00.000000Z'`
	return []string{
		`INSERT INTO hosts (host, identity, version, term, registered_at, seen_at) VALUES ('host-a', 'x', '1', 4, ` + at + `, ` + at + `)`,
		`INSERT INTO cycles (environment, "trigger", status, reason, verified, policy, created_at, started_at, ended_at)
			VALUES ('home', 'manual', 'resolved', 'all is well', TRUE,
			'{"max_tier":3,"max_depth":2,"entry":"tier1","handlers":[{"id":"tier1","tier":1,"agent":"claude"}]}', ` + at + `, ` + at + `, ` +
			end + `)`,
		`INSERT INTO cycles (environment, "trigger", status, policy, owner, term, created_at, started_at) VALUES ('home', 'scheduled', 'running',
			'{"max_tier":3,"max_depth":2}', 'host-a', 4, ` + end + `, ` + end + `)`,
		`INSERT INTO sessions (cycle_id, environment, attempt, tier, permissions, handler, model, key, status, outcome, context_mode,
			budget_usd, cost_usd, num_turns, duration_ms, transcript_seq, transcript_lines, transcript_bytes, created_at, started_at, ended_at,
			handoff_json) VALUES (1, 'home', 1, 1, 1, 'tier1', 'haiku', 'k1', 'completed', 'escalate', 'fresh', 1.5, 0.25, 3, 1000, 3, 3, 11,
			` + at + `, ` + at + `, ` + end + `, '{"schema_version":1}')`,
		`INSERT INTO sessions (cycle_id, environment, parent_session_id, attempt, tier, permissions, handler, model, key, status, outcome,
			context_mode, created_at, started_at, ended_at)
			VALUES (1, 'home', 1, 1, 2, 2, 'tier2', 'sonnet', 'k2', 'completed', 'resolved', 'handoff', ` + at + `, ` + at + `, ` + end + `)`,
		`INSERT INTO sessions (cycle_id, environment, attempt, tier, permissions, handler, key, status, context_mode, created_at)
			VALUES (2, 'home', 1, 1, 1, 'tier1', 'k3', 'queued', 'fresh', ` + end + `)`,
		`INSERT INTO transcript (session_id, seq, at, line) VALUES (1, 1, ` + at + `, 'one'), (1, 2, ` + at + `, 'two')`,
		`INSERT INTO escalations (cycle_id, session_id, source_handler, target_handler, reason, depth, max_depth, target_validated,
			self_escalation_rejected, process_mode,
			manager_present, path, decision, at) VALUES (1, 1, 'tier1', 'tier2', 'why', 1, 2, TRUE, TRUE, 'typed_handoff', FALSE,
			'["tier1","tier2"]', 'escalate', ` + at + `)`,
		`INSERT INTO recoveries (cycle_id, session_id, tier, level, action, error_type, entered_at, reason)
			VALUES (1, 1, 1, 1, 'retry', 'network', ` + at + `, 'again')`,
		`INSERT INTO events (at, cycle_id, session_id, environment, level, kind, service, message) VALUES (` + at +
			`, 1, 1, 'home', 'warning', 'escalation', 'web', 'goes up')`,
		`INSERT INTO notifications (cycle_id, kind, level, title, body, status, next_at, created_at)
			VALUES (1, 'needs_human', 'critical', 'come', 'please', 'sent', ` + at + `, ` + at + `)`,
		`INSERT INTO checks (at, environment, cycle_id, after_session_id, purpose, service, probe, type, status) VALUES (` + end +
			`, 'home', 1, 2, 'verify', 'web', 'http', 'http', 'healthy')`,
		`INSERT INTO checks (at, environment, purpose, service, probe, type, status) VALUES (` + at +
			`, 'home', 'observe', 'web', 'http', 'http', 'down')`,
		`INSERT INTO verifications (cycle_id, session_id, judge_session_id, verdict, confidence, total_score, at)
			VALUES (1, 2, 2, 'PASS', 0.9, 88, ` + end + `)`,
		`INSERT INTO approvals (cycle_id, session_id, tier, handler, status, requested_at) VALUES (1, 1, 2, 'tier2', 'approved', ` + at + `)`,
		`INSERT INTO incidents (environment, service, title, level, status, first_cycle_id, last_cycle_id, opened_at, updated_at)
			VALUES ('home', 'web', 'web is down', 'critical', 'open', 1, 1, ` + at + `, ` + at + `)`,
		`INSERT INTO incidents (environment, service, title, level, status, opened_at, updated_at, resolved_at)
			VALUES ('home', 'db', 'db was down', 'critical', 'resolved', ` + at + `, ` + at + `, ` + end + `)`,
		`INSERT INTO guard_decisions (at, cycle_id, session_id, tier, gate, tool, verdict, mutating, input) VALUES (` + at +
			`, 1, 2, 2, 'hook', 'Bash', 'allow', TRUE, 'docker restart web')`,
		`INSERT INTO cooldown_actions (environment, service, action, cycle_id, session_id, status, counts, reserved_at)
			VALUES ('home', 'web', 'restart', 1, 2, 'reserved', TRUE, ` + at + `)`,
		`INSERT INTO memories (environment, category, service, observation, confidence, session_id, created_at, updated_at)
			VALUES ('home', 'timing', 'web', 'starts slowly', 0.5, 1, ` + at + `, ` + at + `)`,
		`INSERT INTO silences (environment, service, reason, created_by, created_at, starts_at, ends_at)
			VALUES ('home', 'db', 'new disk', 'ada', ` + at + `, ` + at + `, ` + end + `)`,
		`UPDATE approvals SET environment = 'home'`,
		`UPDATE incidents SET fingerprint = 'home|web|http|down', "check" = 'http', class = 'down', report = '{"title":"web is down"}'
			WHERE id = 1`,
		`INSERT INTO incident_waits (incident_id, cycle_id) VALUES (1, 2)`,
		`INSERT INTO approvals (cycle_id, session_id, tier, handler, status, requested_at, kind, environment)
			VALUES (2, 3, 2, 'tier2', 'denied', ` + at + `, 'review', 'home')`,
		`INSERT INTO check_days (at, environment, service, status, checks) VALUES ('2026-03-13', 'home', 'web', 'healthy', 24)`,
		`INSERT INTO check_hours (at, environment, service, status, checks) VALUES ('2026-03-13T10', 'home', 'web', 'healthy', 2)`,
		`UPDATE cycles SET request_key = 'key-1' WHERE id = 1`,
		`INSERT INTO logins (digest, role, name, token_id, born_at, renewed_at, expires_at) VALUES ('d', 'admin', 'token phone', 1, ` + at +
			`, ` + at + `, '2036-03-14T11:00:00.000000Z')`,
		`INSERT INTO alerts (environment, source, fingerprint, status, level, name, service, starts_at, first_at, last_at, pending)
			VALUES ('home', 'generic', 'f', 'firing', 'critical', 'Down', 'web', ` + at + `, ` + at + `, ` + at + `, FALSE)`,
		`INSERT INTO causes (cause, environment, services, level, reason, began, at, cycle_id)
			VALUES ('web', 'home', '["web"]', 'critical', 'it is down', ` + at + `, ` + at + `, 1)`,
		`INSERT INTO withheld (environment, service, why, reason) VALUES ('home', 'db', 'silenced', 'by ada')`,
		`UPDATE notifications SET environment = 'home', service = 'web', dedup_key = 'k'`,
		`INSERT INTO incident_cycles (incident_id, cycle_id) VALUES (1, 1) ON CONFLICT DO NOTHING`,
		`INSERT INTO webhook_receipts (signature, expires_at) VALUES ('s', '2036-03-14T11:00:00.000000Z')`,
		`INSERT INTO action_runs (environment, service, action, kind, tier, cycle_id, session_id, status, requested_at, started_at)
			VALUES ('home', 'web', 'restart', 'restart', 2, 1, 2, 'started', ` + at + `, ` + at + `)`,
		`INSERT INTO action_runs (environment, service, action, kind, tier, undo_of, status, requested_at)
			VALUES ('home', 'web', 'restart', 'restart', 2, 1, 'requested', ` + at + `)`,
		`INSERT INTO repo_commits (host, repo, commit_id, origin, at) VALUES ('host-a', '/srv/r', 'c1', 'operator', ` + at + `)`,
		`INSERT INTO agent_trials VALUES ('host-a', 'claude', '/bin/claude 1 2', '/bin/claude', '2.1.325', TRUE, 'refused', 'refused', ` + at + `)`,
		`INSERT INTO cost_days VALUES ('2026-03-14', 'home', 1, 'haiku', 'manual', '', 1, 250000000, 1, 0, 0, 0, 0, 0, 0, 0, 0)`,
		`INSERT INTO cost_days VALUES ('2026-03-14', 'home', 2, 'sonnet', 'manual', '', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)`,
		`INSERT INTO cycle_cost_days VALUES ('2026-03-14', 250000000, 1, 'home')`,
		`INSERT INTO transcript (session_id, seq, at, line) VALUES (1, 3, '2026-03-14T10:00:00.000000Z', 'three')`,
		`INSERT INTO answer_codes (code, token, expires_at) VALUES ('c', 't', '2036-03-14T11:00:00.000000Z')`,
		`INSERT INTO used_answers (code, source, at, answered_by, expires_at) VALUES ('c', 'telegram/1/2', ` + at + `, 'alice',
			'2036-03-14T11:00:00.000000Z')`,
		`UPDATE notifications SET incident_id = 1 WHERE id = 1`,
		`INSERT INTO access_tokens (name, role, digest, created_at, created_by) VALUES ('phone', 'responder', 'd', ` + at + `, 'ada')`,
		`INSERT INTO steps (cycle_id, n, at, "row", facts) VALUES (1, 1, ` + at + `, 'nothing ran', '{"at":"2026-03-14T11:00:00Z","step":{}}')`,
		`INSERT INTO door_codes (digest, who, expires_at) VALUES ('d', 'ada', '2036-03-14T11:00:00.000000Z')`,
		`INSERT INTO trust (environment, service, level, changed_by, reason, changed_at) VALUES ('home', 'web', 'ask', 'ada', 'x', ` + at + `)`,
		`INSERT INTO repairs (environment, service, probe, type, status, class, actions, cycle_id, at)
			VALUES ('home', 'web', 'GET', 'http', 'down', '5xx', '["restart"]', 1, ` + at + `)`,
		`INSERT INTO reflexes (environment, service, probe, type, status, class, actions, digests, state, cycles, asked_at, changed_at)
			VALUES ('home', 'web', 'GET', 'http', 'down', '5xx', '["restart"]', '["d"]', 'on', '[1]', ` + at + `, ` + at + `)`,
		`INSERT INTO heartbeats (environment, service, probe, digest, since, ended_at, output, seq)
			VALUES ('home', 'backup', 'heartbeat', 'd', ` + at + `, ` + at + `, 'done', 1)`,
		`INSERT INTO changes (at, happened_at, not_before, environment, host, kind, subject, service, message)
			VALUES (` + at + `, ` + at + `, ` + at + `, 'home', 'a', 'container', 'jellyfin', 'jellyfin', 'started again')`,
		`INSERT INTO resources (environment, host, kind, subject, service, parts, unseen, at)
			VALUES ('home', 'a', 'container', 'jellyfin', 'jellyfin', '[]', '', ` + at + `)`,
		`INSERT INTO updates (environment, service, phase, wanted, person, image_before, image_after, kept, touches, states, result, owner, asked_at, phase_at)
			VALUES ('home', 'web', 'kept', '', 'ada', '{}', '{}', '', '[]', '[]', '', 'a', ` + at + `, ` + at + `)`,
		`INSERT INTO versions (environment, service, image, newest, unknown, at) VALUES ('home', 'web', '{}', '', '', ` + at + `)`,
	}
}

// filled is a file with these rows.
func filled(t *testing.T) string {
	t.Helper()
	path := newFile(t)
	db := raw(t, path)
	runAll(t, db, rowsOfALife())
	succeeds(t, db.Close())
	return path
}

// runAll runs statements in one transaction.
func runAll(t *testing.T, db *sql.DB, statements []string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	succeeds(t, err)
	for _, statement := range statements {
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	succeeds(t, tx.Commit())
}

// tableCounts counts the rows of every table.
func tableCounts(t *testing.T, db *sql.DB) map[string]int64 {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'`)
	succeeds(t, err)
	defer func() { _ = rows.Close() }()
	var names []string
	for rows.Next() {
		var name string
		succeeds(t, rows.Scan(&name))
		names = append(names, name)
	}
	succeeds(t, rows.Err())
	out := map[string]int64{}
	for _, name := range names {
		var n int64
		succeeds(t, db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM `+name).Scan(&n))
		out[name] = n
	}
	return out
}

// readEverything asks what the pages ask; each of it must give something.
func readEverything(t *testing.T, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	day := 24 * time.Hour
	since, until := storetest.Start.Add(-2*day), storetest.Start.Add(day)
	for what, read := range map[string]func() (int, error){
		"chains":        func() (int, error) { v, err := s.Reports.Chains(ctx, store.ChainFilter{}); return len(v.Chains), err },
		"cycles":        func() (int, error) { v, err := s.Reports.Cycles(ctx, store.CycleFilter{}); return len(v), err },
		"sessions":      func() (int, error) { v, err := s.Reports.Sessions(ctx, store.SessionFilter{}); return len(v), err },
		"chain":         func() (int, error) { v, err := s.Journal.Chain(ctx, 1); return len(v) - 1, err },
		"transcript":    func() (int, error) { v, err := s.Journal.Transcript(ctx, 1, 0, 10); return len(v) - 1, err },
		"events":        func() (int, error) { v, err := s.Journal.Events(ctx, store.EventFilter{}); return len(v), err },
		"incidents":     func() (int, error) { v, err := s.People.Incidents(ctx, store.IncidentFilter{}); return len(v) - 1, err },
		"approvals":     func() (int, error) { v, err := s.People.Approvals(ctx, store.ApprovalFilter{}); return len(v), err },
		"notices":       func() (int, error) { v, err := s.People.NoticeList(ctx, store.NoticeFilter{}); return len(v), err },
		"memories":      func() (int, error) { v, err := s.People.Memories(ctx, store.MemoryFilter{}); return len(v), err },
		"silences":      func() (int, error) { v, err := s.Watch.SilencesSince(ctx, "home", since); return len(v), err },
		"guard":         func() (int, error) { v, err := s.Acts.GuardDecisions(ctx, 2); return len(v), err },
		"recoveries":    func() (int, error) { v, err := s.Journal.Recoveries(ctx, 1); return len(v), err },
		"verifications": func() (int, error) { v, err := s.Journal.Verifications(ctx, 1); return len(v), err },
		"decisions":     func() (int, error) { v, err := s.Journal.Decisions(ctx, 1); return len(v), err },
		"checks":        func() (int, error) { v, err := s.Watch.LatestChecks(ctx, ""); return len(v), err },
		"health": func() (int, error) {
			v, err := s.Reports.Health(ctx, store.HealthFilter{Since: since, Until: until, Bucket: day})
			return len(v), err
		},
		"health by the hour": func() (int, error) {
			v, err := s.Reports.Health(ctx, store.HealthFilter{Since: since, Until: until, Bucket: time.Hour})
			return len(v), err
		},
		"costs": func() (int, error) {
			v, err := s.Reports.Costs(ctx, store.CostByTier, store.CostFilter{Since: since, Until: until})
			return len(v), err
		},
		"hosts":      func() (int, error) { v, err := s.Journal.Hosts(ctx); return len(v), err },
		"unfinished": func() (int, error) { v, err := s.Journal.Unfinished(ctx); return len(v), err },
		"pulse":      func() (int, error) { _, err := s.Reports.PageState(ctx); return 1, err },
		"attention":  func() (int, error) { v, err := s.Reports.Attention(ctx, storetest.Start); return v.NeedYou(), err },
		"standing":   func() (int, error) { _, err := s.Reports.Gauges(ctx, []string{"home"}); return 1, err },
		"removed":    func() (int, error) { _, err := s.Journal.Removed(ctx, 1); return 1, err },
	} {
		if n, err := read(); err != nil || n < 1 {
			t.Errorf("%s: %d found, %v", what, n, err)
		}
	}
	goesOn(t, s)
}

// goesOn takes up the cycle that runs.
func goesOn(t *testing.T, s *store.Store) {
	t.Helper()
	f := storetest.NewFixture(t, s)
	claimed, err := s.Journal.Claim(t.Context(), f.Owner, 2, storetest.Policy(), storetest.Start)
	succeeds(t, err)
	if got := claimed.Journal.Last(); got == nil || got.Status != ops.SessionQueued {
		t.Fatalf("claimed %+v", claimed)
	}
	if err := f.Start(t, claimed.Journal.Last().ID, "planned", storetest.Start); err != nil {
		t.Error(err)
	}
	for _, what := range ops.Records() {
		keep := ops.Retention{
			Transcripts: time.Hour, Checks: time.Hour, Hours: time.Hour, Events: time.Hour, Guard: time.Hour,
			Notices: time.Hour, Alerts: time.Hour,
		}
		if _, _, err := s.Journal.RemoveOld(t.Context(), what, keep, storetest.Start.Add(365*24*time.Hour)); err != nil {
			t.Error(err)
		}
	}
	sound(t, s)
}

// A table without a row would be copied and upgraded untested.
func TestThereIsARowInEveryTable(t *testing.T) {
	for table, n := range tableCounts(t, raw(t, filled(t))) {
		// Of these a row is made while a process runs.
		if n == 0 && !strings.Contains(" store_state probe_states duties ", " "+table+" ") {
			t.Errorf("there is no row of %s", table)
		}
	}
}
