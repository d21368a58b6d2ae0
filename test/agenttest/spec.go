package agenttest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

// Spec is a session that may be run once.
func Spec(t testing.TB, sweep func(context.Context, string) (int, error)) ops.SessionSpec {
	t.Helper()
	dir := t.TempDir()
	key := "test-" + uuid.NewString()
	t.Cleanup(func() {
		if killed, err := sweep(context.Background(), key); err != nil || killed > 0 {
			t.Errorf("the test left %d processes of the session (%v)", killed, err)
		}
	})
	return ops.SessionSpec{
		Session: ops.Session{
			ID: 18, CycleID: 7, Tier: ops.Tier1, Model: "haiku", Key: key, PlannedID: uuid.NewString(),
		},
		Prompt:   "Look at the services.",
		StateDir: filepath.Join(dir, "state"),
		WorkDir:  filepath.Join(dir, "work"),
		Env:      []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Limits:   ops.Limits{Wall: time.Minute, Idle: time.Minute, Tool: time.Minute, Grace: 2 * time.Second},
	}
}
