package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/guard/redact"
	"claudeops/test/agenttest"
)

// nodeFails is what a program in Node prints when a file of it is missing; it also tells a secret.
const nodeFails = `cat >&2 <<'END'
node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/opt/claude/cli.js' for s3cr3t-of-mine
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2
END
exit 1`

func broken(t *testing.T, script string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "claude")
	if err := os.WriteFile(bin, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return bin
}

// A program that does not start is told in its own last words, also where only its version was asked for.
func TestAProgramThatDoesNotStartHasTheLastWord(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ script, session, asked string }{
		"it crashes":                 {"#!/bin/sh\n" + nodeFails, "exited with code 1: ", "does not run: it exited with code 1: "},
		"its interpreter is missing": {"#!/nonexistent/node\n", "it needs /nonexistent/node (no such file", "it needs /nonexistent/node (no such file"},
		"env finds no interpreter":   {"#!/usr/bin/env no-such-node\n", "it needs no-such-node (it is in no folder of PATH)", "it needs no-such-node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := agent.NewRunner(claude.New(claude.Options{Bin: broken(t, tt.script), Env: testEnv()}), agent.Options{
				Redactor: redact.New([]string{"s3cr3t-of-mine"}),
			})
			res := r.Run(t.Context(), testSpec(t), &agenttest.Recorder{})
			able := r.Able(t.Context(), testEnv())
			if res.Success() || !strings.Contains(res.Err, tt.session) || !strings.Contains(able.Why, tt.asked) || able.Known {
				t.Errorf("result %+v, able %+v", res, able)
			}
			for _, said := range []string{res.Err, able.Why} {
				if strings.Contains(tt.script, "MODULE") && !strings.Contains(said, "Error: Cannot find module '/opt/claude/cli.js'") ||
					strings.Contains(tt.script, "no-such") && !strings.Contains(said, "no-such-node") ||
					strings.Contains(said, "s3cr3t") || strings.Contains(said, "guard") {
					t.Errorf("it said %q", said)
				}
			}
		})
	}
	if able := newRunner(claude.Options{Bin: "/nonexistent/claude"}).Able(t.Context(), nil); !strings.Contains(able.Why, "cannot be run") {
		t.Errorf("able %+v", able)
	}
	if died := (agent.Answer{}).Died(); died != "" {
		t.Errorf("it died: %s", died)
	}
}
