package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/api/mcpserver"
	signed "claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

const (
	contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	maxBody = 64 << 10
	// linkPath begins the addresses of the links in notices.
	linkPath = signed.LinkPath
)

// door is where every request comes in: who sent it, and whether it may.
type door struct {
	*site
	logins      *logins
	rateLimits  *rateLimits
	wrongTokens atomic.Int64 // since the start
}

// secure checks every request before any handler sees it.
func (s *door) secure(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, http.StatusForbidden, "This request came from another site. Nothing was changed.")
	}))
	inside := origins.Handler(s.serveWebhooks(s.servePings(s.authenticate(s.limited(s.authorize(s.guardApprovals(s.recordActions(next))))))))
	hosts := newHostList(s.ListenHosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Body != nil && r.Body != http.NoBody {
			body := &arrivingBody{ReadCloser: r.Body}
			r.Body = body
			defer body.giveUp(w)
		}
		defer s.recoverPanic(w, r)
		if !hosts.allow(r.Host) {
			s.refuse(w, r, http.StatusMisdirectedRequest,
				"This server does not accept that host name. Use its listen address, or add the name to the configuration.")
			return
		}
		if s.Refuse != nil {
			if why := s.Refuse(r); why != "" {
				header.Set("Connection", "close")
				s.refuse(w, r, http.StatusForbidden, why)
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, s.bodyLimit(r.URL.Path))
		inside.ServeHTTP(w, r)
	})
}

// arrivingBody knows whether all of the body of a request was read.
type arrivingBody struct {
	io.ReadCloser
	ended bool
}

// Read reads on.
func (b *arrivingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

// giveUp ends the connection of a request whose body nobody has read. The server would wait for the rest of it, and whoever sends nothing
// more would keep a connection from others for as long as a request may take.
func (b *arrivingBody) giveUp(w http.ResponseWriter) {
	if b.ended {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // a writer without deadlines is no connection
}

func (s *door) recoverPanic(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler { //nolint:errorlint // the sentinel is compared as net/http itself does
		panic(cause)
	}
	s.Logger.ErrorContext(r.Context(), "page handler panicked", "path", recordedPath(r), "panic", cause, "stack", string(debug.Stack()))
	s.refuse(w, r, http.StatusInternalServerError, "The page could not be rendered. See the log of the supervisor.")
}

// sentBy is the program of the operator that sent a request, for the record.
func sentBy(r *http.Request) string {
	if r.Header.Get(mcpserver.ClientHeader) == mcpserver.Client {
		return mcpserver.Client
	}
	return ""
}

// authenticate identifies the caller, and refuses unknown callers.
func (s *door) authenticate(next http.Handler) http.Handler {
	as := func(w http.ResponseWriter, r *http.Request, c api.Caller) {
		c.Via = sentBy(r)
		next.ServeHTTP(w, r.WithContext(api.WithCaller(r.Context(), c)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPublic(r.URL.Path) {
			as(w, r, api.Caller{Name: peer(r)})
			return
		}
		token, given := givenToken(r)
		holder, err := s.holderOf(r.Context(), token)
		if user, ok := localUser(r); ok {
			as(w, r, api.Caller{Name: user, Role: access.RoleAdmin, Local: true, KnowsToken: holder.caller.KnowsToken})
			return
		}
		switch {
		case err == nil:
			as(w, s.rechecked(r, func(ctx context.Context) bool { return s.tokenLasts(ctx, holder) }), holder.caller)
			return
		case !errors.Is(err, ops.ErrNotFound):
			s.Logger.WarnContext(r.Context(), "the database cannot be used to check a token", "error", err)
			w.Header().Set("Retry-After", "5")
			s.refuse(w, r, http.StatusServiceUnavailable, "The token cannot be checked now, because the database does not answer. Try again.")
			return
		case given:
			if wait := s.wrongGuess(r, "sent a wrong token"); wait > 0 {
				s.tooMany(w, r, wait, "Too many wrong tokens.")
				return
			}
		}
		login, in := s.loginOf(r)
		if in && given { // a cookie beside a wrong token does not make it right
			w.Header().Set("WWW-Authenticate", `Bearer realm="claudeops"`)
			s.refuse(w, r, http.StatusUnauthorized, "This token is not known, or no longer valid.")
			return
		}
		if in {
			s.renew(w, r, login)
			w.Header().Set("Cache-Control", "no-store")
			as(w, s.rechecked(r, func(ctx context.Context) bool { return s.loginLasts(ctx, login.Digest) }), s.logins.loginCaller(login))
			return
		}
		if isForPrograms(r.URL.Path) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="claudeops"`)
			s.refuse(w, r, http.StatusUnauthorized, "Send the API token as \"Authorization: Bearer …\".")
			return
		}
		http.Redirect(w, r, loginPath(r), http.StatusSeeOther)
	})
}

// authorize refuses what the role of the caller does not allow.
func (s *door) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := operationOf(r)
		if by := caller(r); !isPublic(r.URL.Path) && !by.May(operation) {
			path := recordedPath(r)
			s.record(r, by, ops.VerbAccessRefused, ops.LevelWarning,
				fmt.Sprintf("%s %s was refused: the role %s may not %s", r.Method, path, by.Role, operation))
			s.refuse(w, r, http.StatusForbidden, access.Refusal(by.Role, operation))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// operationOf is what a request wants to do.
func operationOf(r *http.Request) access.Operation {
	return access.OperationOf(r.Method, r.URL.EscapedPath())
}

// wrongGuess counts, logs and records a wrong token, code or signature, and returns how long to wait if there were too many: from
// this address, or from all. Only wrong ones are limited, so wrong guesses lock nobody out who knows the token.
func (s *door) wrongGuess(r *http.Request, what string) (wait time.Duration) {
	s.wrongTokens.Add(1)
	now, from := s.Clock(), peer(r)
	if wait := max(s.rateLimits.wrongTokens.take(from, now), s.rateLimits.allWrongTokens.take("", now)); wait > 0 {
		return wait // not recorded, so that nobody can fill the journal
	}
	path := recordedPath(r)
	s.Logger.WarnContext(r.Context(), "wrong token", "from", from, "path", path)
	s.record(r, api.Caller{Name: "unknown"}, ops.VerbAccessRefused, ops.LevelWarning, what+": "+r.Method+" "+path)
	return 0
}

// guardApprovals refuses to approve for callers that an agent could imitate, where nothing separates agents from the operator.
func (s *door) guardApprovals(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if by := caller(r); s.StrictApprovals && givesApprovals(operationOf(r)) && !by.KnowsToken {
			s.record(r, by, ops.VerbAccessRefused, ops.LevelWarning, "an approval was refused: it needs the token that the operator set")
			s.refuse(w, r, http.StatusForbidden, "On this machine agents have neither a user nor a cgroup of their own, so this needs the "+
				"token that the operator set. Set CLAUDEOPS_API_TOKEN and log in with it, or separate the agents; see claudeops doctor.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// recordedPath is the path of a request as it is recorded: without the token of a link, of a heartbeat or of a webhook.
func recordedPath(r *http.Request) string {
	for _, secret := range []string{linkPath, pingPath} {
		if strings.HasPrefix(r.URL.Path, secret) {
			return secret + "[token]"
		}
	}
	path := ops.Start(r.URL.EscapedPath(), 200)
	if rest, found := strings.CutPrefix(path, webhooksPath); found {
		name, _, _ := strings.Cut(rest, "/")
		return webhooksPath + name
	}
	return path
}

// givesApprovals reports whether an operation approves a step, or makes a token that could.
func givesApprovals(o access.Operation) bool { return o == access.Approve || o == access.Administer }

// isPublic reports whether a path needs no login because it shows no recorded data.
func isPublic(path string) bool {
	switch path {
	case "/login", "/theme", "/healthz", "/readyz", "/favicon.ico":
		return true
	}
	return strings.HasPrefix(path, "/assets/") || strings.HasPrefix(path, "/schemas/") || strings.HasPrefix(path, signInPath) ||
		strings.HasPrefix(path, linkPath)
}

// isAPI reports whether the API serves a path.
func isAPI(path string) bool {
	return path == "/api" || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/schemas/") ||
		path == "/healthz" || path == "/readyz" || path == "/metrics"
}

// isForPrograms reports whether a path is for programs.
func isForPrograms(path string) bool { return isPing(path) || isAPI(path) }

// refuse responds with an error page, or with a problem document on API paths.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if !isForPrograms(r.URL.Path) {
		s.errorPage(w, r, status, detail)
		return
	}
	api.WriteProblem(w, status, detail)
}

// hostList holds the host names this server accepts. It prevents DNS rebinding: another site whose name points to our
// address sends its own host name, and is refused.
type hostList struct {
	any   bool
	names map[string]bool
}

func newHostList(listen []string) hostList {
	list := hostList{names: map[string]bool{"localhost": true}}
	for _, host := range listen {
		host = hostname(host)
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
	name := hostname(host)
	if address, err := netip.ParseAddr(name); err == nil && address.Unmap().IsLoopback() {
		return true
	}
	return l.names[name]
}

// hostname strips the port, the brackets of an IPv6 address and the final dot of a name.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// The rate limits. Normal use never reaches them.
const (
	wrongBurst = 10
	wrongEvery = 6 * time.Second
	// All addresses together, so that guesses from many addresses are limited too.
	allWrongBurst = 100
	allWrongEvery = 600 * time.Millisecond

	apiBurst   = 400
	apiEvery   = 20 * time.Millisecond
	alertBurst = 2000
	alertEvery = time.Millisecond

	maxBuckets     = 10_000
	maxStreams     = 2000
	maxPeerStreams = 64 // of one remote address
)

// rateLimits holds the rate limiters of the server.
type rateLimits struct {
	wrongTokens    *limiter // wrong tokens, by address
	allWrongTokens *limiter // wrong tokens from everywhere
	api            *limiter // API requests, by token
	alerts         *limiter // webhooks, by address
}

func newRateLimits() *rateLimits {
	return &rateLimits{
		wrongTokens: newLimiter(wrongBurst, wrongEvery), allWrongTokens: newLimiter(allWrongBurst, allWrongEvery),
		api:    newLimiter(apiBurst, apiEvery),
		alerts: newLimiter(alertBurst, alertEvery),
	}
}

// limiter is a token bucket per key: burst at once, then one more per interval.
type limiter struct {
	burst float64
	every time.Duration

	mu      sync.Mutex
	buckets map[string]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

func newLimiter(burst int, every time.Duration) *limiter {
	return &limiter{burst: float64(burst), every: every, buckets: map[string]bucket{}}
}

func (l *limiter) filled(b bucket, now time.Time) float64 {
	return min(l.burst, b.left+max(0, float64(now.Sub(b.at))/float64(l.every)))
}

// take counts one request and returns how long to wait if the limit is reached.
func (l *limiter) take(key string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.burst
	if b, known := l.buckets[key]; known {
		left = l.filled(b, now)
	} else if len(l.buckets) >= maxBuckets {
		l.prune(now)
	}
	if left < 1 {
		return time.Duration((1 - left) * float64(l.every))
	}
	l.buckets[key] = bucket{left - 1, now}
	return 0
}

// prune removes full buckets, or all of them if none is full, to limit memory.
func (l *limiter) prune(now time.Time) {
	for key, b := range l.buckets {
		if l.filled(b, now) >= l.burst {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}

// streams counts open streams, in total and by address.
type streams struct {
	mu    sync.Mutex
	total int
	open  map[string]int
}

// enter counts a stream until leave is called. It fails if too many are open.
func (s *streams) enter(address string, most int) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= most || s.open[address] >= maxPeerStreams && !local(address) {
		return nil, false
	}
	s.total++
	s.open[address]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total--
		if s.open[address]--; s.open[address] <= 0 {
			delete(s.open, address)
		}
	}, true
}

// isStream reports whether a path is an event stream.
func isStream(path string) bool {
	return path == "/stream" || (strings.HasPrefix(path, "/sessions/") && strings.HasSuffix(path, "/stream"))
}

// limited enforces the limits on API requests and streams.
func (s *door) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			if wait := s.rateLimits.api.take(caller(r).Name, s.Clock()); wait > 0 {
				s.tooMany(w, r, wait, "Too many requests.")
				return
			}
		}
		if isStream(r.URL.Path) {
			leave, ok := s.Hub.streams.enter(peer(r), s.Streams)
			if !ok {
				s.tooMany(w, r, 10*time.Second, "Too many live pages are open.")
				return
			}
			defer leave()
		}
		next.ServeHTTP(w, r)
	})
}

func (s *door) tooMany(w http.ResponseWriter, r *http.Request, wait time.Duration, why string) {
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", fmt.Sprint(max(1, seconds)))
	s.refuse(w, r, http.StatusTooManyRequests, fmt.Sprintf("%s Try again in %s.", why, ops.Plural(max(1, seconds), "second", "seconds")))
}

// peer is the address a request comes from. Forwarding headers are not trusted, because anybody can send them.
func peer(r *http.Request) string { return hostname(r.RemoteAddr) }

// local reports whether an address is a loopback address.
func local(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.Unmap().IsLoopback()
}
