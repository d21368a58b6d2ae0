// Package keyproxy lets an agent call the API of its model without holding the key. A proxy listens on loopback for as long as
// one session runs. It takes only the random token of that session, puts the real key in its place, and forwards to one
// configured API and nowhere else.
package keyproxy

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxBody    = 64 << 20 // the APIs take less
	maxCalls   = 32       // at once
	maxHeader  = 256 << 10
	headerTime = 10 * time.Second
	dialTime   = 30 * time.Second
	idleTime   = 2 * time.Minute
)

// Options say what a proxy stands in front of.
type Options struct {
	Upstream string            // base URL of the API
	Keys     map[string]string // the real key by the token that the session has instead
	Header   http.Header       // added to every request
	MaxBody  int64             // of one request; 0 means the usual limit
	MaxCalls int               // at once; 0 means the usual limit
	Play     *Play             // answers in the place of the API; nil: the API itself
}

// Proxy serves one session.
type Proxy struct {
	o         Options
	upstream  *url.URL
	address   string
	calls     chan struct{}
	server    *http.Server
	transport *http.Transport
	forward   *httputil.ReverseProxy
	cancel    context.CancelFunc
	done      chan struct{}
	conns     atomic.Int64 // that are open
}

// NewToken makes the token of a session.
func NewToken() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	return "claudeops-session-" + hex.EncodeToString(raw[:])
}

// Listen starts a proxy. Close ends it.
func Listen(o Options) (*Proxy, error) {
	upstream, err := url.Parse(o.Upstream)
	if err != nil || upstream.Host == "" || upstream.Scheme != "http" && upstream.Scheme != "https" {
		return nil, errors.New("start key proxy: the URL of the API is not usable") // it may hold a password
	}
	upstream.Path = strings.TrimRight(upstream.Path, "/")
	if o.MaxBody <= 0 {
		o.MaxBody = maxBody
	}
	if o.MaxCalls <= 0 {
		o.MaxCalls = maxCalls
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start key proxy: %w", err)
	}
	p := &Proxy{
		o: o, upstream: upstream, address: "http://" + listener.Addr().String(),
		calls: make(chan struct{}, o.MaxCalls), done: make(chan struct{}),
		transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: headerTime, IdleConnTimeout: idleTime, MaxIdleConnsPerHost: o.MaxCalls,
			DisableCompression: true, // what the agent asked for is passed on as it comes
		},
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // a message could hold what was sent
	p.forward = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: p.transport, FlushInterval: -1, ErrorHandler: failed, ErrorLog: quiet,
	}
	var life context.Context
	life, p.cancel = context.WithCancel(context.Background())
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ErrorLog: quiet,
		BaseContext: func(net.Listener) context.Context { return life },
		ConnState:   p.count,
	}
	go func() {
		defer close(p.done)
		_ = p.server.Serve(listener) // it ends with Close
	}()
	return p, nil
}

// count closes a connection that is one too many, so that an agent cannot use up the descriptors of the supervisor.
func (p *Proxy) count(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if p.conns.Add(1) > int64(4*max(p.o.MaxCalls, maxCalls)) {
			_ = conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		p.conns.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

// URL is what the session has instead of the base URL of the API.
func (p *Proxy) URL() string { return p.address + p.upstream.EscapedPath() }

// Address is where the proxy listens.
func (p *Proxy) Address() string { return strings.TrimPrefix(p.address, "http://") }

// Close ends the proxy and every call that is still open: from then on the tokens are worth nothing.
func (p *Proxy) Close() {
	p.cancel()
	_ = p.server.Close()
	<-p.done
	p.transport.CloseIdleConnections()
}

// ServeHTTP checks one call and forwards it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !p.known(r.Header):
		refuse(w, http.StatusUnauthorized, "authentication_error", "this proxy takes only the token of its session")
		return
	case r.Method == http.MethodConnect || r.Header.Get("Upgrade") != "":
		refuse(w, http.StatusNotImplemented, "invalid_request_error", "this proxy forwards plain requests only")
		return
	case !p.inside(r.URL):
		refuse(w, http.StatusNotFound, "not_found_error", "this path is not part of the API")
		return
	case r.ContentLength > p.o.MaxBody:
		refuse(w, http.StatusRequestEntityTooLarge, "request_too_large", "the request is too large")
		return
	}
	select {
	case p.calls <- struct{}{}:
		defer func() { <-p.calls }()
	default:
		refuse(w, http.StatusTooManyRequests, "rate_limit_error", "too many calls at once")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, p.o.MaxBody)
	if p.o.Play != nil {
		p.o.Play.ServeHTTP(w, r)
		return
	}
	p.forward.ServeHTTP(w, r)
}

// credentials are the headers in which the APIs take a key.
func credentials() []string { return []string{"Authorization", "X-Api-Key", "Api-Key"} }

// known reports whether a call has a token of the session, and no other credential.
func (p *Proxy) known(h http.Header) bool {
	found := false
	for _, name := range credentials() {
		for _, value := range h.Values(name) {
			if p.key(value) == "" {
				return false
			}
			found = true
		}
	}
	return found
}

// key is the real value of a header that holds a token, in the same form; empty when it holds none.
func (p *Proxy) key(value string) string {
	scheme, token := "", value
	if before, after, ok := strings.Cut(value, " "); ok && strings.EqualFold(before, "bearer") {
		scheme, token = before+" ", strings.TrimSpace(after)
	}
	held := ""
	for have, want := range p.o.Keys {
		if subtle.ConstantTimeCompare([]byte(have), []byte(token)) == 1 {
			held = scheme + want
		}
	}
	return held
}

// inside reports whether an address lies below the base URL of the API, and nothing in it leads out again.
func (p *Proxy) inside(u *url.URL) bool {
	base := p.upstream.Path
	if u.Path == "" || u.Path[0] != '/' || strings.Contains(u.Path, "\\") {
		return false
	}
	if clean := path.Clean(u.Path); clean != u.Path && clean+"/" != u.Path {
		return false
	}
	return u.Path == base || strings.HasPrefix(u.Path, base+"/")
}

// rewrite turns a call of the session into one of the API.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.User = p.upstream.Scheme, p.upstream.Host, nil
	r.Out.Host = p.upstream.Host
	for name, values := range p.o.Header {
		r.Out.Header[http.CanonicalHeaderKey(name)] = values
	}
	for _, name := range credentials() {
		values := r.In.Header.Values(name)
		if len(values) == 0 {
			continue
		}
		r.Out.Header.Del(name)
		for _, value := range values {
			r.Out.Header.Add(name, p.key(value))
		}
	}
}

// failed answers a call that the API did not answer.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, "request_too_large", "the request is too large")
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // nobody waits for an answer
	default:
		refuse(w, http.StatusBadGateway, "api_error", "the API could not be reached: "+err.Error())
	}
}

// refuse answers in the form that both APIs give their errors.
func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	type detail struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	// The client may be gone.
	_ = json.NewEncoder(w).Encode(struct {
		Type  string `json:"type"`
		Error detail `json:"error"`
	}{"error", detail{kind, message}})
}
