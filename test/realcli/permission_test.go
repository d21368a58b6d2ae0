package realcli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/test/messagesapi"
)

// bash calls the shell with each of the commands, as toolu_0, toolu_1 and so on, in one answer.
func bash(commands ...string) messagesapi.Answer {
	var a messagesapi.Answer
	for i, command := range commands {
		a = a.Call(fmt.Sprintf("toolu_%d", i), "Bash", map[string]any{"command": command})
	}
	return a
}

// withDocker puts a program in the agent's path that only says what it was asked.
func (c *cli) withDocker() {
	c.t.Helper()
	bin := c.t.TempDir()
	must(c.t, os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/sh\necho \"docker $*\"\n"), 0o700))
	c.env = append(c.env, "PATH="+bin+":/usr/local/bin:/usr/bin:/bin")
}

// ran tells which of the calls were carried out.
func ran(t *testing.T, req messagesapi.Request, n int) []bool {
	t.Helper()
	out := make([]bool, n)
	for i := range out {
		got, ok := req.Result(fmt.Sprintf("toolu_%d", i))
		if !ok {
			t.Fatalf("call %d has no result", i)
		}
		out[i] = !got.IsError
	}
	return out
}

func denied(r result) []string {
	var ids []string
	for _, d := range r.Denials {
		ids = append(ids, d.UseID)
	}
	return ids
}

func TestAToolThatIsNotAllowedIsDenied(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.Turns(bash("touch made", "ls", "docker ps"), messagesapi.Text("done")))
	c.withDocker()
	r := c.run(arguments("look around", "--session-id", first, "--model", "haiku", "--tools", "Bash")...).succeeded()
	// What only reads runs without being allowed.
	if got := ran(t, c.last(), 3); !slices.Equal(got, []bool{false, true, true}) {
		t.Errorf("ran: %v", got)
	}
	if len(r.Denials) != 1 || r.Denials[0].Tool != "Bash" || r.Denials[0].UseID != "toolu_0" || string(r.Denials[0].Input) != `{"command":"touch made"}` {
		t.Errorf("denials: %s", jsonOf(r.Denials))
	}
	if _, err := os.Stat(filepath.Join(c.dir, "made")); err == nil {
		t.Error("the denied command ran")
	}
}

func TestADisallowedCommandIsDenied(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.Turns(bash(
		"docker restart web", "docker stop web && docker restart web", "curl http://127.0.0.1:1/", "docker ps",
		"sh -c 'docker restart web'", // a rule is no wall
	), messagesapi.Text("done")))
	c.withDocker()
	r := c.fresh(first, "look around", "haiku", "Bash,Read", "--disallowedTools", "Task,Agent,Bash(docker restart:*),Bash(curl:*)").succeeded()
	if got := ran(t, c.last(), 5); !slices.Equal(got, []bool{false, false, false, true, true}) {
		t.Errorf("ran: %v", got)
	}
	if got := denied(r); !slices.Equal(got, []string{"toolu_0", "toolu_1", "toolu_2"}) {
		t.Errorf("denied: %q", got)
	}
}

func TestSubagentsAreGoneWhenDisallowed(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.Turns(messagesapi.Text("done")))
	args := arguments("look around", "--session-id", first, "--model", "haiku")
	c.run(args...).succeeded()
	if !slices.Contains(c.last().ToolNames(), "Agent") {
		t.Fatalf("tools by default: %q", c.last().ToolNames())
	}
	args = arguments("look around", "--session-id", second, "--model", "haiku", "--disallowedTools", "Task,Agent")
	c.run(args...).succeeded()
	if got := c.last().ToolNames(); slices.Contains(got, "Agent") || slices.Contains(got, "Task") {
		t.Errorf("tools: %q", got)
	}
}

func TestOnlyTheGivenSettingsCount(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.Turns(bash("touch by-rule", "mkdir not-by-rule"), messagesapi.Text("done")))
	hook := func(mark string) string {
		return fmt.Sprintf(`"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"touch '%s'"}]}]}`, filepath.Join(c.dir, mark))
	}
	project := filepath.Join(c.dir, ".claude", "settings.json")
	given := filepath.Join(t.TempDir(), "settings.json")
	must(t, os.Mkdir(filepath.Dir(project), 0o700))
	for path, text := range map[string]string{
		project: `{"permissions":{"allow":["Bash"]},` + hook("project-hook") + `}`,
		given:   `{"permissions":{"allow":["Bash(touch:*)"]},` + hook("given-hook") + `}`,
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	args := arguments("look around", "--session-id", first, "--model", "haiku", "--tools", "Bash")
	r := c.run(append(args, "--settings", given)...).succeeded()
	if got := denied(r); !slices.Equal(got, []string{"toolu_1"}) {
		t.Errorf("denied: %q", got)
	}
	for mark, want := range map[string]bool{"given-hook": true, "by-rule": true, "project-hook": false, "not-by-rule": false} {
		if _, err := os.Stat(filepath.Join(c.dir, mark)); (err == nil) != want {
			t.Errorf("%s: %v", mark, err)
		}
	}

	out := c.run(append(args, "--settings", given+".gone")...)
	if out.code != 1 || len(out.events) != 0 || !strings.Contains(out.stderr, "Settings file not found") {
		t.Errorf("missing settings\n%s", out)
	}
}
