package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"claudeops/test/agenttest"
)

func TestTheCoveragePageIsTrue(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "spec-coverage.md"))
	must(t, err)
	have, in := map[string]bool{}, map[string]bool{} // in: by package and name
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			have[m[1]], in[packageOf(path)+"."+m[1]] = true, true
		}
		return err
	})
	must(t, err)
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 50 {
		t.Errorf("the page names only %d tests", len(named))
	}
	for _, n := range named {
		if !have[n[1]] {
			t.Errorf("the page names %s, which does not exist", n[1])
		}
	}
	// `TestX` (cmd, store) says in which packages the test is.
	for _, m := range regexp.MustCompile("`(Test\\w+)` \\(([a-z, ]+)\\)").FindAllStringSubmatch(string(page), -1) {
		for _, where := range strings.Split(m[2], ", ") {
			if !in[where+"."+m[1]] {
				t.Errorf("the page says that %s is in %s", m[1], where)
			}
		}
	}
}

// packageOf is the name by which the page calls the package of a file.
func packageOf(path string) string {
	if name := filepath.Base(filepath.Dir(path)); name != "claudeops" {
		return name
	}
	return "cmd"
}

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
