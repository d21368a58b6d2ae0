package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/web"
	"claudeops/internal/web/login"
	"claudeops/test/oidctest"
)

// oidcSite is a site whose people sign in with a provider on loopback.
func oidcSite(t *testing.T) (*site, *oidctest.Provider) {
	t.Helper()
	var provider *oidctest.Provider
	s := newSite(t, withToken("secret"), func(o *web.Options) {
		provider = oidctest.New(t, o.Clock)
		o.OIDC = login.NewProvider(login.ProviderOptions{
			Issuer: provider.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret,
			RedirectURL: "http://127.0.0.1:8080" + web.OIDCCallback, Clock: o.Clock,
			Rules: []login.Rule{
				{Role: access.RoleAdmin, Groups: []string{"sre"}},
				{Role: access.RoleResponder, Users: []string{"alice", "bob@example.org"}},
				{Role: access.RoleRead, Groups: []string{"staff"}},
			},
		})
	})
	return s, provider
}

// oidcBegin begins a sign-in and returns where the browser is sent, and its cookie.
func (s *site) oidcBegin(next string) (string, *http.Cookie) {
	s.t.Helper()
	a := s.get("/login/oidc?next=" + url.QueryEscape(next))
	if a.StatusCode != http.StatusSeeOther || len(a.Cookies()) != 1 {
		s.t.Fatalf("status %d, cookies %v: %s", a.StatusCode, a.Cookies(), head(a.body))
	}
	return a.Header.Get("Location"), a.Cookies()[0]
}

func (s *site) oidcReturn(sent url.Values, cookie *http.Cookie) answer {
	s.t.Helper()
	return s.with("GET", "/login/oidc/callback?"+sent.Encode(), "", cookie)
}

// login is the cookie of a login that a response sets, nil without one.
func (a answer) login() *http.Cookie {
	for _, c := range a.Cookies() {
		if c.Name == "claudeops_login" && c.Value != "" {
			return c
		}
	}
	return nil
}

func TestPeopleSignInWithAnIdentityProvider(t *testing.T) {
	for name, c := range map[string]struct {
		claims, info map[string]any
		role         access.Role
	}{
		"a group makes an admin":           {map[string]any{"sub": "1", "preferred_username": "carol", "groups": []string{"staff", "sre"}}, nil, access.RoleAdmin},
		"a user name makes a responder":    {map[string]any{"sub": "42", "preferred_username": "alice", "groups": []string{}}, nil, access.RoleResponder},
		"a verified address":               {map[string]any{"sub": "3", "email": "Bob@example.org", "email_verified": true, "preferred_username": "b", "groups": "x"}, nil, access.RoleResponder},
		"groups that are asked for":        {map[string]any{"sub": "4"}, map[string]any{"preferred_username": "dora", "groups": []string{"staff"}}, access.RoleRead},
		"an address that was not verified": {map[string]any{"sub": "5", "email": "bob@example.org", "preferred_username": "eve", "groups": []string{}}, nil, access.RoleNone},
		"a stranger":                       {map[string]any{"sub": "6", "preferred_username": "<b>mallory", "groups": []string{"other"}}, nil, access.RoleNone},
	} {
		t.Run(name, func(t *testing.T) {
			s, provider := oidcSite(t)
			mustContain(t, s.get("/login").body, "Sign in with 127.0.0.1:")
			provider.Set(func(p *oidctest.Provider) { p.Claims, p.Info = c.claims, c.info })
			address, cookie := s.oidcBegin("/incidents")
			a := s.oidcReturn(provider.Authorize(t, address), cookie)
			kept := a.login()
			if c.role == access.RoleNone {
				if a.StatusCode != http.StatusForbidden || kept != nil {
					t.Fatalf("status %d, cookie %v", a.StatusCode, kept)
				}
				mustContain(t, a.body, "has no role here", "oidc.admins")
				mustNotContain(t, a.body, "<b>mallory")
				return
			}
			if a.StatusCode != http.StatusOK || kept == nil {
				t.Fatalf("status %d: %s", a.StatusCode, head(a.body))
			}
			mustContain(t, a.body, `content="0;url=/incidents"`)
			if got := s.with("GET", "/incidents", "", kept).StatusCode; got != http.StatusOK {
				t.Errorf("after the sign-in: %d", got)
			}
			for path, o := range map[string]access.Operation{"/run": access.Run, "/approvals/9/deny": access.Deny, "/approvals/9/approve": access.Approve} {
				refused := s.with("POST", path, "", kept).StatusCode == http.StatusForbidden
				if refused == c.role.May(o) {
					t.Errorf("POST %s with the role %s: refused is %v", path, c.role, refused)
				}
			}
			if got := s.audits(); !strings.HasSuffix(got[0], " logged in from 192.0.2.1") {
				t.Errorf("recorded %q", got)
			}
			// What a provider said about a person does not hold for long.
			s.Now = s.Now.Add(25 * time.Hour)
			if got := s.with("GET", "/", "", kept).StatusCode; got != http.StatusSeeOther {
				t.Errorf("a day later: %d", got)
			}
		})
	}
}

func TestAForgedAnswerOfAProviderSignsNobodyIn(t *testing.T) {
	for name, change := range map[string]func(p *oidctest.Provider){
		"another nonce":    func(p *oidctest.Provider) { p.Change = func(c map[string]any) { c["nonce"] = "other" } },
		"no nonce":         func(p *oidctest.Provider) { p.Change = func(c map[string]any) { delete(c, "nonce") } },
		"another audience": func(p *oidctest.Provider) { p.Change = func(c map[string]any) { c["aud"] = "other" } },
		"another issuer":   func(p *oidctest.Provider) { p.Change = func(c map[string]any) { c["iss"] = "https://other.example" } },
		"expired": func(p *oidctest.Provider) {
			p.Change = func(c map[string]any) { c["exp"] = p.Now().Add(-time.Hour).Unix() }
		},
		"another signature": func(p *oidctest.Provider) { p.Forge = true },
	} {
		t.Run(name, func(t *testing.T) {
			s, provider := oidcSite(t)
			provider.Set(change)
			address, cookie := s.oidcBegin("/")
			a := s.oidcReturn(provider.Authorize(t, address), cookie)
			if a.StatusCode != http.StatusBadRequest || a.login() != nil {
				t.Errorf("status %d, cookies %v", a.StatusCode, a.Cookies())
			}
			mustContain(t, a.body, "not valid for this sign-in", "/login")
		})
	}
}

func TestASignInBelongsToItsBrowserAndHappensOnce(t *testing.T) {
	s, provider := oidcSite(t)
	address, cookie := s.oidcBegin("//evil.example/x")
	mustContain(t, address, "scope=openid+profile+email")
	sent := provider.Authorize(t, address)
	_, other := s.oidcBegin("/")
	forged := *cookie
	forged.Value = "x" + forged.Value
	for name, c := range map[string]*http.Cookie{"no cookie": nil, "another sign-in": other, "a changed cookie": &forged} {
		if a := s.oidcReturn(sent, c); a.StatusCode != http.StatusBadRequest || a.login() != nil {
			t.Errorf("%s: status %d", name, a.StatusCode)
		}
	}
	a := s.oidcReturn(sent, cookie)
	if a.login() == nil {
		t.Fatalf("status %d: %s", a.StatusCode, head(a.body))
	}
	mustContain(t, a.body, `content="0;url=/"`)
	mustNotContain(t, a.body, "evil.example")
	if again := s.oidcReturn(sent, cookie); again.StatusCode != http.StatusForbidden || again.login() != nil {
		t.Errorf("the same code again: %d", again.StatusCode)
	}
	address, cookie = s.oidcBegin("/")
	sent = provider.Authorize(t, address)
	s.Now = s.Now.Add(11 * time.Minute)
	if a := s.oidcReturn(sent, cookie); a.StatusCode != http.StatusBadRequest {
		t.Errorf("after eleven minutes: %d", a.StatusCode)
	}
	a = s.oidcReturn(url.Values{"error": {"access_denied"}, "error_description": {"<script>no</script>"}, "state": {"x"}}, cookie)
	if a.StatusCode == http.StatusOK || strings.Contains(a.body, "<script>no") {
		t.Errorf("a refusal: status %d", a.StatusCode)
	}
}

func TestAProviderThatFailsLeavesTheOtherWaysIn(t *testing.T) {
	s, provider := oidcSite(t)
	provider.Set(func(p *oidctest.Provider) { p.Down = true })
	a := s.get("/login/oidc")
	if a.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d", a.StatusCode)
	}
	mustContain(t, a.body, "does not answer", "oidc.issuer", "The token still works")
	if s.logIn("secret") == nil {
		t.Error("the token does not log in")
	}
	provider.Set(func(p *oidctest.Provider) { p.Down = false })
	s.Now = s.Now.Add(time.Minute)
	address, cookie := s.oidcBegin("/")
	sent := provider.Authorize(t, address)
	provider.Set(func(p *oidctest.Provider) { p.Down = true })
	if a := s.oidcReturn(sent, cookie); a.StatusCode != http.StatusBadGateway || a.login() != nil {
		t.Errorf("down in between: %d", a.StatusCode)
	}
}

func TestOtherRulesEndTheLoginsOfAProvider(t *testing.T) {
	s, provider := oidcSite(t)
	address, cookie := s.oidcBegin("/")
	cookie = s.oidcReturn(provider.Authorize(t, address), cookie).login()
	again := siteOver(t, s.Journal, withToken("secret"), func(o *web.Options) {
		o.OIDC = login.NewProvider(login.ProviderOptions{Issuer: provider.URL, ClientID: oidctest.ClientID, Clock: o.Clock})
	})
	if got := again.with("GET", "/", "", cookie).StatusCode; got != http.StatusSeeOther {
		t.Errorf("status %d", got)
	}
}
