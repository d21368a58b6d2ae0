package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"syscall"

	"claudeops/internal/ops"
)

const (
	maxRedirects = 5
	maxBody      = 1 << 20
	userAgent    = "claudeops-probe"
)

// freshConnections never reuses a connection: an old one would hide that no new one can be made.
func freshConnections() http.RoundTripper {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true}
}

func method(spec ops.ProbeSpec) string {
	if spec.Method == "" {
		return http.MethodGet
	}
	return spec.Method
}

func (p *Prober) http(ctx context.Context, spec ops.ProbeSpec) finding {
	req, err := http.NewRequestWithContext(ctx, method(spec), spec.URL, nil)
	if err != nil {
		return down("bad request: %s", reason(err))
	}
	req.Header.Set("User-Agent", userAgent)
	client := *p.client
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if slices.Contains(spec.ExpectStatus, req.Response.StatusCode) {
			return http.ErrUseLastResponse // the redirect itself is what is expected
		}
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return nil
	}
	resp, err := client.Do(req)
	if err != nil {
		return down("%s", reason(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if !expected(spec, resp.StatusCode) {
		return down("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if spec.ExpectBody == "" {
		return healthy()
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return down("read body: %s", reason(err))
	}
	if !bytes.Contains(body, []byte(spec.ExpectBody)) {
		return down("HTTP %d, but the body does not contain %q", resp.StatusCode, spec.ExpectBody)
	}
	return healthy()
}

func expected(spec ops.ProbeSpec, status int) bool {
	if len(spec.ExpectStatus) == 0 {
		return status >= 200 && status < 400
	}
	return slices.Contains(spec.ExpectStatus, status)
}

func (p *Prober) tcp(ctx context.Context, spec ops.ProbeSpec) finding {
	conn, err := p.dialer.DialContext(ctx, "tcp", spec.Address)
	if err != nil {
		return down("%s", reason(err))
	}
	_ = conn.Close()
	return healthy()
}

// reason says in a few words why a connection failed; the long chains of net tell addresses we show already.
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
