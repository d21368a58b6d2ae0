//go:build !failpoint

package failpoint_test

import (
	"os"
	"path/filepath"
	"testing"

	"claudeops/internal/failpoint"
)

func TestHitDoesNothingInANormalBuild(t *testing.T) {
	log := filepath.Join(t.TempDir(), "hits")
	t.Setenv("CLAUDEOPS_FAILPOINT", "*:1")
	t.Setenv("CLAUDEOPS_FAILPOINT_LOG", log)
	failpoint.Hit("anything")
	if _, err := os.Stat(log); !os.IsNotExist(err) {
		t.Fatalf("a normal build logged a failpoint: %v", err)
	}
}
