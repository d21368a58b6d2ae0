package metrics_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api/metrics"
	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

type scraped map[string]string

func scrape(t *testing.T, h http.Handler) scraped {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("status %d, %s", w.Code, w.Header().Get("Content-Type"))
	}
	line := regexp.MustCompile(`^[a-z_]+(\{[a-z_]+="([^"\\\n]|\\["\\n])*"(,[a-z_]+="([^"\\\n]|\\["\\n])*")*\})? [-+0-9.eInf]+$`)
	out, typed := scraped{}, map[string]bool{}
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		text := lines.Text()
		if rest, is := strings.CutPrefix(text, "# TYPE "); is {
			name, _, _ := strings.Cut(rest, " ")
			if typed[name] {
				t.Errorf("%s comes twice", name)
			}
			typed[name] = true
			continue
		}
		if strings.HasPrefix(text, "# HELP ") {
			continue
		}
		if !line.MatchString(text) {
			t.Errorf("not a sample: %s", text)
		}
		i := strings.LastIndex(text, " ")
		if _, twice := out[text[:i]]; twice {
			t.Errorf("told twice: %s", text)
		}
		out[text[:i]] = text[i+1:]
	}
	return out
}

func (s scraped) want(t *testing.T, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := s["claudeops_"+sorted(name)]; got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}

// sorted writes the labels of a name as they are told: by name, the bound of a bucket last.
func sorted(name string) string {
	base, rest, labelled := strings.Cut(name, "{")
	if !labelled {
		return name
	}
	labels := strings.Split(strings.TrimSuffix(rest, "}"), ",")
	slices.SortFunc(labels, func(a, b string) int {
		if last := strings.HasPrefix(a, "le="); last != strings.HasPrefix(b, "le=") {
			if last {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	return base + "{" + strings.Join(labels, ",") + "}"
}

func newHandler(j *apitest.Journal) http.Handler {
	return metrics.New(metrics.Options{
		Store: j.Store, Logger: slog.New(slog.DiscardHandler), Clock: j.Clock, Version: "1.2.3",
		Environments: []ops.Environment{{
			Name: "home", Interval: time.Hour,
			Policy: ops.Policy{
				BudgetDayUSD: 5, BudgetChainUSD: 2, Cooldowns: apitest.Limits(), Inventory: ops.Inventory{Services: []ops.Service{{Name: "idle"}}},
			},
		}},
	})
}

func open(t *testing.T) *apitest.Journal {
	t.Helper()
	return apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
}

func chain(j *apitest.Journal) {
	j.Chain(ops.NewCycle{Environment: "home"}, ops.CycleResolved, "repaired",
		apitest.Run{
			Tier: 1, Model: "haiku", For: 17 * time.Second, Outcome: ops.OutcomeEscalate,
			Figures: ops.Figures{
				CostUSD: ops.Ptr(0.25), NumTurns: ops.Ptr[int64](4), DurationMS: ops.Ptr[int64](17_000), InputTokens: ops.Ptr[int64](100), CacheReadTokens: ops.Ptr[int64](900),
			},
		},
		apitest.Run{Tier: 2, Model: "sonnet", For: time.Minute, Outcome: ops.OutcomeResolved, Figures: ops.Figures{CostUSD: ops.Ptr(0.5)}})
}

func TestFiguresFollowFromTheRows(t *testing.T) {
	j := open(t)
	h := newHandler(j)
	scrape(t, h).want(t, map[string]string{
		`sessions_running{tier="1"}`: "0", `incidents_open{severity="critical"}`: "0", `incidents{status="open"}`: "0", `incidents{status="unverified"}`: "0", `approvals_pending`: "0", `chain_duration_seconds_count`: "0",
		`service_state{environment="home",service="idle",state="unknown"}`: "1",
	})
	chain(j)
	_, running := j.Chain(ops.NewCycle{Environment: "home"}, "", "", apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionRunning})
	j.Judge(running[0], ops.GuardRecord{Gate: ops.GateHook, Tool: "Bash", Input: "x", Tier: 2, Allowed: true, Mutating: true, Rule: "tool.Bash"},
		ops.Reservation{Service: "web", Action: "restart"})
	j.Judge(running[0], ops.GuardRecord{Gate: ops.GateHook, Tool: "Bash", Input: "x", Tier: 2, Rule: `never."rm"`})
	err := j.Store.Watch.AddChecks(t.Context(), []ops.Check{{Environment: "home", Service: "web", Probe: "p", Type: "http", Status: ops.Down, Purpose: ops.ProbeWatch}})
	if err != nil {
		t.Fatal(err)
	}
	got := scrape(t, h)
	got.want(t, map[string]string{
		`sessions_total{tier="1",trigger="scheduled",outcome="escalate"}`:               "1",
		`sessions_total{tier="2",trigger="scheduled",outcome="resolved"}`:               "1",
		`sessions_running{tier="2"}`:                                                    "1",
		`session_duration_seconds_bucket{tier="1",outcome="escalate",le="15"}`:          "0",
		`session_duration_seconds_bucket{tier="1",outcome="escalate",le="30"}`:          "1",
		`session_duration_seconds_bucket{tier="1",outcome="escalate",le="+Inf"}`:        "1",
		`session_duration_seconds_sum{tier="1",outcome="escalate"}`:                     "17",
		`session_duration_seconds_count{tier="2",outcome="resolved"}`:                   "0",
		`session_turns_bucket{tier="1",le="2"}`:                                         "0",
		`session_turns_bucket{tier="1",le="5"}`:                                         "1",
		`tokens_total{tier="1",model="haiku",type="input"}`:                             "100",
		`tokens_total{tier="1",model="haiku",type="cache_read"}`:                        "900",
		`cost_usd_total{tier="1",model="haiku"}`:                                        "0.25",
		`escalations_total{from_tier="1",to_tier="2"}`:                                  "1",
		`chains_total{outcome="resolved"}`:                                              "1",
		`chain_duration_seconds_sum`:                                                    "77",
		`chain_duration_seconds_bucket{le="60"}`:                                        "0",
		`chain_duration_seconds_bucket{le="300"}`:                                       "1",
		`service_state{environment="home",service="web",state="down"}`:                  "1",
		`service_state{environment="home",service="web",state="healthy"}`:               "0",
		`cooldown_remaining_actions{environment="home",service="web",action="restart"}`: "1",
		`guard_decisions_total{tier="2",verdict="allow",rule="tool.Bash"}`:              "1",
		`guard_decisions_total{tier="2",verdict="deny",rule="never.\"rm\""}`:            "1",
		`budget_limit_usd{environment="home",window="day"}`:                             "5",
		`budget_limit_usd{environment="home",window="chain"}`:                           "2",
		`budget_spent_usd{environment="home",window="day"}`:                             "0.75",
		`spend_usd_per_hour{environment="home"}`:                                        "0.25",
		`last_success_timestamp_seconds{schedule="home"}`:                               "1.794663737e+09",
	})
	for name := range got {
		if strings.Contains(name, "session_id") || strings.Contains(name, `session="`) {
			t.Errorf("a session is a label: %s", name)
		}
	}
}

// What was added up before, what comes since, and a fresh start tell the same.
func TestEachRowIsCountedOnceHoweverOftenOneAsks(t *testing.T) {
	j := open(t)
	h := newHandler(j)
	for i := range 6 {
		chain(j)
		j.Now = j.Now.Add(time.Duration(i) * 30 * time.Second)
		for range 3 {
			want := fmt.Sprint(i + 1)
			scrape(t, h).want(t, map[string]string{`chains_total{outcome="resolved"}`: want, `escalations_total{from_tier="1",to_tier="2"}`: want, `chain_duration_seconds_count`: want})
		}
	}
	again, fresh := scrape(t, h), scrape(t, newHandler(j))
	for name, value := range fresh {
		if again[name] != value {
			t.Errorf("%s is %s, and %s after a restart", name, again[name], value)
		}
	}
}

func TestALongHistoryIsAddedUpStretchByStretch(t *testing.T) {
	j := open(t)
	for range 5 {
		chain(j)
		j.Now = j.Now.Add(20 * 24 * time.Hour)
	}
	h := newHandler(j)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // given up by who asked
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("given up: %d", w.Code)
	}
	for range 2 {
		scrape(t, h).want(t, map[string]string{`chains_total{outcome="resolved"}`: "5", `chain_duration_seconds_count`: "5", `sessions_total{tier="1",trigger="scheduled",outcome="escalate"}`: "5"})
	}
}

func TestAJournalThatCannotBeReadIsNoFigure(t *testing.T) {
	j := open(t)
	h := newHandler(j)
	if err := j.Store.Close(); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "claudeops_") {
		t.Errorf("status %d\n%s", w.Code, w.Body)
	}
}
