package probe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestARequestIsSentAsConfigured(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.Header.Get("X-Key"), r.UserAgent(), text)
	})
	got := run(t, ops.ProbeSpec{
		Type: "http", URL: server.URL, Method: "PUT", Body: "ping",
		Headers:      map[string]string{"x-key": "k1", "host": "shop.example.org"},
		ExpectRegexp: `^PUT shop\.example\.org k1 claudeops-probe ping$`,
	})
	want(t, got, ops.Healthy, "")
}

func TestTheBodyIsJudged(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			_, _ = io.WriteString(w, `{"x":"`+strings.Repeat("a", maxBody)+`"}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"ok","queue":12}`)
	})
	cases := []struct {
		name, path string
		spec       ops.ProbeSpec
		problem    string
	}{
		{"conditions", "", ops.ProbeSpec{ExpectJSON: []string{`$.status == "ok"`, `$.queue < 100`}}, ""},
		{
			"second condition",
			"",
			ops.ProbeSpec{ExpectJSON: []string{`$.status == "ok"`, `$.queue < 10`}},
			"HTTP 200, but $.queue < 10 does not hold: it is 12",
		},
		{"bad condition", "", ops.ProbeSpec{ExpectJSON: []string{`status`}}, `condition "status" does not start with $`},
		{"too long", "/long", ops.ProbeSpec{ExpectJSON: []string{`$.x`}}, "HTTP 200, but the body is longer than 1048576 bytes"},
		{"expression", "", ops.ProbeSpec{ExpectRegexp: `"queue":\d+`}, ""},
		{"other expression", "", ops.ProbeSpec{ExpectRegexp: `^ok$`}, `HTTP 200, but the body does not match "^ok$"`},
		{"all of them", "", ops.ProbeSpec{ExpectBody: "ok", ExpectRegexp: "^{", ExpectJSON: []string{"$.queue"}}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Type, c.spec.URL = "http", server.URL+c.path
			status := ops.Healthy
			if c.problem != "" {
				status = ops.Down
			}
			want(t, run(t, c.spec), status, c.problem)
		})
	}
	want(t, run(t, ops.ProbeSpec{Type: "http", URL: serve(t, func(http.ResponseWriter, *http.Request) {}).URL, ExpectJSON: []string{"$"}}),
		ops.Down, "HTTP 200, but the body is not JSON")
}

func TestCredentialsAreNotSentToAnotherHost(t *testing.T) {
	var reached atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			if r.Header.Get("X-Key") == "" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			return
		}
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	})
	host := strings.TrimPrefix(other.URL, "http://")
	refused := "redirected to http://" + host + ", where headers, body and password are not sent: probe that address, or expect the redirect"
	to := func(target string) string { return first.URL + "/?to=" + target }
	withUser := strings.Replace(to(other.URL), "http://", "http://user:hunter2@", 1)
	for _, spec := range []ops.ProbeSpec{
		{URL: to(other.URL), Headers: map[string]string{"X-Key": "secret"}},
		{URL: to(other.URL), Method: "POST", Body: "secret"},
		{URL: withUser},
	} {
		spec.Type = "http"
		want(t, run(t, spec), ops.Down, refused)
	}
	if reached.Load() != 0 {
		t.Errorf("the other host was asked %d times", reached.Load())
	}
	want(t, run(t, ops.ProbeSpec{Type: "http", URL: to(other.URL)}), ops.Healthy, "")
	want(t, run(t, ops.ProbeSpec{Type: "http", URL: to("/here"), Headers: map[string]string{"X-Key": "secret"}}), ops.Healthy, "")
	want(
		t,
		run(t, ops.ProbeSpec{Type: "http", URL: to(other.URL), Headers: map[string]string{"X-Key": "secret"}, ExpectStatus: []int{307}}),
		ops.Healthy,
		"",
	)
}

// secure serves TLS with a certificate that ends after a while, and a client that trusts it.
func secure(t *testing.T, lasts time.Duration) (*httptest.Server, *http.Client) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "web"}, NotBefore: now.Add(-2 * lasts.Abs()), NotAfter: now.Add(lasts),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	certificate, err := x509.ParseCertificate(der)
	must(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return server, &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

func TestACertificateIsWatched(t *testing.T) {
	look := func(lasts time.Duration, days int) ops.Check {
		server, client := secure(t, lasts)
		spec := ops.ProbeSpec{Type: "http", URL: server.URL, CertDays: days}
		return New(Options{HTTPClient: client}).Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]
	}
	want(t, look(60*day, 14), ops.Healthy, "")
	ends := time.Now().Add(3*day + time.Hour).UTC().Format(time.DateOnly)
	want(t, look(3*day+time.Hour, 14), ops.Degraded, "the certificate ends in 3 days, on "+ends)
	want(t, look(3*day, 0), ops.Healthy, "")
	if got := look(-time.Hour, 14); got.Status != ops.Down || !strings.HasPrefix(got.Error, "certificate: x509: certificate has expired") {
		t.Errorf("got %+v", got)
	}
}

func TestCredentialsAreNotSentInTheOpen(t *testing.T) {
	via := httptest.NewRequest(http.MethodGet, "https://web.example.org/", nil)
	next := httptest.NewRequest(http.MethodGet, "http://web.example.org/", nil)
	next.Response = &http.Response{StatusCode: http.StatusFound}
	spec := ops.ProbeSpec{Type: "http", Headers: map[string]string{"Authorization": "Bearer secret"}}
	if err := follow(spec, next, []*http.Request{via}); err == nil {
		t.Error("it went on without TLS")
	}
	if err := follow(ops.ProbeSpec{}, next, []*http.Request{via}); err != nil {
		t.Error(err)
	}
}

func TestACertificateNobodyKnowsIsTakenIfWished(t *testing.T) {
	server, _ := secure(t, 60*day)
	spec := ops.ProbeSpec{Type: "http", URL: server.URL, CertDays: 14}
	if got := run(t, spec); got.Status != ops.Down {
		t.Errorf("got %+v", got)
	}
	spec.InsecureTLS = true
	want(t, run(t, spec), ops.Healthy, "")
	spec.CertDays = 90
	got := New(Options{}).Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]
	if got.Status != ops.Degraded || !strings.HasPrefix(got.Error, "the certificate ends in 59 days") {
		t.Errorf("got %+v", got)
	}
}
