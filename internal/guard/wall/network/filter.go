package network

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	dnsPort   = 53
	httpPort  = 80
	httpsPort = 443
)

// handed is the listener of the HTTP server: connections come from those who found out that they speak HTTP.
type handed struct{ g *Gateway }

func (h handed) Accept() (net.Conn, error) {
	select {
	case conn := <-h.g.http:
		return conn, nil
	case <-h.g.life.Done():
		return nil, net.ErrClosed
	}
}

func (h handed) Close() error   { return nil }
func (h handed) Addr() net.Addr { return h.g.listener.Addr() }

// serveHTTP hands a connection to the server and waits for its end.
func (g *Gateway) serveHTTP(s *stream) {
	_ = s.SetDeadline(time.Time{})
	select {
	case g.http <- s:
		<-s.ended
	case <-g.life.Done():
	}
}

func basic(token string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("session:"+token))
}

// ServeHTTP filters a request. net/http reads it and writes it out again, so there is only one way to read it.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, _ := r.Context().Value(streamKey{}).(*stream)
	if g.token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Proxy-Authorization")), []byte(basic(g.token))) != 1 {
		http.Error(w, "claudeops: this proxy takes only the token of its session", http.StatusProxyAuthRequired)
		return
	}
	switch {
	case r.Method == http.MethodConnect && s.proxy:
		g.connect(w, r, s) //nolint:contextcheck // a tunnel lives as long as the session, not as its request
		return
	case !s.proxy:
		host, permit, rule := g.choose(s)
		g.filter(w, r, host, s.port, permit, rule)
		return
	case r.URL.Scheme != "http" || r.URL.Host == "":
		http.Error(w, "claudeops: this is a proxy for http:// and, with CONNECT, https://", http.StatusBadRequest)
		return
	}
	host, port := hostPort(r.URL.Host, httpPort)
	if slices.Contains(g.o.Keys, net.JoinHostPort(host, strconv.Itoa(port))) {
		g.pass(w, r, host, port)
		return
	}
	permit, rule := g.find(host, port)
	g.filter(w, r, host, port, permit, rule)
}

func hostPort(text string, usual int) (string, int) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return plain(strings.Trim(text, "[]")), usual
	}
	n, _ := strconv.Atoi(port) // 0 is permitted nowhere
	return plain(host), n
}

// filter lets a request through whose method is permitted.
func (g *Gateway) filter(w http.ResponseWriter, r *http.Request, host string, port int, permit Permit, rule string) {
	named, _ := hostPort(r.Host, port)
	switch {
	case rule != "":
	case permit.How == TLS:
		rule = "only https is permitted there"
	case permit.How == Look:
		rule = "the tool look asks it for this session"
	case permit.How == HTTP && !permit.allows(r.Method):
		rule = fmt.Sprintf("the method is not permitted there, only %s", strings.Join(permit.methods(), ", "))
	case permit.How == HTTP && r.Header.Get("Upgrade") != "" && !permit.allows(Any):
		rule = "a request must not become another protocol there"
	case permit.Sole && named != plain(host):
		rule = "the Host header names another host"
	}
	if rule != "" {
		what := r.Method + " http://" + net.JoinHostPort(host, strconv.Itoa(port)) + r.URL.EscapedPath()
		g.refuse(what, rule)
		http.Error(w, "claudeops refused "+what+": "+rule+". "+g.Permitted()+" Where a service must be changed, use the supervisor's actions; "+
			"a host is added by the operator (sandbox.network_hosts).", http.StatusForbidden)
		return
	}
	g.pass(w, r, host, port)
}

// pass sends a request to its host.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, host string, port int) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", net.JoinHostPort(host, strconv.Itoa(port))
	g.forward.ServeHTTP(w, r)
}

func rewrite(r *httputil.ProxyRequest) {
	r.Out.Host = r.In.Host
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "Proxy-Authorization"} {
		r.Out.Header.Del(name) // the method that was judged is the one that counts
	}
}

func (g *Gateway) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody waits for an answer
	}
	status := http.StatusBadGateway
	if errors.Is(err, errOwn) {
		status = http.StatusForbidden
	}
	http.Error(w, "claudeops could not reach "+r.URL.Host+" for this session: "+err.Error(), status)
}

// connect serves the method CONNECT.
func (g *Gateway) connect(w http.ResponseWriter, r *http.Request, s *stream) {
	host, port := hostPort(r.Host, httpsPort)
	permit, rule := g.find(host, port)
	if rule == "" && (permit.How == HTTP || permit.How == Look) {
		rule = "a tunnel to a service is not filtered: use http:// or the tool look"
	}
	what := "CONNECT " + net.JoinHostPort(host, strconv.Itoa(port))
	if rule != "" {
		g.refuse(what, rule)
		http.Error(w, "claudeops refused "+what+": "+rule+". "+g.Permitted(), http.StatusForbidden)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	conn, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	inner := &stream{Conn: s.Conn, r: buffered.Reader, ended: make(chan struct{})}
	if permit.How == Raw {
		g.splice(inner, func(ctx context.Context) (net.Conn, error) { return g.dial(ctx, host, port) })
		return
	}
	_ = inner.SetReadDeadline(time.Now().Add(helloTime))
	g.tunnel(inner, host, port, permit, "")
}

var errHello = errors.New("the hello was read")

// listening is a connection that is read from but never written to.
type listening struct {
	net.Conn

	r    io.Reader
	read bytes.Buffer
}

func (l *listening) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	l.read.Write(p[:n])
	return n, err
}

func (l *listening) Write([]byte) (int, error) { return 0, errHello }

// peekHello reads the first message of a TLS client, which names the host it wants, and returns its bytes too.
func peekHello(s *stream) (name, raw string, err error) {
	l := &listening{Conn: s.Conn, r: s.r}
	listen := func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name = hello.ServerName
		return nil, errHello
	}
	//nolint:gosec // no handshake is made
	err = tls.Server(l, &tls.Config{GetConfigForClient: listen}).HandshakeContext(context.Background())
	if !errors.Is(err, errHello) {
		return "", "", fmt.Errorf("read TLS hello: %w", err)
	}
	return name, l.read.String(), nil
}
