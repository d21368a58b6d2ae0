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
