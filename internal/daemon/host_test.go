package daemon

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/config"
)

// TestTheClockGoesOnWhileTheMachineIsSuspended: a reading of the monotonic clock in a time would decide every comparison.
func TestTheClockGoesOnWhileTheMachineIsSuspended(t *testing.T) {
	h := newHost(Options{Config: &config.Config{}, Clock: time.Now}, nil)
	if now := h.Clock().String(); strings.Contains(now, "m=") {
		t.Errorf("%s has a reading of the monotonic clock", now)
	}
}
