package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxReply limits what is read of an answer.
const maxReply = 8 << 20

// newClient is a client that follows no redirects: a token must not go to another address.
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
	text = text[:limit-len(rest)]
	for len(text) > 0 && text[len(text)-1]&0xC0 == 0x80 {
		text = text[:len(text)-1]
	}
	if n := len(text); n > 0 && text[n-1] >= 0xC0 {
		text = text[:n-1]
	}
	return text + rest, false
}
