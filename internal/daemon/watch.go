package daemon

import (
	"context"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// OnEnd calls tell for every cycle that ends from now on, until the host stops.
func (h *Host) OnEnd(tell func(store.CycleSummary)) {
	changed, unsubscribe := h.hub.Subscribe()
	h.watchers.Go(func() {
		defer unsubscribe()
		told := map[ops.CycleID]bool{}
		for {
			select {
			case <-h.life.Done():
				return
			case <-changed:
			}
			for _, c := range h.ended(h.life, told) {
				tell(c)
			}
		}
	})
}

// ended reads the newest cycles that ended and were not reported yet.
func (h *Host) ended(ctx context.Context, told map[ops.CycleID]bool) []store.CycleSummary {
	cycles, err := h.store.Cycles(ctx, store.CycleFilter{Limit: 10})
	if err != nil {
		return nil // the next change reads again
	}
	var out []store.CycleSummary
	for i := len(cycles) - 1; i >= 0; i-- {
		if c := cycles[i]; c.Status.Ended() && !told[c.ID] {
			told[c.ID] = true
			out = append(out, c)
		}
	}
	return out
}
