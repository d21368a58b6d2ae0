//go:build !failpoint

package failpoint_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"claudeops/internal/failpoint"
)

func TestHitDoesNothingInANormalBuild(t *testing.T) {
	log := filepath.Join(t.TempDir(), "hits")
	t.Setenv("CLAUDEOPS_FAILPOINT", "*:1")
	t.Setenv("CLAUDEOPS_FAILPOINT_LOG", log)
	t.Setenv("CLAUDEOPS_FAULT_CLOCK", log)
	t.Setenv("CLAUDEOPS_FAULT_WAITS", "settle=0s")
	failpoint.Hit("any", "thing")
	if got := failpoint.Clock(func() time.Time { return time.Time{} })(); !got.IsZero() {
		t.Errorf("a normal build set the clock to %s", got)
	}
	if got := failpoint.Wait("settle", time.Hour); got != time.Hour {
		t.Errorf("a normal build waits %s", got)
	}
	if _, err := os.Stat(log); !os.IsNotExist(err) {
		t.Fatalf("a normal build logged a failpoint: %v", err)
	}
}
