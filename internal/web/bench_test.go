package web_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
	"claudeops/test/testtoken"
)

// benchNow is when the generated journals end.
func benchNow() time.Time { return time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC) }

// generated is a site over a journal with so many sessions, half of them in chains of three tiers.
func generated(b *testing.B, sessions int) http.Handler {
	b.Helper()
	path := filepath.Join(b.TempDir(), "claudeops.db")
	open := func() *store.Store {
		s, err := store.Open(b.Context(), store.Options{Path: path, Clock: benchNow, Logger: slog.New(slog.DiscardHandler)})
		must(b, err)
		return s
	}
	must(b, open().Close())
	fill(b, path, sessions)
	s := open()
	b.Cleanup(func() { _ = s.Close() })
	return web.New(web.Options{
		Options: api.Options{
			Store: s, Logger: slog.New(slog.DiscardHandler), Clock: benchNow, Version: "bench",
			Environments: []ops.Environment{{Name: "default", Interval: time.Hour, Policy: ops.Policy{BudgetDayUSD: 25}}},
		},
		Token: testtoken.Token,
	})
}

func fill(b *testing.B, path string, sessions int) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(OFF)&_pragma=cache_size(-200000)")
	must(b, err)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	cycles := (sessions + 1) / 2
	statements := []string{
		`BEGIN`,
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO cycles (id, environment, trigger, status, reason, policy, options, prompt, created_at, started_at, ended_at)
			SELECT i, 'default', CASE i %% 7 WHEN 0 THEN 'manual' ELSE 'scheduled' END,
				CASE i %% 50 WHEN 0 THEN 'failed' WHEN 1 THEN 'needs_human' ELSE 'healthy' END, 'Everything is healthy.', '{}', '{}', '',
				t, t, t FROM (SELECT i, strftime('%%Y-%%m-%%dT%%H:%%M:%%S', '2026-11-14 13:40:00', '-' || ((%d - i) * 5) || ' seconds') || '.000000Z' AS t FROM n)`, cycles, cycles),
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO sessions (id, cycle_id, environment, attempt, tier, permissions, handler, model, key, status, outcome, context_mode,
				cost_usd, num_turns, duration_ms, created_at, started_at, ended_at, outcome_json)
			SELECT i, c.id, 'default', 1, 1 + i %% 2, 1 + i %% 2, 'tier1', 'haiku', 'key' || i, 'completed', 'healthy', 'fresh',
				0.02, 4, 17000, c.created_at, c.created_at, c.created_at, '{"schema_version":1,"outcome":"healthy","summary":"fine"}'
			FROM n JOIN cycles c ON c.id = (i + 1) / 2`, sessions),
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO events (at, cycle_id, environment, level, kind, message) SELECT c.created_at, c.id, 'default', 'info', 'cycle', 'It ended.'
			FROM n JOIN cycles c ON c.id = i`, cycles),
		`INSERT INTO escalations (cycle_id, session_id, source_handler, target_handler, reason, depth, max_depth, target_validated,
			self_escalation_rejected, process_mode, manager_present, path, services, decision, at)
			SELECT id, id * 2 - 1, 'tier1', 'tier2', 'down', 1, 2, TRUE, FALSE, 'typed_handoff', FALSE, '["tier1","tier2"]',
				'["service-' || (id / 20 % 30) || '"]', 'escalate', created_at FROM cycles WHERE id % 20 = 0`,
		`INSERT INTO incidents (environment, service, title, level, status, first_cycle_id, last_cycle_id, opened_at, updated_at, resolved_at)
			SELECT 'default', 'service-' || (id / 100 % 30), 'It is down.', 'critical', 'resolved', id, id, created_at, created_at, created_at
			FROM cycles WHERE id % 100 = 0`,
		`INSERT INTO notifications (cycle_id, kind, level, title, body, status, next_at, created_at, sent_at)
			SELECT id, 'escalation', 'warning', 'It is down.', 'Tier 2 starts.', 'sent', created_at, created_at, created_at
			FROM cycles WHERE id % 20 = 0`,
	}
	statements = append(statements, sums(b)...)
	statements = append(statements, `COMMIT`, `ANALYZE`)
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			b.Fatalf("%s: %v", statement, err)
		}
	}
}

// sums are the statements that add up the costs of existing sessions.
func sums(b *testing.B) []string {
	b.Helper()
	migration, err := os.ReadFile("../store/migrations/00019_costs.sql")
	must(b, err)
	var out []string
	for statement := range strings.SplitSeq(string(migration), ";\n") {
		if at := strings.Index(statement, "INSERT INTO"); at >= 0 {
			out = append(out, statement[at:])
		}
	}
	return out
}

// measure asks for a page again and again and reports the median and the size of the answer.
func measure(b *testing.B, site http.Handler, path string) {
	b.Helper()
	var took []time.Duration
	size := 0
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
		r.Host = "127.0.0.1"
		testtoken.Authorize(r)
		w := httptest.NewRecorder()
		begin := time.Now()
		site.ServeHTTP(w, r)
		took = append(took, time.Since(begin))
		if size = w.Body.Len(); w.Code != http.StatusOK {
			b.Fatalf("%s: status %d", path, w.Code)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
	b.ReportMetric(float64(size)/1024, "kB")
}

func BenchmarkLists(b *testing.B) {
	for _, sessions := range []int{20, 1_000_000} {
		site := generated(b, sessions)
		for _, path := range []string{
			"/sessions", "/", "/sessions?status=failed", "/sessions?tier=3", "/sessions?q=nothing+like+it", "/sessions?range=24h",
			"/sessions?cursor=400000", "/sessions/1", "/costs", "/costs?days=90&by=service", "/costs?environment=default", "/events",
			"/incidents", "/services", "/notifications", "/memory", "/config", "/silences", "/actions",
		} {
			b.Run(fmt.Sprintf("sessions=%d%s", sessions, path), func(b *testing.B) { measure(b, site, path) })
		}
	}
}
