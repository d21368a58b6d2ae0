package surface

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheBudgetOnlyGoesDown(t *testing.T) {
	for name, c := range map[string]struct{ budget, want string }{
		"above a line":          {"settings 3\n", "settings: "},
		"far below a line":      {"files  100000\n", "Lower it in BUDGET"},
		"what nobody counts":    {"product liness 1\n", `"product liness", which is not counted`},
		"a comment and no line": {"# nothing\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "BUDGET")
			must(t, os.WriteFile(file, []byte(c.budget), 0o600))
			out, err := exec.Command(root+"/script/check-budget", file).CombinedOutput()
			if (err != nil) != (c.want != "") || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
