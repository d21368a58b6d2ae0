package process

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLimitsAreWrittenWhereTheControllersAre uses plain files: not every machine that tests has the controllers.
func TestLimitsAreWrittenWhereTheControllersAre(t *testing.T) {
	parent := t.TempDir()
	group := &Cgroup{Path: filepath.Join(parent, "claudeops-x")}
	if err := os.Mkdir(group.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	limits := Limits{Processes: 100, Memory: 1 << 30}
	if group.Limit(limits) {
		t.Error("without the controllers there are no limits")
	}
	for _, name := range []string{"pids.max", "memory.max"} {
		if err := os.WriteFile(filepath.Join(group.Path, name), []byte("max"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !group.Limit(limits) {
		t.Error("the limits were not set")
	}
	for name, want := range map[string]string{"pids.max": "100", "memory.max": "1073741824"} {
		if raw, err := os.ReadFile(filepath.Join(group.Path, name)); err != nil || string(raw) != want {
			t.Errorf("%s is %q, %v", name, raw, err)
		}
	}
}
