package daemon

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// skewInterval is how often this host's clock is compared with the database's.
const skewInterval = 5 * time.Second

// watchSkew records when this host's clock begins and ceases to differ from the database's, until ctx ends. Everything stored is
// compared by the database's time, so nothing stops.
func (h *Host) watchSkew(ctx context.Context) {
	wrong := false
	for {
		if ahead, known := h.store.Skew(); known && (ahead.Abs() > ops.MaxClockSkew) != wrong {
			if h.tellSkew(ctx, ahead) {
				wrong = !wrong
			}
		}
		timer := time.NewTimer(skewInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (h *Host) tellSkew(ctx context.Context, ahead time.Duration) bool {
	event := ops.Event{
		At: h.Clock(), Level: ops.LevelInfo, Kind: ops.EventHost,
		Message: fmt.Sprintf("the clock of host %s agrees with the database's again", h.Config.Host.Name),
	}
	if ahead.Abs() > ops.MaxClockSkew {
		event.Level = ops.LevelWarning
		event.Message = fmt.Sprintf("the clock of host %s is %s the database's; the database's time is used, but synchronize the clocks",
			h.Config.Host.Name, ops.ClockDifference(ahead))
	}
	if _, err := h.store.AddEvent(ctx, event); err != nil {
		return false // it is tried again
	}
	h.Logger.WarnContext(ctx, "compared this host's clock with the database's", "ahead", ahead, "limit", ops.MaxClockSkew)
	h.hub.Nudge()
	return true
}
