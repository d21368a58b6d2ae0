package daemon

import (
	"context"
	"strings"
)

// warnOfOldPrices says that costs may be wrong, because built-in prices that a handler depends on are old.
func (h *Host) warnOfOldPrices(ctx context.Context) {
	for _, p := range h.Config.StalePrices(h.Clock()) {
		h.Logger.WarnContext(ctx, "built-in prices are old, so costs may be wrong; set current ones with prices",
			"maker", p.Maker, "date", p.Date, "models", strings.Join(p.Models, ", "), "source", p.Source)
	}
}
