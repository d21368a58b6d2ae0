package early

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Go initializes packages in the order of their paths as soon as what they import is ready: with one import more these wait for the whole
// program, and hold its memory.

// TestTheGatesComeFirst keeps the imports of a gate, for which every tool call of an agent waits, to packages that nearly all others need.
func TestTheGatesComeFirst(t *testing.T) {
	importsOnly(t, []string{".", "../client", "../wall/confine"},
		"bufio", "bytes", "encoding/binary", "encoding/json", "errors", "fmt", "io", "os", "runtime", "slices", "strings", "syscall", "time", "unsafe",
		"claudeops/internal/guard/client", "claudeops/internal/guard/wall/confine")
}

// TestTheKeeperStaysSmall does the same for the keeper, which is always there.
func TestTheKeeperStaysSmall(t *testing.T) {
	importsOnly(t, []string{"../../agent/keeper", "../../agent/process"},
		"bufio", "bytes", "context", "errors", "fmt", "os", "slices", "strconv", "strings", "sync", "syscall", "time", "unsafe",
		"claudeops/internal/agent/process")
}

func importsOnly(t *testing.T, folders []string, allowed ...string) {
	t.Helper()
	for _, folder := range folders {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if path, err := strconv.Unquote(i.Path.Value); err != nil || !slices.Contains(allowed, path) {
					t.Errorf("%s imports %s, which makes it start late and large", name, i.Path.Value)
				}
			}
		}
	}
}
