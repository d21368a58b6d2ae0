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

	"claudeops/internal/ops"
)

// post sends to an Apprise API server.
func (a *Apprise) post(ctx context.Context, m message) error {
	target, err := apiAddress(a.api)
	if err != nil {
		return err
	}
	m.URLs = strings.Join(a.urls, ",")
	payload, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode notice: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(payload))
	if err != nil {
		return fmt.Errorf("make request: %w; check CLAUDEOPS_APPRISE_API", inner(err))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("reach the Apprise API at %s: %w; check CLAUDEOPS_APPRISE_API", target.Host, inner(err))
	}
	defer func() { _ = resp.Body.Close() }()
	return a.judge(resp, target.Host)
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

func (a *Apprise) judge(resp *http.Response, host string) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return fmt.Errorf("the Apprise API at %s has no target under this key; add one there, or set CLAUDEOPS_APPRISE_URLS as well", host)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("the Apprise API at %s redirects to another address; set CLAUDEOPS_APPRISE_API to the final one", host)
	case resp.StatusCode >= 200 && resp.StatusCode < 300 && err != nil:
		return fmt.Errorf("read answer of the Apprise API at %s: %w", host, err)
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	}
	var answer struct {
		Error string `json:"error"`
	}
	said := ""
	if json.Unmarshal(raw, &answer) == nil && answer.Error != "" {
		said = ": " + ops.OneLine(a.hide.Replace(answer.Error), longestReason)
	}
	return fmt.Errorf("the Apprise API at %s answered HTTP %d %s%s", host, resp.StatusCode, http.StatusText(resp.StatusCode), said)
}
