package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
	"claudeops/test/testtoken"
)

const cyclesADay = 500

// growthNow is when the generated journals end.
func growthNow() time.Time { return time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC) }

// growth compares the pages of a busy site after many days with those after a week, and measures how long commits take while old
// records are removed.
func (b *bench) growth(ctx context.Context, days int) ([]figure, error) {
	const week = 7 // so that its lists fill a page too
	fresh, _, err := b.grown(ctx, "fresh", week)
	if err != nil {
		return nil, err
	}
	defer func() { _ = fresh.Close() }()
	old, size, err := b.grown(ctx, "old", days)
	if err != nil {
		return nil, err
	}
	defer func() { _ = old.Close() }()
	out := []figure{{fmt.Sprintf("journal of %d days with %d cycles each", days, cyclesADay), fmt.Sprintf("%d MB", size>>20), ""}}
	sites := [2]http.Handler{site(fresh), site(old)}
	for _, path := range []string{
		"/", "/sessions", "/sessions?status=failed", "/sessions/1", "/costs", "/costs?by=service&days=90", "/events", "/incidents",
		"/services", "/notifications", "/memory", "/actions",
	} {
		took := must(pageTimes(ctx, sites, path))
		out = append(out, figure{
			"… " + path, fmt.Sprintf("%.1f ms, %.1f × of a new one", took[1].Seconds()*1000, took[1].Seconds()/took[0].Seconds()), "≤ 2 ×",
		})
	}
	commits, err := commitsDuringRetention(ctx, old)
	return append(out, commits...), err
}

func site(s *store.Store) http.Handler {
	return web.New(web.Options{
		Options: api.Options{
			Store: s, Logger: slog.New(slog.DiscardHandler), Clock: growthNow, Version: "bench",
			Environments: []ops.Environment{{Name: "default", Interval: time.Hour}},
		},
		Token: testtoken.Token,
	})
}

// pageTimes is the median time of a page on both sites, asked for in turn.
func pageTimes(ctx context.Context, sites [2]http.Handler, path string) (out [2]time.Duration, err error) {
	const rounds = 15
	var took [2][]time.Duration
	for range rounds {
		for i, s := range sites {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			r.Host = "127.0.0.1"
			testtoken.Authorize(r)
			w := httptest.NewRecorder()
			began := time.Now()
			s.ServeHTTP(w, r)
			took[i] = append(took[i], time.Since(began))
			if w.Code != http.StatusOK {
				text, _ := io.ReadAll(w.Result().Body)
				return out, fmt.Errorf("%s: status %d: %.200s", path, w.Code, text)
			}
		}
	}
	for i := range took {
		slices.Sort(took[i])
		out[i] = took[i][rounds/2]
	}
	return out, nil
}

// commitsDuringRetention writes a row again and again, first alone and then while old records are removed.
func commitsDuringRetention(ctx context.Context, s *store.Store) ([]figure, error) {
	const most = 20 * time.Second
	syscall.Sync() // what was written to fill the journal is not to be waited for
	alone, err := commits(ctx, s, most/4)
	if err != nil {
		return nil, err
	}
	run, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	keep := ops.Retention{
		Transcripts: 24 * time.Hour, Checks: 24 * time.Hour, Hours: 24 * time.Hour, Events: 24 * time.Hour, Guard: 24 * time.Hour,
		Notices: 24 * time.Hour, Alerts: 24 * time.Hour,
	}
	retention := &supervisor.Retention{Records: s, Keep: keep, Clock: growthNow, Logger: slog.New(slog.DiscardHandler)}
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { failed = retention.Look(run) })
	beside, err := commits(run, s, most)
	cancel()
	wg.Wait()
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	text := func(took []time.Duration) string {
		return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, longest %.1f ms (%d)", took[len(took)/2].Seconds()*1000,
			took[len(took)*99/100].Seconds()*1000, took[len(took)-1].Seconds()*1000, len(took))
	}
	return []figure{
		{"commit without anything beside it", text(alone), ""},
		{"commit while old records are removed and output is packed", text(beside), "longest ≤ 20 ms more than alone"},
	}, nil
}

// commits measures writes for a while, shortest first.
func commits(ctx context.Context, s *store.Store, length time.Duration) ([]time.Duration, error) {
	var took []time.Duration
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; <-every.C {
		began := time.Now()
		must(s.AddMemory(context.WithoutCancel(ctx), ops.Memory{Environment: "default", Category: "x", Observation: "measured"}))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, nil
}

// grown is a journal of a number of days, and its size.
func (b *bench) grown(ctx context.Context, name string, days int) (*store.Store, int64, error) {
	path := filepath.Join(b.dir, name+".db")
	options := store.Options{Path: path, Clock: growthNow, Logger: slog.New(slog.DiscardHandler)}
	empty := must(store.Open(ctx, options))
	check(empty.Close())
	check(fill(ctx, path, days))
	info := must(os.Stat(path))
	s, err := store.Open(ctx, options)
	return s, info.Size(), err
}

func fill(ctx context.Context, path string, days int) error {
	db := must(sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(OFF)&_pragma=cache_size(-100000)"))
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	sums := must(costStatements())
	for _, statement := range append(append(journalStatements(days*cyclesADay), sums...), `COMMIT`, `ANALYZE`) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.80s: %w", statement, err)
		}
	}
	return nil
}

// journalStatements make cycles of two sessions with ten lines of output each, and what belongs to them.
func journalStatements(cycles int) []string {
	const seconds = 24 * 60 * 60 / cyclesADay
	return []string{
		`BEGIN`,
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO cycles (id, environment, "trigger", status, reason, policy, created_at, started_at, ended_at)
			SELECT i, 'default', CASE i %% 7 WHEN 0 THEN 'manual' ELSE 'scheduled' END,
				CASE i %% 50 WHEN 0 THEN 'failed' WHEN 1 THEN 'needs_human' ELSE 'healthy' END, 'Everything is healthy.', '{}', t, t, t
			FROM (SELECT i, strftime('%%Y-%%m-%%dT%%H:%%M:%%S', '2026-11-14 13:40:00', '-' || ((%d - i) * %d) || ' seconds') || '.000000Z' AS t
				FROM n)`, cycles, cycles, seconds),
		`INSERT INTO sessions (cycle_id, environment, attempt, tier, permissions, handler, model, key, status, outcome, context_mode, cost_usd,
				num_turns, duration_ms, transcript_seq, transcript_lines, transcript_bytes, created_at, started_at, ended_at, outcome_json)
			SELECT c.id, 'default', 1, t.value, t.value, 'tier' || t.value, 'model-' || t.value, c.id || '-' || t.value, 'completed', 'healthy', 'fresh', 0.02,
				4, 17000, 10, 10, 6000, c.created_at, c.created_at, c.created_at, '{"schema_version":1,"outcome":"healthy","summary":"fine"}'
			FROM cycles c JOIN json_each('[1,2]') t ORDER BY c.id, t.value`,
		`INSERT INTO transcript (session_id, seq, at, line) SELECT s.id, l.value, s.created_at,
				'{"type":"assistant","message":{"content":[{"type":"text","text":"' || hex(randomblob(270)) || '"}]}}'
			FROM sessions s JOIN json_each('[1,2,3,4,5,6,7,8,9,10]') l`,
		`INSERT INTO events (at, cycle_id, environment, level, kind, service, message)
			SELECT created_at, id, 'default', 'info', 'cycle', '', 'It ended.' FROM cycles`,
		`INSERT INTO checks (at, environment, cycle_id, purpose, service, probe, type, status)
			SELECT c.created_at, 'default', c.id, 'observe', 'service-' || s.value, 'http', 'http', 'healthy'
			FROM cycles c JOIN json_each('[1,2,3]') s ORDER BY c.id`,
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
}

// costStatements are those of the migration that add up the costs of existing sessions.
func costStatements() ([]string, error) {
	migration, err := os.ReadFile("internal/store/migrations/00019_costs.sql")
	if err != nil {
		return nil, fmt.Errorf("read migration (run this in the folder of the sources): %w", err)
	}
	var out []string
	for statement := range strings.SplitSeq(string(migration), ";\n") {
		if at := strings.Index(statement, "INSERT INTO"); at >= 0 {
			out = append(out, statement[at:])
		}
	}
	return out, nil
}
