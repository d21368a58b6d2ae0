package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"claudeops/internal/ops"
)

const (
	shortID = 12 // as Docker shortens it
	// engineTime is how long the engine has to answer a question that costs it nothing.
	engineTime = 3 * time.Second
)

// containerName is what Docker and Podman accept; nothing in it can change the path of the request.
var containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// inspected is the part of an inspected container that is used; Docker and Podman's compatible API agree on it.
type inspected struct {
	ID           string `json:"Id"`
	RestartCount int
	HostConfig   struct{ RestartPolicy struct{ Name string } }
	State        struct {
		Status    string
		Running   bool
		Paused    bool
		OOMKilled bool
		ExitCode  int
		StartedAt string
		Health    *struct{ Status string }
	}
}

func (p *Prober) container(ctx context.Context, spec ops.ProbeSpec) finding {
	seen, err := p.inspect(ctx, spec)
	switch {
	case errors.Is(err, errNoEngine) && !(errors.Is(ctx.Err(), context.DeadlineExceeded) && p.ping(context.WithoutCancel(ctx)) == nil):
		return unknown(err)
	case err != nil: // or the engine answers, but not about this container
		return down("%s", err)
	}
	found := seen.judge()
	found.instance = seen.instance() // package health counts its restarts
	return found
}

func (c inspected) instance() ops.Instance {
	out := ops.Instance{ID: c.ID[:min(len(c.ID), shortID)], Restarts: c.RestartCount}
	out.Started, _ = time.Parse(time.RFC3339Nano, c.State.StartedAt) // zero where it is not said
	return out
}

// judge says what the state of a container means.
func (c inspected) judge() finding {
	state := c.State
	switch {
	case state.Status == "restarting":
		return down("the container is restarting; its last exit code was %d", state.ExitCode)
	case state.Paused:
		return down("the container is paused")
	case !state.Running && state.OOMKilled:
		return down("the container ended: out of memory")
	case !state.Running:
		return down("the container does not run: %s, exit code %d", state.Status, state.ExitCode)
	case state.Health != nil && state.Health.Status == "unhealthy":
		return down("the container is unhealthy")
	case state.Health != nil && state.Health.Status == "starting":
		return degraded("the container's health check is starting")
	}
	return healthy()
}

var (
	errNoContainer = errors.New("no such container")
	errNoEngine    = errors.New("the container engine does not answer")
)

// engine asks whether the container engine answers. One that has never answered does not count as down: it is not set up yet.
func (p *Prober) engine(ctx context.Context, environment string) finding {
	err := p.ping(ctx)
	if err == nil {
		return healthy()
	}
	if p.Answered != nil {
		if answered, failed := p.Answered(ctx, environment); failed == nil && answered {
			return down("%s", err)
		}
	}
	return unknown(err)
}

// ping asks the engine for nothing.
func (p *Prober) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	_, _, err := p.ask(ctx, "/_ping")
	return err
}

// inspect asks the container engine about one container.
func (p *Prober) inspect(ctx context.Context, spec ops.ProbeSpec) (seen inspected, err error) {
	if !containerName.MatchString(spec.Container) {
		return seen, fmt.Errorf("%q is not a container name", spec.Container)
	}
	status, text, err := p.ask(ctx, "/containers/"+url.PathEscape(spec.Container)+"/json")
	switch {
	case err != nil:
		return seen, err
	case status == http.StatusNotFound:
		return seen, fmt.Errorf("%w: %s", errNoContainer, spec.Container)
	case status != http.StatusOK:
		return seen, fmt.Errorf("ask the container engine: HTTP %d %s", status, http.StatusText(status))
	case json.Unmarshal(text, &seen) != nil || seen.ID == "":
		return seen, errors.New("the container engine's answer is unreadable")
	}
	return seen, nil
}

// ask asks the container engine, over a connection of its own that is closed after the answer. An engine that gives none is errNoEngine.
func (p *Prober) ask(ctx context.Context, path string) (status int, text []byte, err error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return p.dialer.DialContext(ctx, "unix", p.Socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+path, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("ask the container engine: %s", reason(err))
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, os.ErrPermission):
		return 0, nil, fmt.Errorf("%w: the daemon may not use %s; give its user the group of this socket (docker)", errNoEngine, p.Socket)
	case err != nil:
		return 0, nil, fmt.Errorf("%w at %s: %s", errNoEngine, p.Socket, reason(err))
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout: // of a proxy in front of it
		return 0, nil, fmt.Errorf("%w at %s: HTTP %s", errNoEngine, p.Socket, resp.Status)
	}
	if text, err = io.ReadAll(io.LimitReader(resp.Body, maxBody)); err != nil {
		return 0, nil, fmt.Errorf("%w at %s: %s", errNoEngine, p.Socket, reason(err))
	}
	return resp.StatusCode, text, nil
}

// systemd asks for the state of a unit; the exit code alone does not distinguish starting from stopping.
func (p *Prober) systemd(ctx context.Context, spec ops.ProbeSpec) finding {
	output, failed := p.execute(ctx, []string{p.Systemctl, "is-active", "--", spec.Unit})
	switch state := output.line(); {
	case state == "active" && failed == "":
		return healthy()
	case state == "activating" || state == "reloading" || state == "refreshing" || state == "maintenance":
		return degraded("the unit is %s", state)
	case state == "inactive" || state == "failed" || state == "deactivating" || state == "unknown":
		return down("the unit is %s", state)
	case failed == "":
		return down("systemctl answered %q", state)
	}
	return down("%s%s", failed, output.firstLine())
}

// running says whether a container or unit is up, or has ended well after doing all that it is for. What cannot be asked is no finding:
// whether the service works is the business of its probes.
func (p *Prober) running(ctx context.Context, _ string, spec ops.ProbeSpec) finding {
	if spec.Unit != "" {
		return p.unitRuns(ctx, spec)
	}
	return p.containerRuns(ctx, spec)
}

func (p *Prober) containerRuns(ctx context.Context, spec ops.ProbeSpec) finding {
	seen, err := p.inspect(ctx, spec)
	name, state := "container "+spec.Container, seen.State
	switch {
	case errors.Is(err, errNoContainer):
		return down("%s does not exist", name)
	case err != nil:
		return finding{}
	case state.Status == "restarting":
		return down("%s is restarting; its last exit code was %d", name, state.ExitCode)
	case state.Paused:
		return down("%s is paused", name)
	case state.Health != nil && state.Health.Status == "unhealthy":
		return down("%s is unhealthy", name)
	case state.Running, seen.ended() && state.ExitCode == 0 && !seen.restarts():
		return finding{status: ops.Healthy, instance: seen.instance()}
	case seen.ended():
		return down("%s has exited with %d", name, state.ExitCode)
	}
	return down("%s does not run: it is %s", name, state.Status)
}

// ended reports whether the container ran and has ended; Podman has a word of its own for it.
func (c inspected) ended() bool { return c.State.Status == "exited" || c.State.Status == "stopped" }

// restarts reports whether the engine starts the container again when it ends: then it is not one that ends by itself.
func (c inspected) restarts() bool {
	policy := c.HostConfig.RestartPolicy.Name
	return policy != "" && policy != "no"
}

func (p *Prober) unitRuns(ctx context.Context, spec ops.ProbeSpec) finding {
	output, failed := p.execute(ctx, []string{
		p.Systemctl, "show", "--property=LoadState,ActiveState,SubState,Type,Result,ExecMainStatus", "--", spec.Unit,
	})
	unit := map[string]string{}
	for line := range strings.Lines(output.kept.String()) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		unit[key] = value
	}
	name, state, once := "unit "+spec.Unit, unit["ActiveState"], unit["Type"] == "oneshot"
	switch {
	case failed != "" || state == "":
		return finding{}
	case unit["LoadState"] == "not-found":
		return down("%s does not exist", name)
	case state == "active", state == "reloading", state == "refreshing",
		once && state == "activating", once && state == "inactive" && unit["Result"] == "success":
		return healthy()
	case state == "failed":
		return down("%s has failed (%s)", name, strings.Trim(unit["Result"]+" "+unit["ExecMainStatus"], " "))
	}
	return down("%s is %s", name, strings.TrimSuffix(fmt.Sprintf("%s (%s)", state, unit["SubState"]), " ()"))
}
