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

// TestTheGatesComeFirst keeps the imports of a gate to packages that nearly all others need as well: Go initializes packages in
// the order of their paths as soon as what they import is ready, and with one import more a gate waits for the whole program.
func TestTheGatesComeFirst(t *testing.T) {
	allowed := []string{
		"bufio", "bytes", "encoding/binary", "encoding/json", "errors", "fmt", "io", "os", "runtime", "slices", "strings", "syscall", "time", "unsafe",
		"claudeops/internal/guard/client", "claudeops/internal/guard/wall/confine",
	}
	for _, folder := range []string{".", "../client", "../wall/confine"} {
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
					t.Errorf("%s imports %s, which makes every tool call of an agent wait", name, i.Path.Value)
				}
			}
		}
	}
}
