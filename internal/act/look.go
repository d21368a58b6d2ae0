package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// lookLimit bounds one look at the services, also while the supervisor stops.
const lookLimit = 20 * time.Second

// watchedServices are those that an action can make worse: its own, and those that depend on it.
func watchedServices(env ops.Environment, spec ops.ActionSpec) []string {
	return append([]string{spec.Service}, env.Policy.Inventory.Dependents(spec.Service)...)
}

// Look probes services once and says how each of them is. Services without probes are left out.
func (r *Runner) Look(ctx context.Context, env ops.Environment, services []string) []ops.ServiceHealth {
	var specs []ops.ProbeSpec
	for _, p := range env.Probes {
		if slices.Contains(services, p.Service) {
			specs = append(specs, p)
		}
	}
	if len(specs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	return summarize(services, r.o.Prober.Run(ctx, env.Name, specs, ops.ProbeVerify))
}

// summarize is the worst result of each service; one of which nothing was found out is left out.
func summarize(services []string, checks []ops.Check) []ops.ServiceHealth {
	rank := map[ops.Health]int{ops.Healthy: 0, ops.Degraded: 1, ops.Down: 2}
	var out []ops.ServiceHealth
	for _, service := range services {
		var worst *ops.ServiceHealth
		for _, c := range checks {
			if c.Service == service && c.Known() && (worst == nil || rank[c.Status] > rank[worst.Status]) {
				worst = &ops.ServiceHealth{Service: service, Status: c.Status, Error: c.Error}
			}
		}
		if worst != nil {
			out = append(out, *worst)
		}
	}
	return out
}

// settled looks until no service is worse than in goal (healthy, where goal does not name it), or the time that they may take to
// start is over.
func (r *Runner) settled(ctx context.Context, env ops.Environment, services []string, goal []ops.ServiceHealth,
	wait bool,
) []ops.ServiceHealth {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx) // what ran has run, and what is true is recorded
		wait = false
	}
	limit := time.Duration(0)
	if wait {
		limit = r.o.Settle(ctx, env.Name, services)
	}
	until, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		found := r.Look(ctx, env, services)
		if len(ops.Worse(goal, found)) == 0 || !ops.Pause(until, r.o.Round) {
			return found
		}
	}
}

const (
	askLimit  = 10 * time.Second
	maxAnswer = 4 << 20
	stopGrace = "10" // seconds that a container gets to end
)

// errSilent: the engine itself does not answer.
var errSilent = errors.New("the container engine does not answer")

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
	ID           string `json:"Id"`
	Name         string
	Image        string // the id
	RestartCount int    // by the engine, since it was last started by somebody
	Config       struct{ Image string }
	State        struct {
		Running  bool
		Paused   bool
		Status   string
		ExitCode int
		Health   *struct{ Status string }
	}
}

// trouble says what is wrong with a container that is to run, whatever its service answers; empty: nothing.
func (c container) trouble() string {
	switch {
	case c.State.Status == "restarting":
		return fmt.Sprintf("its container is restarting; its last exit code was %d", c.State.ExitCode)
	case !c.State.Running:
		return fmt.Sprintf("its container does not run: %s, exit code %d", c.State.Status, c.State.ExitCode)
	case c.State.Paused:
		return "its container is paused"
	case c.State.Health != nil && c.State.Health.Status == "unhealthy":
		return "its container is unhealthy"
	}
	return ""
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
	text, err := e.call(ctx, method, "/containers/"+name+"/"+what, query)
	if errors.Is(err, ops.ErrNotFound) {
		return nil, fmt.Errorf("container %s does not exist", name)
	}
	return text, err
}

// call asks the engine. What does not exist is ops.ErrNotFound.
func (e engine) call(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	resp, err := e.send(ctx, method, path, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask the Docker engine: %w", err)
	}
	said := strings.TrimSpace(short(string(text)))
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("the Docker engine answered %s: %w", said, ops.ErrNotFound)
	case resp.StatusCode == http.StatusNotModified: // it is in this state already
		return text, nil
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("the Docker engine answered %s: %s", resp.Status, said)
	}
	return text, nil
}

func (e engine) send(ctx context.Context, method, path string, query url.Values) (*http.Response, error) {
	address := url.URL{Scheme: "http", Host: "docker", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask the Docker engine: %w", err)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSilent, err)
	}
	return resp, nil
}
