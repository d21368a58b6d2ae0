package web

import (
	"context"
	"strings"

	"claudeops/internal/ops"
)

// hostRow is one of the hosts that share the database.
type hostRow struct {
	Name         string
	Here         bool
	Badge        badge
	Version      string
	Labels       string
	Environments string
	Running      int
	Seen         *stamp
	Clock        string // how its clock differs from the database's; empty if it does not
}

// hosts lists the hosts that share the database; empty if there is only one.
func (s *server) hosts(ctx context.Context) ([]hostRow, error) {
	found, err := s.Store.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	m := moment{s.Clock()}
	var out []hostRow
	shared := false
	for _, h := range found {
		shared = shared || h.ExpiresAt != nil
		row := hostRow{
			Name: plain(h.Name), Here: h.Name == s.Host, Badge: hostBadge(h), Version: plain(h.Version),
			Labels: plain(strings.Join(h.Labels, ", ")), Environments: plain(strings.Join(h.Environments, ", ")), Running: h.Running,
		}
		if h.Alive && h.ClockWrong() {
			row.Clock = ops.ClockDifference(h.ClockAhead) + " the database's clock"
		}
		if h.SeenAt != nil {
			seen := m.ago(*h.SeenAt)
			row.Seen = &seen
		}
		out = append(out, row)
	}
	if !shared {
		return nil, nil
	}
	return out, nil
}

func hostBadge(h ops.Host) badge {
	switch {
	case h.Alive && h.Draining:
		return badge{"warn", "clock", "Draining"}
	case h.Alive:
		return badge{"ok", "circle-check", "Alive"}
	case h.ExpiresAt != nil:
		return badge{"bad", "octagon-x", "Not responding"}
	}
	return badge{"unknown", "square", "Stopped"}
}
