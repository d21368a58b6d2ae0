package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

const (
	maxRedirects = 5
	maxBody      = 1 << 20
	userAgent    = "claudeops-probe"
	day          = 24 * time.Hour
	wireBuffer   = 1 << 10
)

// freshConnections never reuses a connection: an old one would hide that no new one can be made, that the name has another address or that
// the certificate has changed. Its buffers hold most health checks.
func freshConnections(insecure bool) http.RoundTripper {
	return &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure},
		Proxy:           http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: maxBody, ReadBufferSize: wireBuffer, WriteBufferSize: wireBuffer,
	}
}

func method(spec ops.ProbeSpec) string {
	return cmp.Or(spec.Method, http.MethodGet)
}

func (p *Prober) http(ctx context.Context, spec ops.ProbeSpec) finding {
	req, err := request(ctx, spec)
	if err != nil {
		return down("bad request: %s", reason(err))
	}
	client := *p.HTTPClient
	if spec.InsecureTLS {
		client.Transport = p.insecure
	}
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error { return follow(spec, req, via) }
	resp, err := client.Do(req)
	if err != nil {
		return down("%s", reason(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if !expected(spec, resp.StatusCode) {
		return down("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if problem := body(spec, resp); problem != "" {
		return down("%s", problem)
	}
	return p.certificate(spec, resp.TLS)
}

func request(ctx context.Context, spec ops.ProbeSpec) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method(spec), spec.URL, strings.NewReader(spec.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	for name, value := range spec.Headers {
		if http.CanonicalHeaderKey(name) == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

// follow decides about a redirect. Headers, a body and a password are sent to the configured host only: any header may be a key. Nothing
// meant for an encrypted connection is sent over one that is not.
func follow(spec ops.ProbeSpec, req *http.Request, via []*http.Request) error {
	if slices.Contains(spec.ExpectStatus, req.Response.StatusCode) {
		return http.ErrUseLastResponse // the redirect itself is what is expected
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	first := via[0].URL
	private := len(spec.Headers) > 0 || spec.Body != "" || first.User != nil
	elsewhere := req.URL.Host != first.Host || (first.Scheme == "https" && req.URL.Scheme != "https")
	if private && elsewhere {
		return fmt.Errorf("redirected to %s://%s, where headers, body and password are not sent: probe that address, or expect the redirect",
			req.URL.Scheme, req.URL.Host)
	}
	return nil
}

func expected(spec ops.ProbeSpec, status int) bool {
	if len(spec.ExpectStatus) == 0 {
		return status >= 200 && status < 400
	}
	return slices.Contains(spec.ExpectStatus, status)
}

// body returns what is wrong with the body of the response. Only its first part is read.
func body(spec ops.ProbeSpec, resp *http.Response) string {
	if spec.ExpectBody == "" && spec.ExpectRegexp == "" && len(spec.ExpectJSON) == 0 {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return "read body: " + reason(err)
	}
	if !bytes.Contains(text, []byte(spec.ExpectBody)) {
		return fmt.Sprintf("HTTP %d, but the body does not contain %q", resp.StatusCode, spec.ExpectBody)
	}
	if spec.ExpectRegexp != "" {
		pattern, err := regexp.Compile(spec.ExpectRegexp)
		if err != nil {
			return err.Error()
		}
		if !pattern.Match(text) {
			return fmt.Sprintf("HTTP %d, but the body does not match %q", resp.StatusCode, spec.ExpectRegexp)
		}
	}
	return conditions(spec.ExpectJSON, text, resp.StatusCode)
}

func conditions(texts []string, body []byte, status int) string {
	if len(texts) == 0 {
		return ""
	}
	document, err := decodeJSON(body)
	if err != nil && len(body) == maxBody {
		return fmt.Sprintf("HTTP %d, but the body is longer than %d bytes", status, maxBody)
	}
	if err != nil {
		return fmt.Sprintf("HTTP %d, but the body is not JSON", status)
	}
	for _, text := range texts {
		c, err := parseCondition(text)
		if err != nil {
			return err.Error()
		}
		if problem := c.check(document); problem != "" {
			return fmt.Sprintf("HTTP %d, but %s", status, problem)
		}
	}
	return ""
}

// certificate warns before the certificate expires; an expired one fails the connection.
func (p *Prober) certificate(spec ops.ProbeSpec, state *tls.ConnectionState) finding {
	if spec.CertDays <= 0 || state == nil || len(state.PeerCertificates) == 0 {
		return healthy()
	}
	end := state.PeerCertificates[0].NotAfter
	for i, chain := range state.VerifiedChains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if i == 0 || first.NotAfter.After(end) {
			end = first.NotAfter // the chain that lasts longest is the one that counts
		}
	}
	left := end.Sub(p.Clock())
	if left > time.Duration(spec.CertDays)*day {
		return healthy()
	}
	return degraded("the certificate ends in %d days, on %s", max(int(left/day), 0), end.UTC().Format(time.DateOnly))
}

func (p *Prober) tcp(ctx context.Context, spec ops.ProbeSpec) finding {
	conn, err := p.dialer.DialContext(ctx, "tcp", spec.Address)
	if err != nil {
		return down("%s", reason(err))
	}
	_ = conn.Close()
	return healthy()
}

// reason says in a few words why a connection failed; the long errors of net repeat addresses that are shown already.
func reason(err error) string {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var errno syscall.Errno
	var request *url.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "host not found: " + dns.Name
	case errors.As(err, &dns):
		return "name lookup failed: " + dns.Name
	case errors.As(err, &certificate):
		return "certificate: " + certificate.Err.Error()
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed without an answer"
	case errors.As(err, &request):
		return request.Err.Error()
	default:
		return err.Error()
	}
}

// withoutPassword is the address as it may be shown.
func withoutPassword(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable address)"
	}
	return u.Redacted()
}

// head keeps the beginning of what is written to it.
type head struct{ kept bytes.Buffer }

// Write never fails: a command must not notice that its output is cut.
func (h *head) Write(p []byte) (int, error) {
	room := maxOutput - h.kept.Len()
	h.kept.Write(p[:min(len(p), room)])
	return len(p), nil
}

// firstLine returns the first line that is not blank, led by a colon, or nothing.
func (h *head) firstLine() string {
	if line := h.line(); line != "" {
		return ": " + line
	}
	return ""
}

// line returns the first line that is not blank.
func (h *head) line() string {
	for line := range bytes.Lines(h.kept.Bytes()) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return string(line)
		}
	}
	return ""
}
