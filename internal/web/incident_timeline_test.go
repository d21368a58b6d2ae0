package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

func TestAnIncidentHasItsStory(t *testing.T) {
	s := newSite(t)
	cycle, approval := s.asks("# Forged heading <b>x</b>")
	i := s.newestIncident()
	path := fmt.Sprintf("/incidents/%d", i.ID)
	body := s.page(path)
	mustContain(t, body, `<ol class="story-steps">`, "Opened", "Detected by a scheduled check", fmt.Sprintf("Cycle %d started", cycle),
		fmt.Sprintf("Approval %d asked", approval.ID), fmt.Sprintf(`href="/approvals/%d"`, approval.ID), `href="/sessions/`,
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
	again, err := s.Store.Cycle(t.Context(), cycle+1)
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
	if _, err := s.Store.AddNotice(t.Context(), ops.Notice{CycleID: &cycle, Kind: ops.NoticeApproval, Level: ops.LevelWarning, Title: "web"}); err != nil {
		t.Fatal(err)
	}
	due, err := s.Store.DueNotices(t.Context(), s.Now.Add(time.Hour), 10)
	if err != nil || len(due) == 0 {
		t.Fatalf("%d notices, %v", len(due), err)
	}
	for _, n := range due {
		n.Status, n.Error = ops.NoticeSkipped, ops.SkippedNoTarget
		must(t, s.Store.SettleNotice(t.Context(), n, nil))
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
		must(t, s.Store.RetryNotice(t.Context(), n.ID, "ada", s.Now))
	}
	due, err = s.Store.DueNotices(t.Context(), s.Now.Add(time.Hour), 10)
	if err != nil || due[len(due)-1].Kind != ops.NoticeTest && due[0].Kind != ops.NoticeTest {
		t.Fatalf("the test is not in the outbox: %v, %v", due, err)
	}
	for _, n := range due {
		n.Status, n.Error, n.SentAt = ops.NoticeSent, "", &s.Now
		n.Deliveries = []ops.Delivery{{Route: "first", To: "ntfy at ntfy.sh (topic 1)", At: s.Now}}
		must(t, s.Store.SettleNotice(t.Context(), n, nil))
	}
	for _, path := range []string{incident, ofCycle} {
		mustContain(t, s.page(path), "Who was told", "ntfy at ntfy.sh (topic 1)", "by the default route")
	}
	for _, path := range []string{"/", incident, ofCycle} {
		mustNotContain(t, s.page(path), "Nobody was told")
	}
	mustContain(t, s.get("/api/v1/incidents/"+fmt.Sprint(i.ID)).body, `"to":"ntfy at ntfy.sh (topic 1)"`, `"nobody_told":null`)
}
