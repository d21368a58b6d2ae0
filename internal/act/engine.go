package act

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"claudeops/internal/ops"
)

const (
	askLimit  = 10 * time.Second
	maxAnswer = 4 << 20
	stopGrace = "10" // seconds that a container gets to end
)

// engine is the Docker or Podman API.
type engine struct{ client *http.Client }

func newEngine(socket string) engine {
	dialer := net.Dialer{Timeout: askLimit}
	return engine{&http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, Proxy: nil,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", socket)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// container is the part of an inspected container that is used.
type container struct {
	ID     string `json:"Id"`
	Name   string
	Config struct{ Image string }
	State  struct{ Running bool }
}

func (e engine) inspect(ctx context.Context, name string) (container, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var c container
	text, err := e.ask(ctx, http.MethodGet, name, "json", nil)
	if err != nil {
		return c, err
	}
	if json.Unmarshal(text, &c) != nil || c.ID == "" {
		return c, fmt.Errorf("the answer of the Docker engine about %s cannot be read", name)
	}
	return c, nil
}

// change restarts, starts or stops a container by its id: its name may mean another one a moment later.
func (e engine) change(ctx context.Context, name string, verb ops.ActionKind) (string, error) {
	c, err := e.inspect(ctx, name)
	if err != nil {
		return "", err
	}
	query := url.Values{}
	if verb != ops.ActionStart {
		query.Set("t", stopGrace)
	}
	if _, err := e.ask(ctx, http.MethodPost, c.ID, string(verb), query); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s of the container %s (%.12s): done\n", verb, name, c.ID), nil
}

// restore brings a container back that a failed replacement has stopped and renamed, and reports whether it had to.
func (e engine) restore(ctx context.Context, was container) (bool, error) {
	now, err := e.inspect(ctx, was.ID)
	if err != nil || !was.State.Running || now.State.Running && now.Name == was.Name {
		return false, err
	}
	if now.Name != was.Name {
		if _, err := e.ask(ctx, http.MethodPost, was.ID, "rename", url.Values{"name": {strings.TrimPrefix(was.Name, "/")}}); err != nil {
			return true, err
		}
	}
	if !now.State.Running {
		_, err = e.ask(ctx, http.MethodPost, was.ID, string(ops.ActionStart), nil)
	}
	return true, err
}

func (e engine) ask(ctx context.Context, method, name, what string, query url.Values) ([]byte, error) {
	address := url.URL{Scheme: "http", Host: "docker", Path: "/containers/" + name + "/" + what, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask the Docker engine: %w", err)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the Docker engine: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask the Docker engine: %w", err)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("container %s does not exist", name)
	case resp.StatusCode == http.StatusNotModified: // it is in this state already
		return text, nil
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("the Docker engine answered %s: %s", resp.Status, strings.TrimSpace(short(string(text))))
	}
	return text, nil
}
