package keeper

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTheKeeperStaysSmall keeps the imports of the keeper to packages that are initialized before all modules of others: with one
// import more the keeper initializes the whole program and needs its memory.
func TestTheKeeperStaysSmall(t *testing.T) {
	allowed := []string{
		"bufio", "bytes", "context", "errors", "fmt", "os", "slices", "strconv", "strings", "sync", "syscall", "time", "unsafe",
		"claudeops/internal/agent/process",
	}
	for _, folder := range []string{".", "../process"} {
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
					t.Errorf("%s imports %s, which makes the keeper large", name, i.Path.Value)
				}
			}
		}
	}
}
