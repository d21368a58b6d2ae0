package daemon

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// TestTheConfiguredSettleTimeIsUsed holds that an operator may also make the supervisor wait less than it would by default.
func TestTheConfiguredSettleTimeIsUsed(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "claudeops.db")})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	e := ops.Environment{Name: "default"}
	e.Policy.Inventory.Services = []ops.Service{{Name: "quick", Settle: 3 * time.Second}, {Name: "slow", Settle: time.Minute}, {Name: "any"}}
	for _, c := range []struct {
		services []string
		bound    time.Duration
		want     time.Duration
	}{
		{[]string{"quick"}, 0, 3 * time.Second},
		{[]string{"quick", "slow"}, 0, time.Minute},
		{[]string{"quick", "any"}, 0, settleTime},
		{[]string{"any"}, 2 * time.Second, 2 * time.Second},
		{[]string{"unknown"}, 0, settleTime},
		{nil, 2 * time.Second, 2 * time.Second},
	} {
		e.Watch.SettleMax = c.bound
		h := &Host{envs: []ops.Environment{e}, store: s}
		h.Logger = slog.New(slog.DiscardHandler)
		if got := (&probeHealth{host: h}).SettleTime(t.Context(), "default", c.services); got != c.want {
			t.Errorf("%v within %s: %s, want %s", c.services, c.bound, got, c.want)
		}
	}
}
