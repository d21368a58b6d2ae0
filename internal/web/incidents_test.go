package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

// wakes is a supervisor that remembers whom it was asked to wake.
type wakes struct {
	*apitest.Control
	woken []ops.CycleID
}

func (w *wakes) Wake(id ops.CycleID) { w.woken = append(w.woken, id) }

// watched is a site whose supervisor remembers whom it woke.
func watched(t *testing.T, change ...func(*web.Options)) (*site, *wakes) {
	t.Helper()
	control := &wakes{}
	s := newSite(t, append(change, func(o *web.Options) {
		original, _ := o.Control.(*apitest.Control)
		control.Control = original
		o.Control = control
	})...)
	return s, control
}

const findings = `{"schema_version":1,"recommended_tier":3,"services_affected":["jellyfin"],` +
	`"check_results":[{"service":"jellyfin","check_type":"http","status":"down","error":"HTTP 502"}],"cooldown_state":{},` +
	`"investigation_findings":"The database is locked.","remediation_attempted":"Restarted it twice."}`

func guarded() ops.Policy {
	return ops.Policy{
		MaxTier: 3, MaxDepth: 2, BudgetChainUSD: 5, Cooldowns: apitest.Limits(),
		Handlers: []ops.Handler{{ID: "tier3", Tier: 3, Family: "claude", Agent: "claude", Model: "opus"}},
	}
}

func reported(service, text string) *ops.IncidentReport {
	return &ops.IncidentReport{
		Title: text, Level: ops.LevelCritical, Class: "unresolved", Services: []string{service}, Findings: text, Tried: text,
		Recommendation: text,
		CostUSD:        0.33, Waits: true, Checks: []ops.CheckResult{{Service: service, CheckType: ops.CheckHTTP, Status: ops.Down, Error: text}},
	}
}

// asks lets a cycle ask whether Tier 3 may start.
func (s *site) asks(text string) (ops.CycleID, ops.Approval) {
	s.t.Helper()
	cycle, session := s.Await(ops.NewCycle{Prompt: text}, guarded(), ops.Step{
		Reason: text, Incident: reported("jellyfin", text),
		Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: 3, Handler: "tier3", Reason: text, ExpiresAt: ops.Ptr(s.Now.Add(13 * time.Minute)), Facts: []ops.Fact{{Service: "jellyfin", Probe: "GET /", Type: ops.CheckHTTP, Class: "5xx"}}},
	}, apitest.Run{
		Tier: 2, Model: "sonnet", For: 3 * time.Minute, Outcome: ops.OutcomeEscalate, Handoff: findings, Figures: figures(0.33, 22, 180_000),
		Decision: &ops.Decision{
			SourceHandler: "tier2", TargetHandler: "tier3", Reason: text, Depth: 2, MaxDepth: 2, Path: []string{"tier2", "tier3"},
			ProcessMode: ops.ProcessTyped, Verdict: ops.VerdictApproval, Services: []string{"jellyfin"},
		},
	})
	loaded, err := s.Store.Journal.Load(s.t.Context(), cycle)
	must(s.t, err)
	a := loaded.Journal.Approvals[0]
	if a.SessionID != session {
		s.t.Fatalf("question is %+v", a)
	}
	return cycle, a
}

// breaks lets a cycle end with a call for a person.
func (s *site) breaks(service, text string) ops.Incident {
	s.t.Helper()
	s.Await(ops.NewCycle{}, guarded(), ops.Step{Reason: text, Incident: reported(service, text)},
		apitest.Run{Tier: 1, Model: "haiku", For: time.Minute, Outcome: ops.OutcomeNeedsHuman, Figures: figures(0.02, 4, 60_000)})
	return s.newestIncident()
}

func (s *site) newestIncident() ops.Incident {
	s.t.Helper()
	i, err := s.Store.People.Incident(s.t.Context(), 1)
	for n := int64(2); err == nil; n++ {
		next, missing := s.Store.People.Incident(s.t.Context(), n)
		if missing != nil {
			return i
		}
		i = next
	}
	s.t.Fatal(err)
	return i
}

func (s *site) post(path string, fields url.Values) answer {
	s.t.Helper()
	return s.do(form(s.t, path, fields))
}

func TestIncidentsPageIsEmptyWhenNothingNeedsYou(t *testing.T) {
	s := newSite(t)
	mustContain(t, s.page("/incidents"), "Nothing needs you.", "Needs you", "Acknowledged", "Resolved")
	for tab, text := range map[string]string{
		"open": "No open incidents.", "acknowledged": "No acknowledged incidents",
		"resolved": "No resolved incidents", "unverified": "No unverified incidents",
	} {
		mustContain(t, s.page("/incidents?tab="+tab), text)
	}
	for _, path := range []string{
		"/incidents?tab=nope", "/incidents?cursor=x", "/incidents/9", "/incidents/x", "/incidents/9/ack",
		"/approvals/9", "/approvals/x", "/approvals/1/maybe",
	} {
		if got := s.get(path).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s gives %d", path, got)
		}
	}
}

func TestAResolveSaysThatTheServiceIsStillDown(t *testing.T) {
	s := newSite(t)
	i := s.breaks("jellyfin", "no answer")
	check := ops.Check{
		At: s.Now, Environment: i.Environment, Service: "jellyfin", Probe: "GET", Type: ops.CheckHTTP, Status: ops.Down, Purpose: ops.ProbeWatch,
	}
	state, _ := health.Observe(ops.CheckState{}, check, health.Thresholds{FailAfter: 1}, s.Now)
	must(t, s.Store.Watch.RecordResults(t.Context(), i.Environment, nil, nil, []ops.CheckState{state}, nil, nil))
	a := s.post(fmt.Sprintf("/incidents/%d/resolve", i.ID), nil)
	mustContain(t, s.page(a.Header.Get("Location")), "is resolved. Note: jellyfin is still down by its own probes: the next cycle looks at it")
}

func TestApprovalCardTellsWhatIsNeededToDecide(t *testing.T) {
	s, _ := watched(t, func(o *web.Options) {
		o.Environments[0].Tools = map[ops.Tier]ops.ToolLists{3: {Tools: []string{"Bash", "Read"}}}
	})
	cycle, a := s.asks("Tier 3 needs a yes.")
	body := s.page("/incidents")
	mustContain(t, body, "Approve: start Tier 3 for jellyfin", fmt.Sprintf("C-%d", cycle), fmt.Sprintf(`href="/sessions/%d"`, a.SessionID),
		"expires <time", "in 10m 00s", "If nobody answers, the cycle ends when it expires and needs a person.", "Tier 3 needs a yes.", "Redeploy services",
		"Tools: Bash, Read",
		"The database is locked.", "Restarted it twice.", "HTTP 502", "1 service: <strong>jellyfin</strong>", "$0.33", "of $5.00 for the cycle",
		"2 of 2 left", fmt.Sprintf(`action="/approvals/%d/deny"`, a.ID), fmt.Sprintf(`formaction="/approvals/%d/approve" formnovalidate`, a.ID),
		"Reason", "required to deny", "tier3 opus")
	// The incident that was opened with the question is not shown a second time.
	mustNotContain(t, body, `class="card incident"`)
	mustContain(t, body, `Needs you <span class="tab-count">1</span>`)
}

func TestAYesToAHandlerThatWasRemovedIsRefused(t *testing.T) {
	s, control := watched(t) // it has no handlers
	_, a := s.asks("Tier 3 needs a yes.")
	done := s.post(fmt.Sprintf("/approvals/%d/approve", a.ID), nil)
	if done.StatusCode != http.StatusConflict || len(control.woken) > 0 {
		t.Errorf("status %d, woken %v", done.StatusCode, control.woken)
	}
	mustContain(t, done.body, "Nothing was changed: the handler &#34;tier3&#34; is not configured any more.")
}

func TestApproveByPostWakesTheCycle(t *testing.T) {
	s, control := watched(t, func(o *web.Options) { o.Environments[0].Policy.Handlers = guarded().Handlers })
	cycle, a := s.asks("Tier 3 needs a yes.")
	for _, path := range []string{
		fmt.Sprintf("/approvals/%d", a.ID), fmt.Sprintf("/approvals/%d/approve", a.ID),
		fmt.Sprintf("/approvals/%d/deny", a.ID),
	} {
		mustContain(t, s.page(path), "Approve: start Tier 3 for jellyfin", `method="post"`)
	}
	if got, _ := s.Store.People.Approval(t.Context(), a.ID); got.Status != ops.ApprovalPending || len(control.woken) > 0 {
		t.Fatalf("looking at it made it %s", got.Status)
	}
	mustNotContain(t, content(s.page(fmt.Sprintf("/approvals/%d/approve", a.ID))), "<span>Deny</span>")
	done := s.post(fmt.Sprintf("/approvals/%d/approve", a.ID), url.Values{"reason": {"go ahead"}})
	if done.StatusCode != http.StatusSeeOther {
		t.Fatalf("status %d\n%s", done.StatusCode, head(done.body))
	}
	got, err := s.Store.People.Approval(t.Context(), a.ID)
	if err != nil || got.Status != ops.ApprovalApproved || got.AnsweredBy != "an operator" || got.Answer != "go ahead" {
		t.Errorf("question is %+v, %v", got, err)
	}
	if len(control.woken) != 1 || control.woken[0] != cycle {
		t.Errorf("woken %v, want %d", control.woken, cycle)
	}
	next := done.Header.Get("Location")
	if !strings.HasPrefix(next, fmt.Sprintf("/cycles/%d?", cycle)) {
		t.Errorf("after a yes the page is %s, where nothing of the work is seen", next)
	}
	mustContain(t, s.page(next), fmt.Sprintf("Approval %d is granted.", a.ID))
	mustContain(t, s.page("/approvals"), "Answered", "Approved", "by an operator at")
}

func TestDenySaysHowLongItLasts(t *testing.T) {
	for given, tt := range map[string]struct {
		lasts time.Duration
		says  string
	}{
		"":     {24 * time.Hour, "No agent works on jellyfin (http 5xx) until 2026-11-15T13:44:"},
		"4h":   {4 * time.Hour, "or until the facts change. Probes keep looking."},
		"0s":   {0, "Only this question is answered: the next cycle may ask again."},
		"soon": {24 * time.Hour, "No agent works on jellyfin"},
	} {
		s, _ := watched(t)
		_, a := s.asks("Tier 3 needs a yes.")
		path := fmt.Sprintf("/approvals/%d", a.ID)
		mustContain(t, s.page(path), `name="for"`, `<option value="24h" selected>`)
		done := s.post(path+"/deny", url.Values{"reason": {"not today"}, "for": {given}})
		got, err := s.Store.People.Approval(t.Context(), a.ID)
		if err != nil || (got.DeniedUntil != nil) != (tt.lasts > 0) || got.DeniedUntil != nil && got.DeniedUntil.Sub(s.Now).Round(time.Minute) != tt.lasts {
			t.Errorf("for %q it lasts until %v, %v", given, got.DeniedUntil, err)
		}
		mustContain(t, s.page(done.Header.Get("Location")), fmt.Sprintf("Approval %d is denied.", a.ID), tt.says)
		if tt.lasts > 0 {
			mustContain(t, s.page("/incidents?tab=open"), "No agent", "somebody said no, until ")
			mustContain(t, s.page("/incidents?tab=needs"), "Nothing needs you.")
			s.Now = s.Now.Add(tt.lasts)
		}
		mustNotContain(t, s.page("/incidents?tab=needs"), "Nothing needs you.")
	}
}

func TestIncidentIsAcknowledgedThenResolved(t *testing.T) {
	s, control := watched(t)
	i := s.breaks("paperless", "The disk is full.")
	body := s.page("/incidents")
	mustContain(t, body, "The disk is full.", "Critical", "Open", "Acknowledge", "Resolve", "Snooze", "Until tomorrow, 09:00", "History",
		"opened", "$0.02",
		fmt.Sprintf(`action="/incidents/%d/ack"`, i.ID))
	done := s.post(fmt.Sprintf("/incidents/%d/ack", i.ID), url.Values{"reason": {"on it"}})
	if done.StatusCode != http.StatusSeeOther {
		t.Fatalf("status %d", done.StatusCode)
	}
	mustContain(t, s.page(done.Header.Get("Location")), fmt.Sprintf("Incident %d is acknowledged.", i.ID), "Acknowledged", "by an operator at",
		"on it")
	mustContain(t, s.page("/incidents?tab=needs"), "Nothing needs you.")
	mustContain(t, s.page("/incidents?tab=acknowledged"), "The disk is full.")

	late := s.post(fmt.Sprintf("/incidents/%d/ack", i.ID), nil)
	if late.StatusCode != http.StatusConflict {
		t.Fatalf("a second acknowledgement gives %d", late.StatusCode)
	}
	mustContain(t, late.body, "Already acknowledged by an operator at 13:42:00.", `role="alert"`)

	if got := s.post(fmt.Sprintf("/incidents/%d/resolve", i.ID), url.Values{"reason": {"new disk"}}).StatusCode; got != http.StatusSeeOther {
		t.Fatalf("status %d", got)
	}
	if len(control.woken) == 0 || control.woken[len(control.woken)-1] != *i.Waiting {
		t.Errorf("woken %v, want %d", control.woken, *i.Waiting)
	}
	mustContain(t, s.page("/incidents?tab=resolved"), "The disk is full.", "by an operator at 13:42:00: new disk")
	for _, action := range []string{"ack", "resolve", "snooze"} {
		late := s.post(fmt.Sprintf("/incidents/%d/%s", i.ID, action), url.Values{"for": {"1h"}})
		if late.StatusCode != http.StatusConflict {
			t.Errorf("%s of a resolved one gives %d", action, late.StatusCode)
		}
		mustContain(t, late.body, "Already resolved by an operator at 13:42:00: new disk.")
		mustContain(t, s.page(fmt.Sprintf("/incidents/%d/%s", i.ID, action)), "Already resolved by an operator")
	}
}

func TestSnoozeEndsAtTheChosenTime(t *testing.T) {
	for choice, want := range map[string]string{
		"1h": "2026-11-14T14:42:00Z", "4h": "2026-11-14T17:42:00Z",
		"tomorrow": "2026-11-15T09:00:00Z",
	} {
		s, _ := watched(t)
		i := s.breaks("paperless", "The disk is full.")
		if got := s.post(fmt.Sprintf("/incidents/%d/snooze", i.ID), url.Values{"for": {choice}}).StatusCode; got != http.StatusSeeOther {
			t.Fatalf("status %d", got)
		}
		got, err := s.Store.People.Incident(t.Context(), i.ID)
		if err != nil || got.Status != ops.IncidentSnoozed || got.SnoozedUntil.Format(time.RFC3339) != want {
			t.Errorf("%s: %+v, %v", choice, got.SnoozedUntil, err)
		}
		mustContain(t, s.page("/incidents?tab=open"), "Snoozed", "until ")
		s.Now = s.Now.Add(48 * time.Hour)
		mustContain(t, s.page("/incidents"), "The disk is full.")
	}
	s, _ := watched(t)
	i := s.breaks("paperless", "The disk is full.")
	if got := s.post(fmt.Sprintf("/incidents/%d/snooze", i.ID),
		url.Values{"for": {"1000h"}}).StatusCode; got != http.StatusUnprocessableEntity {
		t.Errorf("a snooze of any length gives %d", got)
	}
}

func TestALinkFromANoticeOnlyAsks(t *testing.T) {
	s, control := watched(t)
	i := s.breaks("paperless", "The disk is full.")
	for action, text := range map[string]string{
		"ack": "Acknowledge incident 1?", "resolve": "Resolve incident 1?",
		"snooze": "Snooze incident 1?",
	} {
		body := s.page(fmt.Sprintf("/incidents/%d/%s", i.ID, action))
		mustContain(t, body, text, fmt.Sprintf(`<form class="decide" method="post" action="/incidents/%d/%s">`, i.ID, action))
	}
	if got := s.get(fmt.Sprintf("/incidents/%d/explode", i.ID)).StatusCode; got != http.StatusNotFound {
		t.Errorf("an unknown action gives %d", got)
	}
	if got := s.post(fmt.Sprintf("/incidents/%d/explode", i.ID), nil).StatusCode; got != http.StatusNotFound {
		t.Errorf("an unknown action gives %d", got)
	}
	got, err := s.Store.People.Incident(t.Context(), i.ID)
	if err != nil || got.Status != ops.IncidentOpen || len(control.woken) > 0 {
		t.Errorf("looking made it %s", got.Status)
	}
}
