package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// wireBuffer is how much of a request or an answer is buffered: most health checks fit.
	wireBuffer = 1 << 10
	// maxInterim is how many interim answers (HTTP 1xx) may come before the real one.
	maxInterim = 5
	// maxHTTP2Hosts is how many hosts with HTTP/2 are remembered.
	maxHTTP2Hosts = 10_000
)

// direct sends each request over a connection of its own: an old one would hide that no new one can be made, that the name has another
// address or that the certificate has changed. It does all the work in the caller's goroutine; http.Transport starts four for each
// connection, which cost a quarter of a probe's processor time. It leaves proxies and HTTP/2 to an http.Transport.
type direct struct {
	dialer net.Dialer
	config *tls.Config // for requests that hold nothing private
	strong *tls.Config // with every key exchange that Go offers
	proxy  func(*http.Request) (*url.URL, error)
	rest   http.RoundTripper

	mu    sync.Mutex
	http2 map[string]bool // hosts that chose HTTP/2
}

// freshConnections never reuses a connection.
func freshConnections(insecure bool) http.RoundTripper {
	strong := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure, NextProtos: []string{"h2", "http/1.1"}}
	config := strong.Clone()
	// A key exchange that resists quantum computers is an eighth of a probe's processor time, and a public health page has no secret that
	// must last for years.
	config.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	return &direct{
		config: config, strong: strong, proxy: http.ProxyFromEnvironment, http2: map[string]bool{},
		rest: &http.Transport{
			TLSClientConfig: strong.Clone(), Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			MaxResponseHeaderBytes: maxBody, ReadBufferSize: wireBuffer, WriteBufferSize: wireBuffer,
		},
	}
}

// RoundTrip sends a request and returns the answer. Closing its body closes the connection.
func (d *direct) RoundTrip(req *http.Request) (*http.Response, error) {
	if !d.own(req) {
		return d.rest.RoundTrip(req)
	}
	config := d.config
	if private(req) {
		config = d.strong
	}
	conn, state, err := d.connect(req, config)
	if refused(err) && config != d.strong {
		conn, state, err = d.connect(req, d.strong)
	}
	if err != nil {
		closeBody(req)
		return nil, err
	}
	if state != nil && state.NegotiatedProtocol == "h2" {
		d.rememberHTTP2(req.URL.Host)
		_ = conn.Close()
		return d.rest.RoundTrip(req)
	}
	// The context ends what waits for the other side.
	stop := context.AfterFunc(req.Context(), func() { _ = conn.Close() })
	end := func() {
		stop()
		_ = conn.Close()
	}
	resp, err := exchange(conn, req)
	if err != nil {
		end()
		return nil, err
	}
	resp.TLS = state
	resp.Body = connectionBody{resp.Body, end}
	return resp, nil
}

// own reports whether the request needs neither a proxy nor HTTP/2, and has a host name that can be dialled as it is.
func (d *direct) own(req *http.Request) bool {
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return false
	}
	for _, c := range []byte(req.URL.Host) {
		if c >= 0x80 {
			return false // http.Transport converts international names
		}
	}
	if proxy, err := d.proxy(req); proxy != nil || err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return req.URL.Scheme == "http" || !d.http2[req.URL.Host]
}

// rememberHTTP2 saves the first connection next time. A host that gives up HTTP/2 loses nothing: http.Transport offers both.
func (d *direct) rememberHTTP2(host string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.http2) >= maxHTTP2Hosts {
		clear(d.http2)
	}
	d.http2[host] = true
}

// private reports whether a request holds more than an address: any header, parameter or body may be a key.
func private(req *http.Request) bool {
	for name := range req.Header {
		if name != "User-Agent" && name != "Referer" {
			return true
		}
	}
	return req.URL.User != nil || req.URL.RawQuery != "" || req.ContentLength != 0
}

// refused reports whether the server ended the handshake, as one does that wants another key exchange.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func (d *direct) connect(req *http.Request, config *tls.Config) (net.Conn, *tls.ConnectionState, error) {
	ctx, host, port := req.Context(), req.URL.Hostname(), req.URL.Port()
	secure := req.URL.Scheme == "https"
	switch {
	case port != "":
	case secure:
		port = "443"
	default:
		port = "80"
	}
	conn, err := d.dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil || !secure {
		return conn, nil, err
	}
	config = config.Clone()
	config.ServerName = host
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	wrapped := tls.Client(conn, config)
	if err := wrapped.Handshake(); err != nil { //nolint:noctx // a context here costs a goroutine; the deadline above ends the handshake
		_ = conn.Close()
		var record tls.RecordHeaderError
		if errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
			err = errors.New("the server answered in HTTP without TLS")
		}
		return nil, nil, err
	}
	state := wrapped.ConnectionState()
	return wrapped, &state, nil
}

// exchange writes the request and reads the head of the answer.
func exchange(conn net.Conn, req *http.Request) (*http.Response, error) {
	sent := new(http.Request)
	*sent = *req
	sent.Close = true
	w := bufio.NewWriterSize(conn, wireBuffer)
	failed := sent.Write(w)
	if failed == nil {
		failed = w.Flush()
	}
	// Also after a failed write: a server may refuse a long body before it has read all of it.
	limited := &io.LimitedReader{R: conn, N: maxBody}
	r := bufio.NewReaderSize(limited, wireBuffer)
	for range maxInterim {
		resp, err := http.ReadResponse(r, req)
		switch {
		case err != nil && failed != nil:
			return nil, failed
		case err != nil && limited.N <= 0:
			return nil, fmt.Errorf("the head of the answer is longer than %d bytes", maxBody)
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols:
			limited.N = math.MaxInt64
			return resp, nil
		}
	}
	return nil, errors.New("too many interim answers")
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// connectionBody is a body whose end is the end of its connection. The body's own Close would read it to its end.
type connectionBody struct {
	io.Reader
	end func()
}

// Close closes the connection.
func (b connectionBody) Close() error {
	b.end()
	return nil
}
