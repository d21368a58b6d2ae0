package main_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/agent/claude"
	"claudeops/internal/ops"
	"claudeops/test/npmregistry"
	"claudeops/test/realcli"
)

// runsInstalled lets the daemon of a box, whose PATH has no agent, run what is in the folder programs.
func runsInstalled(t *testing.T, b *box) {
	t.Helper()
	program := filepath.Join(b.state, "programs", "claude")
	r := b.run("doctor")
	contains(t, "the doctor", r.stdout, program+", version "+realcli.Version)
	b.once(0)
	c := b.cycle()
	if s := c.Journal.Sessions; c.Cycle.Status != ops.CycleResolved || len(s) != 3 || s[2].CLIVersion != realcli.Version {
		t.Errorf("the cycle is %s (%s): %+v", c.Cycle.Status, c.Cycle.Reason, s)
	}
	b.nothingLeft()
}

// serviceBox is a box with the real Claude Code whose service finds no agent in its PATH. The walls are on.
func serviceBox(t *testing.T) *box {
	t.Helper()
	b, _ := realBox(t, incident, "CLAUDEOPS_GUARD=on", "CLAUDEOPS_CLAUDE_BIN=claude")
	contains(t, "the doctor of a machine without an agent", b.run("doctor").stdout, `"claude" is not installed`, "Next: "+claude.InstallCommand)
	return b
}

func TestRealCLI_TheServiceRunsWhatIsInItsFolder(t *testing.T) {
	t.Parallel()
	b := serviceBox(t)
	folder := filepath.Join(b.state, "programs")
	if err := os.Mkdir(folder, 0o755); err != nil { //nolint:gosec // as it is installed
		t.Fatal(err)
	}
	copied(t, realcli.Path(t), filepath.Join(folder, "claude"))
	runsInstalled(t, b)
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755) //nolint:gosec // a program
	must(t, err)
	if _, err = io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	must(t, out.Close())
}

// The real package comes from a registry on loopback.
func TestRealNPM_TheServiceRunsWhatWasInstalled(t *testing.T) {
	t.Parallel()
	archive, err := os.ReadFile(filepath.Join(filepath.Dir(realcli.Path(t)), "package.tgz"))
	if err != nil {
		t.Fatalf("run script/setup-tests all: %v", err)
	}
	known, err := claude.KnownPackage()
	must(t, err)
	b := serviceBox(t)
	r := b.runWith(npmregistry.Env(t, npmregistry.Package{Name: known.Name, Archive: archive}), "agent", "install", "claude")
	if r.code != 0 {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	contains(t, "what it says", r.stdout, realcli.Version, filepath.Join(b.state, "programs", "claude"), known.Sum, "To update it, upgrade claudeops")
	runsInstalled(t, b)
}

// A package that is not the published one is not installed, and says so.
func TestAgentInstall_AWrongChecksumInstallsNothing(t *testing.T) {
	t.Parallel()
	known, err := claude.KnownPackage()
	must(t, err)
	script := "#!/bin/sh\necho '" + claude.KnownVersion + " (Claude Code)'\n"
	env := npmregistry.Env(t, npmregistry.Package{Name: known.Name, Archive: npmregistry.Archive(t, "package/claude", script)})
	b := serviceBox(t)
	for _, args := range [][]string{nil, {"--prefix", filepath.Join(t.TempDir(), "mine")}} {
		r := b.runWith(env, append([]string{"agent", "install"}, args...)...)
		if r.code != 1 || !strings.Contains(r.stderr, "its checksum is sha512-") || !strings.Contains(r.stderr, known.Sum) {
			t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(b.state, "programs")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if r := b.run("agent", "install", "emacs"); r.code != 2 {
		t.Errorf("another agent: exit %d\n%s", r.code, r.stderr)
	}
}
