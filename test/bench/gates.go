package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const gateCalls = 300

// gateTimes are how many milliseconds each question took.
type gateTimes struct{ hooks, asked, shells []float64 }

// askGates runs a session and asks both its gates about a number of commands.
func (b *bench) askGates(name string, env ...string) (t gateTimes, err error) {
	seen, end := filepath.Join(b.dir, name+"-seen"), filepath.Join(b.dir, name+"-end")
	// An agent that shows what it was given and waits.
	agent, err := b.agent("for a; do [ \"$before\" = --settings ] && cp \"$a\" " + seen + ".json; before=$a; done\n" +
		"echo \"$CLAUDE_CODE_SHELL_PREFIX ${TMPDIR:-/tmp}\" > " + seen + ".tmp && mv " + seen + ".tmp " + seen + "\n" +
		"while [ ! -e " + end + " ]; do sleep 0.05; done\n" + result + "\n")
	if err != nil {
		return t, err
	}
	d := must(b.start(agent, filepath.Join(b.dir, name), env...))
	defer d.stop()
	defer func() { _ = os.WriteFile(end, nil, 0o600) }()
	told := must(waitFor(seen))
	prefix, temp, _ := strings.Cut(told, " ")
	socket := filepath.Join(filepath.Dir(prefix), "gate.sock")
	for i := range gateCalls {
		command := fmt.Sprintf("echo look-%d", i)
		input, err := json.Marshal(map[string]any{
			"hook_event_name": "PreToolUse", "cwd": b.dir, "tool_name": "Bash", "tool_use_id": fmt.Sprintf("toolu_%d", i),
			"tool_input": map[string]string{"command": command},
		})
		if err != nil {
			return t, err
		}
		took, out, err := timed(bytes.NewReader(input), b.binary, "guard", "hook", socket)
		if err != nil || !strings.Contains(out, `"allow"`) {
			return t, fmt.Errorf("ask hook: %w: %s", err, out)
		}
		t.hooks = append(t.hooks, took)
		took = must(ask(socket, bytes.Replace(input, []byte("toolu_"), []byte("toolu_again_"), 1)))
		t.asked = append(t.asked, took)
		took, out, err = timed(nil, prefix, "eval '"+command+"' < /dev/null && pwd -P >| "+temp+"/claude-0bench-cwd")
		if err != nil || !strings.Contains(out, fmt.Sprintf("look-%d", i)) {
			return t, fmt.Errorf("ask shell: %w: %s", err, out)
		}
		t.shells = append(t.shells, took)
	}
	_ = os.Remove(temp + "/claude-0bench-cwd")
	return t, nil
}

// ask puts the question of a hook over the socket itself and returns how many milliseconds the answer took.
func ask(socket string, input json.RawMessage) (ms float64, err error) {
	line := must(json.Marshal(map[string]any{"kind": "hook", "input": input}))
	begun := time.Now()
	conn, err := net.Dial("unix", socket) //nolint:noctx // a socket beside it
	if err != nil {
		return 0, fmt.Errorf("ask gate: %w", err)
	}
	defer conn.Close() //nolint:errcheck // the answer was read
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return 0, fmt.Errorf("ask gate: %w", err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(answer, `"allow"`) {
		return 0, fmt.Errorf("ask gate: %w: %s", err, answer)
	}
	return float64(time.Since(begun).Microseconds()) / 1000, nil
}

// timed runs a program to its end and returns how many milliseconds that took.
func timed(stdin *bytes.Reader, path string, args ...string) (ms float64, out string, err error) {
	c := exec.Command(path, args...) //nolint:gosec,noctx // the program under measure
	c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	if stdin != nil {
		c.Stdin = stdin
	}
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	begun := time.Now()
	err = c.Run()
	return float64(time.Since(begun).Microseconds()) / 1000, text.String(), err
}

func waitFor(file string) (string, error) {
	for begun := time.Now(); time.Since(begun) < 20*time.Second; <-time.After(10 * time.Millisecond) {
		if raw, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(raw)), nil
		}
	}
	return "", errors.New("the agent was not started behind its gates")
}

func quantiles(ms []float64) string {
	slices.Sort(ms)
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (%d calls)", ms[len(ms)/2], ms[len(ms)*99/100], len(ms))
}

func middle(ms []float64) float64 {
	slices.Sort(ms)
	return ms[len(ms)/2]
}

func milliseconds(since time.Time) float64 { return inMilliseconds(time.Since(since)) }

func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
