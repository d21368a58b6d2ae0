// Command mutations breaks the product on purpose, in one place at a time, and expects a test to notice: make mutations.
//
// The compiler reads the changed file instead of the real one, so nothing of the tree is touched. Names as arguments are a part of the
// list.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutation is one place where the product is broken, and the test that must fail then.
type mutation struct {
	name          string
	file          string
	before, after string
	tests         string // package and pattern of the tests
}

// patience is how long one test may take on a slow machine.
const patience = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	list := mutations()
	if len(os.Args) > 1 {
		list = slices.DeleteFunc(list, func(m mutation) bool { return !slices.Contains(os.Args[1:], m.name) })
	}
	begun, bad := time.Now(), 0
	for _, m := range list {
		at := time.Now()
		err := m.killed(ctx)
		if ctx.Err() != nil {
			break
		}
		result := "killed"
		if err != nil {
			result = err.Error()
			bad++
		}
		fmt.Fprintf(os.Stdout, "%-36s %4.0f s  %s\n", m.name, time.Since(at).Seconds(), result)
	}
	fmt.Fprintf(os.Stdout, "%d of %d killed in %.0f s\n", len(list)-bad, len(list), time.Since(begun).Seconds())
	if bad > 0 || len(list) == 0 || ctx.Err() != nil {
		os.Exit(1)
	}
}

// killed runs the tests without and with the change. The former comes from the cache where it can.
func (m mutation) killed(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.overlay(dir)
	if err != nil {
		return err
	}
	if out, err := m.test(ctx); err != nil {
		return fmt.Errorf("its test fails without it: %w\n%s", err, tail(out))
	}
	out, err := m.test(ctx, "-count=1", "-overlay", overlay)
	switch {
	case err == nil:
		return fmt.Errorf("SURVIVED: %s passes", m.tests)
	case !strings.Contains(out, "--- FAIL: ") && !strings.Contains(out, "panic: "):
		return fmt.Errorf("no test failed: %w\n%s", err, tail(out))
	}
	return nil
}

func (m mutation) test(ctx context.Context, options ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pkg, pattern, _ := strings.Cut(m.tests, " ")
	args := append([]string{"test", "-short", "-vet=off", "-run", pattern}, options...)
	out, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput() //nolint:gosec // words of this file
	return string(out), err
}

func tail(out string) string { return out[max(0, len(out)-2000):] }

// overlay writes the changed file, and the file for go build -overlay that names it.
func (m mutation) overlay(dir string) (string, error) {
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if strings.Count(string(text), m.before) != 1 {
		return "", fmt.Errorf("it no longer applies: %s has %d times %q", m.file, strings.Count(string(text), m.before), m.before)
	}
	changed, list := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json")
	raw, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	return list, errors.Join(err, os.WriteFile(list, raw, 0o600),
		os.WriteFile(changed, []byte(strings.Replace(string(text), m.before, m.after, 1)), 0o600))
}
