package keyproxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/agent/keyproxy"
)

const key = "sk-the-real-key"

// front is a proxy before an API that the test scripts.
type front struct {
	t     *testing.T
	proxy *keyproxy.Proxy
	token string
	calls atomic.Int32
}

func newFront(t *testing.T, path string, change func(*keyproxy.Options), api http.HandlerFunc) *front {
	t.Helper()
	f := &front{t: t, token: keyproxy.NewToken()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.calls.Add(1)
		if strings.Contains(r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"), f.token) {
			t.Error("the token was passed on")
		}
		api(w, r)
	}))
	t.Cleanup(server.Close)
	o := keyproxy.Options{Upstream: server.URL + path, Keys: map[string]string{f.token: key}}
	if change != nil {
		change(&o)
	}
	proxy, err := keyproxy.Listen(o)
	must(t, err)
	t.Cleanup(proxy.Close)
	f.proxy = proxy
	return f
}

// client is one of its own: servers of tests close the connections of the default one.
func client(t *testing.T) *http.Transport {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// do makes a call; header is "Name: value".
func (f *front) do(method, path, header string, body io.Reader) (*http.Response, error) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.proxy.URL()+path, body)
	must(f.t, err)
	if name, value, ok := strings.Cut(header, ": "); ok {
		req.Header.Set(name, value)
	}
	return client(f.t).RoundTrip(req)
}

func (f *front) status(method, path, header string, body io.Reader) int {
	f.t.Helper()
	resp, err := f.do(method, path, header, body)
	must(f.t, err)
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if strings.Contains(string(text), key) {
		f.t.Errorf("the answer holds the key: %s", text)
	}
	return resp.StatusCode
}

func TestTheTokenBecomesTheKeyInTheSameForm(t *testing.T) {
	t.Parallel()
	var got http.Header
	var host, path string
	f := newFront(t, "/v1", func(o *keyproxy.Options) { o.Header = http.Header{"x-gateway": {"g"}} }, func(_ http.ResponseWriter, r *http.Request) {
		got, host, path = r.Header, r.Host, r.URL.RequestURI()
	})
	for _, form := range []string{"X-Api-Key: ", "Authorization: Bearer ", "Authorization: bearer ", "Api-Key: "} {
		if code := f.status(http.MethodPost, "/messages?beta=true", form+f.token, nil); code != http.StatusOK {
			t.Fatalf("%s: %d", form, code)
		}
		name, scheme, _ := strings.Cut(form, ": ")
		if got.Get(name) != scheme+key || got.Get("X-Gateway") != "g" || got.Get("X-Forwarded-For") != "" {
			t.Errorf("%s: the API got %v", form, got)
		}
		if path != "/v1/messages?beta=true" || strings.Contains(f.proxy.URL(), host) {
			t.Errorf("the API at %s was asked for %s", host, path)
		}
	}
}

func TestOnlyTheTokenOpensTheProxy(t *testing.T) {
	t.Parallel()
	f := newFront(t, "", nil, func(http.ResponseWriter, *http.Request) {})
	for _, header := range []string{
		"", "X-Api-Key: ", "X-Api-Key: " + key, "X-Api-Key: x", "Authorization: Bearer " + keyproxy.NewToken(), "Authorization: Basic " + f.token, "Cookie: " + f.token,
	} {
		if code := f.status(http.MethodPost, "/v1/messages", header, nil); code != http.StatusUnauthorized {
			t.Errorf("%q: %d", header, code)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.proxy.URL(), nil)
	must(t, err)
	req.Header.Set("X-Api-Key", f.token)
	req.Header.Set("Authorization", "Bearer another")
	resp, err := client(t).RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a second credential: %v %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if n := f.calls.Load(); n != 0 {
		t.Errorf("%d calls reached the API", n)
	}
}

func TestOnlyTheAPIIsReached(t *testing.T) {
	t.Parallel()
	f := newFront(t, "/proxy/v1/", nil, func(http.ResponseWriter, *http.Request) {})
	auth := "X-Api-Key: " + f.token
	base := strings.TrimSuffix(f.proxy.URL(), "/proxy/v1")
	for path, want := range map[string]int{
		"/proxy/v1": 200, "/proxy/v1/": 200, "/proxy/v1/models": 200, "/": 404, "/proxy/v10/x": 404, "/proxy/v1/../admin": 404,
		"/proxy/v1/%2e%2e/admin": 404, "/proxy/v1/..%2fadmin": 404, "//other.example/v1": 404, `/proxy/v1/..%5cadmin`: 404,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		must(t, err)
		req.Header.Set("X-Api-Key", f.token)
		resp, err := client(t).RoundTrip(req)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	before := f.calls.Load()
	// An absolute address names another host: the request still goes to the API or nowhere.
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another host was reached") }))
	defer other.Close()
	conn := rawRequest(t, f, "GET "+other.URL+"/proxy/v1/x HTTP/1.1\r\nHost: "+strings.TrimPrefix(other.URL, "http://")+"\r\n"+auth+"\r\n\r\n")
	if conn != http.StatusOK || f.calls.Load() != before+1 {
		t.Errorf("%d, %d calls", conn, f.calls.Load()-before)
	}
	if code := rawRequest(t, f, "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example\r\n"+auth+"\r\n\r\n"); code != http.StatusNotImplemented {
		t.Errorf("a tunnel: %d", code)
	}
}

func TestAnAnswerIsPassedOnAsItComes(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	f := newFront(t, "", nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n")
		_ = http.NewResponseController(w).Flush()
		select { // the second line comes only after the first was read
		case <-read:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "data: two\n")
	})
	resp, err := f.do(http.MethodPost, "/v1/messages", "X-Api-Key: "+f.token, strings.NewReader("{}"))
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	in := bufio.NewReader(resp.Body)
	if line, err := in.ReadString('\n'); line != "data: one\n" || err != nil {
		t.Fatalf("%q %v", line, err)
	}
	close(read)
	if line, err := in.ReadString('\n'); line != "data: two\n" || err != nil {
		t.Errorf("%q %v", line, err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	inside, leave := make(chan struct{}), make(chan struct{})
	f := newFront(t, "", func(o *keyproxy.Options) { o.MaxBody, o.MaxCalls = 10, 1 }, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		if r.URL.Path == "/wait" {
			inside <- struct{}{}
			<-leave
		}
		_, _ = io.WriteString(w, "ok")
	})
	auth := "X-Api-Key: " + f.token
	if code := f.status(http.MethodPost, "/", auth, strings.NewReader("01234567890")); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", code)
	}
	// Without a length, so that it is noticed on the way.
	if code := f.status(http.MethodPost, "/", auth, io.MultiReader(strings.NewReader("0123456789"), strings.NewReader("0123456789"))); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body in pieces: %d", code)
	}
	first := make(chan int)
	go func() { first <- f.status(http.MethodPost, "/wait", auth, nil) }()
	<-inside
	if code := f.status(http.MethodPost, "/", auth, nil); code != http.StatusTooManyRequests {
		t.Errorf("a second call: %d", code)
	}
	close(leave)
	if code := <-first; code != http.StatusOK {
		t.Errorf("the first call: %d", code)
	}
	if code := f.status(http.MethodPost, "/", auth, nil); code != http.StatusOK {
		t.Errorf("after it: %d", code)
	}
}

func TestTheTokenIsWorthNothingAfterTheSession(t *testing.T) {
	t.Parallel()
	inside := make(chan struct{})
	f := newFront(t, "", nil, func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
	})
	another := newFront(t, "", nil, func(http.ResponseWriter, *http.Request) {})
	if code := another.status(http.MethodPost, "/", "X-Api-Key: "+f.token, nil); code != http.StatusUnauthorized {
		t.Errorf("at the proxy of another session: %d", code)
	}
	open := make(chan error)
	go func() {
		resp, err := f.do(http.MethodPost, "/", "X-Api-Key: "+f.token, nil)
		if err == nil {
			_ = resp.Body.Close()
		}
		open <- err
	}()
	<-inside
	f.proxy.Close()
	if err := <-open; err == nil {
		t.Error("an open call was answered")
	}
	if resp, err := f.do(http.MethodPost, "/", "X-Api-Key: "+f.token, nil); err == nil {
		_ = resp.Body.Close()
		t.Errorf("it still answers: %s", resp.Status)
	}
}

func TestAnAPIThatCannotBeReached(t *testing.T) {
	t.Parallel()
	f := newFront(t, "", nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if code := f.status(http.MethodPost, "/", "X-Api-Key: "+f.token, nil); code != http.StatusBadGateway {
		t.Errorf("got %d", code)
	}
	for _, url := range []string{"", "api.example", "ftp://api.example", "http://"} {
		if p, err := keyproxy.Listen(keyproxy.Options{Upstream: url}); err == nil {
			p.Close()
			t.Errorf("%q was taken", url)
		}
	}
}

// rawRequest sends bytes and returns the status of the answer.
func rawRequest(t *testing.T, f *front, text string) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address := strings.TrimPrefix(f.proxy.URL(), "http://")
	address, _, _ = strings.Cut(address, "/")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	must(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestConnectionsAreBounded: an agent must not use up the descriptors of the supervisor.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFront(t, "", nil, func(http.ResponseWriter, *http.Request) {})
	address := strings.TrimPrefix(f.proxy.URL(), "http://")
	var last net.Conn
	for range 129 { // four for each of its 32 calls, and one more
		conn, err := net.Dial("tcp", address)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		last = conn
	}
	if err := last.SetReadDeadline(time.Now().Add(4 * time.Second)); err != nil { // less than an idle connection is given
		t.Fatal(err)
	}
	if _, err := last.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("one too many stays open: %v", err)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
