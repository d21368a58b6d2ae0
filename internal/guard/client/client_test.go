package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const call = `{"hook_event_name":"PreToolUse",
 "tool_name":"Bash","tool_input":{"command":"a < b && c"}}`

// supervisor listens in a short folder and answers every question by a function; nil leaves it without answer.
func supervisor(t *testing.T, answer func(line []byte) string) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "client-") //nolint:usetesting // the folders of a test have long names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, SocketName)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadBytes('\n')
			if answer == nil {
				defer conn.Close() //nolint:errcheck // kept open to the end, without an answer
				continue
			}
			_, _ = io.WriteString(conn, answer(line))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return socket
}

func always(text string) func([]byte) string { return func([]byte) string { return text } }

func TestTheHookPrintsTheDecision(t *testing.T) {
	t.Parallel()
	for _, a := range []Answer{{Verdict: Allow, Reason: "ok"}, {Verdict: Deny, Reason: "no <that> & \"this\""}} {
		var asked Request
		socket := supervisor(t, func(line []byte) string {
			_ = json.Unmarshal(line, &asked)
			text, _ := json.Marshal(a)
			return string(text) + "\n"
		})
		var stdout, stderr bytes.Buffer
		code := Hook(strings.NewReader(call), &stdout, &stderr, socket)
		var got map[string]map[string]string
		if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || code != 0 || stderr.Len() != 0 {
			t.Fatalf("%d %q %q %v", code, stdout.String(), stderr.String(), err)
		}
		out := got["hookSpecificOutput"]
		if out["hookEventName"] != "PreToolUse" || out["permissionDecision"] != string(a.Verdict) || out["permissionDecisionReason"] != a.Reason {
			t.Errorf("%v", got)
		}
		if asked.Kind != KindHook || !strings.Contains(string(asked.Input), `"a < b && c"`) {
			t.Errorf("asked: %+v", asked)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error)  { panic("broken") }
func (failing) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestTheHookIsNeverSilent(t *testing.T) {
	t.Parallel()
	gone := filepath.Join(t.TempDir(), "gone.sock")
	allow := always(`{"verdict":"allow"}` + "\n")
	never, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	for name, c := range map[string]struct {
		stdin  io.Reader
		stdout io.Writer
		socket string
	}{
		"socket gone":        {strings.NewReader(call), nil, gone},
		"no answer":          {strings.NewReader(call), nil, supervisor(t, nil)},
		"closed":             {strings.NewReader(call), nil, supervisor(t, always(""))},
		"cut answer":         {strings.NewReader(call), nil, supervisor(t, always(`{"verdict":"allow"`))},
		"garbage":            {strings.NewReader(call), nil, supervisor(t, always("yes\n"))},
		"unknown verdict":    {strings.NewReader(call), nil, supervisor(t, always(`{"verdict":"ask"}`+"\n"))},
		"no verdict":         {strings.NewReader(call), nil, supervisor(t, always("{}\n"))},
		"deny and no reason": {strings.NewReader(call), nil, supervisor(t, always(`{"verdict":"deny"}`+"\n"))},
		"input is no JSON":   {strings.NewReader("hello"), nil, supervisor(t, allow)},
		"no input":           {strings.NewReader(""), nil, supervisor(t, allow)},
		"input never ends":   {never, nil, supervisor(t, allow)},
		"input too long":     {strings.NewReader(`"` + strings.Repeat("x", MaxInput) + `"`), nil, supervisor(t, allow)},
		"panic":              {failing{}, nil, supervisor(t, allow)},
		"stdout closed":      {strings.NewReader(call), failing{}, supervisor(t, allow)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			var out io.Writer = &stdout
			if c.stdout != nil {
				out = c.stdout
			}
			code := hook(c.stdin, out, &stderr, c.socket, 200*time.Millisecond)
			if code != 2 || stderr.Len() == 0 || stdout.Len() != 0 {
				t.Errorf("%d %q %q", code, stdout.String(), stderr.String())
			}
		})
	}
}

func TestTheShellBecomesBash(t *testing.T) {
	t.Parallel()
	var asked Request
	socket := supervisor(t, func(line []byte) string {
		_ = json.Unmarshal(line, &asked)
		return `{"verdict":"allow","script":"judged"}` + "\n"
	})
	var path string
	var argv, env []string
	var stderr bytes.Buffer
	environ := []string{
		"PATH=/bin", "ANTHROPIC_API_KEY=k", "ANTHROPIC_AUTH_TOKEN=k", "CLAUDE_CODE_OAUTH_TOKEN=k", "CLAUDE_CODE_MESSAGING_SOCKET=k",
		"CLAUDE_CODE_MESSAGING_TOKEN=k", "BASH_ENV=/x", "BASH_FUNC_ls%%=() { id; }", "ANTHROPIC_BASE_URL=u", "PAGER=less", "GIT_EDITOR=vi",
	}
	shell([]string{"eval it"}, environ, filepath.Join(filepath.Dir(socket), ShellName), &stderr, time.Second,
		func(p string, a, e []string) error { path, argv, env = p, a, e; return nil })
	if path != "/bin/bash" || !slices.Equal(argv, []string{"/bin/bash", "-c", "judged"}) || !slices.Equal(env, append([]string{"PATH=/bin", "ANTHROPIC_BASE_URL=u"}, fixedEnvironment()...)) {
		t.Errorf("%q %q %q %s", path, argv, env, stderr.String())
	}
	cwd, _ := os.Getwd()
	if asked.Kind != KindShell || asked.Command != "eval it" || asked.Cwd != cwd {
		t.Errorf("asked: %+v", asked)
	}
}

func TestTheShellRunsNothingWithoutAnAllow(t *testing.T) {
	t.Parallel()
	allow := always(`{"verdict":"allow","script":"judged"}` + "\n")
	for name, c := range map[string]struct {
		args   []string
		answer func([]byte) string
		self   string
		stderr string
	}{
		"deny":          {[]string{"x"}, always(`{"verdict":"deny","reason":"Not at Tier 1."}` + "\n"), "", "Not at Tier 1.\n"},
		"no script":     {[]string{"x"}, always(`{"verdict":"allow"}` + "\n"), "", "nothing to execute"},
		"no answer":     {[]string{"x"}, nil, "", "did not answer"},
		"garbage":       {[]string{"x"}, always("allow\n"), "", "cannot be read"},
		"socket gone":   {[]string{"x"}, allow, "/nowhere/" + ShellName, "cannot be reached"},
		"relative name": {[]string{"x"}, allow, ShellName, "full path"},
		"no argument":   {nil, allow, "", "0 arguments"},
		"two arguments": {[]string{"x", "y"}, allow, "", "2 arguments"},
		"too long":      {[]string{strings.Repeat("x", MaxInput+1)}, allow, "", "1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			self := c.self
			if self == "" {
				self = filepath.Join(filepath.Dir(supervisor(t, c.answer)), ShellName)
			}
			var stderr bytes.Buffer
			code := shell(c.args, nil, self, &stderr, 200*time.Millisecond, func(string, []string, []string) error {
				t.Error("it ran")
				return nil
			})
			if code != 126 || !strings.Contains(stderr.String(), c.stderr) {
				// The two clocks of an answer that never comes end together.
				if name != "no answer" || code != 126 || stderr.Len() == 0 {
					t.Errorf("%d %q", code, stderr.String())
				}
			}
		})
	}
}

func TestAShellThatCannotStartSaysSo(t *testing.T) {
	t.Parallel()
	socket := supervisor(t, always(`{"verdict":"allow","script":"judged"}`+"\n"))
	for name, exec := range map[string]execFunc{
		"error": func(string, []string, []string) error { return errors.New("too long") },
		"panic": func(string, []string, []string) error { panic("oh") },
	} {
		var stderr bytes.Buffer
		code := shell([]string{"x"}, nil, filepath.Join(filepath.Dir(socket), ShellName), &stderr, time.Second, exec)
		if code != 126 || stderr.Len() == 0 {
			t.Errorf("%s: %d %q", name, code, stderr.String())
		}
	}
}
