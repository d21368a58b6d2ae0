package web_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
	"claudeops/test/storetest"
	"claudeops/test/testtoken"
)

// manyNow is when the generated journal ends.
func manyNow() time.Time { return time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC) }

// manyServices is a site with so many services, each with a probe and results of some days; one in a hundred is down.
func manyServices(tb testing.TB, n, days int) http.Handler {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "claudeops.db")
	open := func() *store.Store {
		s, err := store.Open(tb.Context(), storetest.With(store.Options{Path: path, Clock: manyNow, Logger: slog.New(slog.DiscardHandler)}))
		must(tb, err)
		return s
	}
	must(tb, open().Close())
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(OFF)&_pragma=cache_size(-200000)")
	must(tb, err)
	db.SetMaxOpenConns(1)
	state, err := json.Marshal(ops.CheckState{Probe: "http", Level: ops.Healthy, Last: ops.Check{At: manyNow().Add(-time.Minute), Status: ops.Healthy}})
	must(tb, err)
	const name = `'service-' || substr('00000' || i, -5)`
	numbers := fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) `, n)
	dates := fmt.Sprintf(`, d(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM d WHERE j < %d) `, days-1)
	for _, statement := range []string{
		`BEGIN`,
		numbers + `INSERT INTO checks (at, environment, purpose, service, probe, type, status, error, response_time_ms)
			SELECT '2026-11-14T13:40:00.000000Z', 'default', 'watch', ` + name + `, 'http', 'http',
			CASE i % 100 WHEN 0 THEN 'down' ELSE 'healthy' END, '', 12 FROM n`,
		numbers + `INSERT INTO probe_states (environment, service, probe, level, since, state)
			SELECT 'default', ` + name + `, 'http', 'healthy', '2026-11-14T13:00:00.000000Z',
			json_set('` + string(state) + `', '$.Service', ` + name + `) FROM n`,
		strings.TrimSpace(numbers) + dates + `INSERT INTO check_days (at, environment, service, status, checks)
			SELECT date('2026-11-14', '-' || j || ' days'), 'default', ` + name + `, 'healthy', 1440 FROM n, d`,
		`COMMIT`,
	} {
		if _, err := db.Exec(statement); err != nil {
			tb.Fatalf("%.80s: %v", statement, err)
		}
	}
	must(tb, db.Close())
	s := open()
	tb.Cleanup(func() { _ = s.Close() })
	env := ops.Environment{Name: "default", Interval: time.Hour}
	for i := 1; i <= n; i++ {
		env.Policy.Inventory.Services = append(env.Policy.Inventory.Services, ops.Service{Name: fmt.Sprintf("service-%05d", i)})
	}
	return web.New(web.Options{
		Options: api.Options{
			Store: s, Logger: slog.New(slog.DiscardHandler), Clock: manyNow, Version: "test",
			Environments: []ops.Environment{env},
		},
		Token: testtoken.Token,
	})
}

func TestVeryManyServicesAreShownInPages(t *testing.T) {
	site := manyServices(t, veryMany, 2)
	get := func(path string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Host = "127.0.0.1"
		testtoken.Authorize(r)
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: status %d: %.300s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	const down, shown = veryMany / 100, 50 // on the overview
	middle := fmt.Sprintf("/services?page=%d", veryMany/25)
	for _, path := range []string{"/services", middle, "/", "/services?state=bad&page=3", "/api/v1/services?limit=200"} {
		if body := get(path); len(body) > 200_000 {
			t.Errorf("%s: %d bytes", path, len(body))
		}
	}
	first, last := get("/services"), get("/services?page=99999")
	for _, want := range []string{
		fmt.Sprintf("%d Down", down), fmt.Sprintf("%d Healthy", veryMany-down), fmt.Sprintf("1–20 of %d", veryMany), "service-00100", `rel="next"`,
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the first page lacks %q", want)
		}
	}
	if !strings.Contains(last, fmt.Sprintf("%d–%d of %d", veryMany-19, veryMany, veryMany)) ||
		!strings.Contains(last, fmt.Sprintf("service-%05d", veryMany-1)) || strings.Contains(last, `rel="next"`) {
		t.Error("the last page is not the last one")
	}
	wanted := fmt.Sprintf("%05d", veryMany-2)
	if body := get("/services?q=" + wanted); !strings.Contains(body, "service-"+wanted) || strings.Contains(body, `rel="next"`) {
		t.Error("a search does not find the service")
	}
	if body := get("/"); !strings.Contains(body, fmt.Sprintf("%d services need attention", down)) ||
		!strings.Contains(body, fmt.Sprintf("%d more", down-shown)) {
		t.Error("the overview does not count the services")
	}

	seen, cursor := map[string]bool{}, ""
	for range 3 {
		var page struct {
			Items []struct{ Name string }
			Next  *string `json:"next_cursor"`
		}
		must(t, json.Unmarshal([]byte(get(fmt.Sprintf("/api/v1/services?state=down&limit=%d&cursor=%s", down*3/8, cursor))), &page))
		for _, x := range page.Items {
			seen[x.Name] = true
		}
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	if len(seen) != down {
		t.Errorf("the pages of the API list %d services", len(seen))
	}
}
