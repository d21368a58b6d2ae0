package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/access"
	signed "claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

// question lets a cycle ask for an approval, with a plan or without, and returns it.
func (s *site) question(plan ...ops.ApprovedStep) ops.Approval {
	s.t.Helper()
	policy, step := asked()
	if len(plan) > 0 {
		step.Approval.Plan, step.Approval.PlanHash = plan, "hash-of-the-plan"
	}
	s.Await(ops.NewCycle{}, policy, step, apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff})
	a, err := s.Store.People.Approval(s.t.Context(), 1)
	must(s.t, err)
	return a
}

// link is the address of an answer.
func (s *site) link(t signed.Token) string {
	s.t.Helper()
	key, err := s.Store.People.AnswerKey(s.t.Context())
	must(s.t, err)
	if t.Expires.IsZero() {
		t.Expires = s.Now.Add(time.Hour)
	}
	if t.Recipient == "" {
		t.Recipient = signed.LinkRecipient("route mail")
	}
	return "/answer/" + signed.Sign(key, t)
}

func (s *site) confirm(link string) answer {
	return s.do(form(s.t, link, url.Values{"confirm": {"yes"}}))
}

func (s *site) approvalStatus() ops.ApprovalStatus {
	s.t.Helper()
	a, err := s.Store.People.Approval(s.t.Context(), 1)
	must(s.t, err)
	return a.Status
}

func TestALinkShowsAndOnlyItsButtonDenies(t *testing.T) {
	s := newSite(t, withToken("secret"))
	s.question()
	link := s.link(signed.Token{Subject: signed.Subject{Kind: signed.KindApproval, ID: 1}, Decision: signed.Deny})
	for range 3 { // programs that check mail follow links
		a := s.get(link)
		if a.StatusCode != http.StatusOK || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Content-Security-Policy") == "" {
			t.Fatalf("status %d: %s", a.StatusCode, head(a.body))
		}
		mustContain(t, a.body, "Deny", "start Tier 3", `name="confirm"`)
		mustNotContain(t, a.body, `class="rail"`)
	}
	// A bare POST, and one from another site, change nothing.
	if got := s.do(form(t, link, nil)).StatusCode; got != http.StatusForbidden {
		t.Errorf("a POST without the form: %d", got)
	}
	foreign := form(t, link, url.Values{"confirm": {"yes"}})
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if got := s.do(foreign).StatusCode; got != http.StatusForbidden {
		t.Errorf("from another site: %d", got)
	}
	if got := s.approvalStatus(); got != ops.ApprovalPending {
		t.Fatalf("status %s", got)
	}
	if a := s.confirm(link); a.StatusCode != http.StatusOK || !strings.Contains(a.body, "Denied") {
		t.Errorf("status %d: %s", a.StatusCode, head(a.body))
	}
	a, err := s.Store.People.Approval(t.Context(), 1)
	if err != nil || a.Status != ops.ApprovalDenied || a.AnsweredBy != "link to route mail" {
		t.Errorf("%+v, %v", a, err)
	}
	for name, again := range map[string]answer{"shown again": s.get(link), "used again": s.confirm(link)} {
		if again.StatusCode != http.StatusConflict || !strings.Contains(again.body, "Nothing was changed") {
			t.Errorf("%s: %d", name, again.StatusCode)
		}
	}
	token := strings.TrimPrefix(link, "/answer/")
	for _, e := range s.audits() {
		if strings.Contains(e, token[:20]) {
			t.Errorf("the record holds the token: %s", e)
		}
	}
	if !slices.ContainsFunc(s.audits(), func(e string) bool { return strings.Contains(e, "route mail") && strings.Contains(e, "link") }) {
		t.Errorf("recorded %q", s.audits())
	}
}

func TestALinkThatDoesNotFitIsRefusedWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		token  signed.Token
		change func(s *site)
		status int
		says   string
	}{
		"expired":    {signed.Token{Subject: signed.Subject{Kind: signed.KindApproval, ID: 1}, Decision: signed.Deny, Plan: "hash-of-the-plan"}, func(s *site) { s.Now = s.Now.Add(2 * time.Hour) }, http.StatusGone, "has expired"},
		"other plan": {signed.Token{Subject: signed.Subject{Kind: signed.KindApproval, ID: 1}, Decision: signed.Deny, Plan: "another"}, nil, http.StatusConflict, "plan is not the one"},
		"no plan":    {signed.Token{Subject: signed.Subject{Kind: signed.KindApproval, ID: 1}, Decision: signed.Deny}, nil, http.StatusConflict, "plan is not the one"},
		"unknown id": {signed.Token{Subject: signed.Subject{Kind: signed.KindApproval, ID: 99}, Decision: signed.Deny}, nil, http.StatusNotFound, "no longer on record"},
		"a button":   {signed.Token{Subject: signed.Subject{Kind: signed.KindApproval, ID: 1}, Decision: signed.Deny, Recipient: "telegram:7", Plan: "hash-of-the-plan"}, nil, http.StatusNotFound, "not valid"},
		"odd kind":   {signed.Token{Subject: signed.Subject{Kind: "session", ID: 1}, Decision: signed.Deny}, nil, http.StatusNotFound, "not valid"},
		"answered": {signed.Token{Subject: signed.Subject{Kind: signed.KindApproval, ID: 1}, Decision: signed.Deny, Plan: "hash-of-the-plan"}, func(s *site) {
			if _, err := s.Store.People.Answer(s.t.Context(), 1, ops.ApprovalApproved, "ann", "", s.Now); err != nil {
				s.t.Fatal(err)
			}
		}, http.StatusConflict, "Already approved"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, withToken("secret"))
			s.question(ops.ApprovedStep{PlanStep: ops.PlanStep{Service: "jellyfin", Action: "restart"}, Does: "docker restart jellyfin"})
			before := s.approvalStatus()
			link := s.link(c.token)
			if c.change != nil {
				c.change(s)
				before = s.approvalStatus()
			}
			shown, sent := s.get(link), s.confirm(link)
			if shown.StatusCode != c.status {
				t.Errorf("shown: %d, want %d", shown.StatusCode, c.status)
			}
			mustContain(t, shown.body, c.says, "Nothing was changed")
			if sent.StatusCode/100 != 4 {
				t.Errorf("sent: %d", sent.StatusCode)
			}
			if got := s.approvalStatus(); got != before {
				t.Errorf("the approval is %s", got)
			}
		})
	}
}

func TestAForgedLinkIsRefusedAndLimited(t *testing.T) {
	s := newSite(t, withToken("secret"))
	s.question()
	link := s.link(signed.Token{Subject: signed.Subject{Kind: signed.KindApproval, ID: 1}, Decision: signed.Deny})
	limited := 0
	for n := range 40 {
		forged := link[:len(link)-1-n] + "A" + link[len(link)-n:]
		if forged == link {
			continue
		}
		switch got := s.confirm(forged).StatusCode; got {
		case http.StatusNotFound:
		case http.StatusTooManyRequests:
			limited++
		default:
			t.Errorf("forged at %d: %d", n, got)
		}
	}
	if limited == 0 || s.approvalStatus() != ops.ApprovalPending {
		t.Errorf("%d limited, the approval is %s", limited, s.approvalStatus())
	}
	for _, e := range s.audits() {
		if !strings.Contains(e, "/answer/[token]") {
			t.Errorf("recorded %s", e)
		}
	}
}

func TestAnApprovalNeedsMoreThanALink(t *testing.T) {
	s := newSite(t, withToken("secret"), func(o *web.Options) { o.OperatorToken = true })
	s.question()
	link := s.link(signed.Token{Subject: signed.Subject{Kind: signed.KindApproval, ID: 1}, Decision: signed.Approve})
	mustContain(t, s.get(link).body, "needs a sign-in", "/login?next=%2fapprovals%2f1%2fapprove")
	if got := s.confirm(link).StatusCode; got != http.StatusForbidden || s.approvalStatus() != ops.ApprovalPending {
		t.Errorf("sent: %d, %s", got, s.approvalStatus())
	}
	responder := s.logIn(s.makeToken("phone", access.RoleResponder, 0))
	admin := s.logIn("secret")
	mustContain(t, s.with("GET", link, "", responder).body, "needs a sign-in")
	mustContain(t, s.with("GET", link, "", admin).body, `href="/approvals/1/approve"`)
	r := httptest.NewRequestWithContext(t.Context(), "POST", link, strings.NewReader("confirm=yes"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(admin)
	if got := s.do(r).StatusCode; got != http.StatusForbidden || s.approvalStatus() != ops.ApprovalPending {
		t.Errorf("with a login the link itself still does not approve: %d", got)
	}
}

func TestALinkAcknowledgesAndSnoozes(t *testing.T) {
	s := newSite(t, withToken("secret"))
	s.question()
	snooze := s.link(signed.Token{Subject: signed.Subject{Kind: signed.KindIncident, ID: 1}, Decision: signed.Snooze})
	mustContain(t, s.get(snooze).body, "Snooze for 2 hours", "jellyfin needs a decision")
	if a := s.confirm(snooze); a.StatusCode != http.StatusOK {
		t.Errorf("snooze: %d %s", a.StatusCode, head(a.body))
	}
	i, err := s.Store.People.Incident(t.Context(), 1)
	if err != nil || i.Status != ops.IncidentSnoozed || i.SnoozedUntil == nil || i.SnoozedUntil.Sub(s.Now) > 2*time.Hour {
		t.Errorf("%+v, %v", i, err)
	}
	s.Now = s.Now.Add(30 * time.Minute)
	if a := s.confirm(snooze); a.StatusCode != http.StatusConflict {
		t.Errorf("used again: %d", a.StatusCode)
	}
	if a := s.confirm(s.link(signed.Token{Subject: signed.Subject{Kind: signed.KindIncident, ID: 1}, Decision: signed.Acknowledge})); a.StatusCode != http.StatusOK {
		t.Errorf("acknowledge: %d", a.StatusCode)
	}
	if _, err := s.Store.People.ResolveIncident(t.Context(), 1, "ann", "", s.Now); err != nil {
		t.Fatal(err)
	}
	a := s.get(s.link(signed.Token{Subject: signed.Subject{Kind: signed.KindIncident, ID: 1}, Decision: signed.Acknowledge, Recipient: signed.LinkRecipient("other")}))
	if a.StatusCode != http.StatusConflict || !strings.Contains(a.body, "is over") {
		t.Errorf("resolved: %d", a.StatusCode)
	}
}
