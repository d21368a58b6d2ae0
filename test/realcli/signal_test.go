package realcli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/test/messagesapi"
)

// sleeper is a conversation whose first tool call writes its process id and then sleeps.
func sleeper(req messagesapi.Request) messagesapi.Answer {
	if req.Prompt() != "look around" {
		return messagesapi.Text("end of the resumed run")
	}
	return messagesapi.Bash("toolu_sleep", "echo $$ > pid.new && mv pid.new pid && exec sleep 600")
}

// started is a program under way.
type started struct {
	c              *cli
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

func (c *cli) start(prompt string) *started {
	c.t.Helper()
	s := &started{c: c, cmd: c.command(arguments(prompt, "--session-id", first, "--model", "haiku", "--tools", "Bash", "--allowedTools", "Bash")...)}
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	must(c.t, s.cmd.Start())
	return s
}

// end sends a signal and waits.
func (s *started) end(signal os.Signal) output {
	s.c.t.Helper()
	must(s.c.t, s.cmd.Process.Signal(signal))
	_ = s.cmd.Wait() // the exit code tells
	return s.c.read(s.cmd, s.stdout.Bytes(), s.stderr.String())
}

// tool waits for the tool's process and makes sure it does not outlive the test.
func (c *cli) tool() int {
	c.t.Helper()
	var pid int
	eventually(c.t, "the tool to start", func() bool {
		data, err := os.ReadFile(filepath.Join(c.dir, "pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil && alive(pid)
	})
	c.t.Cleanup(func() {
		if alive(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return pid
}

// written waits for a text in the transcript. A call that is not there yet when the program ends
// is lost, and then the model knows nothing of it.
func (c *cli) written(text string) {
	c.t.Helper()
	eventually(c.t, text+" to be written down", func() bool {
		data, err := os.ReadFile(c.transcript(first))
		return err == nil && bytes.Contains(data, []byte(text))
	})
}

// alive reports whether the process still is the tool's.
func alive(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && strings.HasPrefix(string(line), "sleep\x00600")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("waited too long for %s", what)
		case <-tick.C:
		}
	}
}

func TestCLI_AnInterruptEndsTheProgramAndItsTool(t *testing.T) {
	t.Parallel()
	c := newCLI(t, sleeper)
	run := c.start("look around")
	tool := c.tool()
	c.written("toolu_sleep")
	out := run.end(os.Interrupt)
	// The exit code may be that of a success, and now and then there is no result.
	if out.code != 0 && out.code != 1 {
		t.Errorf("exit code %d", out.code)
	}
	if len(out.all("result", "")) > 0 {
		if r := out.result(); !r.IsError || r.Subtype != "error_during_execution" || r.Reason != "aborted_tools" {
			t.Errorf("result: %+v", r)
		}
	}
	eventually(t, "the tool to end", func() bool { return !alive(tool) })

	// The model is told that the call was rejected, although it had begun.
	c.fork(first, second, "go on", "haiku", "Bash", snapshotOff...).succeeded()
	got, ok := c.last().Result("toolu_sleep")
	if !ok || !strings.Contains(got.Text, "The tool use was rejected") && !strings.Contains(got.Text, "its outcome is unknown") {
		t.Errorf("the call answered %+v", got)
	}
}

func TestCLI_AnInterruptWhileTheModelThinksIsNoSuccess(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.InOrder(messagesapi.Hang()))
	run := c.start("look around")
	eventually(t, "the call of the model", func() bool { return len(c.api.Requests()) == 1 })
	out := run.end(os.Interrupt)
	for _, e := range out.all("result", "success") {
		t.Errorf("a result of success: %s", e.Raw)
	}
}

func TestCLI_ATerminationLeavesNoResultAndEndsTheTool(t *testing.T) {
	t.Parallel()
	c := newCLI(t, sleeper)
	run := c.start("look around")
	tool := c.tool()
	out := run.end(syscall.SIGTERM)
	if out.code != 143 || len(out.all("result", "")) != 0 {
		t.Errorf("exit code %d\n%s", out.code, out)
	}
	eventually(t, "the tool to end", func() bool { return !alive(tool) })
}

func TestCLI_AfterAKillTheToolRunsOnAndTheModelIsTold(t *testing.T) {
	t.Parallel()
	c := newCLI(t, sleeper)
	run := c.start("look around")
	tool := c.tool()
	c.written("toolu_sleep")
	out := run.end(os.Kill)
	if out.code != -1 || len(out.all("result", "")) != 0 {
		t.Errorf("exit code %d\n%s", out.code, out)
	}
	if !alive(tool) {
		t.Error("the tool ended with the program")
	}
	if group, err := syscall.Getpgid(tool); err != nil || group != tool {
		t.Errorf("the tool's process group is %d, %v", group, err)
	}
	if n := len(lines(t, c.readTranscript(first), "cost-state")); n != 0 {
		t.Errorf("the transcript tells the cost %d times", n)
	}

	r := c.fork(first, second, "go on", "haiku", "Bash", snapshotOff...).succeeded()
	got, ok := c.last().Result("toolu_sleep")
	if !ok || !strings.Contains(got.Text, "its outcome is unknown") {
		t.Errorf("the call answered %+v", got)
	}
	if r.Text != "end of the resumed run" {
		t.Errorf("result: %+v", r)
	}
}
