package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// raw serves connections with a function that reads a request's head first.
func raw(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(conn)
			for line := "x"; strings.TrimSpace(line) != ""; {
				if line, err = r.ReadString('\n'); err != nil {
					break
				}
			}
			answer(conn)
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

func check(t *testing.T, spec ops.ProbeSpec) ops.Check {
	t.Helper()
	spec.Type = "http"
	return New(Options{}).Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]
}

func TestEveryProbeMakesItsOwnConnection(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	prober := New(Options{})
	spec := ops.ProbeSpec{Type: "http", URL: server.URL, InsecureTLS: true}
	for range 3 {
		if c := prober.Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]; c.Status != ops.Healthy {
			t.Fatal(c.Error)
		}
	}
	server.Close()
	if n := connections.Load(); n != 3 {
		t.Errorf("%d connections for 3 probes", n)
	}
	if c := prober.Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]; c.Status != ops.Down {
		t.Error("the server is gone and the probe is", c.Status)
	}
}

func TestAServerWithHTTP2IsAskedInHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	prober := New(Options{})
	spec := ops.ProbeSpec{Type: "http", URL: server.URL, InsecureTLS: true, ExpectBody: "HTTP/2.0", Method: http.MethodPost, Body: "x"}
	for range 2 {
		if c := prober.Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]; c.Status != ops.Healthy {
			t.Error(c.Error)
		}
	}
}

func TestOddAnswers(t *testing.T) {
	endless := func(conn net.Conn, head string) {
		_, _ = io.WriteString(conn, head)
		for {
			if _, err := conn.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
				return
			}
		}
	}
	for _, tc := range []struct {
		name   string
		answer func(net.Conn)
		spec   ops.ProbeSpec
		want   string // part of the error; empty: healthy
	}{
		{name: "interim answers", answer: func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\nfine")
		}, spec: ops.ProbeSpec{ExpectBody: "fine"}},
		{name: "only interim answers", answer: func(c net.Conn) {
			_, _ = io.WriteString(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 50))
		}, want: "connection closed without an answer"},
		{name: "chunks", answer: func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nfi\r\n2\r\nne\r\n0\r\n\r\n")
		}, spec: ops.ProbeSpec{ExpectBody: "fine"}},
		{name: "a body without end is not read", answer: func(c net.Conn) { endless(c, "HTTP/1.1 200 OK\r\n\r\n") }},
		{name: "a head without end", answer: func(c net.Conn) { endless(c, "HTTP/1.1 200 OK\r\nX-Long: ") }, want: "exceeded"},
		{name: "nothing", answer: func(net.Conn) {}, want: "connection closed without an answer"},
		{name: "another protocol", answer: func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n") }, want: "malformed"},
		{name: "an answer before the whole body was read", answer: func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\n\r\n")
			_ = c.(*net.TCPConn).CloseWrite() // a reset could overtake the answer
			_, _ = io.Copy(io.Discard, c)
		}, spec: ops.ProbeSpec{Method: http.MethodPost, Body: strings.Repeat("x", 1<<16)}, want: "HTTP 413"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spec.URL = raw(t, tc.answer)
			c := check(t, tc.spec)
			if (tc.want == "") != (c.Status == ops.Healthy) || !strings.Contains(c.Error, tc.want) {
				t.Errorf("%s: %q", c.Status, c.Error)
			}
		})
	}
}

func TestAnAnswerWithoutTLSIsNamed(t *testing.T) {
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := check(t, ops.ProbeSpec{URL: strings.Replace(plain.URL, "http:", "https:", 1)})
	if c.Status != ops.Down || !strings.Contains(c.Error, "HTTP response to HTTPS client") {
		t.Errorf("%s: %q", c.Status, c.Error)
	}
}

func TestAHandshakeThatHangsEndsInTime(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = silent.Close() }()
	spec := ops.ProbeSpec{URL: "https://" + silent.Addr().String(), Timeout: 50 * time.Millisecond}
	if c := check(t, spec); c.Status != ops.Down || !strings.Contains(c.Error, "no answer within 50ms") {
		t.Errorf("%s: %q", c.Status, c.Error)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("stopped")) })
	spec.Type, spec.Timeout = "http", time.Minute
	if got := New(Options{}).Run(ctx, "home", []ops.ProbeSpec{spec}, ops.ProbeWatch); len(got) != 0 {
		t.Errorf("a probe that was stopped has a result: %+v", got)
	}
}
