// Package readme gives tests the quick starts of the README, so that each runs as it is written.
package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// MaxLines is how long a quick start may be.
const MaxLines = 4

// QuickStart returns the commands of the block of README.md that has the mark after its language. root is the folder of the checkout.
func QuickStart(tb testing.TB, root, mark string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md")) //nolint:gosec // a file of the repository
	if err != nil {
		tb.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^```sh "+regexp.QuoteMeta(mark)+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		tb.Fatalf("README.md has %d blocks `sh %s`, want 1", len(found), mark)
	}
	block := found[0][1]
	if n := strings.Count(block, "\n"); n > MaxLines {
		tb.Errorf("the quick start `sh %s` has %d lines, want at most %d", mark, n, MaxLines)
	}
	return block
}
