//go:build linux

package wall_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "claudeops/internal/guard/early" // this program is mounted in the place of shells
	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// TestTheGateIsInThePlaceOfTheShells holds that a program behind the walls finds the gate where it looks for a shell, and that scripts of
// a judged command find the shell they name.
func TestTheGateIsInThePlaceOfTheShells(t *testing.T) {
	for _, uid := range []int{0, agentUID} {
		p := newPlace(t)
		if uid != 0 {
			p.uid(uid)
		}
		gates := p.state + "/gate"
		gate := gates + "/1-1"
		must(t, os.MkdirAll(gate, 0o700))
		p.config.Gates, p.config.ExtraReadOnly = gates, []string{p.config.Relay[0]}
		s := p.auto("")
		if !s.GatesShells(ops.Tier1) {
			t.Fatal("the shells cannot be gated here")
		}
		must(t, s.Check(ops.Tier1))
		must(t, s.Prepare(ops.Tier1))
		script := p.repos + "/script"
		must(t, os.WriteFile(script, []byte("#!/bin/sh\necho script $1\n"), 0o755)) //nolint:gosec // a program
		look := func(env ...string) string {
			c, err := s.WrapSession(ops.Tier1, wall.Session{Gate: gate, Shells: true}, wall.Command{
				Path: "/bin/bash", Env: append(env, "PATH=/usr/bin:/bin"), Dir: "/", Argv: []string{"bash", "-c", script + ` one; /bin/sh -c 'echo shell $0'
shell=$(getent passwd $(id -u) | cut -d: -f7); echo "is $shell"; "$shell" -c 'echo user'; echo x 2>/dev/null > /etc/passwd`},
			})
			must(t, err)
			out, _ := runCommand(t, c)
			return out
		}
		shell := "is " + filepath.Join(gate, confine.ShellsFolder, confine.UserShell)
		if out := look(); !strings.Contains(out, shell) || strings.Count(out, "does not know its supervisor") != 3 ||
			strings.Contains(out, "script one") || strings.Contains(out, "shell /bin/sh") || strings.Contains(out, "user\n") {
			t.Errorf("as %d, a program that was not judged: %s", uid, out)
		}
		if out := look(confine.JudgedVariable + "=" + gate); !strings.Contains(out, "script one\nshell /bin/sh\n"+shell+"\nuser\n") {
			t.Errorf("as %d, a command that was judged: %s", uid, out)
		}
	}
}

func TestWithoutMountsTheShellsAreNotGated(t *testing.T) {
	p := newPlace(t)
	if p.auto("/nowhere/bwrap").GatesShells(ops.Tier1) {
		t.Error("nothing could put the gate there")
	}
}
