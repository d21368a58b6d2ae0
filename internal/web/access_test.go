package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

// reader makes a token that may only look.
func (s *site) reader() string {
	s.t.Helper()
	_, secret, err := s.Store.People.AddToken(s.t.Context(), store.Token{Name: "reader", Role: string(access.RoleRead), CreatedAt: s.Now, CreatedBy: "test"})
	must(s.t, err)
	return secret
}

// with makes a request that carries a token or a cookie.
func (s *site) with(method, path, token string, cookie *http.Cookie) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if cookie != nil {
		r.AddCookie(cookie)
	}
	return s.do(r)
}

// audits returns what was recorded about people, the oldest first.
func (s *site) audits() []string {
	s.t.Helper()
	events, err := s.Store.Journal.Events(s.t.Context(), store.EventFilter{Kind: "audit"})
	must(s.t, err)
	var out []string
	for _, e := range slices.Backward(events) {
		out = append(out, fmt.Sprintf("%s %s", e.Level, e.Message.Words()))
	}
	return out
}

func TestAReadOnlyTokenMayOnlyLook(t *testing.T) {
	s := newSite(t, withToken("full"))
	reader := s.reader()
	cycle, ids := s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionRunning})
	cookie := s.logIn(reader)
	for _, path := range []string{"/", "/sessions", "/api/v1/cycles", "/api/v1/stats", "/metrics", "/api/v1/openapi.json"} {
		if got := s.with("GET", path, reader, nil).StatusCode; got != http.StatusOK {
			t.Errorf("GET %s with the read-only token: %d", path, got)
		}
		if got := s.with("GET", path, "", cookie).StatusCode; got != http.StatusOK {
			t.Errorf("GET %s with a read-only login: %d", path, got)
		}
	}
	for _, path := range []string{
		"/run", fmt.Sprintf("/sessions/%d/stop", ids[0]), "/api/v1/cycles", fmt.Sprintf("/api/v1/cycles/%d/cancel", cycle),
		fmt.Sprintf("/api/v1/sessions/%d/stop", ids[0]), "/api/v1/approvals/1/approve", "/api/v1/incidents/1/ack", "/api/v1/memories",
	} {
		if got := s.with("POST", path, reader, nil).StatusCode; got != http.StatusForbidden {
			t.Errorf("POST %s with the read-only token: %d", path, got)
		}
		if got := s.with("POST", path, "", cookie).StatusCode; got != http.StatusForbidden {
			t.Errorf("POST %s with a read-only login: %d", path, got)
		}
	}
	for _, method := range []string{"DELETE", "PUT", "PATCH"} {
		if got := s.with(method, "/api/v1/memories/1", reader, nil).StatusCode; got != http.StatusForbidden {
			t.Errorf("%s: %d", method, got)
		}
	}
	if len(s.control.Submitted)+len(s.control.Cancelled) != 0 {
		t.Errorf("submitted %v, cancelled %v", s.control.Submitted, s.control.Cancelled)
	}
	if got := s.audits(); len(got) < 3 || !strings.Contains(got[2], "warning token reader from 192.0.2.1: POST /run was refused") {
		t.Errorf("recorded %q", got)
	}
	if got := s.with("POST", "/api/v1/cycles", "full", nil).StatusCode; got != http.StatusAccepted {
		t.Errorf("the full token: %d", got)
	}
}

func TestAReadOnlyCookieCannotBecomeAFullOne(t *testing.T) {
	s := newSite(t, withToken("full"))
	cookie := *s.logIn(s.reader())
	cookie.Value = "f" + cookie.Value[1:]
	if got := s.with("GET", "/", "", &cookie).StatusCode; got != http.StatusSeeOther {
		t.Errorf("a changed cookie: %d", got)
	}
}

func TestEveryActionIsRecordedWithItsAuthor(t *testing.T) {
	s := newSite(t, withToken("secret"))
	cookie := s.logIn("secret")
	s.with("POST", "/api/v1/cycles", "secret", nil)
	s.with("POST", "/run", "", cookie)
	s.with("POST", "/api/v1/cycles/99/cancel", "secret", nil)
	s.with("GET", "/api/v1/cycles", "secret", nil)
	s.with("POST", "/theme", "", cookie)
	s.with("POST", "/logout", "", cookie)
	want := []string{
		"info an operator logged in from 192.0.2.1",
		"info an operator from 192.0.2.1: POST /api/v1/cycles (202 Accepted)",
		"info an operator from 192.0.2.1: POST /run (303 See Other)",
		"info an operator logged out from 192.0.2.1",
	}
	if got := s.audits(); !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestACommandOfThisMachineIsTheAuthor(t *testing.T) {
	s := newSite(t, withToken("secret"))
	r := httptest.NewRequestWithContext(web.WithLocalUser(t.Context(), "alice"), "POST", "/api/v1/cycles", nil)
	r.RemoteAddr = "control socket"
	if got := s.do(r).StatusCode; got != http.StatusAccepted {
		t.Errorf("status %d", got)
	}
	if got := s.audits(); !slices.Equal(got, []string{"info alice from control socket: POST /api/v1/cycles (202 Accepted)"}) {
		t.Errorf("recorded %q", got)
	}
	if got := s.control.Submitted; len(got) != 1 || got[0].Trigger != ops.TriggerManual {
		t.Errorf("submitted %+v", got)
	}
}

// TestLoopbackNeedsATokenToo asks for everything as an unknown process of the same machine.
func TestLoopbackNeedsATokenToo(t *testing.T) {
	for _, s := range []*site{newSite(t, withToken("secret")), newSite(t, withToken(""))} {
		ask := func(method, path, token string) answer {
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			r.RemoteAddr = "127.0.0.1:4711"
			if token != "none" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			return s.do(r)
		}
		for _, path := range []string{"/healthz", "/readyz", "/login", "/favicon.ico", "/schemas/handoff/v1.json"} {
			if got := ask("GET", path, "none").StatusCode; got != http.StatusOK {
				t.Errorf("%s: %d", path, got)
			}
		}
		for _, path := range []string{"/api/v1/cycles", "/metrics", "/api/v1/openapi.json"} {
			a := ask("GET", path, "none")
			if a.StatusCode != http.StatusUnauthorized || a.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: %d, %s", path, a.StatusCode, a.Header.Get("Content-Type"))
			}
			if got := ask("GET", path, "").StatusCode; got != http.StatusUnauthorized {
				t.Errorf("%s with an empty token: %d", path, got)
			}
		}
		for _, path := range []string{"/", "/sessions", "/config"} {
			if a := ask("GET", path, "none"); a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), "/login") {
				t.Errorf("%s: %d to %q", path, a.StatusCode, a.Header.Get("Location"))
			}
		}
		if a := ask("POST", "/api/v1/approvals/1/approve", "none"); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("an approval: %d", a.StatusCode)
		}
	}
}

func TestASignInLinkWorksOnce(t *testing.T) {
	s := newSite(t, withToken("secret"))
	link := s.signInLink("alice")
	head := httptest.NewRequestWithContext(t.Context(), "HEAD", link, nil)
	early := httptest.NewRequestWithContext(t.Context(), "GET", link, nil)
	early.Header.Set("Sec-Purpose", "prefetch;prerender")
	for _, r := range []*http.Request{head, early} {
		if a := s.do(r); len(a.Cookies()) != 0 {
			t.Errorf("%s in advance signs in", r.Method)
		}
	}
	a := s.get(link + "&next=/sessions")
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/sessions" || len(a.Cookies()) != 1 {
		t.Fatalf("status %d to %q, cookies %v", a.StatusCode, a.Header.Get("Location"), a.Cookies())
	}
	if got := s.with("GET", "/sessions", "", a.Cookies()[0]).StatusCode; got != http.StatusOK {
		t.Errorf("with its cookie: %d", got)
	}
	s.with("POST", "/run", "", a.Cookies()[0])
	if a := s.get(link); a.StatusCode != http.StatusUnauthorized || len(a.Cookies()) != 0 || !strings.Contains(a.body, "claudeops open") {
		t.Errorf("a second time: %d, %v", a.StatusCode, a.Cookies())
	}
	if got := s.audits(); len(got) < 2 || got[0] != "info alice logged in from 192.0.2.1" ||
		got[1] != "info alice from 192.0.2.1: POST /run (303 See Other)" {
		t.Errorf("recorded %q", got)
	}
	late := s.signInLink("alice")
	s.Now = s.Now.Add(10 * time.Minute)
	if a := s.get(late); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("after ten minutes: %d", a.StatusCode)
	}
	if got := s.get("/login?code=").StatusCode; got != http.StatusUnauthorized {
		t.Errorf("without a code: %d", got)
	}
}

// signInLink is a new sign-in link.
func (s *site) signInLink(user string) string {
	s.t.Helper()
	path, err := web.SignInPath(s.t.Context(), s.Store.People, s.Now, user)
	must(s.t, err)
	return path
}

func TestASignInLinkIsUsedUpInABrowserThatIsSignedIn(t *testing.T) {
	s := newSite(t, withToken("secret"))
	link := s.signInLink("alice")
	if a := s.with("GET", link, "", s.logIn("secret")); a.StatusCode != http.StatusSeeOther || len(a.Cookies()) != 0 {
		t.Errorf("signed in: %d, %v", a.StatusCode, a.Cookies())
	}
	if a := s.get(link); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("somebody else: %d", a.StatusCode)
	}
}

func TestAWrongTokenBesideALoginIsRefused(t *testing.T) {
	s := newSite(t, withToken("secret"))
	cookie := s.logIn("secret")
	for _, path := range []string{"/api/v1/cycles", "/sessions"} {
		if a := s.with("GET", path, "wrong", cookie); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
		if a := s.with("GET", path, "", cookie); a.StatusCode != http.StatusOK {
			t.Errorf("%s with the cookie alone: %d", path, a.StatusCode)
		}
	}
}

func TestASessionsConnectionIsRefusedEvenWithTheToken(t *testing.T) {
	s := newSite(t, withToken("secret"), func(o *web.Options) {
		o.Refuse = func(r *http.Request) string {
			if r.Header.Get("From-Session") != "" {
				return "This connection comes from a session."
			}
			return ""
		}
	})
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/cycles", nil)
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("From-Session", "yes")
	if got := s.do(r).StatusCode; got != http.StatusForbidden {
		t.Errorf("status %d", got)
	}
	if got := s.with("GET", "/api/v1/cycles", "secret", nil).StatusCode; got != http.StatusOK {
		t.Errorf("another connection: %d", got)
	}
}

// TestApprovalsWithoutSeparationNeedTheOperatorsToken is about machines where nothing tells agents from the operator.
func TestApprovalsWithoutSeparationNeedTheOperatorsToken(t *testing.T) {
	for _, operator := range []bool{true, false} {
		s := newSite(t, withToken("secret"), func(o *web.Options) { o.StrictApprovals, o.OperatorToken = true, operator })
		want := http.StatusForbidden
		if operator {
			want = http.StatusNotFound // there is no such approval
		}
		local := func(token string) int {
			r := httptest.NewRequestWithContext(web.WithLocalUser(t.Context(), "alice"), "POST", "/api/v1/approvals/1/approve", nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			return s.do(r).StatusCode
		}
		for name, got := range map[string][2]int{
			"token":                   {s.with("POST", "/api/v1/approvals/1/approve", "secret", nil).StatusCode, want},
			"login":                   {s.with("POST", "/approvals/1/approve", "", s.logIn("secret")).StatusCode, want},
			"link":                    {s.with("POST", "/approvals/1/approve", "", s.get(s.signInLink("a")).Cookies()[0]).StatusCode, http.StatusForbidden},
			"command":                 {local(""), http.StatusForbidden},
			"command with the token":  {local("secret"), want},
			"command with read token": {local(s.reader()), http.StatusForbidden},
			"denial by a link":        {s.with("POST", "/approvals/1/deny", "", s.get(s.signInLink("a")).Cookies()[0]).StatusCode, http.StatusNotFound},
		} {
			if got[0] != got[1] {
				t.Errorf("%s (token of the operator: %v): %d, want %d", name, operator, got[0], got[1])
			}
		}
	}
}

func TestWrongLoginsAreLimitedAndLockNobodyOut(t *testing.T) {
	s := newSite(t, withToken("secret"))
	attempt := func(from, token string) answer {
		r := form(t, "/login", url.Values{"token": {token}})
		r.RemoteAddr = from + ":1000"
		return s.do(r)
	}
	for i := range 10 {
		if got := attempt("192.0.2.7", "wrong").StatusCode; got != http.StatusUnauthorized {
			t.Fatalf("attempt %d: %d", i, got)
		}
	}
	a := attempt("192.0.2.7", "wrong")
	if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "6" || len(a.Cookies()) != 0 {
		t.Errorf("status %d, Retry-After %q, cookies %v", a.StatusCode, a.Header.Get("Retry-After"), a.Cookies())
	}
	if got := attempt("192.0.2.7", "secret").StatusCode; got != http.StatusSeeOther {
		t.Errorf("the right token: %d", got)
	}
	if got := attempt("192.0.2.8", "wrong").StatusCode; got != http.StatusUnauthorized {
		t.Errorf("another address: %d", got)
	}
}

func TestWrongTokensAreCountedRecordedAndLimited(t *testing.T) {
	s := newSite(t, withToken("secret"))
	ask := func(from, token string) answer {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/cycles", nil)
		r.RemoteAddr = from + ":1000"
		r.Header.Set("Authorization", "Bearer "+token)
		return s.do(r)
	}
	for range 10 {
		if got := ask("192.0.2.1", "wrong").StatusCode; got != http.StatusUnauthorized {
			t.Fatalf("status %d", got)
		}
	}
	if got := s.audits(); len(got) != 10 || got[0] != "warning unknown from 192.0.2.1: sent a wrong token: GET /api/v1/cycles" {
		t.Errorf("recorded %q", got)
	}
	a := ask("192.0.2.1", "wrong")
	if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Content-Type") != "application/problem+json" || a.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, %s", a.StatusCode, a.Header.Get("Content-Type"))
	}
	// Guesses from many addresses are limited together.
	limited := 0
	for n := range 200 {
		if ask(fmt.Sprintf("198.51.100.%d", n), "wrong").StatusCode == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 100 {
		t.Errorf("%d of 200 guesses from different addresses were refused", limited)
	}
	if got := ask("192.0.2.1", "secret").StatusCode; got != http.StatusOK {
		t.Errorf("the right token: %d", got)
	}
	if body := s.with("GET", "/metrics", "secret", nil).body; !strings.Contains(body, "claudeops_wrong_tokens_total 211") {
		t.Error("the metric does not count 211 wrong tokens")
	}
	if got := len(s.audits()); got > 101 {
		t.Errorf("%d rows were recorded", got)
	}
}

func TestTheAPIIsLimitedByToken(t *testing.T) {
	s := newSite(t, withToken("secret"))
	reader := s.reader()
	var refused int
	for range 450 {
		if s.with("GET", "/api/v1/nothing", "secret", nil).StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 50 {
		t.Errorf("%d of 450 were refused", refused)
	}
	if got := s.with("GET", "/api/v1/nothing", reader, nil).StatusCode; got != http.StatusNotFound {
		t.Errorf("another token: %d", got)
	}
	if got := s.with("GET", "/", "secret", nil).StatusCode; got != http.StatusOK {
		t.Errorf("a page: %d", got)
	}
	s.Now = s.Now.Add(time.Second)
	if got := s.with("GET", "/api/v1/nothing", "secret", nil).StatusCode; got != http.StatusNotFound {
		t.Errorf("a second later: %d", got)
	}
}

func TestALoginIsRenewedWhileItIsUsed(t *testing.T) {
	s := newSite(t, withToken("secret"))
	first := s.logIn("secret")
	if a := s.with("GET", "/", "", first); len(a.Cookies()) != 0 {
		t.Errorf("a fresh login is replaced at once: %v", a.Cookies())
	}
	s.Now = s.Now.Add(2 * time.Hour)
	a := s.with("GET", "/", "", first)
	if a.StatusCode != http.StatusOK || len(a.Cookies()) != 1 || a.Cookies()[0].Value == first.Value {
		t.Fatalf("status %d, cookies %v", a.StatusCode, a.Cookies())
	}
	second := a.Cookies()[0]
	if !second.HttpOnly || second.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie %+v", second)
	}
	if a := s.with("GET", "/", "", first); a.StatusCode != http.StatusOK || len(a.Cookies()) != 0 {
		t.Errorf("a request under way with the old one: status %d, cookies %v", a.StatusCode, a.Cookies())
	}
	s.Now = s.Now.Add(2 * time.Minute)
	if got := s.with("GET", "/", "", first).StatusCode; got != http.StatusSeeOther {
		t.Errorf("the old one later: %d", got)
	}
	if got := s.with("GET", "/", "", second).StatusCode; got != http.StatusOK {
		t.Errorf("the new one: %d", got)
	}
}

func TestALoginHasALastDay(t *testing.T) {
	s := newSite(t, withToken("secret"))
	cookie := s.logIn("secret")
	begin := s.Now
	for s.Now.Sub(begin) < 7*24*time.Hour-time.Hour {
		s.Now = s.Now.Add(6 * time.Hour)
		a := s.with("GET", "/", "", cookie)
		if a.StatusCode != http.StatusOK {
			break
		}
		if len(a.Cookies()) > 0 {
			cookie = a.Cookies()[0]
		}
	}
	if used := s.Now.Sub(begin); used < 6*24*time.Hour {
		t.Errorf("a login in use ended after %s", used)
	}
	s.Now = begin.Add(7*24*time.Hour + time.Second)
	if got := s.with("GET", "/", "", cookie).StatusCode; got != http.StatusSeeOther {
		t.Errorf("after a week: %d", got)
	}
}

func TestALogoutOutlivesARestart(t *testing.T) {
	s := newSite(t, withToken("secret"))
	kept, ended := s.logIn("secret"), s.logIn("secret")
	s.with("POST", "/logout", "", ended)
	again := siteOver(t, s.Journal, withToken("secret"))
	if got := again.with("GET", "/", "", kept).StatusCode; got != http.StatusOK {
		t.Errorf("the login that was kept: %d", got)
	}
	if got := again.with("GET", "/", "", ended).StatusCode; got != http.StatusSeeOther {
		t.Errorf("the login that was ended: %d", got)
	}
	if got := siteOver(t, s.Journal, withToken("other")).with("GET", "/", "", kept).StatusCode; got != http.StatusSeeOther {
		t.Errorf("with another token: %d", got)
	}
}

func TestMetricsAreGuardedLikeTheAPI(t *testing.T) {
	s := newSite(t, withToken("secret"))
	if a := s.get("/metrics"); a.StatusCode != http.StatusUnauthorized || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("without the token: status %d, %s", a.StatusCode, a.Header.Get("Content-Type"))
	}
	if got := s.with("GET", "/metrics", "secret", nil).StatusCode; got != http.StatusOK {
		t.Errorf("with the token: status %d", got)
	}
}

func TestTheDescriptionOfTheAPIAsksForALogin(t *testing.T) {
	s := newSite(t, withToken("secret"))
	if a := s.get("/api/v1/openapi.json"); a.StatusCode != http.StatusUnauthorized || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("without a login: status %d, %s", a.StatusCode, a.Header.Get("Content-Type"))
	}
	cookie := s.logIn("secret")
	if a := s.with("GET", "/api/v1/openapi.json", "", cookie); a.StatusCode != http.StatusOK || !strings.Contains(a.body, `"/incidents/{id}"`) {
		t.Errorf("with a login: status %d, %s", a.StatusCode, head(a.body))
	}
}
