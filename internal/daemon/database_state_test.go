package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestPagesTellWhatIsKnownOfTheDatabase(t *testing.T) {
	h := &Host{readiness: newReadiness(t.TempDir(), 0)}
	if got := h.readiness.state(); got != databaseChecking || !strings.Contains(h.trouble(), "is being checked") || h.unfit() != nil {
		t.Errorf("while it is checked: %s, %q, %v", got, h.trouble(), h.unfit())
	}
	h.readiness.check(t.Context(), func(context.Context) error { return nil })
	if got := h.readiness.state(); got != databaseIntact || h.trouble() != "" || h.unfit() != nil {
		t.Errorf("readiness: %s, %q, %v", got, h.trouble(), h.unfit())
	}
	broken := errors.New("page 7 is torn")
	h = &Host{readiness: newReadiness(t.TempDir(), 0)}
	h.readiness.check(t.Context(), func(context.Context) error { return broken })
	if got := h.readiness.state(); got != databaseDamaged || !strings.Contains(h.trouble(), "page 7") || h.unfit() == nil || strings.Contains(h.unfit().Error(), "page 7") {
		t.Errorf("damaged: %s, %q, %v", got, h.trouble(), h.unfit())
	}
}
