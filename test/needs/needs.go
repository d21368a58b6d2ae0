// Package needs ends tests that lack a program which script/setup-tests installs.
package needs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Absent names what is not installed.
type Absent string

func (a Absent) Error() string { return string(a) + " is not installed: run script/setup-tests" }

// End ends a test that could not get what it needs. What is only absent leaves the test out where the tests run with what is there
// (make test NO_SETUP=1); CI leaves nothing out.
func End(tb testing.TB, err error) {
	tb.Helper()
	if _, absent := errors.AsType[Absent](err); absent && os.Getenv("NO_SETUP") != "" && os.Getenv("CI") == "" { //nolint:forbidigo // settings of the tests
		tb.Skip("left out: ", err)
	}
	tb.Fatal(err)
}

// Cached returns a program that script/setup-tests puts below .cache, and ends the test where it is not installed.
func Cached(t testing.TB, name string, path ...string) string {
	t.Helper()
	file := filepath.Join(append([]string{moduleRoot(t), ".cache"}, path...)...)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		End(t, Absent(name))
	}
	if err != nil {
		t.Fatalf("find %s: %v", name, err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		t.Fatalf("%s cannot be run: remove its folder and run script/setup-tests", file)
	}
	return file
}

func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("find the module: no go.mod above the test")
		}
		dir = parent
	}
}
