package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	dialLimit = 5 * time.Second
	askLimit  = 20 * time.Second
	// maxAnswer bounds an answer that is read as a whole.
	maxAnswer = 32 << 20
)

// engine is the real Docker or Podman API.
type engine struct {
	client *http.Client
}

func newEngine(socket string) *engine {
	dialer := net.Dialer{Timeout: dialLimit}
	return &engine{&http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, Proxy: nil,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", socket)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// send makes a new request of what was judged.
func (e *engine) send(ctx context.Context, t target) (*http.Response, error) {
	address := url.URL{Scheme: "http", Host: "docker", Path: t.address(), RawQuery: t.query.Encode()}
	req, err := http.NewRequestWithContext(ctx, t.method, address.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make request to the Docker engine: %w", err)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the Docker engine: %w", err)
	}
	return resp, nil
}

// get reads an answer of the engine into v and reports whether the thing exists.
func (e *engine) get(ctx context.Context, v any, query url.Values, path ...string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	resp, err := e.send(ctx, target{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return false, nil
	default:
		return false, fmt.Errorf("ask the Docker engine for %s: %s", strings.Join(path, "/"), resp.Status)
	}
	text, err := readAll(resp.Body)
	if err != nil {
		return false, fmt.Errorf("read answer of the Docker engine: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return false, fmt.Errorf("read answer of the Docker engine: %w", err)
	}
	return true, nil
}

func readAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("it is longer than %d bytes", maxAnswer)
	}
	return text, err
}

// container is what the engine says about a container.
type container struct {
	ID         string `json:"Id"`
	Name       string
	Config     struct{ Labels map[string]string }
	HostConfig struct{ Tmpfs map[string]string }
	Mounts     []struct{ Destination string }
}

func (c container) identity() identity {
	return identity{id: c.ID, name: strings.TrimPrefix(c.Name, "/"), labels: c.Config.Labels}
}

// container resolves a name, an id or the beginning of an id.
func (e *engine) container(ctx context.Context, ref string) (container, bool, error) {
	var c container
	found, err := e.get(ctx, &c, nil, "containers", ref, "json")
	if found && err == nil && c.ID == "" {
		err = fmt.Errorf("the Docker engine does not say which container %s is", ref)
	}
	return c, found, err
}

// containers lists all containers.
func (e *engine) containers(ctx context.Context) ([]identity, error) {
	var list []struct {
		ID     string `json:"Id"`
		Names  []string
		Labels map[string]string
	}
	if _, err := e.get(ctx, &list, url.Values{"all": {"1"}}, "containers", "json"); err != nil {
		return nil, err
	}
	out := make([]identity, 0, len(list))
	for _, c := range list {
		i := identity{id: c.ID, labels: c.Labels}
		for _, name := range c.Names {
			// Links add names with a second slash.
			if name = strings.TrimPrefix(name, "/"); !strings.Contains(name, "/") {
				i.name = name
			}
		}
		out = append(out, i)
	}
	return out, nil
}

// Ask reads an answer of the engine behind a socket into v and reports whether the thing exists. It is for the supervisor itself.
func Ask(ctx context.Context, socket string, v any, query url.Values, path ...string) (found bool, err error) {
	return newEngine(socket).get(ctx, v, query, path...)
}
