package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

func at() time.Time { return time.Date(2026, 1, 31, 10, 42, 0, 0, time.UTC) }

func run(t *testing.T, spec ops.ProbeSpec) ops.Check {
	t.Helper()
	return runWith(t, Options{Clock: at}, spec)
}

// asksEngine runs a probe with the container engine at a socket.
func asksEngine(t *testing.T, socket string, spec ops.ProbeSpec) ops.Check {
	t.Helper()
	return runWith(t, Options{Clock: at, Socket: socket}, spec)
}

func runWith(t *testing.T, o Options, spec ops.ProbeSpec) ops.Check {
	t.Helper()
	spec.Service = "web"
	checks := New(o).Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeVerify)
	if len(checks) != 1 {
		t.Fatalf("%d results", len(checks))
	}
	return checks[0]
}

func want(t *testing.T, got ops.Check, status ops.Health, problem string) {
	t.Helper()
	if got.Status != status || got.Error != problem {
		t.Errorf("got %s %q, want %s %q", got.Status, got.Error, status, problem)
	}
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestHTTPAnswersAreClassified(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err != nil {
			status = 200
		}
		if r.Method == http.MethodPost {
			status = http.StatusTeapot
		}
		w.Header().Set("Location", "/200")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat("x", 1000)+" all systems operational")
	})
	cases := []struct {
		name    string
		spec    ops.ProbeSpec
		status  ops.Health
		problem string
	}{
		{"ok", ops.ProbeSpec{URL: "/200"}, ops.Healthy, ""},
		{"no content", ops.ProbeSpec{URL: "/204"}, ops.Healthy, ""},
		{"not modified", ops.ProbeSpec{URL: "/304"}, ops.Healthy, ""},
		{"bad gateway", ops.ProbeSpec{URL: "/502"}, ops.Down, "HTTP 502 Bad Gateway"},
		{"not found", ops.ProbeSpec{URL: "/404"}, ops.Down, "HTTP 404 Not Found"},
		{"expected failure", ops.ProbeSpec{URL: "/401", ExpectStatus: []int{200, 401}}, ops.Healthy, ""},
		{"unexpected success", ops.ProbeSpec{URL: "/200", ExpectStatus: []int{401}}, ops.Down, "HTTP 200 OK"},
		{"followed redirect", ops.ProbeSpec{URL: "/302", ExpectStatus: []int{200}}, ops.Healthy, ""},
		{"expected redirect", ops.ProbeSpec{URL: "/302", ExpectStatus: []int{302}}, ops.Healthy, ""},
		{"body", ops.ProbeSpec{URL: "/200", ExpectBody: "operational"}, ops.Healthy, ""},
		{"other body", ops.ProbeSpec{URL: "/200", ExpectBody: "degraded"}, ops.Down, `HTTP 200, but the body does not contain "degraded"`},
		{"method", ops.ProbeSpec{URL: "/200", Method: http.MethodPost}, ops.Down, "HTTP 418 I'm a teapot"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Type, c.spec.URL = "http", server.URL+c.spec.URL
			got := run(t, c.spec)
			want(t, got, c.status, c.problem)
			if got.Type != ops.CheckHTTP || got.Service != "web" || got.Environment != "home" || got.Purpose != ops.ProbeVerify ||
				!got.At.Equal(at()) {
				t.Errorf("got %+v", got)
			}
			if line := method(c.spec) + " " + c.spec.URL; got.Probe != line {
				t.Errorf("probe %q, want %q", got.Probe, line)
			}
		})
	}
}

func TestFiveRedirectsAreFollowedAndNoMore(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var left int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &left); err == nil && left > 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d", left-1), http.StatusFound)
		}
	})
	want(t, run(t, ops.ProbeSpec{Type: "http", URL: server.URL + "/5"}), ops.Healthy, "")
	want(t, run(t, ops.ProbeSpec{Type: "http", URL: server.URL + "/6"}), ops.Down, "more than 5 redirects")
}

func TestOnlyTheFirstMebibyteOfABodyIsRead(t *testing.T) {
	var sent atomic.Int64
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat("x", 64<<10))
		for { // until the prober hangs up
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	got := run(t, ops.ProbeSpec{Type: "http", URL: server.URL, ExpectBody: "needle"})
	want(t, got, ops.Down, `HTTP 200, but the body does not contain "needle"`)
	server.Close()
	if n := sent.Load(); n > 32<<20 {
		t.Errorf("%d bytes were sent", n)
	}
}

// closedPort returns a loopback address nothing listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

func TestFailedConnectionsAreDownInAFewWords(t *testing.T) {
	closed := closedPort(t)
	want(t, run(t, ops.ProbeSpec{Type: "http", URL: "http://" + closed}), ops.Down, "connection refused")
	want(t, run(t, ops.ProbeSpec{Type: "tcp", Address: closed}), ops.Down, "connection refused")
	hangUp := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	want(t, run(t, ops.ProbeSpec{Type: "http", URL: hangUp.URL}), ops.Down, "connection closed without an answer")
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	defer secure.Close()
	got := run(t, ops.ProbeSpec{Type: "http", URL: secure.URL})
	want(t, got, ops.Down, "certificate: x509: certificate signed by unknown authority")
	want(t, run(t, ops.ProbeSpec{Type: "http", URL: "http://[bad"}), ops.Down, "bad request: missing ']' in host")
	want(
		t,
		run(t, ops.ProbeSpec{Type: "icmp"}),
		ops.Down,
		`unknown probe type "icmp": use http, dns, container, postgres, mysql, redis, tcp, systemd, command, heartbeat`,
	)
}

func TestAnOpenPortIsHealthy(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	got := run(t, ops.ProbeSpec{Type: "tcp", Address: server.Listener.Addr().String()})
	want(t, got, ops.Healthy, "")
	if got.Type != ops.CheckService || got.Probe != "tcp "+server.Listener.Addr().String() {
		t.Errorf("got %+v", got)
	}
}

func TestPasswordsInAddressesAreNotShown(t *testing.T) {
	got := run(t, ops.ProbeSpec{Type: "http", URL: "http://user:hunter2@" + closedPort(t) + "/x"})
	if line := fmt.Sprintf("%+v", got); strings.Contains(line, "hunter2") || !strings.Contains(got.Probe, "user:xxxxx@") {
		t.Errorf("got %s", line)
	}
}

// roundTrip answers requests without a network, so that time can be faked.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(after time.Duration) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(after):
			return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func faked(transport http.RoundTripper) *Prober {
	return New(Options{HTTPClient: &http.Client{Transport: transport}})
}

func TestASlowAnswerIsDegraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := ops.ProbeSpec{Type: "http", URL: "http://web", SlowAfter: time.Second}
		got := faked(answer(time.Second)).Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]
		want(t, got, ops.Healthy, "")
		got = faked(answer(1500*time.Millisecond)).Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]
		want(t, got, ops.Degraded, "slow: 1.5s, more than 1s")
		if got.ResponseTimeMS != 1500 {
			t.Errorf("%d ms", got.ResponseTimeMS)
		}
	})
}

func TestNoAnswerInTimeIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		specs := []ops.ProbeSpec{
			{Type: "http", URL: "http://web"},
			{Type: "http", URL: "http://web", Timeout: 2 * time.Second},
		}
		start := time.Now()
		checks := faked(answer(time.Hour)).Run(t.Context(), "home", specs, ops.ProbeObserve)
		want(t, checks[0], ops.Down, "no answer within 10s")
		want(t, checks[1], ops.Down, "no answer within 2s")
		if took := time.Since(start); took != 10*time.Second || checks[1].ResponseTimeMS != 2000 {
			t.Errorf("took %s; %+v", took, checks)
		}
	})
}

func TestEightProbesRunAtOnceAndResultsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			defer now.Add(-1)
			most.Store(max(most.Load(), now.Add(1)))
			wait, err := time.ParseDuration(strings.TrimPrefix(r.URL.Path, "/"))
			if err != nil {
				return nil, err
			}
			return answer(wait)(r)
		})
		var specs []ops.ProbeSpec
		for i := range 20 { // later ones are quicker
			specs = append(specs, ops.ProbeSpec{
				Service: fmt.Sprint(i), Type: "http", URL: fmt.Sprintf("http://web/%dms", 1000-i),
			})
		}
		checks := faked(transport).Run(t.Context(), "home", specs, ops.ProbeObserve)
		for i, c := range checks {
			if c.Service != fmt.Sprint(i) || c.Status != ops.Healthy {
				t.Errorf("result %d: %+v", i, c)
			}
		}
		if len(checks) != 20 || most.Load() != 8 || now.Load() != 0 {
			t.Errorf("%d results, at most %d at once, %d left", len(checks), most.Load(), now.Load())
		}
	})
}

func TestAStoppedProbeSaysNothingAboutItsService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("shutting down")) })
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "quick" {
				return answer(0)(r)
			}
			return answer(time.Minute)(r)
		})
		specs := make([]ops.ProbeSpec, 30)
		for i := range specs {
			specs[i] = ops.ProbeSpec{Type: "http", URL: "http://slow"}
		}
		specs[3] = ops.ProbeSpec{Service: "quick", Type: "http", URL: "http://quick"}
		start := time.Now()
		checks := faked(transport).Run(ctx, "home", specs, ops.ProbeObserve)
		if len(checks) != 1 || checks[0].Service != "quick" || time.Since(start) != time.Second {
			t.Errorf("after %s: %+v", time.Since(start), checks)
		}
	})
}

func TestNoProbesNoResults(t *testing.T) {
	if checks := New(Options{}).Run(t.Context(), "home", nil, ops.ProbeObserve); len(checks) != 0 {
		t.Errorf("got %+v", checks)
	}
}
