package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// running says whether a container or unit is up, or has ended well after doing all that it is for. What cannot be asked is no finding:
// whether the service works is the business of its probes.
func (p *Prober) running(ctx context.Context, spec ops.ProbeSpec) finding {
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
	case state.Running, seen.ended() && state.ExitCode == 0 && !seen.restarts():
		return healthy()
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
		p.systemctl, "show", "--property=LoadState,ActiveState,SubState,Type,Result,ExecMainStatus", "--", spec.Unit,
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
