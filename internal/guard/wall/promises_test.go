//go:build linux

package wall_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every row of the table of promises names tests that exist.
func TestEveryPromiseHasItsTest(t *testing.T) {
	const root = "../../.."
	page, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	must(t, err)
	_, table, found := strings.Cut(string(page), "## Promises and their tests\n")
	table, _, _ = strings.Cut(table, "\n## ")
	named := regexp.MustCompile("`([a-z/]+)` (Test[A-Za-z0-9_]+)")
	rows := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise ") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test is named: %s", line)
		}
		for _, test := range tests {
			files, err := filepath.Glob(filepath.Join(root, test[1], "*_test.go"))
			must(t, err)
			exists := false
			for _, file := range files {
				text, err := os.ReadFile(file)
				must(t, err)
				exists = exists || strings.Contains(string(text), "\nfunc "+test[2]+"(t *testing.T)")
			}
			if !exists {
				t.Errorf("there is no %s in %s", test[2], test[1])
			}
		}
	}
	if !found || rows < 40 {
		t.Errorf("the table has %d rows", rows)
	}
}
