package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// maxReply limits what is read of an answer.
const maxReply = 8 << 20

// newClient is a client that follows no redirects: a token must not go to another address, and a POST would become a GET that succeeds and
// sends nothing.
func newClient(c *http.Client) *http.Client {
	out := http.Client{}
	if c != nil {
		out = *c
	}
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out
}

// postJSON sends a value and returns the status and the body of the answer. Its errors never contain the address, which can hold a token.
func postJSON(ctx context.Context, c *http.Client, address string, header http.Header, value any) (status int, body []byte, err error) {
	payload, err := json.Marshal(value)
	if err != nil {
		return 0, nil, fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(payload))
	if err != nil {
		return 0, nil, fmt.Errorf("make request: %w", inner(err))
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, nil, inner(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("read answer: %w", inner(err))
	}
	return resp.StatusCode, body, nil
}

// limited bounds one attempt.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, sendTimeout, fmt.Errorf("no answer within %s", sendTimeout))
}

// fit cuts a text to a number of bytes, at the end of a line where possible, and reports whether all of it is left.
func fit(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, true
	}
	const rest = "\n… The rest is on the page and in claudeops."
	return strings.ToValidUTF8(text[:limit-len(rest)], "") + rest, false
}

// post sends to an Apprise API server.
func (a *Apprise) post(ctx context.Context, m message) error {
	target, err := apiAddress(a.api)
	if err != nil {
		return err
	}
	m.URLs = strings.Join(a.urls, ",")
	status, body, err := postJSON(ctx, a.client, target.String(), http.Header{"Accept": {"application/json"}}, m)
	if err != nil {
		return fmt.Errorf("reach the Apprise API at %s: %w; check CLAUDEOPS_APPRISE_API", target.Host, err)
	}
	return a.judge(status, body, target.Host)
}

// apiAddress adds the path for notices to the address of a server.
func apiAddress(raw string) (*url.URL, error) {
	target, err := url.Parse(raw)
	if err != nil || target.Host == "" || (target.Scheme != "http" && target.Scheme != "https") {
		return nil, errors.New("CLAUDEOPS_APPRISE_API is not an http address; write for example http://apprise:8000/notify/claudeops")
	}
	if strings.Trim(target.Path, "/") == "" {
		target.Path = "/notify"
	}
	return target, nil
}

// inner removes the address from an error, since its path and its user can be secrets.
func inner(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}

func (a *Apprise) judge(status int, body []byte, host string) error {
	switch {
	case status == http.StatusNoContent:
		return fmt.Errorf("the Apprise API at %s has no target under this key; add one there, or set CLAUDEOPS_APPRISE_URLS as well", host)
	case status >= 300 && status < 400:
		return fmt.Errorf("the Apprise API at %s redirects to another address; set CLAUDEOPS_APPRISE_API to the final one", host)
	case status >= 200 && status < 300:
		return nil
	}
	return refused("the Apprise API at "+host, status, body, a.hide)
}

// refused is the error of a server that did not take a notice, with what it says about it.
func refused(server string, status int, body []byte, hide *strings.Replacer) error {
	var answer struct {
		Error string `json:"error"`
	}
	said := ""
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		said = ": " + ops.OneLine(hide.Replace(answer.Error), longestReason)
	}
	return fmt.Errorf("%s answered HTTP %d %s%s", server, status, http.StatusText(status), said)
}

// ready returns the notices that are sent now. Those that wait for the end of quiet hours become due then.
func (o *Outbox) ready(ctx context.Context, due []ops.Notice) ([]ops.Notice, error) {
	if o.Quiet == nil {
		return due, nil
	}
	var out []ops.Notice
	now := o.Clock()
	for _, n := range due {
		at := notice.SendAt(o.Quiet(n), n, now)
		if !at.After(now) {
			out = append(out, n)
			continue
		}
		n.NextAt = at
		if err := o.Store.SettleNotice(ctx, n, nil); err != nil && !errors.Is(err, ops.ErrConflict) {
			return nil, fmt.Errorf("postpone notice: %w", err)
		}
	}
	return out, nil
}

const pingTimeout = 10 * time.Second

// Ping requests an address, to tell a monitor outside that cycles end.
func Ping(ctx context.Context, client *http.Client, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pingTimeout, fmt.Errorf("no answer within %s", pingTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("make ping: %w; check deadman.ping_url", inner(err))
	}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("ping %s: %w", req.URL.Host, inner(err))
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxOutput)) // so that the connection can be reused
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("ping %s: HTTP %d", req.URL.Host, resp.StatusCode)
	}
	return nil
}
