package web_test

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

func TestCostsAreNotAvailableWhereNobodyToldThem(t *testing.T) {
	s := newSite(t)
	empty := content(s.page("/costs"))
	mustContain(t, empty, "No cost recorded yet", "No sessions", "No daily limit")
	mustNotContain(t, empty, "$0.00", "Export CSV")
	s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine", apitest.Run{Tier: 1, Model: "haiku", For: time.Second})
	silent := content(s.page("/costs"))
	mustContain(t, silent, "Unknown: the agent CLI reported no cost", "1 session reported no cost.", "Export CSV")
	mustNotContain(t, silent, "$0.00", "<svg class=\"drawing\" width=\"100%\" height=\"190\"")
}

func TestCostsAddUpByDayAndGroup(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Environments[0].Policy.BudgetDayUSD = 5 })
	s.Now = s.Now.AddDate(0, 0, -6)
	s.threeTiers()
	s.Now = s.Now.AddDate(0, 0, 6)
	f := figures(1.42, 4, 900)
	f.InputTokens, f.OutputTokens, f.CacheReadTokens = ops.Ptr[int64](1204), ops.Ptr[int64](2310), ops.Ptr[int64](1045120)
	s.Chain(ops.NewCycle{Prompt: "look at jellyfin", Trigger: ops.TriggerAlert}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, Model: "haiku", For: time.Second, Figures: f})
	body := s.page("/costs")
	mustContain(t, body, "$1.42", "$2.25", "$1.42</span> of $5.00 per day", "28 %", "Estimated cost per day by tier, last 30 days",
		"View as table",
		"Tier 1", "Tier 2", "Tier 3", "$1.44", "Most expensive cycles", "look at jellyfin", "1,204", "2,310", "1,045,120", "Not available",
		`class="stack stack-1"`, `class="stack stack-3"`, "14 Nov, Tier 1: $1.42", "<th scope=\"row\">2026-11-08</th>")
	mustNotContain(t, body, "Daily budget reached")
	mustContain(t, s.page("/costs?by=model&days=7"), "haiku", "sonnet", "opus", "last 7 days")
	mustContain(t, s.page("/costs?by=trigger"), "Scheduled check", "by trigger")
	mustContain(t, s.page("/costs?by=service"), "No service")
	mustNotContain(t, s.page("/costs?environment=elsewhere"), "look at jellyfin")
	for _, path := range []string{"/costs?by=weekday", "/costs?days=3", "/costs?days=x", "/costs.csv?by=weekday"} {
		if got := s.get(path).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s gives %d", path, got)
		}
	}
}

func TestCostsSayThatTheBudgetIsReached(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Environments[0].Policy.BudgetDayUSD = 0.8 })
	s.threeTiers()
	mustContain(t, s.page("/costs"), "Daily budget reached", "until 00:00 UTC", `<a href="/config?q=budget">Raise limit</a>`, "104 %")
}

func TestManyGroupsBecomeAllOthers(t *testing.T) {
	s := newSite(t)
	for n, model := range strings.Fields("a b c d e f g h") {
		s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
			apitest.Run{Tier: 1, Model: model, For: time.Second, Figures: figures(float64(n+1), 1, 1)})
	}
	body := s.page("/costs?by=model")
	mustContain(t, body, "All others", "$6.00", `class="stack stack-rest"`, `class="stack stack-5"`)
	mustNotContain(t, body, `class="stack stack-6"`)
}

func TestCostsAreExported(t *testing.T) {
	s := newSite(t)
	s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine", apitest.Run{
		Tier: 1, Model: "=cmd|' /C calc'!A0", For: time.Second,
		Figures: figures(0.25, 1, 1),
	})
	s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine", apitest.Run{Tier: 1, Model: "plain", For: time.Second})
	a := s.get("/costs.csv?by=model")
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(a.Header.Get("Content-Disposition"), "attachment") {
		t.Fatalf("status %d, %v", a.StatusCode, a.Header)
	}
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%q: %v", a.body, err)
	}
	if got := strings.Join(rows[1], "|"); got != "2026-11-14|'=cmd|' /C calc'!A0|0.25|1|1||||" {
		t.Errorf("row is %s", got)
	}
	if got := strings.Join(rows[2], ";"); got != "2026-11-14;plain;;1;0;;;;" {
		t.Errorf("row is %s", got)
	}
}
