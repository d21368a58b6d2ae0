package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
)

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func TestEveryAnswerCarriesTheSecurityHeaders(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	for _, path := range []string{
		"/", "/sessions", fmt.Sprintf("/sessions/%d", ids[0]), "/nope", "/sessions/99", "/login", "/run",
		"/assets/app.css", "/assets/icons.svg", "/assets/nope", "/favicon.ico",
		"/api/v1/cycles", "/api/v1/nope", "/api/v1/openapi.json", "/api", "/healthz", "/readyz", "/schemas/handoff/v1.json",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			a := s.do(httptest.NewRequestWithContext(t.Context(), method, path, nil))
			for name, want := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			} {
				if got := a.Header.Get(name); got != want {
					t.Errorf("%s %s: %s is %q", method, path, name, got)
				}
			}
		}
	}
}

func TestPagesNeedNothingInlineAndNoOtherHost(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	for _, path := range []string{"/", "/sessions", fmt.Sprintf("/sessions/%d", ids[0]), "/nope"} {
		body := s.get(path).body
		mustNotContain(t, body, "<script>", "<style", " style=", "http://", "https://", " onclick", "hx-on", "js:", "javascript:")
		for _, attribute := range []string{`href="`, `src="`, `action="`} {
			for _, rest := range strings.Split(body, attribute)[1:] {
				if target, _, _ := strings.Cut(rest, `"`); !strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "#") {
					t.Errorf("%s refers to %q", path, target)
				}
			}
		}
	}
}

func TestRequestsFromOtherSitesChangeNothing(t *testing.T) {
	s := newSite(t, withToken("secret"))
	for _, route := range s.changes() {
		method, path, _ := strings.Cut(route, " ")
		for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
			r := form(t, path, url.Values{"theme": {"dark"}})
			r.Method = method
			r.Header.Set(name, value)
			if got := s.do(r).StatusCode; got != http.StatusForbidden {
				t.Errorf("%s with %s %s: status %d", route, name, value, got)
			}
		}
	}
	if len(s.control.Submitted) != 0 {
		t.Errorf("submitted %v", s.control.Submitted)
	}
	own := form(t, "/run", nil)
	own.Header.Set("Sec-Fetch-Site", "same-origin")
	if got := s.do(own).StatusCode; got != http.StatusSeeOther {
		t.Errorf("our own form: status %d", got)
	}
}

func TestOnlyKnownHostNamesAreServed(t *testing.T) {
	journal := newSite(t).Journal
	for _, c := range []struct {
		listen []string
		host   string
		ok     bool
	}{
		{nil, "127.0.0.1:8080", true},
		{nil, "localhost", true},
		{nil, "LOCALHOST.:8080", true},
		{nil, "[::1]:8080", true},
		{nil, "[::1]", true},
		{nil, "127.8.0.1", true},
		{nil, "evil.example", false},
		{nil, "evil.example:8080", false},
		{nil, "127.0.0.1.evil.example", false},
		{nil, "192.168.1.4:8080", false},
		{nil, "0.0.0.0:8080", false},
		{nil, "", false},
		{[]string{"192.168.1.4:8080"}, "192.168.1.4:8080", true},
		{[]string{"ops.lan"}, "OPS.lan:443", true},
		{[]string{"ops.lan"}, "evil.example", false},
		{[]string{"0.0.0.0"}, "ops.lan", true},
		{[]string{"::"}, "ops.lan", true},
		{[]string{""}, "ops.lan", true},
		{[]string{"0.0.0.0"}, "", false},
	} {
		s := siteOver(t, journal, func(o *web.Options) { o.ListenHosts = c.listen })
		for _, path := range []string{"/", "/api/v1/cycles", "/healthz"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Host = c.host
			want := http.StatusMisdirectedRequest
			if c.ok {
				want = http.StatusOK
			}
			if got := s.do(r).StatusCode; got != want {
				t.Errorf("listening on %q, %q for %s: status %d, want %d", c.listen, c.host, path, got, want)
			}
		}
	}
}

func TestBodiesAreBounded(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("x", 80<<10)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/cycles", strings.NewReader(`{"prompt":"`+long+`"}`))
	if got := s.do(r).StatusCode; got != http.StatusRequestEntityTooLarge {
		t.Errorf("API: status %d", got)
	}
	if got := s.do(form(t, "/run", url.Values{"environment": {long}})).StatusCode; got != http.StatusBadRequest {
		t.Errorf("form: status %d", got)
	}
	if len(s.control.Submitted) != 0 {
		t.Errorf("submitted %v", s.control.Submitted)
	}
}

func TestTokenMatrix(t *testing.T) {
	const token = "correct horse"
	s := newSite(t, withToken(token))
	cookie := s.logIn(token)
	forged := *cookie
	forged.Value = forged.Value[:len(forged.Value)-2] + "AA"
	with := func(header, value string, c *http.Cookie) func(string) answer {
		return func(path string) answer {
			s.Now = s.Now.Add(6 * time.Second) // as often as one may be wrong
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			if header != "" {
				r.Header.Set(header, value)
			}
			if c != nil {
				r.AddCookie(c)
			}
			return s.do(r)
		}
	}
	for name, c := range map[string]struct {
		get                   func(string) answer
		page, machine, health int
	}{
		"nothing":         {with("", "", nil), 303, 401, 200},
		"right bearer":    {with("Authorization", "Bearer "+token, nil), 200, 200, 200},
		"lower case":      {with("Authorization", "bearer "+token, nil), 200, 200, 200},
		"wrong bearer":    {with("Authorization", "Bearer wrong", nil), 303, 401, 200},
		"longer bearer":   {with("Authorization", "Bearer "+token+"x", nil), 303, 401, 200},
		"empty bearer":    {with("Authorization", "Bearer ", nil), 303, 401, 200},
		"basic":           {with("Authorization", "Basic "+token, nil), 303, 401, 200},
		"cookie":          {with("", "", cookie), 200, 200, 200},
		"forged cookie":   {with("", "", &forged), 303, 401, 200},
		"token, unsigned": {with("", "", &http.Cookie{Name: cookie.Name, Value: token}), 303, 401, 200},
	} {
		for path, want := range map[string]int{
			"/": c.page, "/sessions": c.page, "/nope": map[bool]int{true: 404, false: 303}[c.page == 200],
			"/api/v1/cycles": c.machine, "/api/v1/openapi.json": c.machine,
			"/api/v1/nope": map[bool]int{true: 404, false: 401}[c.machine == 200],
			"/healthz":     c.health, "/readyz": c.health, "/assets/app.css": c.health, "/schemas/handoff/v1.json": c.health,
		} {
			a := c.get(path)
			if a.StatusCode != want {
				t.Errorf("%s, %s: status %d, want %d", name, path, a.StatusCode, want)
			}
			if a.StatusCode == http.StatusUnauthorized {
				if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
					t.Errorf("%s, %s: refused with %q", name, path, got)
				}
			}
		}
	}
}

func (s *site) logIn(token string) *http.Cookie {
	s.t.Helper()
	a := s.do(form(s.t, "/login", url.Values{"token": {token}, "next": {"/sessions"}}))
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/sessions" || len(a.Cookies()) != 1 {
		s.t.Fatalf("log in: status %d to %q, cookies %v", a.StatusCode, a.Header.Get("Location"), a.Cookies())
	}
	return a.Cookies()[0]
}

func TestLoginCookieIsStrictAndEnds(t *testing.T) {
	s := newSite(t, withToken("secret"))
	cookie := s.logIn("secret")
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || strings.Contains(cookie.Value, "secret") {
		t.Errorf("cookie %+v", cookie)
	}
	if other := s.logIn("secret"); other.Value == cookie.Value {
		t.Error("two logins have the same cookie")
	}
	status := func() int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.AddCookie(cookie)
		return s.do(r).StatusCode
	}
	if status() != http.StatusOK {
		t.Fatal("the cookie does not open the page")
	}
	begin := s.Now
	s.Now = begin.Add(8 * 24 * time.Hour)
	if status() != http.StatusSeeOther {
		t.Error("the cookie never ends")
	}
	s.Now = begin
	out := form(t, "/logout", nil)
	out.AddCookie(cookie)
	if got := s.do(out).StatusCode; got != http.StatusSeeOther {
		t.Fatalf("log out: status %d", got)
	}
	if status() != http.StatusSeeOther {
		t.Error("a logged-out cookie still opens the page")
	}
}

func TestLoginBehindTLSSetsASecureCookie(t *testing.T) {
	s := newSite(t, withToken("secret"))
	r := form(t, "/login", url.Values{"token": {"secret"}})
	r.Header.Set("X-Forwarded-Proto", "https")
	if a := s.do(r); len(a.Cookies()) != 1 || !a.Cookies()[0].Secure {
		t.Errorf("cookies %v", a.Cookies())
	}
}

func TestWrongLoginIsToldAndKeepsTheWay(t *testing.T) {
	s := newSite(t, withToken("secret"))
	a := s.get("/sessions?status=failed")
	if got := a.Header.Get("Location"); got != "/login?next=%2Fsessions%3Fstatus%3Dfailed" {
		t.Errorf("goes to %q", got)
	}
	login := s.page(a.Header.Get("Location"))
	mustContain(t, login, `name="next" value="/sessions?status=failed"`)
	mustNotContain(t, login, "Run now", `href="/sessions"`)
	a = s.do(form(t, "/login", url.Values{"token": {"wrong"}, "next": {"/sessions"}}))
	if a.StatusCode != http.StatusUnauthorized || len(a.Cookies()) != 0 {
		t.Errorf("status %d, cookies %v", a.StatusCode, a.Cookies())
	}
	mustContain(t, a.body, `role="alert"`, "Wrong token.")
	a = s.do(form(t, "/login", url.Values{"token": {"secret"}, "next": {"https://evil.example"}}))
	if got := a.Header.Get("Location"); got != "/" {
		t.Errorf("goes on to %q", got)
	}
}

func TestMachinesGetProblemDocuments(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Ready = func() error { return errors.New("the journal is being read") } })
	for path, status := range map[string]int{
		"/api/v1/nope": 404, "/api": 404, "/api/": 404, "/api/v2/cycles": 404, "/api/v1/sessions/99": 404, "/readyz": 503,
	} {
		a := s.get(path)
		var problem struct {
			Status int    `json:"status"`
			Title  string `json:"title"`
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal([]byte(a.body), &problem); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if a.StatusCode != status || problem.Status != status || problem.Title == "" || problem.Detail == "" ||
			a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: status %d, %s, %+v", path, a.StatusCode, a.Header.Get("Content-Type"), problem)
		}
	}
}

func TestACrashedPageIsAnErrorPage(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.NextCheck = func() map[string]time.Time { panic("boom") }
	})
	a := s.get("/")
	if a.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", a.StatusCode)
	}
	mustContain(t, a.body, "Something went wrong")
	mustNotContain(t, a.body, "boom")
}

func TestAFailingJournalIsAnErrorPage(t *testing.T) {
	s := newSite(t)
	s.control.Err = errors.New("disk full at /secret/path")
	a := s.do(form(t, "/run", nil))
	if a.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", a.StatusCode)
	}
	mustNotContain(t, a.body, "/secret/path")
	s.control.Err = fmt.Errorf("run: %w", ops.ErrConflict)
	if got := s.do(form(t, "/run", nil)).StatusCode; got != http.StatusConflict {
		t.Errorf("a conflict gives %d", got)
	}
}

func TestAssetsAreKeptByVersion(t *testing.T) {
	s := newSite(t)
	_, rest, _ := strings.Cut(s.page("/"), `rel="stylesheet" href="`)
	path, _, _ := strings.Cut(rest, `"`)
	if got := s.get(path).Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("%s: Cache-Control %q", path, got)
	}
	a := s.get("/assets/app.css")
	if got := a.Header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("without version: Cache-Control %q", got)
	}
	if got := a.Header.Get("Content-Type"); got != "text/css; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
}
