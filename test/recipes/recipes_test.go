package recipes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostFiles is how many files an addition may touch. More of them mean that something stands in two places.
const mostFiles = 4

func TestWhatThePagesAddApplies(t *testing.T) {
	pages, err := filepath.Glob("../../docs/contributing/*.md")
	if err != nil || len(pages) != 4 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	block := regexp.MustCompile("(?s)\n```diff\n(.*?)```\n")
	changed := regexp.MustCompile(`(?m)^diff --git a/(\S+) b/`)
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			must(t, err)
			found := block.FindStringSubmatch(string(text))
			if found == nil {
				t.Fatal("the page shows no change")
			}
			var files []string
			for _, m := range changed.FindAllStringSubmatch(found[1], -1) {
				files = append(files, m[1])
				if !strings.Contains(string(text), "| `"+m[1]+"`") {
					t.Errorf("its table does not name %s", m[1])
				}
			}
			if len(files) > mostFiles {
				t.Errorf("it touches %d files: %s", len(files), strings.Join(files, ", "))
			}
			apply(t, found[1], files)
		})
	}
}

// apply changes copies of the files, and builds and vets what was touched, with its tests.
func apply(t *testing.T, diff string, files []string) {
	root, err := filepath.Abs("../..")
	must(t, err)
	dir := t.TempDir()
	replaced := map[string]string{}
	var packages []string
	for _, f := range files {
		at := filepath.Join(dir, f)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755)) //nolint:gosec // a test folder
		if text, err := os.ReadFile(filepath.Join(root, f)); err == nil {
			must(t, os.WriteFile(at, text, 0o600))
		}
		replaced[filepath.Join(root, f)] = at
		packages = append(packages, "./"+filepath.Dir(f))
	}
	command(t, dir, diff, "git", "apply", "-C1", "-")
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	slices.Sort(packages)
	command(t, root, "", "go", append([]string{"vet", "-overlay", filepath.Join(dir, "overlay.json")}, slices.Compact(packages)...)...)
}

func command(t *testing.T, dir, input, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args[0], err, out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
