package watch

import (
	"context"
	"time"
)

// Pass does once what Run does again and again.
func (w *Watch) Pass(ctx context.Context) time.Time { return w.pass(ctx) }
