package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

// asked is a policy with a tier that a person must approve.
func asked() (ops.Policy, ops.Step) {
	return ops.Policy{MaxTier: 3, MaxDepth: 2, ApprovalTier: 3, BudgetChainUSD: 5}, ops.Step{
		Kind: ops.StepAwait, Reason: "Tier 3 needs an approval",
		Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: 3, Handler: "tier3", Reason: "The volume must be mounted again."},
		Incident: &ops.IncidentReport{Title: "jellyfin needs a decision", Level: ops.LevelCritical, Class: "down", Services: []string{"jellyfin"}, Waits: true},
	}
}

func TestBothAddressesShowTheSameListOfCycles(t *testing.T) {
	s := newSite(t)
	id, _ := s.Chain(ops.NewCycle{Trigger: ops.TriggerProbe, Problem: "redis: connection refused"}, ops.CycleResolved, "done",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff})
	s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine", apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy})
	table := func(path string) string {
		_, rows, _ := strings.Cut(s.page(path), "<table")
		rows, _, _ = strings.Cut(rows, "</table>")
		return rows
	}
	list := table("/cycles")
	mustContain(t, list, fmt.Sprintf(`<a href="/cycles/%d" title="redis: connection refused">`, id), "> Scheduled check</a>")
	if table("/sessions") != list {
		t.Errorf("the lists differ:\n%s\n%s", list, table("/sessions"))
	}
	if rows := strings.Count(list, "<tr "); rows != 3 {
		t.Errorf("%d lines for two cycles and a header", rows)
	}
	mustContain(t, s.page("/"), `href="/cycles"`)
}

func TestTheSearchFindsTheProblem(t *testing.T) {
	s := newSite(t)
	s.Chain(ops.NewCycle{Problem: "redis: connection refused"}, ops.CycleResolved, "done")
	s.Chain(ops.NewCycle{Problem: "web: HTTP 502"}, ops.CycleResolved, "done")
	body := s.page("/cycles?q=REFUSED")
	mustContain(t, body, "redis: connection refused")
	mustNotContain(t, body, "HTTP 502")
}

func TestAPageOfCyclesIsSmall(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Environments = append(o.Environments, ops.Environment{Name: "staging"}) })
	for range 20 {
		s.threeTiers()
	}
	const most = 40 << 10
	if n := len(s.page("/cycles")); n > most {
		t.Errorf("%d bytes, at most %d", n, most)
	}
}

func TestTheListShowsADashForWhatIsUnknown(t *testing.T) {
	s := newSite(t)
	s.Chain(ops.NewCycle{}, ops.CycleFailed, "failed", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionFailed, Error: "no result"})
	_, table, _ := strings.Cut(s.page("/cycles"), "<tbody")
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(table, "")
	if !strings.Contains(text, "–") || strings.Contains(text, "Not available") || strings.Contains(text, "$0") {
		t.Errorf("the list shows %q", strings.Join(strings.Fields(text), " "))
	}
}

func TestACycleHasItsPage(t *testing.T) {
	s := newSite(t)
	cycle, ids := s.threeTiers()
	body := s.page(fmt.Sprintf("/cycles/%d", cycle))
	mustContain(t, body, "<h1>jellyfin 502</h1>", fmt.Sprintf("C-%d", cycle), "Resolved", "Tier 3 repaired jellyfin.", "Scheduled check", "$0.83", ">37<",
		`<ol class="story-steps">`,
		fmt.Sprintf(`action="/cycles/%d/run"`, cycle))
	for _, id := range ids {
		mustContain(t, body, fmt.Sprintf(`href="/sessions/%d"`, id))
	}
	mustNotContain(t, body, "Stop cycle", "Review and answer")
	for _, path := range []string{"/cycles/99", "/cycles/x", "/cycles/0"} {
		if got := s.get(path).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s: %d", path, got)
		}
	}
	if got := s.get(fmt.Sprintf("/sessions?q=c-%d", cycle)).Header.Get("Location"); got != fmt.Sprintf("/cycles/%d", cycle) {
		t.Errorf("a search for a cycle leads to %q", got)
	}
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), fmt.Sprintf(`href="/cycles/%d"`, cycle))
}

func TestAWaitingCycleLinksItsApprovalAndIncident(t *testing.T) {
	s := newSite(t)
	policy, step := asked()
	cycle, _ := s.Await(ops.NewCycle{Problem: "jellyfin: HTTP 502"}, policy, step,
		apitest.Run{Tier: 2, For: time.Minute, Outcome: ops.OutcomeEscalate, Handoff: handoff})
	s.Now = s.Now.Add(5 * time.Minute)
	body := s.page(fmt.Sprintf("/cycles/%d", cycle))
	mustContain(t, body, "<h1>jellyfin: HTTP 502</h1>", "Review and answer", "Needs approval", `href="/approvals/1"`, "The volume must be mounted again.", `href="/incidents/1"`, "Stop cycle")
	if _, err := s.Store.People.Answer(t.Context(), 1, ops.ApprovalApproved, "ann", "go", s.Now); err != nil {
		t.Fatal(err)
	}
	s.Now = s.Now.Add(time.Hour)
	body = s.page(fmt.Sprintf("/cycles/%d", cycle))
	mustContain(t, body, "ann approved Tier 3 after 5 min")
	mustNotContain(t, body, "Review and answer")
}

func TestACycleIsStoppedFromItsPage(t *testing.T) {
	s := newSite(t)
	done, _ := s.threeTiers()
	cycle, _ := s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionRunning})
	got := s.do(form(t, fmt.Sprintf("/cycles/%d/stop", cycle), nil))
	if got.StatusCode != http.StatusSeeOther || len(s.control.Cancelled) != 1 || s.control.Cancelled[0] != cycle {
		t.Fatalf("%d, cancelled %v", got.StatusCode, s.control.Cancelled)
	}
	mustContain(t, s.page(got.Header.Get("Location")), fmt.Sprintf("Stopping C-%d.", cycle))
	if got := s.do(form(t, fmt.Sprintf("/cycles/%d/stop", done), nil)).StatusCode; got != http.StatusConflict {
		t.Errorf("stopping an ended cycle gives %d", got)
	}
}

func TestACycleIsRunAgainWithItsPromptAndLimits(t *testing.T) {
	s := newSite(t)
	cycle, _ := s.Chain(ops.NewCycle{Prompt: "look at jellyfin", Problem: "jellyfin: HTTP 502", Options: ops.CycleOptions{DryRun: true, MaxTier: 2}},
		ops.CycleResolved, "done")
	alert, _ := s.Chain(ops.NewCycle{Trigger: ops.TriggerAlert, Prompt: "Alerts of other systems", Problem: "web: slow"}, ops.CycleResolved, "done")
	gone, _ := s.Chain(ops.NewCycle{Environment: "gone"}, ops.CycleResolved, "done")
	got := s.do(form(t, fmt.Sprintf("/cycles/%d/run", cycle), nil))
	if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/cycles/4") {
		t.Fatalf("%d to %s", got.StatusCode, got.Header.Get("Location"))
	}
	n := s.control.Submitted[0]
	if n.Prompt != "look at jellyfin" || n.Environment != "default" || n.Trigger != ops.TriggerManual || !n.Options.DryRun || n.Options.MaxTier != 2 ||
		n.Problem != "" {
		t.Errorf("submitted %+v", n)
	}
	s.do(form(t, fmt.Sprintf("/cycles/%d/run", alert), nil))
	if n := s.control.Submitted[1]; n.Problem != "web: slow" {
		t.Errorf("submitted %+v", n)
	}
	if got := s.do(form(t, fmt.Sprintf("/cycles/%d/run", gone), nil)).StatusCode; got != http.StatusConflict || len(s.control.Submitted) != 2 {
		t.Errorf("an environment that is gone: %d, %d submitted", got, len(s.control.Submitted))
	}
}

func TestTheCallsOfASessionAreCounted(t *testing.T) {
	s := newSite(t)
	cycle, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 2, For: 4 * time.Minute, Status: ops.SessionRunning})
	for i, r := range []ops.GuardRecord{
		{Gate: ops.GateHook, ToolUseID: "a", Tool: "Bash", Input: `{"command":"docker ps <all>"}`, Allowed: true, Rule: "read"},
		{Gate: ops.GateShell, ToolUseID: "a", Tool: "Bash", Input: `{"command":"docker ps <all>"}`, Allowed: true, Rule: "read"},
		{Gate: ops.GateHook, ToolUseID: "b", Tool: "Bash", Input: `{"command":"rm -rf /"}`, Rule: "never", Reason: "Never."},
	} {
		r.Tier, r.Digest = 2, fmt.Sprint(i)
		s.Judge(ids[0], r)
	}
	for _, path := range []string{fmt.Sprintf("/cycles/%d", cycle), fmt.Sprintf("/sessions/%d", ids[0])} {
		body := s.page(path)
		mustContain(t, body, `data-label="Calls" class="num"><span title="2">2</span>`, `data-label="Refused" class="num"><span title="1">1</span>`)
		if tables := strings.Count(body, "<table"); tables != 1 {
			t.Errorf("%s has %d tables", path, tables)
		}
	}
}

func TestEscalatedHasOneColour(t *testing.T) {
	s := newSite(t)
	cycle, ids := s.threeTiers()
	for _, path := range []string{"/cycles", fmt.Sprintf("/cycles/%d", cycle), fmt.Sprintf("/sessions/%d", ids[0])} {
		for _, found := range regexp.MustCompile(`tone-(\w+)"[^>]*>(?:<svg.*?</svg>)<span>Escalated<`).FindAllStringSubmatch(s.page(path), -1) {
			if found[1] != "warn" {
				t.Errorf("%s shows Escalated as %s", path, found[1])
			}
		}
	}
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "<span>Escalated</span>")
}

func TestTheResultIsRenderedAndRawBelow(t *testing.T) {
	s := newSite(t)
	report := `{"schema_version":1,"outcome":"needs_human","summary":"The **disk** is full.",` +
		`"check_results":[{"service":"redis<b>","check_type":"database","status":"down","error":"connection refused"},` +
		`{"service":"web","check_type":"http","status":"healthy","error":"","response_time_ms":12}],` +
		`"actions":[{"service":"redis","action":"restart","success":false,"detail":"no space left"}],` +
		`"events":[{"level":"warning","service":"redis","message":"out of space"}],"memories":[{"category":"storage","service":"redis","observation":"small disk"}]}`
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleNeedsHuman, "The disk is full.",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeNeedsHuman, Report: report})
	_, result, _ := strings.Cut(s.page(fmt.Sprintf("/sessions/%d?tab=result", ids[0])), `<div class="panel panel-result">`)
	shown, raw, _ := strings.Cut(result, "<summary>Raw</summary>")
	mustContain(t, shown, "Needs you", "<strong>disk</strong>", "<h3>Services</h3>", "redis&lt;b&gt;", "connection refused", "Down", "Healthy", "12 ms",
		"restart redis", "no space left", "out of space", "small disk")
	mustNotContain(t, shown, "schema_version", "&#34;", "<b>")
	mustContain(t, raw, "&#34;schema_version&#34;: 1")
}

func TestPagesShowAProbationAndWhatDidNotHold(t *testing.T) {
	s, _ := watched(t)
	id := s.Repair("jellyfin")
	mustContain(t, s.page(fmt.Sprintf("/cycles/%d", id)), "Resolved", "On probation until")
	mustContain(t, s.page("/incidents/1"), "Resolved", "; on probation until 13:51")
	s.Now = s.Now.Add(4 * time.Minute)
	s.Relapse("jellyfin")
	cycle := s.page(fmt.Sprintf("/cycles/%d", id))
	mustContain(t, cycle, "Resolved, did not hold", "The repair did not hold: the same check failed again")
	mustNotContain(t, cycle, "On probation until")
	mustContain(t, s.page("/cycles"), "Resolved, did not hold")
	mustContain(t, s.page("/incidents"), "the repair did not hold at 13:45", "The next cycle may start at 2026-11-14 13:48 UTC", "seen 2 times")
	mustContain(t, s.page("/incidents/1"), "Still wrong", "jellyfin is down again: HTTP 503", "A human is needed")
	// What held is not on probation for ever.
	id = s.Repair("paperless")
	s.Now = s.Now.Add(11 * time.Minute)
	mustNotContain(t, s.page(fmt.Sprintf("/cycles/%d", id)), "robation")
	mustNotContain(t, s.page("/incidents/2"), "robation")
}

func TestARepairThatDidNotHoldEndsNoCallOfAnEarlierCycle(t *testing.T) {
	s, _ := watched(t)
	s.ends("grafana", "The certificate is too old.")
	s.Repair("jellyfin")
	mustNotContain(t, content(s.page("/")), "<strong>C-1</strong>")
	s.Relapse("jellyfin")
	mustContain(t, content(s.page("/")), "<strong>C-1</strong>")
}

func TestAnIncidentHasItsStory(t *testing.T) {
	s := newSite(t)
	cycle, approval := s.asks("# Forged heading <b>x</b>")
	i := s.newestIncident()
	path := fmt.Sprintf("/incidents/%d", i.ID)
	body := s.page(path)
	mustContain(t, body, `<ol class="story-steps">`, "(by a scheduled check)", fmt.Sprintf(`href="/cycles/%d">Cycle %d<`, cycle, cycle),
		fmt.Sprintf(`href="/approvals/%d">Approval %d<`, approval.ID, approval.ID), `href="/sessions/`,
		"Run again", "Report (Markdown)", `href="`+path+`/report.md"`, "A human is needed")
	a := s.get(path + "/report.md")
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/markdown; charset=utf-8" ||
		!strings.Contains(a.Header.Get("Content-Disposition"), fmt.Sprintf(`attachment; filename="incident-%d.md"`, i.ID)) {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
	mustContain(t, a.body, "# Incident 1: ", `\# Forged heading &lt;b&gt;x`, "## Story", "waits for an answer")
	if got := s.get("/incidents/99/report.md").StatusCode; got != http.StatusNotFound {
		t.Errorf("report of a missing incident: %d", got)
	}
	if got := s.post(path+"/run", nil).StatusCode; got != http.StatusSeeOther {
		t.Errorf("run again: %d", got)
	}
	again, err := s.Store.Journal.Cycle(t.Context(), cycle+1)
	if err != nil || again.Environment != i.Environment || again.Trigger != ops.TriggerManual || strings.Contains(again.Prompt, "Forged") ||
		!strings.Contains(again.Prompt, "jellyfin") {
		t.Errorf("queued %+v, %v", again, err)
	}
	mustContain(t, s.page(path+"?done=run"), "A cycle for incident 1 is queued.")
}

func TestAnIncidentThatACycleRepairsNeedsNobody(t *testing.T) {
	s := newSite(t)
	report := reported("jellyfin", "HTTP 502")
	report.Handled, report.Waits = true, false
	s.Await(ops.NewCycle{}, guarded(), ops.Step{Reason: "Tier 2 works on it", Incident: report},
		apitest.Run{Tier: 1, Model: "haiku", For: time.Minute, Outcome: ops.OutcomeEscalate})
	mustContain(t, s.page("/incidents?tab=needs"), "Nothing needs you.")
	mustContain(t, s.page("/incidents?tab=open"), "Being repaired", "jellyfin: HTTP 502")
}

// Told means delivered: until then the overview, the incident and its cycle say that nobody was told, and lead to where that is changed.
func TestNobodyIsToldUntilANoticeWasDelivered(t *testing.T) {
	const nobody, add = "Nobody was told: no notification target", `href="/notifications#targets"`
	s := newSite(t)
	cycle, _ := s.asks("web is down")
	i := s.newestIncident()
	incident, ofCycle := fmt.Sprintf("/incidents/%d", i.ID), fmt.Sprintf("/cycles/%d", cycle)
	if _, err := s.Store.People.AddNotice(t.Context(), ops.Notice{CycleID: &cycle, Kind: ops.NoticeApproval, Level: ops.LevelWarning, Title: "web"}); err != nil {
		t.Fatal(err)
	}
	due, err := s.Store.People.DueNotices(t.Context(), s.Now.Add(time.Hour), 10)
	if err != nil || len(due) == 0 {
		t.Fatalf("%d notices, %v", len(due), err)
	}
	for _, n := range due {
		n.Status, n.Error = ops.NoticeSkipped, ops.SkippedNoTarget
		must(t, s.Store.People.SettleNotice(t.Context(), n, nil))
	}
	for _, path := range []string{"/", incident, ofCycle} {
		mustContain(t, s.page(path), nobody, add)
	}
	mustContain(t, s.page("/notifications"), "there is no notification target", "apprise_urls")
	mustContain(t, s.get("/api/v1/incidents/"+fmt.Sprint(i.ID)).body, `"nobody_told":"`+nobody+`"`, `"told":null`)
	if got := s.post("/notifications/test", nil); got.StatusCode != http.StatusSeeOther {
		t.Fatalf("test: %d", got.StatusCode)
	}
	for _, n := range due {
		must(t, s.Store.People.RetryNotice(t.Context(), n.ID, "ada", s.Now))
	}
	due, err = s.Store.People.DueNotices(t.Context(), s.Now.Add(time.Hour), 10)
	if err != nil || due[len(due)-1].Kind != ops.NoticeTest && due[0].Kind != ops.NoticeTest {
		t.Fatalf("the test is not in the outbox: %v, %v", due, err)
	}
	for _, n := range due {
		n.Status, n.Error, n.SentAt = ops.NoticeSent, "", &s.Now
		n.Deliveries = []ops.Delivery{{Route: "first", To: "ntfy at ntfy.sh (topic 1)", At: s.Now}}
		must(t, s.Store.People.SettleNotice(t.Context(), n, nil))
	}
	for _, path := range []string{incident, ofCycle} {
		mustContain(t, s.page(path), "Who was told", "ntfy at ntfy.sh (topic 1)", "by the default route")
	}
	for _, path := range []string{"/", incident, ofCycle} {
		mustNotContain(t, s.page(path), "Nobody was told")
	}
	mustContain(t, s.get("/api/v1/incidents/"+fmt.Sprint(i.ID)).body, `"to":"ntfy at ntfy.sh (topic 1)"`, `"nobody_told":null`)
}
