package web

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

const (
	contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	maxBody = 64 << 10
)

// guard is the one way in: what it refuses, no handler sees.
func (s *server) guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, http.StatusForbidden, "This request came from another site, so nothing was done.")
	}))
	inside := origins.Handler(s.alerts(s.authenticate(s.bounded(s.permitted(s.audited(next))))))
	hosts := newHostList(s.ListenHosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		defer s.recoverPanic(w, r)
		if !hosts.allow(r.Host) {
			s.refuse(w, r, http.StatusMisdirectedRequest,
				"This server does not answer under that name. Use its listen address, or add the name to the configuration.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, s.bodyLimit(r.URL.Path))
		inside.ServeHTTP(w, r)
	})
}

func (s *server) recoverPanic(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler { //nolint:errorlint // the sentinel is compared as net/http itself does
		panic(cause)
	}
	s.Logger.ErrorContext(r.Context(), "a page crashed", "path", r.URL.Path, "panic", cause, "stack", string(debug.Stack()))
	s.refuse(w, r, http.StatusInternalServerError, "The page could not be made. The supervisor's log says why.")
}

// authenticate finds out who asks, and sends away whoever must be known and is not.
func (s *server) authenticate(next http.Handler) http.Handler {
	as := func(w http.ResponseWriter, r *http.Request, c api.Caller) {
		next.ServeHTTP(w, r.WithContext(api.WithCaller(r.Context(), c)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.logins == nil || open(r.URL.Path) {
			as(w, r, api.Caller{Name: peer(r)}) // without a token only loopback is listened on
			return
		}
		if token, given := givenToken(r); given {
			if readOnly, right := s.logins.admit(token); right {
				as(w, r, tokenCaller(readOnly))
				return
			}
			// A right token is let in however often others guessed: a neighbour's mistake must lock nobody out.
			if wait := s.bounds.wrong.take(peer(r), s.Clock()); wait > 0 {
				s.tooMany(w, r, wait, "Too many wrong tokens from your address.")
				return
			}
		}
		if login, in := s.loginOf(r); in {
			s.renew(w, r, login)
			w.Header().Set("Cache-Control", "no-store")
			as(w, r, loginCaller(login.ReadOnly))
			return
		}
		if forPrograms(r.URL.Path) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="claudeops"`)
			s.refuse(w, r, http.StatusUnauthorized, "Send the API token as \"Authorization: Bearer …\".")
			return
		}
		http.Redirect(w, r, loginPath(r), http.StatusSeeOther)
	})
}

// permitted lets those who may only look do nothing else.
func (s *server) permitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if by := caller(r); by.ReadOnly && !looks(r.Method) && !ownMatter(r.URL.Path) {
			path, _ := clip(r.URL.EscapedPath(), 200)
			s.record(r, by, ops.LevelWarning, fmt.Sprintf("%s %s was refused: it may only look", r.Method, path))
			s.refuse(w, r, http.StatusForbidden, "This token may only look. Use the full token to change something.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// open names what shows nothing of the journal and therefore needs no login.
func open(path string) bool {
	switch path {
	case "/login", "/theme", "/healthz", "/readyz", "/favicon.ico":
		return true
	}
	return strings.HasPrefix(path, "/assets/") || strings.HasPrefix(path, "/schemas/")
}

// forMachines tells the addresses that the API serves from those of pages.
func forMachines(path string) bool {
	return path == "/api" || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/schemas/") ||
		path == "/healthz" || path == "/readyz" || path == "/metrics"
}

// forPrograms tells the addresses that programs ask: all of the API but its page for people.
func forPrograms(path string) bool {
	return forMachines(path) && path != "/api/docs" && !strings.HasPrefix(path, "/api/docs/")
}

// refuse answers with a page, or with a problem document where a program asked.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if !forPrograms(r.URL.Path) {
		s.errorPage(w, r, status, detail)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}

// hostList are the names this server answers under. A page of another site whose name was pointed at our
// address sends that site's name, and gets nothing.
type hostList struct {
	any   bool
	names map[string]bool
}

func newHostList(listen []string) hostList {
	list := hostList{names: map[string]bool{"localhost": true}}
	for _, host := range listen {
		host = bareHost(host)
		if address, err := netip.ParseAddr(host); host == "" || err == nil && address.IsUnspecified() {
			list.any = true
		}
		list.names[host] = true
	}
	return list
}

func (l hostList) allow(host string) bool {
	if host == "" {
		return false
	}
	if l.any {
		return true
	}
	name := bareHost(host)
	if address, err := netip.ParseAddr(name); err == nil && address.Unmap().IsLoopback() {
		return true
	}
	return l.names[name]
}

// bareHost strips the port, the brackets of an IPv6 address and the final dot of a name.
func bareHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
