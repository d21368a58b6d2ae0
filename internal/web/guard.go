package web

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
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
	inside := origins.Handler(s.authenticate(next))
	hosts := newHostList(s.ListenHosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		defer s.recoverPanic(w, r)
		if !hosts.allow(r.Host) {
			s.refuse(w, r, http.StatusMisdirectedRequest,
				"This server does not answer under that name. Use its listen address, or add the name to the configuration.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
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

// authenticate lets a request through that carries the token, or the cookie of a login where pages are concerned.
func (s *server) authenticate(next http.Handler) http.Handler {
	if s.logins == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		switch {
		case open(path), s.logins.bearer(r):
			next.ServeHTTP(w, r)
		case forMachines(path):
			w.Header().Set("WWW-Authenticate", `Bearer realm="claudeops"`)
			s.refuse(w, r, http.StatusUnauthorized, "Send the API token as \"Authorization: Bearer …\".")
		case s.loggedIn(r):
			w.Header().Set("Cache-Control", "no-store")
			next.ServeHTTP(w, r)
		default:
			http.Redirect(w, r, loginPath(r), http.StatusSeeOther)
		}
	})
}

// open names what shows nothing of the journal and therefore needs no login.
func open(path string) bool {
	switch path {
	case "/login", "/theme", "/healthz", "/readyz", "/favicon.ico", "/schemas/handoff/v1.json", "/schemas/outcome/v1.json":
		return true
	}
	return strings.HasPrefix(path, "/assets/")
}

// forMachines tells the API's addresses from those of pages.
func forMachines(path string) bool {
	return path == "/api" || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/schemas/") ||
		path == "/healthz" || path == "/readyz"
}

// refuse answers with a page, or with a problem document where a program asked.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if !forMachines(r.URL.Path) {
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
