package web_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

func TestGuardDecisionsAreListedAndFiltered(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Walls = func() []web.Wall {
			return []web.Wall{{Name: "landlock", State: "on"}, {Name: "seccomp", State: "missing", Missing: true, Detail: "the kernel is old"}}
		}
	})
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionRunning})
	judge := func(tier ops.Tier, input, rule string, allowed bool) {
		s.Judge(ids[0], ops.GuardRecord{
			Tier: tier, Gate: ops.GateHook, Tool: "Bash", Input: input, Allowed: allowed, Rule: rule, Reason: "because " + rule,
		})
	}
	mustContain(t, s.page("/guard"), "Nothing was refused")
	judge(2, "docker ps", "", true)
	judge(1, "rm -rf /srv/jellyfin", "files.delete", false)
	for range 30 {
		judge(2, "docker logs grafana", "", true)
	}
	mustContain(t, s.page("/guard"), "rm -rf", "Refused")
	mustNotContain(t, content(s.page("/guard")), "docker logs grafana")
	body := s.page("/guard?verdict=all")
	mustContain(t, body, "docker logs grafana", "landlock: on", "seccomp: missing", fmt.Sprintf("/sessions/%d?tab=guard", ids[0]), "Older")
	mustNotContain(t, body, "jellyfin")
	for query, want := range map[string]string{
		"verdict=deny": "rm -rf", "tier=1": "rm -rf", "rule=files": "rm -rf", "service=jellyfin": "rm -rf", "verdict=allow&service=docker+ps": "docker ps",
	} {
		body := content(s.page("/guard?" + query))
		mustContain(t, body, want, "Clear filters")
		mustNotContain(t, body, "docker logs grafana")
	}
	mustContain(t, s.page("/guard?service=nothing"), "No decisions match")
	for _, query := range []string{"verdict=maybe", "tier=9", "cursor=x"} {
		if got := s.get("/guard?" + query).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s gives %d", query, got)
		}
	}
}

func TestAHostIsDrainedAndResumed(t *testing.T) {
	asked := 0
	s := newSite(t, func(o *web.Options) {
		o.Host = "test"
		o.DrainAsked = func(context.Context) { asked++ }
	})
	mustContain(t, s.page("/hosts"), "<code>test</code>", "this host", "Alive", "Drain test?")
	done := s.post("/hosts/drain", url.Values{"host": {"test"}})
	if got := done.Header.Get("Location"); got != "/hosts?done=drain" {
		t.Fatalf("it leads to %q: %s", got, head(done.body))
	}
	mustContain(t, s.page("/hosts?done=drain"), "takes no new cycles", "Draining", "Let test take cycles again?")
	s.post("/hosts/resume", url.Values{"host": {"test"}})
	mustNotContain(t, content(s.page("/hosts")), "Draining")
	if asked != 2 {
		t.Errorf("the host was told %d times", asked)
	}
	for path, host := range map[string]string{"/hosts/drain": "nobody", "/hosts/stop": "test"} {
		if got := s.post(path, url.Values{"host": {host}}).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s of %s gives %d", path, host, got)
		}
	}
}

func TestApprovalsAreListedThoseThatWaitFirst(t *testing.T) {
	s := newSite(t)
	mustContain(t, s.page("/approvals"), "Nothing to approve")
	_, first := s.asks("jellyfin is down")
	_, second := s.asks("grafana is down")
	if _, err := s.Store.People.Answer(t.Context(), second.ID, ops.ApprovalDenied, "alice", "not now", s.Now); err != nil {
		t.Fatal(err)
	}
	body := content(s.page("/approvals"))
	mustContain(t, body, fmt.Sprintf(`href="/approvals/%d"`, first.ID), fmt.Sprintf(`href="/approvals/%d"`, second.ID), "by alice at", "UTC", "not now")
	if strings.Index(body, "Waiting for an answer") > strings.Index(body, "Answered") {
		t.Error("those that wait are not first")
	}
}

func TestTheNavigationReachesEveryPage(t *testing.T) {
	s := newSite(t)
	body := s.page("/")
	for entry, pages := range map[string][]string{
		"/": nil, "/costs": nil, "/incidents": {"/approvals"}, "/services": {"/actions", "/silences"}, "/cycles": {"/events", "/guard", "/memory"},
		"/config": {"/notifications", "/hosts"},
	} {
		mustContain(t, body, `<a href="`+entry+`"`)
		of := s.page(entry)
		for _, path := range append(pages, entry) {
			mustContain(t, of, `<a href="`+path+`"`)
			if got := s.get(path); got.StatusCode != http.StatusOK && got.StatusCode != http.StatusTemporaryRedirect {
				t.Errorf("%s gives %d", path, got.StatusCode)
			}
		}
	}
	for path, name := range map[string]string{"/silences": "services", "/notifications": "config", "/actions": "services", "/sessions": "cycles"} {
		if !regexp.MustCompile(`class="rail-` + name + `( tab)?" aria-current="page"`).MatchString(s.page(path)) {
			t.Errorf("%s does not mark its entry", path)
		}
	}
}

func TestTimesAreInUTCAndSaySo(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		clock := o.Clock
		o.Clock = func() time.Time { return clock().In(time.FixedZone("CET", 3600)) }
	})
	s.Check("web", ops.Healthy, "")
	body := s.page("/services/default/web")
	mustContain(t, body, `Times in <span id="zone">UTC</span>`, `datetime="2026-11-14T13:41:00Z"`, "2026-11-14 13:41:00 UTC")
	mustNotContain(t, body, "CET", "14:41")
}

// TestColoursOfStatesCanBeRead computes the contrast of every state with the backgrounds that it is shown on.
func TestColoursOfStatesCanBeRead(t *testing.T) {
	raw, err := os.ReadFile("assets/app.css")
	must(t, err)
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`).FindAllStringSubmatch(string(raw), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	for theme, least := range []float64{5.1, 7.7} {
		for _, state := range []string{"ok", "warn", "bad", "run", "hand", "unknown"} {
			if got := contrast(t, colours[state][theme], colours["card"][theme]); got < least {
				t.Errorf("%s in theme %d has a contrast of %.1f", state, theme, got)
			}
		}
		if colours["ok"][theme] == colours["accent"][theme] || colours["ok"][theme] == colours["focus"][theme] {
			t.Errorf("healthy has the colour of links in theme %d", theme)
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		must(t, err)
		v := float64(n) / 255
		if v <= 0.03928 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

func TestCostsAreNotAvailableWhereNobodyToldThem(t *testing.T) {
	s := newSite(t)
	empty := content(s.page("/costs"))
	mustContain(t, empty, "No cost recorded yet", "No sessions", "No daily limit")
	mustNotContain(t, empty, "$0.00")
	s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine", apitest.Run{Tier: 1, Model: "haiku", For: time.Second})
	silent := content(s.page("/costs"))
	mustContain(t, silent, "Unknown: the agent CLI reported no cost", "1 session reported no cost.")
	mustNotContain(t, silent, "$0.00", "<svg class=\"drawing\" width=\"100%\" height=\"190\"")
}

func TestCostsAddUpByDayAndGroup(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Environments[0].Policy.BudgetDayUSD = 5 })
	s.Now = s.Now.AddDate(0, 0, -12)
	s.threeTiers()
	s.Now = s.Now.AddDate(0, 0, 12)
	f := figures(1.42, 4, 900)
	f.InputTokens, f.OutputTokens, f.CacheReadTokens = ops.Ptr[int64](1204), ops.Ptr[int64](2310), ops.Ptr[int64](1045120)
	s.Chain(ops.NewCycle{Prompt: "look at jellyfin", Trigger: ops.TriggerAlert}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, Model: "haiku", For: time.Second, Figures: f})
	body := s.page("/costs")
	mustContain(t, body, "$1.42", "$2.25", "$1.42</span> of $5.00 per day", "28 %", "Estimated cost per day by tier, last 30 days",
		"Tier 1", "Tier 2", "Tier 3", "$1.44", "Most expensive cycles", "look at jellyfin", "1,204", "2,310", "1,045,120", "Not available",
		`class="stack stack-1"`, `class="stack stack-3"`, "14 Nov, Tier 1: $1.42", "<th scope=\"row\">2026-11-02</th>")
	mustNotContain(t, body, "Daily budget reached", "2026-11-01") // the axis begins with the costs
	week := s.page("/costs?by=model&days=7")
	mustContain(t, week, "haiku", "A chart appears when there are ten days of costs.")
	mustNotContain(t, week, "sonnet", `class="stack`)
	mustContain(t, s.page("/costs?by=trigger"), "Scheduled check", "by trigger")
	mustContain(t, s.page("/costs?by=service"), "No service")
	mustNotContain(t, s.page("/costs?environment=elsewhere"), "look at jellyfin")
	for _, path := range []string{"/costs?by=weekday", "/costs?days=3", "/costs?days=x"} {
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
	s.Now = s.Now.AddDate(0, 0, -10)
	s.threeTiers()
	s.Now = s.Now.AddDate(0, 0, 10)
	for n, model := range strings.Fields("a b c d e f g h") {
		s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
			apitest.Run{Tier: 1, Model: model, For: time.Second, Figures: figures(float64(n+1), 1, 1)})
	}
	body := s.page("/costs?by=model")
	mustContain(t, body, "All others", "$6.00", `class="stack stack-rest"`, `class="stack stack-5"`)
	mustNotContain(t, body, `class="stack stack-6"`)
}
