package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/messagesapi"
	"claudeops/test/realcli"
)

// run lets the real CLI play a script behind the session's gates and returns its working folder and the last
// request to the model.
func (f *fixture) run(prefix bool, turns ...messagesapi.Answer) (dir string, last messagesapi.Request) {
	f.t.Helper()
	api := messagesapi.New(f.t, messagesapi.Turns(append(turns, messagesapi.Text("done"))...))
	dir = f.t.TempDir()
	name := filepath.Join(f.t.TempDir(), "settings.json")
	must(f.t, os.WriteFile(name, f.Settings(), 0o600))
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, realcli.Path(f.t), "-p", "go", "--output-format", "stream-json", "--verbose",
		"--permission-mode", "dontAsk", "--setting-sources", "", "--strict-mcp-config", "--model", "haiku",
		"--tools", "Bash,Write", "--settings", name)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, realcli.Env(f.t, api.URL()), 5*time.Second
	if prefix {
		link, err := f.ShellPrefix()
		must(f.t, err)
		cmd.Env = append(cmd.Env, "CLAUDE_CODE_SHELL_PREFIX="+link)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		f.t.Fatalf("run claude: %v", err)
	}
	all := api.Requests()
	if len(all) <= len(turns) {
		f.t.Fatalf("the model was called %d times\n%s", len(all), out.String())
	}
	return dir, all[len(all)-1]
}

func bash(id, command string) messagesapi.Answer {
	return messagesapi.Call(id, "Bash", map[string]any{"command": command})
}

func made(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func TestTheRealCLIRunsWhatIsAllowedOnly(t *testing.T) {
	t.Parallel()
	for _, prefix := range []bool{true, false} {
		t.Run(fmt.Sprintf("prefix %t", prefix), func(t *testing.T) {
			t.Parallel()
			f := open(t, nil)
			elsewhere := filepath.Join(t.TempDir(), "forbidden.txt")
			dir, last := f.run(prefix,
				bash("toolu_0", `touch made && echo 'it'"'"'s' "$(pwd)" | cat`),
				bash("toolu_1", "touch forbidden"),
				bash("toolu_2", "cat <<'E'\na\\b\nE\necho hi!"),
				bash("toolu_3", "ls"),
				bash("toolu_4", "echo `echo tick` key=$ANTHROPIC_API_KEY."),
				bash("toolu_5", "ls ; exit 3"),
				messagesapi.Call("toolu_6", "Write", map[string]any{"file_path": elsewhere, "content": "x"}),
			)
			if !made(dir, "made") || made(dir, "forbidden") || made("", elsewhere) {
				t.Error("what ran is not what was allowed")
			}
			key := "."
			if !prefix {
				key = "dummy-key-of-a-test."
			}
			// The CLI puts its own words before a reason and leaves the reason as it is.
			for id, want := range map[string]messagesapi.Result{
				"toolu_0": {Text: "it's " + dir},
				"toolu_1": {Text: "PreToolUse:Bash hook error: " + forbidden, IsError: true},
				"toolu_2": {Text: "a\\b\nhi!"},
				"toolu_3": {Text: "made"},
				"toolu_4": {Text: "tick key=" + key},
				"toolu_5": {Text: "Exit code 3\nmade", IsError: true},
				"toolu_6": {Text: "PreToolUse:Write hook error: " + forbidden, IsError: true},
			} {
				if got, ok := last.Result(id); !ok || got != want {
					t.Errorf("%s answered %+v, want %+v", id, got, want)
				}
			}
			if !f.Allowed("toolu_0") || f.Allowed("toolu_1") {
				t.Error("what was allowed is not what is remembered")
			}
			shells := 0
			for _, r := range f.ledger.records() {
				if r.Gate == ops.GateShell {
					shells++
					if !r.Allowed || r.ToolUseID == "" {
						t.Errorf("row of the shell: %+v", r)
					}
				}
			}
			if want := map[bool]int{true: 5, false: 0}[prefix]; shells != want {
				t.Errorf("the shell was asked %d times, want %d", shells, want)
			}
		})
	}
}

func TestTheRealCLIRunsNothingBehindABrokenHook(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	must(t, err)
	for name, c := range map[string]struct {
		hook   string // what the program does as a hook
		after  func(f *fixture)
		silent bool // the CLI takes it for a hook that has nothing to say
	}{
		"exit 1":      {hook: "exit 1"},
		"exit 127":    {hook: "exit 127"},
		"killed":      {hook: "kill -9 $$"},
		"hangs":       {hook: "exec sleep 60"},
		"garbage":     {hook: "echo yes, do it", silent: true},
		"bad JSON":    {hook: `echo '{"hookSpecificOutput":'`, silent: true},
		"silent":      {hook: "exit 0", silent: true},
		"missing":     {after: func(f *fixture) { remove(f.t, f.gate.o.Self) }},
		"socket gone": {hook: "exec " + quote(program) + ` "$@"`, after: func(f *fixture) { remove(f.t, f.Socket()) }},
	} {
		for _, prefix := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, prefix %t", name, prefix), func(t *testing.T) {
				t.Parallel()
				self := filepath.Join(t.TempDir(), "claudeops")
				text := "#!/bin/bash\ncase \"$0\" in */claudeops-guard-shell) exec -a \"$0\" " + quote(program) + " \"$@\";; esac\n" + c.hook + "\n"
				if err := os.WriteFile(self, []byte(text), 0o700); err != nil { //nolint:gosec // it is a program
					t.Fatal(err)
				}
				f := open(t, func(o *Options, _ *Gate) { o.Self = self })
				if c.after != nil {
					if _, err := f.ShellPrefix(); err != nil {
						t.Fatal(err)
					}
					c.after(f)
				}
				dir, last := f.run(prefix,
					bash("toolu_0", "touch made").
						Call("toolu_1", "Bash", map[string]any{"command": "ls"}).
						Call("toolu_2", "Write", map[string]any{"file_path": filepath.Join(t.TempDir(), "x"), "content": "x"}),
				)
				for i := range 3 {
					id := fmt.Sprintf("toolu_%d", i)
					got, ok := last.Result(id)
					// Without the second gate the CLI runs what it knows to only read.
					if known := c.silent && !prefix && i == 1; (!ok || !got.IsError) && !known {
						t.Errorf("%s answered %+v", id, got)
					}
				}
				if made(dir, "made") {
					t.Error("the command ran")
				}
				for _, r := range f.ledger.records() {
					if r.Allowed {
						t.Errorf("row: %+v", r)
					}
				}
			})
		}
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	must(t, os.Remove(name))
}

func TestTheRealCLIShowsTheReasonOfTheShell(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	dir, last := f.run(true, bash("toolu_0", "touch made >nul"))
	got, _ := last.Result("toolu_0")
	// The CLI rewrites this one between its hook and its shell.
	if made(dir, "made") || !got.IsError || !strings.Contains(got.Text, "exactly this text") {
		t.Errorf("%+v", got)
	}
}

// What is there and not visible to the agent is told with the result of the call that names it.
func TestTheRealCLIIsToldWhatItCannotSee(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	f.Hide(func(path string) bool { return strings.HasPrefix(path, "/srv/") })
	_, last := f.run(true, bash("toolu_0", "ls"), bash("toolu_1", "ls -l /srv/data/in; ls /usr"))
	raw, err := json.Marshal(last)
	must(t, err)
	if n := strings.Count(string(raw), "/srv/data/in exists and is not visible to agents: sandbox.readable"); n != 1 || strings.Contains(string(raw), "/usr exists") {
		t.Errorf("it was told %d times: %s", n, raw)
	}
}
