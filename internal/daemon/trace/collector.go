package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

const (
	defaultTimeout = 10 * time.Second
	longestError   = 4 << 10
)

// collector is where spans are sent, by OTLP over HTTP.
type collector struct {
	client *http.Client
	url    string
	header http.Header
	json   bool
	gzip   bool
}

// variable reads a variable that every program with OpenTelemetry reads itself.
func variable(name string) string {
	return strings.TrimSpace(os.Getenv(name)) //nolint:forbidigo // they are not settings of this program
}

// otlp is the value of a variable of OpenTelemetry: the one for traces, or else the one for all signals.
func otlp(name string) string {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if v := variable(prefix + name); v != "" {
			return v
		}
	}
	return ""
}

// newCollector reads the variables of OpenTelemetry.
func newCollector(version string) (*collector, error) {
	target, err := endpoint()
	if err != nil {
		return nil, err
	}
	c := &collector{
		url: target.String(), header: http.Header{"User-Agent": {"claudeops/" + version}},
		json: otlp("PROTOCOL") == "http/json", gzip: otlp("COMPRESSION") == "gzip",
	}
	// The header for all signals is sent too, unless the one for traces has the same name.
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for key, value := range pairs(variable(name)) {
			c.header.Set(key, value)
		}
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	if c.json {
		c.header.Set("Content-Type", "application/json")
	}
	if c.gzip {
		c.header.Set("Content-Encoding", "gzip")
	}
	wait := defaultTimeout
	if ms, err := strconv.Atoi(otlp("TIMEOUT")); err == nil && ms > 0 {
		wait = time.Duration(ms) * time.Millisecond
	}
	secured, err := certificates()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: secured, ForceAttemptHTTP2: true,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: defaultTimeout,
	}
	if secured != nil && target.Scheme == "http" {
		return nil, errors.New("the address of the trace collector is http, but certificates are set for it")
	}
	c.client = &http.Client{Timeout: wait, Transport: transport}
	return c, nil
}

// endpoint is the address of the collector. That of traces is used as it is; the common one is the base of the usual path.
func endpoint() (*url.URL, error) {
	const usual = "/v1/traces"
	name, text := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if text == "" {
		name, text = "OTEL_EXPORTER_OTLP_ENDPOINT", variable("OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	found, err := url.Parse(text)
	if err != nil || found.Host == "" {
		return nil, fmt.Errorf("%s is not an address such as http://127.0.0.1:4318", name)
	}
	out := &url.URL{Scheme: "https", Host: found.Host, Path: found.Path}
	switch {
	case name == "OTEL_EXPORTER_OTLP_ENDPOINT":
		out.Path = path.Join("/", found.Path, usual)
	case out.Path == "":
		out.Path = "/"
	}
	insecure, err := strconv.ParseBool(otlp("INSECURE"))
	if err != nil {
		insecure = strings.EqualFold(found.Scheme, "http")
	}
	if insecure {
		out.Scheme = "http"
	}
	return out, nil
}

// pairs reads a list such as "api-key=secret,team=infra".
func pairs(list string) map[string]string {
	out := map[string]string{}
	for entry := range strings.SplitSeq(list, ",") {
		key, text, ok := strings.Cut(entry, "=")
		value, err := url.PathUnescape(strings.TrimSpace(text))
		if key = strings.TrimSpace(key); ok && err == nil && key != "" {
			out[key] = value
		}
	}
	return out
}

// certificates are those of the collector and of this program as its client, or nil.
func certificates() (*tls.Config, error) {
	root, own, key := otlp("CERTIFICATE"), otlp("CLIENT_CERTIFICATE"), otlp("CLIENT_KEY")
	if root == "" && (own == "" || key == "") {
		return nil, nil //nolint:nilnil // the usual ones
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if root != "" {
		text, err := os.ReadFile(root)
		if err != nil {
			return nil, fmt.Errorf("read certificate of the trace collector: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("read certificate of the trace collector: no certificate in " + root)
		}
	}
	if own != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(own, key)
		if err != nil {
			return nil, fmt.Errorf("read client certificate for the trace collector: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// body is the message as it is sent.
func (c *collector) body(r request) ([]byte, error) {
	raw := r.protobuf()
	if c.json {
		var err error
		if raw, err = json.Marshal(r); err != nil {
			return nil, err
		}
	}
	if !c.gzip {
		return raw, nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// send sends a message. Without an error the collector has taken it.
func (c *collector) send(ctx context.Context, r request) error {
	body, err := c.body(r)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header = c.header.Clone()
	answer, err := c.client.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestError))
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the collector answered %s: %s", answer.Status, bytes.TrimSpace(text))
	}
	return err
}
