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
		w.Header().Set("Proxy-Authenticate", `Basic realm="session"`) // git sends the token only when it is asked for it
		http.Error(w, "claudeops: this proxy takes only the token of its session", http.StatusProxyAuthRequired)
		return
	}
	switch {
	case r.Method == http.MethodConnect && s.proxy:
		g.connect(w, r, s) //nolint:contextcheck // a tunnel lives as long as the session, not as its request
		return
	case !s.proxy:
		host, permit, rule := g.choose(s, r)
		g.filter(w, r, host, s.port, permit, rule)
		return
	case r.URL.Scheme != "http" || r.URL.Host == "":
		http.Error(w, "claudeops: this is a proxy for http:// and, with CONNECT, https://", http.StatusBadRequest)
		return
	}
	host, port := hostPort(r.URL.Host, httpPort)
	if at := net.JoinHostPort(host, strconv.Itoa(port)); slices.Contains(g.o.Keys, at) {
		g.pass(w, r, at, false)
		return
	}
	permit, rule := g.find(host, port, r)
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

// filter lets a request through whose method is permitted, with the headers that are.
func (g *Gateway) filter(w http.ResponseWriter, r *http.Request, host string, port int, permit Permit, rule string) {
	at := net.JoinHostPort(host, strconv.Itoa(port))
	switch {
	case rule != "":
	case permit.How == TLS:
		rule = "only https is permitted there"
	case permit.How == Look:
		rule = "the tool look asks it for this session"
	case permit.How == Touch:
		rule = touched
	case permit.How == HTTP && permit.Git != nil && !permit.Git.fetches(r):
		rule = "only git fetch is permitted there"
	case permit.How == HTTP && permit.Git == nil && !permit.allows(r.Method):
		rule = fmt.Sprintf("the method is not permitted there, only %s", strings.Join(permit.methods(), ", "))
	case permit.How == HTTP && r.Header.Get("Upgrade") != "" && !permit.allows(Any):
		rule = "a request must not become another protocol there"
	}
	if rule != "" {
		g.deny(w, r.Method+" http://"+at+r.URL.EscapedPath(), rule)
		return
	}
	r = r.Clone(r.Context())
	r.Trailer = nil
	secure := permit.Git != nil && permit.Git.Secure
	if r.Host = host; port != map[bool]int{false: httpPort, true: httpsPort}[secure] { // the one that was judged, and no other
		r.Host = at
	}
	if slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method) && !permit.allows(Any) {
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
			g.refuse("the body of a "+r.Method+" to http://"+at, "the rest of the request was sent")
		}
		r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	}
	for name := range r.Header {
		if permit.keeps(name) {
			continue
		}
		r.Header.Del(name)
		if !slices.Contains([]string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Content-Length", "Pragma"}, name) {
			g.refuse("the header "+name+" to http://"+at, "the rest of the request was sent; `headers` of the service can list it")
		}
	}
	if permit.Git != nil && permit.Git.User != nil {
		password, _ := permit.Git.User.Password()
		r.SetBasicAuth(permit.Git.User.Username(), password)
	}
	g.pass(w, r, at, secure)
}

// touched is why nothing is sent to a service that only a tcp probe names.
const touched = "a tcp probe permits a connection and not one byte: use the tool look, or give the service an http probe"

// deny answers a request that is refused. Programs that show nothing of a proxy's answer show its first line.
func (g *Gateway) deny(w http.ResponseWriter, what, rule string) {
	g.refuse(what, rule)
	text := "claudeops refused " + what + ": " + rule + ". " + g.Permitted() + " Where a service must be changed, use the supervisor's " +
		"actions; a host, also one of packages, is added by the operator (sandbox.network_hosts).\n"
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, text, http.StatusForbidden)
		return
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	line := "Refused by claudeops: " + rule
	if rule == unlisted {
		line += " (sandbox.network_hosts)"
	}
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 403 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		line, len(text), text)
	if closeWrite(conn) == nil && conn.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = io.CopyN(io.Discard, conn, maxHeader) // what still comes would reset the connection before the answer is read
	}
}

// pass sends a request to its host.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, at string, secure bool) {
	r = r.Clone(r.Context())
	if r.URL.Scheme, r.URL.Host = "http", at; secure {
		r.URL.Scheme = "https"
	}
	g.forward.ServeHTTP(w, r)
}

func rewrite(r *httputil.ProxyRequest) {
	r.Out.Host = r.In.Host
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "Proxy-Authorization"} {
		r.Out.Header.Del(name) // the method that was judged is the one that counts
	}
}

// answered refuses an answer that would make the connection something else.
func answered(r *http.Response) error {
	if r.StatusCode == http.StatusSwitchingProtocols && r.Request.Header.Get("Upgrade") == "" {
		return errors.New("it answers in another protocol")
	}
	return nil
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
	permit, rule := g.find(host, port, nil)
	if rule == "" && permit.How != TLS && permit.How != Raw {
		rule = "a tunnel to a service is not filtered: use http:// or the tool look"
	}
	if rule != "" {
		g.deny(w, "CONNECT "+net.JoinHostPort(host, strconv.Itoa(port)), rule)
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
		g.splice(inner, false, func(ctx context.Context) (net.Conn, error) { return g.dial(ctx, host, port) })
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
