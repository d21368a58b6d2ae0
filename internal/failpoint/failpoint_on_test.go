//go:build failpoint

package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/failpoint"
)

// walk is what the child process runs through.
const walk = "a b a c b a"

func TestHitKillsAtTheNthTimeOfTheName(t *testing.T) {
	if os.Getenv("FAILPOINT_CHILD") != "" {
		for name := range strings.FieldsSeq(walk) {
			failpoint.Hit(name)
		}
		return
	}
	for _, tt := range []struct{ spec, reached string }{
		{"a:1", "a"},
		{"a:3", "a b a c b a"},
		{"b:2", "a b a c b"},
		{"*:1", "a"},
		{"*:4", "a b a c"},
		{"c:2", walk + " end"},
		{"", walk + " end"},
	} {
		t.Run("spec "+tt.spec, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "hits")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHitKillsAtTheNthTimeOfTheName$")
			cmd.Env = append(os.Environ(), "FAILPOINT_CHILD=1", "CLAUDEOPS_FAILPOINT="+tt.spec, "CLAUDEOPS_FAILPOINT_LOG="+log)
			err := cmd.Run()
			var exit *exec.ExitError
			killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			if !killed && err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			reached := strings.Join(strings.Fields(string(raw)), " ")
			if !killed {
				reached += " end"
			}
			if reached != tt.reached {
				t.Errorf("reached %q, want %q", reached, tt.reached)
			}
		})
	}
}

func TestTheEnvironmentSetsTheClockAndShortensWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if os.Getenv("FAILPOINT_CHILD") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestTheEnvironmentSetsTheClockAndShortensWaits$")
		cmd.Env = append(os.Environ(), "FAILPOINT_CHILD=1", "CLAUDEOPS_FAULT_CLOCK="+file, "CLAUDEOPS_FAULT_WAITS=settle=20ms,other=0s")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	file = os.Getenv("CLAUDEOPS_FAULT_CLOCK")
	clock := failpoint.Clock(func() time.Time { return now })
	if got := clock(); !got.Equal(now) {
		t.Errorf("without a file it is %s", got)
	}
	if err := os.WriteFile(file, []byte("-8760h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := clock(); !got.Equal(now.Add(-8760 * time.Hour)) {
		t.Errorf("a year back it is %s", got)
	}
	if got := failpoint.Wait("settle", time.Hour); got != 20*time.Millisecond {
		t.Errorf("settle takes %s", got)
	}
	if got := failpoint.Wait("others", time.Hour); got != time.Hour {
		t.Errorf("what nobody named takes %s", got)
	}
}
