package client

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/guard/wall/confine"
)

const linked = "/usr/bin/claudeops" // the file that a link to the gate leads to

// started is what was executed.
type started struct {
	path      string
	argv, env []string
}

func (s *started) exec(path string, argv, env []string) error {
	s.path, s.argv, s.env = path, argv, env
	return nil
}

func TestACommandIsAskedAboutAndRunAsAnswered(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-c", "-lc"} {
		var asked Request
		socket := supervisor(t, func(line []byte) string {
			_ = json.Unmarshal(line, &asked)
			return `{"verdict":"allow","script":"judged"}` + "\n"
		})
		gate := filepath.Dir(socket)
		var ran started
		var stderr bytes.Buffer
		env := []string{"PATH=/gate", "A=b", confine.GateVariable + "=" + gate, confine.PathVariable + "=/bin:/sbin", "BASH_ENV=/evil"}
		command([]string{gate + "/shells/bash", flag, "look at it"}, env, linked, &stderr, time.Second, ran.exec)
		if ran.path != "/bin/bash" || !slices.Equal(ran.argv, []string{"/bin/bash", "-c", "exec </dev/null\njudged"}) {
			t.Errorf("%s: %+v %s", flag, ran, stderr.String())
		}
		want := append([]string{"A=b", confine.JudgedVariable + "=" + gate, "PATH=/bin:/sbin"}, fixedEnvironment()...)
		if !slices.Equal(ran.env, want) {
			t.Errorf("the environment is %q", ran.env)
		}
		cwd, _ := os.Getwd()
		if asked.Kind != KindCommand || asked.Command != "look at it" || asked.Cwd != cwd {
			t.Errorf("asked: %+v", asked)
		}
	}
}

func TestAShellInThePlaceOfAnotherRunsNothingUnasked(t *testing.T) {
	t.Parallel()
	gate := filepath.Dir(supervisor(t, always(`{"verdict":"deny","reason":"Not at Tier 1."}`+"\n")))
	known := []string{confine.GateVariable + "=" + gate}
	for name, c := range map[string]struct {
		args, env []string
		stderr    string
	}{
		"deny":             {[]string{"-lc", "x"}, known, "Not at Tier 1.\n"},
		"no supervisor":    {[]string{"-c", "x"}, nil, "does not know its supervisor"},
		"no command":       {nil, known, "only a command"},
		"a script":         {[]string{"/tmp/script"}, known, "only a command"},
		"standard input":   {[]string{"-s"}, known, "only a command"},
		"more arguments":   {[]string{"-c", "x", "y"}, known, "only a command"},
		"another language": {[]string{"-Command", "x"}, known, "only a command"},
		"an init file":     {[]string{"-ic", "x"}, known, "only a command"},
		"too long":         {[]string{"-c", strings.Repeat("x", MaxInput+1)}, known, "1 MiB"},
	} {
		var ran started
		var stderr bytes.Buffer
		code := command(append([]string{"/bin/sh"}, c.args...), c.env, "/usr/bin/dash", &stderr, time.Second, ran.exec)
		if code != exitNotRun || ran.path != "" || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: %d %+v %q", name, code, ran, stderr.String())
		}
	}
}

func TestAShellOfAJudgedCommandIsTheRealOne(t *testing.T) {
	t.Parallel()
	env := []string{confine.JudgedVariable + "=/gate"}
	for _, c := range []struct{ name, exe, want string }{
		{"sh", "/usr/bin/dash", "/gate/shells/real-sh"},
		{"/bin/sh", "/usr/bin/bash", "/gate/shells/real-sh"},
		{"-odd", "/usr/bin/dash", "/gate/shells/real-sh"},
		{"/gate/shells/bash", linked, "/bin/bash"},
		{"/gate/shells/zsh", linked, "/bin/zsh"},
	} {
		var ran started
		argv := []string{c.name, "script", "-x"}
		command(argv, env, c.exe, &bytes.Buffer{}, time.Second, ran.exec)
		if ran.path != c.want || !slices.Equal(ran.argv, argv) || !slices.Equal(ran.env, env) {
			t.Errorf("%s: %+v", c.name, ran)
		}
	}
}

func TestATerminalIsNotTheEmptyDevice(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{os.DevNull: false, "/dev/zero": true, "command_test.go": false} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if isTerminal(f) != want {
			t.Errorf("%s: %v", name, !want)
		}
		_ = f.Close()
	}
}

func TestANoteComesBeforeTheCommand(t *testing.T) {
	var stderr bytes.Buffer
	ran := ""
	run(Answer{Verdict: Allow, Script: "ls /srv", Note: "/srv is hidden"}, nil, nil, &stderr, func(_ string, argv, _ []string) error {
		ran = argv[2]
		return nil
	})
	if stderr.String() != "/srv is hidden\n" || ran != "ls /srv" {
		t.Errorf("it said %q and ran %q", stderr.String(), ran)
	}
}
