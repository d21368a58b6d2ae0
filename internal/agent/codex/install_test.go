package codex_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/codex"
	"claudeops/test/npmregistry"
	"claudeops/test/realcodex"
)

const tells = "#!/bin/sh\necho codex-cli " + realcodex.Version + "\n"

func TestTheKnownVersionIsTheTestedOne(t *testing.T) {
	t.Parallel()
	p, err := codex.KnownPackage()
	if p.Version != realcodex.Version || err != nil || !strings.Contains(p.Name, "@"+realcodex.Version+"-") || !strings.HasPrefix(p.Sum, "sha512-") {
		t.Errorf("installed is %+v (%v), tested %s", p, err, realcodex.Version)
	}
}

// What is installed is a link into the folder of its version, because the program has others beside it.
func TestInstall(t *testing.T) {
	t.Parallel()
	p, err := codex.KnownPackage()
	must(t, err)
	archive := npmregistry.Archive(t, p.Folder+"/bin/codex", tells)
	p.Sum = npmregistry.Sum(archive)
	folder := filepath.Join(t.TempDir(), "state", "programs")
	adapter := func(program string) agent.Adapter { return codex.New(codex.Options{Bin: program}) }
	for range 2 { // an update replaces what is there
		path, err := agent.Install(t.Context(), p, folder, npmregistry.Env(t, npmregistry.Package{Name: p.Name, Archive: archive}), adapter)
		if at, _ := os.Readlink(path); err != nil || at != "codex-"+realcodex.Version+"/bin/codex" {
			t.Fatalf("installed %q -> %q: %v", path, at, err)
		}
	}
	if left, _ := os.ReadDir(folder); len(left) != 2 {
		t.Errorf("left %v", left)
	}
	if able := adapter(filepath.Join(folder, "codex")).Able(t.Context(), nil); able.Version != realcodex.Version {
		t.Errorf("it is %+v", able)
	}
}

// What npm puts into PATH is a script for Node, which sessions need not have: the native program of the package is taken.
func TestThePackageOfNPMIsStartedWithoutNode(t *testing.T) {
	t.Parallel()
	p, err := codex.KnownPackage()
	must(t, err)
	native := filepath.Join("node_modules/@openai/codex-"+agent.Platform(), strings.TrimPrefix(p.Folder, "package/"), "bin/codex")
	for name, at := range map[string]string{
		"inside the package":    "lib/node_modules/@openai/codex/" + native,
		"beside it":             "lib/" + native,
		"in the package itself": "lib/node_modules/@openai/codex/" + strings.TrimPrefix(p.Folder, "package/") + "/bin/codex",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{"lib/node_modules/@openai/codex/bin/codex.js": "#!/usr/bin/env no-such-node\n", at: tells} {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o700); err != nil { //nolint:gosec // it is run
					t.Fatal(err)
				}
			}
			bin := filepath.Join(dir, "codex")
			must(t, os.Symlink("lib/node_modules/@openai/codex/bin/codex.js", bin))
			if able := codex.New(codex.Options{Bin: bin}).Able(t.Context(), nil); able.Version != realcodex.Version || able.Program != filepath.Join(dir, at) {
				t.Errorf("it is %+v", able)
			}
			must(t, os.RemoveAll(filepath.Join(dir, at)))
			if able := codex.New(codex.Options{Bin: bin}).Able(t.Context(), nil); !strings.Contains(able.Why, "no-such-node") {
				t.Errorf("without it, it is %+v", able)
			}
		})
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
