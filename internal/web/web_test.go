package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

const handoff = `{"schema_version":1,"recommended_tier":2,"services_affected":["jellyfin"],` +
	`"check_results":[{"service":"jellyfin","check_type":"http","status":"down","error":"HTTP 502"}],"cooldown_state":{}}`

// site is the whole handler over a temporary journal.
type site struct {
	*apitest.Journal
	t       *testing.T
	handler http.Handler
	control *apitest.Control
	token   string // sent with every request that says nothing about who sends it; empty: none
}

func newSite(t *testing.T, change ...func(*web.Options)) *site {
	t.Helper()
	return siteOver(t, apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC)), change...)
}

func siteOver(t *testing.T, j *apitest.Journal, change ...func(*web.Options)) *site {
	t.Helper()
	control := &apitest.Control{Journal: j}
	options := web.Options{
		Options: api.Options{
			Store: j.Store, Control: control, Logger: slog.New(slog.DiscardHandler), Clock: j.Clock, Version: "test",
			Environments: []ops.Environment{{Name: "default", Interval: time.Hour}},
		},
		Token: apitest.Token,
	}
	for _, c := range change {
		c(&options)
	}
	s := &site{Journal: j, t: t, handler: web.New(options), control: control}
	if options.Token == apitest.Token { // a test that sets its own says itself who sends a request
		s.token = apitest.Token
	}
	return s
}

func withToken(token string) func(*web.Options) {
	return func(o *web.Options) { o.Token = token }
}

// answer is a response that was read to its end.
type answer struct {
	*http.Response
	body string
}

func (s *site) do(r *http.Request) answer {
	s.t.Helper()
	if r.Host == "example.com" { // what httptest puts in
		r.Host = "127.0.0.1:8080"
	}
	if s.token != "" && r.Header.Get("Authorization") == "" && !strings.Contains(r.Header.Get("Cookie"), "claudeops_login") {
		apitest.Authorize(r)
	}
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, r)
	response := recorder.Result()
	body, err := io.ReadAll(response.Body)
	must(s.t, err)
	return answer{response, string(body)}
}

func (s *site) get(path string) answer {
	s.t.Helper()
	return s.do(httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, path, nil))
}

// page gets a page that must exist.
func (s *site) page(path string) string {
	s.t.Helper()
	a := s.get(path)
	if a.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: status %d\n%s", path, a.StatusCode, a.body)
	}
	return a.body
}

func form(t *testing.T, path string, fields url.Values) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func figures(cost float64, turns, ms int64) ops.Figures {
	return ops.Figures{CostUSD: &cost, NumTurns: &turns, DurationMS: &ms}
}

// threeTiers plays a chain through all tiers: $0.02, $0.31 and $0.5.
func (s *site) threeTiers() (ops.CycleID, []ops.SessionID) {
	s.t.Helper()
	return s.Chain(ops.NewCycle{Prompt: "jellyfin 502"}, ops.CycleResolved, "Tier 3 repaired jellyfin.",
		apitest.Run{
			Tier: 1, Model: "haiku", For: 17 * time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff,
			Figures: figures(0.02, 4, 17_000),
			Decision: &ops.Decision{
				SourceHandler: "tier1", TargetHandler: "tier2", Reason: "tier1 handed jellyfin to tier2.", Depth: 1, MaxDepth: 2,
				TargetValidated: true, SelfEscalationRejected: true, ProcessMode: ops.ProcessTyped,
				Path: []string{"tier1", "tier2"}, Verdict: ops.VerdictEscalate,
			},
		},
		apitest.Run{
			Tier: 2, Model: "sonnet", For: 185 * time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff,
			Figures: figures(0.31, 22, 185_000),
		},
		apitest.Run{
			Tier: 3, Model: "opus", For: 60 * time.Second, Outcome: ops.OutcomeResolved, Figures: figures(0.5, 11, 60_000),
		})
}

func mustContain(t *testing.T, body string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not show %q\n%s…", want, head(body))
		}
	}
}

func mustNotContain(t *testing.T, body string, unwanted ...string) {
	t.Helper()
	for _, bad := range unwanted {
		if strings.Contains(body, bad) {
			t.Errorf("the page shows %q\n%s…", bad, head(body))
		}
	}
}

// content is a page without its shell.
func content(body string) string {
	if _, inside, found := strings.Cut(body, "<main"); found {
		return inside
	}
	return body
}

// head is as much of a page as is worth printing when a test fails.
func head(body string) string {
	body = content(body)
	return body[:min(len(body), 1500)]
}
