package daemon

import "claudeops/internal/daemon/supervisor"

// retention removes what is older than the operator wants it kept.
func (h *Host) retention() *supervisor.Retention {
	return &supervisor.Retention{Records: h.store, Keep: h.Config.Retention, Clock: h.Clock, Logger: h.Logger}
}
