package web_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"claudeops/internal/access"
	signed "claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

// pagePatterns are the patterns that the pages register, read from the source, so that no route can be left out.
func pagePatterns(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	must(t, err)
	set := token.NewFileSet()
	constants, calls := map[string]string{}, []ast.Expr{}
	for _, name := range append(files, files...) { // twice: a constant may be made of one in a later file
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, v := range n.Values {
					if text := textOf(v, constants); text != "" {
						constants[n.Names[i].Name] = text
					}
				}
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "HandleFunc" || s.Sel.Name == "Handle") && len(n.Args) == 2 {
					calls = append(calls, n.Args[0])
				}
			}
			return true
		})
	}
	var out []string
	for _, c := range calls[len(calls)/2:] {
		text := textOf(c, constants)
		if text == "" {
			t.Fatalf("cannot read the pattern at %s", set.Position(c.Pos()))
		}
		out = append(out, text)
	}
	return out
}

// textOf is the value of a constant text, empty if it is none.
func textOf(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.Ident:
		return constants[e.Name]
	case *ast.SelectorExpr:
		return map[string]string{"LinkPath": signed.LinkPath}[e.Sel.Name]
	case *ast.BinaryExpr:
		left, right := textOf(e.X, constants), textOf(e.Y, constants)
		if left != "" && right != "" {
			return left + right
		}
	}
	return ""
}

// changes are all requests that change something: of the pages, and of the API by its own description.
func (s *site) changes() []string {
	s.t.Helper()
	wild := regexp.MustCompile(`\{[a-z]+\}`)
	var out []string
	add := func(method, path string) {
		if method == "GET" {
			return
		}
		paths := []string{path}
		for word, values := range map[string][]string{
			"{action}": {"ack", "snooze", "resolve"}, "{answer}": {"approve", "deny"}, "{change}": {"drain", "resume"},
		} {
			var all []string
			for _, p := range paths {
				if !strings.Contains(p, word) {
					all = append(all, p)
					continue
				}
				for _, v := range values {
					all = append(all, strings.ReplaceAll(p, word, v))
				}
			}
			paths = all
		}
		for _, p := range paths {
			out = append(out, method+" "+wild.ReplaceAllString(p, "999"))
		}
	}
	for _, pattern := range pagePatterns(s.t) {
		method, path, found := strings.Cut(pattern, " ")
		if !found {
			s.t.Fatalf("the pattern %q has no method", pattern)
		}
		add(method, path)
	}
	var described struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	must(s.t, json.Unmarshal([]byte(s.with("GET", "/api/v1/openapi.json", "secret", nil).body), &described))
	for path, methods := range described.Paths {
		if strings.HasPrefix(path, "/webhooks/") { // they know their senders themselves
			continue
		}
		for method := range methods {
			add(strings.ToUpper(method), "/api/v1"+strings.TrimPrefix(path, "/api/v1"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// open are the changes that everybody may send: signing in, and the theme.
func open(path string) bool {
	return path == "/login" || path == "/theme" || strings.HasPrefix(path, "/login/") || strings.HasPrefix(path, "/answer/")
}

// TestEveryRouteIsAllowedToExactlyItsRoles sends every change with every role, by token and by login.
func TestEveryRouteIsAllowedToExactlyItsRoles(t *testing.T) {
	s := newSite(t, withToken("secret"))
	type visitor struct {
		role  access.Role
		token string
		login *http.Cookie
	}
	visitors := []visitor{{role: access.RoleAdmin, token: "secret"}, {role: access.RoleAdmin, login: s.logIn("secret")}}
	for _, role := range access.Roles() {
		secret := s.makeToken("t-"+string(role), role, 0)
		visitors = append(visitors, visitor{role: role, token: secret}, visitor{role: role, login: s.logIn(secret)})
	}
	routes := s.changes()
	if len(routes) < 40 {
		t.Fatalf("only %d routes were found: %v", len(routes), routes)
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		if _, named := access.Find(method, path); !named && !open(path) {
			t.Errorf("no rule of internal/access names %s", route)
		}
		if path == "/logout" {
			continue
		}
		operation := access.OperationOf(method, path)
		for _, v := range visitors {
			a := s.with(method, path, v.token, v.login)
			want := open(path) || v.role.May(operation)
			if got := a.StatusCode != http.StatusForbidden; got != want {
				t.Errorf("%s (%s) as %s: status %d, allowed should be %v", route, operation, v.role, a.StatusCode, want)
			}
		}
		if !open(path) {
			if a := s.with(method, path, "", nil); a.StatusCode != http.StatusUnauthorized && a.StatusCode != http.StatusSeeOther {
				t.Errorf("%s without a token: %d", route, a.StatusCode)
			}
		}
	}
}

// makeToken makes a token with a name that works for a time, or without an end.
func (s *site) makeToken(name string, role access.Role, life time.Duration) string {
	s.t.Helper()
	made := store.Token{Name: name, Role: string(role), CreatedAt: s.Now, CreatedBy: "test"}
	if life > 0 {
		made.ExpiresAt = ops.Ptr(s.Now.Add(life))
	}
	_, secret, err := s.Store.People.AddToken(s.t.Context(), made)
	must(s.t, err)
	return secret
}

func TestAResponderAnswersAndStartsNothing(t *testing.T) {
	s := newSite(t, withToken("secret"))
	secret := s.makeToken("phone", access.RoleResponder, 0)
	policy, step := asked()
	s.Await(ops.NewCycle{}, policy, step, apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff})
	if got := s.with("POST", "/api/v1/approvals/1/approve", secret, nil).StatusCode; got != http.StatusForbidden {
		t.Errorf("approve: %d", got)
	}
	login := s.logIn(secret)
	body := s.with("GET", "/incidents", "", login).body
	mustContain(t, body, `data-access="responder"`, "Responder", `data-act="deny"`)
	mustNotContain(t, body, `id="run-now"`)
	if got := s.with("POST", "/api/v1/approvals/1/deny", secret, nil).StatusCode; got != http.StatusOK {
		t.Errorf("deny: %d", got)
	}
	a, err := s.Store.People.Approval(t.Context(), 1)
	if err != nil || a.Status != ops.ApprovalDenied || a.AnsweredBy != "token phone" {
		t.Errorf("approval %+v, %v", a, err)
	}
	if got := s.audits(); !strings.Contains(got[1], "warning token phone from 192.0.2.1: POST /api/v1/approvals/1/approve was refused") {
		t.Errorf("recorded %q", got)
	}
	mustNotContain(t, s.with("GET", "/config", "", login).body, "New token")
}

func TestATokenEndsAtOnceOnEveryHost(t *testing.T) {
	s := newSite(t, withToken("secret"))
	other := siteOver(t, s.Journal, withToken("secret")) // another host on the same database
	for name, end := range map[string]func(name string){
		"revoked": func(name string) {
			if got := s.with("POST", "/config/tokens/"+name+"/revoke", "secret", nil); got.StatusCode != http.StatusSeeOther {
				t.Fatalf("revoke: %d", got.StatusCode)
			}
		},
		"expired": func(string) { s.Now = s.Now.Add(2 * time.Hour) },
	} {
		secret := s.makeToken(name, access.RoleAdmin, time.Hour)
		login := s.logIn(secret)
		for _, host := range []*site{s, other} {
			if got := host.with("GET", "/api/v1/cycles", secret, nil).StatusCode; got != http.StatusOK {
				t.Errorf("%s, before: %d", name, got)
			}
			if got := host.with("GET", "/", "", login).StatusCode; got != http.StatusOK {
				t.Errorf("%s, login before: %d", name, got)
			}
		}
		end(name)
		for _, host := range []*site{s, other} {
			if got := host.with("GET", "/api/v1/cycles", secret, nil).StatusCode; got != http.StatusUnauthorized {
				t.Errorf("%s: %d", name, got)
			}
			if got := host.with("GET", "/", "", login).StatusCode; got != http.StatusSeeOther {
				t.Errorf("%s, login: %d", name, got)
			}
		}
	}
}

func TestARevokedTokenEndsItsOpenStream(t *testing.T) {
	clock := &movingClock{now: time.Now()}
	s := newSite(t, withToken("secret"), func(o *web.Options) { o.Clock = clock.Now })
	secret := s.makeToken("tv", access.RoleRead, 0)
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	ask := func(path string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+secret)
		response, err := http.DefaultTransport.RoundTrip(r) // without following redirects
		must(t, err)
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	stream := ask("/stream")
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("status %d", stream.StatusCode)
	}
	must(t, s.Store.People.RevokeToken(t.Context(), "tv", "test", clock.Now()))
	clock.add(time.Minute)
	ended := make(chan error, 1)
	go func() {
		_, err := stream.Body.Read(make([]byte, 1<<20))
		for err == nil {
			_, err = stream.Body.Read(make([]byte, 1<<20))
		}
		ended <- err
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the stream goes on")
	}
	if got := ask("/stream").StatusCode; got == http.StatusOK {
		t.Errorf("a new stream: %d", got)
	}
}

func TestATokenIsMadeOnThePageAndShownOnce(t *testing.T) {
	s := newSite(t, withToken("secret"))
	login := s.logIn("secret")
	post := func(name, role, expires string) answer {
		r := form(t, "/config/tokens", map[string][]string{"name": {name}, "role": {role}, "expires": {expires}})
		r.AddCookie(login)
		return s.do(r)
	}
	a := post("grafana", "read", "30d")
	secret := regexp.MustCompile(`claudeops_[A-Z2-7]{26}`).FindString(a.body)
	if a.StatusCode != http.StatusOK || secret == "" || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("status %d, %s: %s", a.StatusCode, a.Header.Get("Cache-Control"), head(a.body))
	}
	page := s.with("GET", "/config", "", login).body
	mustContain(t, page, "<code>grafana</code>", "Read-only")
	mustNotContain(t, page, secret)
	if got := s.with("GET", "/metrics", secret, nil).StatusCode; got != http.StatusOK {
		t.Errorf("with it: %d", got)
	}
	for name, bad := range map[string]answer{
		"the same name": post("grafana", "read", "30d"), "no role": post("b", "", "30d"), "a made up role": post("b", "root", "30d"),
		"no end": post("b", "read", ""), "a hostile name": post("<script>", "read", "30d"), "no name": post("", "read", "never"),
	} {
		if bad.StatusCode/100 != 4 || strings.Contains(bad.body, "<script>") && strings.Contains(bad.body, `value="<script>`) {
			t.Errorf("%s: %d", name, bad.StatusCode)
		}
	}
	for _, e := range s.audits() {
		if strings.Contains(e, secret) {
			t.Errorf("the record holds the token: %s", e)
		}
	}
	err := filepath.WalkDir(filepath.Dir(s.Path), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if holds(t, path, secret) {
			t.Errorf("%s holds the token", path)
		}
		return nil
	})
	must(t, err)
}

func TestTheLastUseOfATokenIsWrittenOnceAMinute(t *testing.T) {
	s := newSite(t, withToken("secret"))
	secret := s.makeToken("ci", access.RoleRead, 0)
	used := func() time.Time {
		found, err := s.Store.People.Tokens(t.Context(), false)
		if err != nil || len(found) != 1 || found[0].LastUsedAt == nil {
			t.Fatalf("%+v, %v", found, err)
		}
		return *found[0].LastUsedAt
	}
	first := s.Now
	s.with("GET", "/api/v1/cycles", secret, nil)
	s.Now = first.Add(59 * time.Second)
	s.with("GET", "/api/v1/cycles", secret, nil)
	if got := used(); !got.Equal(first) {
		t.Errorf("after 59 s: %s", got)
	}
	s.Now = first.Add(61 * time.Second)
	s.with("GET", "/api/v1/cycles", secret, nil)
	if got := used(); !got.Equal(s.Now) {
		t.Errorf("after 61 s: %s", got)
	}
}

func TestOnAMachineWithoutSeparationANamedTokenDoesNotApprove(t *testing.T) {
	s := newSite(t, withToken("secret"), func(o *web.Options) { o.StrictApprovals, o.OperatorToken = true, true })
	secret := s.makeToken("made", access.RoleAdmin, 0)
	for path, want := range map[string]int{
		"/api/v1/approvals/1/approve": http.StatusForbidden, "/config/tokens": http.StatusForbidden, "/api/v1/approvals/1/deny": http.StatusNotFound,
	} {
		if got := s.with("POST", path, secret, nil).StatusCode; got != want {
			t.Errorf("POST %s: %d, want %d", path, got, want)
		}
	}
	if got := s.with("POST", "/api/v1/approvals/1/approve", "secret", nil).StatusCode; got != http.StatusNotFound {
		t.Errorf("the operator's token: %d", got)
	}
}
