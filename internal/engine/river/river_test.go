package river_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"claudeops/internal/engine/river"
	"claudeops/internal/ops"
	"claudeops/test/enginetest"
	"claudeops/test/pgtest"
)

// far is longer than any test: what happens within one did not need it.
const far = time.Hour

func pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(url + "&pool_max_conns=10")
	must(t, err)
	return poolOf(t, c)
}

func poolOf(t testing.TB, c *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.NewWithConfig(t.Context(), c)
	must(t, err)
	t.Cleanup(p.Close)
	return p
}

// options are those of a host that does not search for lost jobs.
func options(t testing.TB, url string, h *enginetest.Host) river.Options {
	t.Helper()
	return river.Options{
		Pool: pool(t, url), Journal: h, Advance: h.Advance, Environments: configured(h), Mine: h.Environments, Host: h.Name,
		Clock: time.Now, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Ready: offering(h),
		Sweep: far, Poll: 200 * time.Millisecond, FetchCooldown: 20 * time.Millisecond, Pause: 50 * time.Millisecond,
	}
}

// configured are the environments in the configuration of all hosts: numbered ones need no label, others have their own.
func configured(h *enginetest.Host) map[string][]string {
	out := map[string][]string{"gone": {"gone"}, "a": {"a"}, "b": {"b"}, "An odd name: B/2": {"An odd name: B/2", "b"}}
	for _, name := range h.Environments {
		if _, known := out[name]; !known {
			out[name] = nil
		}
	}
	return out
}

// offering makes the journal insert jobs with every change.
func offering(h *enginetest.Host) func(*river.Jobs) {
	return func(j *river.Jobs) {
		h.Offer(func(ctx context.Context, c ops.Cycle) { _ = j.Insert(ctx, nil, []ops.Cycle{c}) }) // while the database is away, a sweep does it later
	}
}

func start(t testing.TB, o river.Options) *river.Engine {
	t.Helper()
	e, err := river.New(o)
	must(t, err)
	must(t, e.Start(t.Context()))
	return e
}

func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Harness{
		In: func(t *testing.T, f func(t *testing.T)) { t.Helper(); t.Parallel(); f(t) },
		Open: func(t *testing.T) func(h *enginetest.Host) enginetest.Engine {
			url := pgtest.URL(t)
			explain(t, url)
			return func(h *enginetest.Host) enginetest.Engine { return start(t, options(t, url, h)) }
		},
		Several: true,
		Later:   700 * time.Millisecond, Pause: 50 * time.Millisecond, Patience: 10 * time.Second, Quiet: 300 * time.Millisecond,
	}.Run(t)
}

// explain shows the queue when a test fails.
func explain(t testing.TB, url string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx := context.WithoutCancel(t.Context())
		p, err := pgxpool.New(ctx, url)
		if err != nil {
			t.Log(err)
			return
		}
		defer p.Close()
		rows, _ := p.Query(ctx, `SELECT row_to_json(j)::text FROM river_job j WHERE kind = 'cycle' ORDER BY id DESC LIMIT 5`)
		jobs, err := pgx.CollectRows(rows, pgx.RowTo[string])
		t.Logf("the last jobs (%v):\n%s", err, strings.Join(jobs, "\n"))
	})
}
