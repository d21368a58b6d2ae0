package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// program writes a program in a folder that may not be there yet.
func program(t *testing.T, text string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return file
}

// Behind walls another PATH counts, so what interprets a script is settled before.
func TestAScriptIsStartedByTheInterpreterThatItNames(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), t.TempDir()
	native := program(t, "\x7fELF", dir, "bin", "native")
	node := program(t, "\x7fELF", dir, "bin", "node")
	other := program(t, "\x7fELF", path, "node")
	shim := program(t, "#!/usr/bin/env ruby\n", path, "shim")
	ruby := program(t, "\x7fELF", path, "ruby")
	beside := program(t, "#!/usr/bin/env node\n", dir, "bin", "beside")
	away := program(t, "#!/usr/bin/env -S node --flag\n", dir, "away", "cli.js")
	shimmed := program(t, "#!/usr/bin/env shim\n", dir, "away", "shimmed")
	fixed := program(t, "#! "+node+" -x\n", dir, "away", "fixed")
	for name, tt := range map[string]struct {
		bin   string
		start []string
		needs []string
	}{
		"a native program":               {native, []string{native, native}, nil},
		"its interpreter lies beside it": {beside, []string{node, node, beside}, []string{beside, node}},
		"its interpreter is in PATH":     {away, []string{other, other, "--flag", away}, []string{away, other}},
		"the kernel finds it":            {fixed, []string{fixed, fixed}, []string{fixed, node}},
		"it is a script itself":          {shimmed, []string{ruby, ruby, shim, shimmed}, []string{shimmed, shim, shim, ruby}},
	} {
		p, err := agent.Find(tt.bin, "", []string{"PATH=" + path})
		if err != nil || p.File != tt.bin || !slices.Equal(append([]string{p.Path}, p.Argv...), tt.start) || !slices.Equal(p.Needs, tt.needs) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if p, err := agent.Find(program(t, "#!/usr/bin/env\n", dir, "none"), "", nil); err == nil || p.File == "" {
		t.Errorf("a script without an interpreter: %+v, %v", p, err)
	}
}

// A program that cannot be started costs nothing and another may take its place. As it is, it is not tried again.
func TestAProgramThatCannotBeStartedIsTriedAgainOnceItChanged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		class  ops.FailureClass
		says   string
	}{
		"it starts nothing":       {"echo 'exec: node: not found' >&2; exit 127", ops.FailureStart, "could not be started: it exited with code 127: exec: node: not found"},
		"what it needs is hidden": {"echo 'cannot open /hidden/from/agents' >&2; exit 1", ops.FailureStart, "sandbox.readable: [/hidden/from/agents]"},
		"its script names that":   {"/hidden/from/agents \"$@\" 2>/dev/null; exit 2", ops.FailureStart, "agents do not see /hidden/from/agents"},
		"it fails otherwise":      {"echo 'no such option' >&2; exit 1", ops.FailureExit, "no such option"},
		"it said something":       {"echo hello; exit 127", ops.FailureExit, "code 127"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ran := filepath.Join(dir, "ran")
			text := "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho >>" + ran + "\n" + tt.script + "\n"
			bin := program(t, text, dir, "claude")
			r := agent.NewRunner(claude.New(claude.Options{Bin: bin, Env: testEnv()}), agent.Options{
				Walls: func(string) agent.Walls { return blind{} },
			})
			run := func() (ops.RunResult, int) {
				res := r.Run(t.Context(), testSpec(t), &agenttest.Recorder{})
				said, _ := os.ReadFile(ran)
				return res, strings.Count(string(said), "\n")
			}
			first, _ := run()
			second, times := run()
			for _, res := range []ops.RunResult{first, second} {
				if free := res.CostUSD != nil && *res.CostUSD == 0; res.Failure != tt.class || !strings.Contains(res.Err, tt.says) || free != (tt.class == ops.FailureStart) {
					t.Errorf("result %+v", res)
				}
			}
			program(t, text, dir, "claude")
			must(t, os.Chtimes(bin, time.Time{}, time.Now().Add(time.Hour)))
			_, after := run()
			want := 1
			if tt.class != ops.FailureStart {
				want = 2
			}
			if times != want || after != want+1 {
				t.Errorf("it ran %d times, %d after it was changed", times, after)
			}
		})
	}
}

// blind are walls that hide one folder, and nothing else.
type blind struct{ agent.Walls }

func (blind) Layers(ops.Tier) []string                                { return nil }
func (blind) Prepare(ops.Tier) error                                  { return nil }
func (blind) Collect(ops.Tier) error                                  { return nil }
func (blind) Wrap(_ ops.Tier, p agent.Program) (agent.Program, error) { return p, nil }
func (blind) Hides(ops.Tier, agent.Program) func(string) bool {
	return func(path string) bool { return path == "/hidden/from/agents" }
}
