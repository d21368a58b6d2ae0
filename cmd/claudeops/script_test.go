package main_test

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"claudeops/test/agenttest"
)

// TestScripts runs the command line as its users type it; see testdata/script.
func TestScripts(t *testing.T) {
	agent := agenttest.Fake(t, chain())
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, quickExit)
			e.Setenv("PATH", filepath.Dir(program)+":"+e.Getenv("PATH"))
			e.Setenv("CLAUDEOPS_STATE_DIR", filepath.Join(e.WorkDir, "state"))
			e.Setenv("CLAUDEOPS_CLAUDE_BIN", agent)
			e.Setenv("CLAUDEOPS_SANDBOX_AGENT_FOLDERS", filepath.Dir(agent)) // the fake notes its calls there
			e.Setenv("CLAUDEOPS_ESCALATION_MODE", "handoff")
			return nil
		},
	})
}
