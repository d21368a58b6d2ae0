package surface

import (
	"testing"

	"golang.org/x/tools/go/packages"
)

// A release has programs for macOS, which nothing here can run. What the compiler would refuse is found without compiling it.
func TestTheSurfaceIsTheSameOnMacOS(t *testing.T) {
	t.Setenv("GOOS", "darwin")
	t.Setenv("GOARCH", "arm64")
	t.Setenv("CGO_ENABLED", "0")
	load := packages.Config{Mode: packages.LoadAllSyntax, Dir: root}
	found, err := packages.Load(&load, "./cmd/claudeops")
	must(t, err)
	packages.Visit(found, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			t.Error(e)
		}
	})
	if len(found) != 1 || found[0].Types == nil {
		t.Fatal("the program was not read")
	}
}
