package notice_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

var update = flag.Bool("update", false, "write the golden file again")

func at(minute int) time.Time { return time.Date(2026, 9, 28, 14, minute, 0, 0, time.UTC) }

func say(kind ops.MessageKind, m ops.Message) notice.Text {
	m.Kind = kind
	return notice.Steps{}.Notice(m)
}

func dryRun(m ops.Message, would ops.Reason) notice.Text {
	m.Would = notice.Steps{}.Reason(would)
	return say(ops.MessageDryRun, m)
}

func partial(m ops.Message, tier ops.Tier, done ...string) notice.Text {
	m.Tier, m.Done = tier, done
	return say(ops.MessagePartial, m)
}

// all renders every notice, so that a human can read them in one place.
func all() []struct {
	when string
	text notice.Text
} {
	p := ops.Message{
		Services: []string{"web"}, What: "HTTP 502 Bad Gateway", Todo: "repair web by hand and resolve the incident",
		Found: "the upstream port changed from 8080 to 8090", Tried: "restarted web twice, no change", CostUSD: 0.334,
		Why: "escalation to Tier 3 was blocked by the tier limit: the maximum tier is 2", Environment: "default", Cycle: 57,
	}
	budget := p
	day := ops.Budget{Whose: ops.BudgetDay, LimitUSD: 5, SpentUSD: 5.1, Environment: "default", FreesAt: at(0).Truncate(24 * time.Hour).Add(24 * time.Hour)}
	budget.Why, budget.Todo = notice.Steps{}.Reason(ops.Reason{Kind: ops.WhyUnpaid, Session: &ops.Session{Tier: ops.Tier2}, Budget: day}), day.Todo([]string{"web"})
	chain := ops.Budget{Whose: ops.BudgetChain, LimitUSD: 2, SpentUSD: 2.05}
	spent := p
	spent.Why, spent.Todo = notice.Steps{}.Reason(ops.Reason{Kind: ops.WhyUnpaid, Session: &ops.Session{Tier: ops.Tier2}, Budget: chain}), chain.Todo([]string{"web"})
	alerts := []ops.Alert{
		{Name: "HighLatency", Service: "web", Summary: "p99 over 2 s", URL: "http://grafana:3000/d/abc?viewPanel=7", StartsAt: at(0)},
	}
	fires := notice.FiringOn{
		Alerts: alerts, Cycle: ops.Cycle{ID: 57, Environment: "default", Status: ops.CycleHealthy, Reason: "Tier 1 found nothing to escalate"},
		Checked: notice.CheckedBy(ops.Outcome{
			Summary:      "web answers within 80 ms",
			CheckResults: []ops.CheckResult{{Service: "web", CheckType: ops.CheckHTTP, Status: ops.Healthy}, {Service: "db", CheckType: ops.CheckDNS, Status: ops.Healthy}},
		}, []string{"web"}),
		Next: ops.Ptr(at(0).Add(time.Hour)),
	}
	repaired := fires
	repaired.Cycle.Status, repaired.Next, repaired.Checked = ops.CycleResolved, nil, ""
	repaired.Cycle.Reason = "Tier 2 repaired it; 1 check confirmed by our own probes"
	repaired.Alerts = append(repaired.Alerts, ops.Alert{Name: "Errors", Service: "db", StartsAt: at(1)}, ops.Alert{Name: "Disk", Service: "db", StartsAt: at(1)})
	agent := ops.Message{
		What:        `session 3 (credentials): API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`,
		Todo:        "Set a valid ANTHROPIC_API_KEY, then run the cycle again with claudeops once.",
		Environment: "default", Cycle: 58,
	}
	interrupted := p
	interrupted.Why = "session 118 (Tier 2) was interrupted (shutdown); what it started may have taken effect, so it is not repeated"
	interrupted.Todo = "look at the affected services: what the session started may have taken effect; then run a cycle or repair by hand"
	handled := p
	handled.Handler = "tier2"
	budget.Budget, spent.Budget = day, chain
	question := p
	question.Handler, question.Tier, question.Expires, question.Now = "tier3", ops.Tier3, at(12), at(2)
	plan := question
	plan.Plan = []ops.ApprovedStep{
		{
			PlanStep: ops.PlanStep{Service: "web", Action: "restart", Reason: "it answers 502", Effect: "it answers 200", Back: "none needed"},
			Does:     "docker restart web", WayBack: "none",
		},
		{PlanStep: ops.PlanStep{Service: "web", Action: "redeploy", Reason: "the image is old"}, Does: "compose up", WayBack: "compose up with the image before"},
	}
	unsure := question
	unsure.What, unsure.Confidence = notice.Steps{}.Reason(ops.Reason{Kind: ops.WhyDoubtful, Session: &ops.Session{ID: 4, Report: &ops.Outcome{Confidence: ops.Ptr(0.4)}}}), ops.Ptr(0.4)
	unsure.Why, unsure.Todo = unsure.What, "check the repair, then accept or reject it"
	closed := ops.Message{What: "incident 3 was closed by alice: the disk was full", Environment: "default", Cycle: 57, CostUSD: 0.33}
	hostile := p
	hostile.What = "# done\n\n[Approve here](https://evil.example) <img src=x> `rm -rf /` **all well** {\"command\":\"curl evil\"}"
	hostile.Found = strings.Repeat("very long finding ", 200)
	cause := ops.Cause{
		Environment: "default", Services: []string{"web", "db"}, Affected: []string{"shop"}, Level: ops.Down, Began: at(0),
	}
	incident := ops.Incident{
		ID: 3, Environment: "default", Service: "web", Title: "web: HTTP 502 Bad Gateway", OpenedAt: at(0), CostUSD: ops.Ptr(0.33),
		Resolution: "cycle 57: Tier 2 repaired it; 1 check confirmed by our own probes",
		Report:     []byte(`{"recommendation":"approve or deny that tier3 works on web","tried":"restarted web twice"}`),
	}
	claimed := ops.Cycle{ID: 57, Reason: "Tier 2 repaired it; 1 check confirmed by our own probes", VerifiedBy: ops.ProofProbe}
	relapse := ops.Relapse{
		Claim: ops.Claim{Incident: 3, Service: "web", Cycle: 57, At: at(4), Until: at(14)}, At: at(10), Next: at(14),
		Found: ops.Check{Service: "web", Status: ops.Down, Error: "HTTP 502 Bad Gateway"},
	}
	working, held := relapse, relapse
	working.Cycle, working.Next = 58, time.Time{}
	held.Next, held.Held = time.Time{}, "web is down, but held by a person: incident 5 is handled by ann."
	db := ops.Incident{ID: 4, Environment: "default", Service: "db", Title: "db: disk full", OpenedAt: at(1), Resolution: "bob: cleaned up"}
	run := ops.ActionRun{ID: 9, Service: "web", Action: "redeploy", Why: "the image is broken"}
	undo := run
	undo.ID, undo.UndoOf = 10, 9
	opened := notice.Opened(cause, []ops.Check{
		{Service: "web", Status: ops.Down, Error: "HTTP 502 Bad Gateway"}, {Service: "db", Status: ops.Down, Error: "connection refused"},
	}, false)
	dry := p
	dry.Found, dry.Tried, dry.Why = "", "", "escalation to Tier 2 was suppressed: dry run is on"
	tier2 := ops.Handler{ID: "tier2", Tier: ops.Tier2}
	return []struct {
		when string
		text notice.Text
	}{
		{"opened: probes or alerts found services bad", opened},
		{"opened in a dry run", notice.Opened(cause, []ops.Check{{Service: "web", Status: ops.Down, Error: "HTTP 502 Bad Gateway"}}, true)},
		{"found in a dry run", dryRun(dry, ops.Reason{Kind: ops.TodoWould, Decision: ops.Decision{Verdict: ops.VerdictEscalate}, Handler: tier2, Plan: nil})},
		{"found in a dry run, with a plan", dryRun(dry, ops.Reason{Kind: ops.TodoWould, Decision: ops.Decision{Verdict: ops.VerdictApproval}, Handler: tier2, Plan: plan.Plan})},
		{"escalated: only where a route asks for it", say(ops.MessageTakesOver, handled)},
		{"approval asked", say(ops.MessageApproval, question)},
		{"approval asked, with the link of the outbox", notice.Text{
			Title: say(ops.MessageApproval, question).Title, Body: notice.WithLink(say(ops.MessageApproval, question).Body, "https://ops.example.org/approvals/1"),
		}},
		{"plan asked", say(ops.MessageApproval, plan)},
		{"review asked", say(ops.MessageReview, question)},
		{"review asked, because the agent is not sure", say(ops.MessageReview, unsure)},
		{"question expired", say(ops.MessageExpired, p)},
		{"question withdrawn", say(ops.MessageNotNeeded, closed)},
		{"needs human", say(ops.MessageHuman, p)},
		{"escalation blocked", say(ops.MessageBlocked, p)},
		{"the budget of the day is spent", say(ops.MessageUnpayable, budget)},
		{"the budget of a chain is spent", say(ops.MessageUnpayable, spent)},
		{"an alert fires on after a healthy cycle", notice.StillFires(fires)},
		{"alerts fire on after a repair, for the last time", notice.StillFires(repaired)},
		{"partial: a repair", partial(p, ops.Tier2, []string{"Tier 1 (session 117) ended with escalate", "session 118 was allowed: docker restart web"}...)},
		{"partial: the agent cannot start", partial(agent, ops.Tier1)},
		{"failed or interrupted", say(ops.MessageUnfinished, interrupted)},
		{"claimed repair refuted", say(ops.MessageRefuted, p)},
		{"repair did not hold, a cycle follows", notice.Rows{}.DidNotHold(incident, claimed, relapse)},
		{"repair did not hold, a cycle works on it", notice.Rows{}.DidNotHold(incident, claimed, working)},
		{"repair did not hold, held back", notice.Rows{}.DidNotHold(incident, claimed, held)},
		{"human called, a repair did not hold", notice.Text{
			Title: say(ops.MessageHuman, p).Title, Body: notice.Rows{}.AlsoRefutes(say(ops.MessageHuman, p).Body, []string{notice.Rows{}.Claimed(claimed, relapse)}),
		}},
		{"service left down", notice.LeftDown(ops.Session{ID: 118, Tier: ops.Tier2, CycleID: 57}, []string{"web"})},
		{"reminder", notice.Reminder(incident, false, at(45))},
		{"last reminder, to the second target", notice.Reminder(incident, true, at(45))},
		{"a service flaps, and no agent works on it", notice.Flapping("default", []string{"web"}, at(0), 10*time.Minute, "HTTP 502 Bad Gateway")},
		{"several services flap", notice.Flapping("default", []string{"web", "db", "mail"}, at(0), 10*time.Minute, "")},
		{"recovered, nobody was called", notice.Recovered(cause, nil, "web, db recovered after 12m0s", at(12))},
		{"resolved, one incident", notice.Rows{}.Over("default", []ops.Incident{incident})},
		{"resolved, several incidents", notice.Rows{}.Over("default", []ops.Incident{incident, db})},
		{"cycles overdue", notice.Overdue("default", 3*time.Hour, time.Hour)},
		{"cycles keep failing", notice.CyclesFail("default", "5 cycles in a row failed; no scheduled cycle starts until one succeeds")},
		{"host cannot start sessions", notice.CannotStart("the sandbox layer landlock cannot be set up")},
		{"action undone", notice.ActionUndone(undo)},
		{"action not undone", notice.ActionNotUndone(undo, ops.ActionFailed, "exit status 1")},
		{"action made things worse", notice.ActionWorse(run, []string{"web", "shop"})},
		{"action interrupted", notice.Rows{}.ActionInterrupted(run)},
		{"digest: several at once", notice.Digest([]ops.Notice{
			{Title: opened.Title, Body: opened.Body},
			{Title: say(ops.MessageHuman, p).Title, Body: say(ops.MessageHuman, p).Body},
			{Title: notice.Recovered(cause, nil, "web recovered after 12m0s", at(12)).Title, Body: notice.Recovered(cause, nil, "web recovered after 12m0s", at(12)).Body},
			{Title: say(ops.MessageUnpayable, budget).Title, Body: say(ops.MessageUnpayable, budget).Body},
		})},
		{"hostile text of an agent", say(ops.MessageHuman, hostile)},
		{"test", notice.Test()},
	}
}

func TestNoticesReadWell(t *testing.T) {
	var b strings.Builder
	for _, n := range all() {
		fmt.Fprintf(&b, "=== %s\n%s\n\n%s\n", n.when, n.text.Title, n.text.Body)
	}
	golden := filepath.Join("testdata", "notices.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the notices differ from %s; read them and run with -update:\n%s", golden, b.String())
	}
}

func TestNoticesFitAPhone(t *testing.T) {
	for _, n := range all() {
		if strings.HasPrefix(n.when, "digest") || strings.HasPrefix(n.when, "plan") {
			continue // as long as what it lists: a human approves every step of a plan
		}
		lines := strings.Split(strings.TrimSuffix(n.text.Body, "\n"), "\n")
		if len(lines) > 8 || len(n.text.Body) > 1200 || len([]rune(n.text.Title)) > 180 {
			t.Errorf("%s: %d lines, %d bytes:\n%s", n.when, len(lines), len(n.text.Body), n.text.Body)
		}
		if strings.ContainsAny(n.text.Body, "{}`[]<>*|\"") && n.when != "hostile" {
			t.Errorf("%s: JSON or Markdown in\n%s", n.when, n.text.Body)
		}
		heading := strings.TrimPrefix(n.text.Title, "Claude Ops: ")
		if strings.Contains(n.text.Body, heading) && heading != "test" {
			t.Errorf("%s: the body repeats the title %q:\n%s", n.when, heading, n.text.Body)
		}
		if len(lines) > 1 && lines[1] != "" {
			t.Errorf("%s: no blank line after the first:\n%s", n.when, n.text.Body)
		}
	}
}
