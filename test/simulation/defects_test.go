package simulation

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// defectSeeds is how many seeds are enough to find a historic defect.
const defectSeeds = "150"

// TestHistoricDefectsAreFound puts defects that there were back, one at a time, and plays until a rule is broken. Each is a patch whose
// first line names the rules that it can break first. The program itself is left alone: the compiler reads the changed file instead.
func TestHistoricDefectsAreFound(t *testing.T) {
	if *oneSeed != 0 || *manySeeds != 0 {
		return // those flags are for one run, which this test starts itself
	}
	patches, err := filepath.Glob("testdata/defects/*.patch")
	if err != nil || len(patches) < 5 {
		t.Fatalf("%d defects: %v", len(patches), err)
	}
	for _, name := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".patch"), func(t *testing.T) {
			rules, overlay := putBack(t, name)
			test := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-timeout=10m", "-overlay", overlay, "-run", "^TestSimulation$", ".",
				"-seeds", defectSeeds, "-first")
			out, err := test.CombinedOutput()
			if found := slices.ContainsFunc(rules, func(r string) bool { return strings.Contains(string(out), ": "+r+": ") }); err == nil || !found {
				t.Errorf("no seed finds that one of %q is broken: %v\n%s", rules, err, out[max(0, len(out)-4000):])
			}
		})
	}
}

// What is not played in every run must still apply in every run.
func TestDefectsCanBePutBack(t *testing.T) {
	patches, err := filepath.Glob("testdata/defects/*.patch")
	must(t, err)
	for _, name := range patches {
		t.Run(filepath.Base(name), func(t *testing.T) { putBack(t, name) })
	}
}

// putBack applies a patch to the present text of its file, and returns the rules that it breaks and a file for go build -overlay.
func putBack(t *testing.T, name string) (rules []string, overlay string) {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	rules = strings.Split(strings.TrimPrefix(lines[0], "# rules: "), " | ")
	var file string
	var hunks [][2]string // before and after
	for _, line := range lines[1:] {
		switch {
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+++ b/"):
			file = strings.TrimPrefix(line, "+++ b/")
		case strings.HasPrefix(line, "@@"):
			hunks = append(hunks, [2]string{})
		default:
			h := &hunks[len(hunks)-1]
			if line == "" || line[0] != '+' {
				h[0] += strings.TrimPrefix(strings.TrimPrefix(line, " "), "-") + "\n"
			}
			if line == "" || line[0] != '-' {
				h[1] += strings.TrimPrefix(strings.TrimPrefix(line, " "), "+") + "\n"
			}
		}
	}
	path, err := filepath.Abs(filepath.Join("../..", file))
	must(t, err)
	text, err := os.ReadFile(path)
	must(t, err)
	for _, h := range hunks {
		if strings.Count(string(text), h[0]) != 1 {
			t.Fatalf("%s no longer applies to %s:\n%s", name, file, h[0])
		}
		text = []byte(strings.Replace(string(text), h[0], h[1], 1))
	}
	changed := filepath.Join(t.TempDir(), filepath.Base(file))
	must(t, os.WriteFile(changed, text, 0o600))
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	must(t, err)
	overlay = filepath.Join(t.TempDir(), "overlay.json")
	must(t, os.WriteFile(overlay, list, 0o600))
	return rules, overlay
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
