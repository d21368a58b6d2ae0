package probe

import (
	"context"

	"claudeops/internal/ops"
)

// systemd asks for the state of a unit; the exit code alone does not distinguish starting from stopping.
func (p *Prober) systemd(ctx context.Context, spec ops.ProbeSpec) finding {
	output, failed := p.execute(ctx, []string{p.systemctl, "is-active", "--", spec.Unit})
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
