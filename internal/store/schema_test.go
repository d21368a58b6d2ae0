package store_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/storetest"
)

func TestEveryTableExists(t *testing.T) {
	db := raw(t, newFile(t))
	for table := range strings.FieldsSeq(`sessions cycles escalations recoveries transcript events verifications approvals incidents
		incident_waits incident_cycles notifications guard_decisions cooldown_actions checks memories silences hosts alerts webhook_receipts probe_states causes withheld action_runs
		repo_commits cost_days cycle_cost_days answer_codes used_answers access_tokens steps door_codes trust reflexes heartbeats changes resources updates versions agent_trials`) {
		if got := text(t, db, `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?`, table); got != "1" {
			t.Errorf("table %s is missing", table)
		}
	}
}

func TestDocumentedColumnsExist(t *testing.T) {
	db := raw(t, newFile(t))
	for table, columns := range map[string]string{
		"sessions": `id cycle_id parent_session_id retry_of_session_id attempt tier handler family agent model planned_session_id
			session_id status outcome outcome_json handoff_json failure error stop_cause context_mode recovery_level context_tokens walls
			context_window cost_usd num_turns duration_ms input_tokens output_tokens cache_read_tokens cache_write_tokens exit_code
			cli_version owner started_at ended_at role permissions budget_usd api_status retry_after_ms`,
		"cycles": `id environment trigger status reason policy prompt wake_at wake_seq cancel_requested_at owner term result
			created_at started_at ended_at`,
		"escalations": `cycle_id session_id source_handler target_handler reason depth max_depth target_validated
			self_escalation_rejected process_mode manager_present path decision policy at`,
		"recoveries": `cycle_id session_id tier level action error_type previous_levels entered_at not_before deadline reason variant handler`,
		"transcript": `session_id seq at line`,
		"events":     `level kind service message`,
		"approvals":  `cycle_id session_id environment kind tier handler status reason requested_at expires_at answered_at answered_by answer`,
		"incidents": `environment service check class fingerprint title level status occurrences report opened_at resolved_at resolved_by
			reminders remind_at`,
		"memories": `environment category service observation confidence source expires_at`,
	} {
		for column := range strings.FieldsSeq(columns) {
			if got := text(t, db, `SELECT COUNT(*) FROM pragma_table_info(?) WHERE name = ?`, table, column); got != "1" {
				t.Errorf("column %s.%s is missing", table, column)
			}
		}
	}
}

func TestScenario_ParentSessionIDColumnAdded(t *testing.T) {
	db := raw(t, newFile(t))
	if got := text(t, db, `SELECT type || ' ' || "notnull" FROM pragma_table_info('sessions')
		WHERE name = 'parent_session_id'`); got != "INTEGER 0" {
		t.Errorf("column is %s, want INTEGER that may be NULL", got)
	}
	if got := text(t, db, `SELECT "table" || '.' || "to" FROM pragma_foreign_key_list('sessions')
		WHERE "from" = 'parent_session_id'`); got != "sessions.id" {
		t.Errorf("column refers to %s, want sessions.id", got)
	}
}

func TestScenario_IndexOnParentSessionID(t *testing.T) {
	db := raw(t, newFile(t))
	for index, column := range map[string]string{"idx_sessions_parent": "parent_session_id", "idx_sessions_session_id": "session_id"} {
		if got := text(t, db, `SELECT COALESCE(MAX(name), '') FROM pragma_index_info(?)`, index); got != column {
			t.Errorf("%s covers %q, want %q", index, got, column)
		}
	}
}

// The database itself refuses a second running cycle, whoever writes it.
func TestSecondRunningCycleIsRefusedByAnIndex(t *testing.T) {
	path := newFile(t)
	f := storetest.NewFixture(t, openFile(t, path))
	f.Claim(t, "home")
	db := raw(t, path)
	const insert = `INSERT INTO cycles (environment, "trigger", status, created_at) VALUES (?, 'manual', ?, '2026-03-14T12:00:00.000000Z')`
	if _, err := db.ExecContext(t.Context(), insert, "home", "running"); err == nil || !strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("error is %v, want a broken unique index", err)
	}
	for _, row := range [][]any{{"home", "queued"}, {"home", "waiting_human"}, {"home", "waiting_human"}, {"office", "running"}} {
		run(t, db, insert, row...)
	}
}

// The database itself refuses a second open incident of a fingerprint and a second question of a cycle.
func TestOneOpenIncidentPerFingerprintAndOneQuestionPerCycle(t *testing.T) {
	path := newFile(t)
	f := storetest.NewFixture(t, openFile(t, path))
	f.Claim(t, "home")
	db := raw(t, path)
	const at = "2026-03-14T12:00:00.000000Z"
	const incident = `INSERT INTO incidents (environment, title, level, status, opened_at, updated_at, fingerprint, resolved_at)
		VALUES ('home', 't', 'info', 'open', '` + at + `', '` + at + `', ?, ?)`
	const approval = `INSERT INTO approvals (cycle_id, tier, handler, status, requested_at) VALUES (1, 2, 'tier2', ?, '` + at + `')`
	for _, tt := range []struct {
		query         string
		first, second []any
		refused       bool
	}{
		{incident, []any{"a", nil}, []any{"a", nil}, true},
		{incident, []any{"b", at}, []any{"b", nil}, false},
		{approval, []any{"pending"}, []any{"pending"}, true},
		{approval, []any{"denied"}, []any{"approved"}, false},
	} {
		run(t, db, tt.query, tt.first...)
		_, err := db.ExecContext(t.Context(), tt.query, tt.second...)
		if refused := err != nil && strings.Contains(err.Error(), "UNIQUE"); refused != tt.refused {
			t.Errorf("%v after %v: error is %v", tt.second, tt.first, err)
		}
	}
}

// threeTiers runs one cycle through all tiers; each session has its own figures.
func threeTiers(t *testing.T, f *storetest.Fixture) []ops.Session {
	t.Helper()
	tier1 := f.RunningSession(t, "home")
	tier2 := *f.Commit(t, f.Escalation(tier1, 1)).Journal.Last()
	second := f.Escalation(tier2, 1)
	second.Result.Session.Figures = ops.Figures{CostUSD: ops.Ptr(0.47), NumTurns: ops.Ptr[int64](12), DurationMS: ops.Ptr[int64](120_000)}
	return f.Commit(t, second).Journal.Sessions
}

func column(t *testing.T, db *sql.DB, query string, args ...any) []ops.SessionID {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	succeeds(t, err)
	defer func() { _ = rows.Close() }()
	var out []ops.SessionID
	for rows.Next() {
		var id ops.SessionID
		succeeds(t, rows.Scan(&id))
		out = append(out, id)
	}
	succeeds(t, rows.Err())
	return out
}

func TestFiguresNotReportedAreNull(t *testing.T) {
	wantFigures(t, ops.Tier3, "- - -")
}

// wantFigures reads cost, turns and duration of one tier of a chain from its row.
func wantFigures(t *testing.T, tier ops.Tier, want string) {
	t.Helper()
	path := newFile(t)
	threeTiers(t, storetest.NewFixture(t, openFile(t, path)))
	got := text(t, raw(t, path), `SELECT COALESCE(cost_usd, '-') || ' ' || COALESCE(num_turns, '-') || ' ' || COALESCE(duration_ms, '-')
		FROM sessions WHERE tier = ?`, tier)
	if got != want {
		t.Errorf("%s has %s, want %s", tier, got, want)
	}
}

func TestScenario_FullEscalationChainQueryable(t *testing.T) {
	path := newFile(t)
	f := storetest.NewFixture(t, openFile(t, path))
	f.RunningSession(t, "office") // another chain stays out of it
	chain := threeTiers(t, f)
	all := []ops.SessionID{chain[0].ID, chain[1].ID, chain[2].ID}
	for _, s := range chain {
		got, err := f.Store.Journal.Chain(t.Context(), s.ID)
		succeeds(t, err)
		var found []ops.SessionID
		for _, g := range got {
			found = append(found, g.ID)
		}
		if !slices.Equal(found, all) {
			t.Errorf("chain of session %d is %v, want %v", s.ID, found, all)
		}
	}

	const forward = `WITH RECURSIVE chain AS (
			SELECT * FROM sessions WHERE id = :start_id
			UNION ALL
			SELECT s.* FROM sessions s JOIN chain c ON s.parent_session_id = c.id
		) SELECT id FROM chain ORDER BY id`
	const backward = `WITH RECURSIVE ancestors AS (
			SELECT * FROM sessions WHERE id = :start_id
			UNION ALL
			SELECT s.* FROM sessions s JOIN ancestors a ON s.id = a.parent_session_id
		) SELECT id FROM ancestors ORDER BY id`
	db := raw(t, path)
	for i := range chain {
		if got := column(t, db, forward, sql.Named("start_id", int64(all[i]))); !slices.Equal(got, all[i:]) {
			t.Errorf("forward from %d: %v, want %v", all[i], got, all[i:])
		}
		if got := column(t, db, backward, sql.Named("start_id", int64(all[i]))); !slices.Equal(got, all[:i+1]) {
			t.Errorf("backward from %d: %v, want %v", all[i], got, all[:i+1])
		}
	}
}
