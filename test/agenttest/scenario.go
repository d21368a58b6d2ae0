// Package agenttest is a fake agent CLI for tests: a program that speaks the protocol of Claude Code
// and plays what a test tells it to. The program is the test binary itself, started through a small
// script, so a test package that uses it calls RunIfFake first thing in its TestMain.
package agenttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Scenario is what the fake does when it is run, once or several times.
type Scenario struct {
	// Version is what --version prints; "2.1.325 (Claude Code)" when empty.
	Version string
	// NoVersion makes --version fail.
	NoVersion bool
	// Plays are what the runs do. The first that fits the run is played.
	Plays []Play
}

// Play is one run.
type Play struct {
	Tier    int    // 0 fits every tier
	Attempt int    // the number of the run of the tier in the role, from 1; 0 fits every one
	Role    string // empty is work
	Handler string // empty fits every handler
	Cycle   int    // 0 fits every cycle
	Steps   []Step
	// Handoff is written to handoff.json in the state folder after the steps; empty writes nothing.
	Handoff string
	Exit    int
	// OnInterrupt is what SIGINT does: nothing special ("": it ends the fake), "ignore", "result":
	// print a result that tells of the interruption and exit 1, as the real CLI does inside a tool, or
	// "boundary": the same as soon as no tool call is open.
	OnInterrupt string
}

// Step is one thing a run does. In texts {{session_id}}, {{model}}, {{tier}}, {{n}} (the number of
// the repetition) and {{pad}} (Size bytes of filling) are replaced.
type Step struct {
	Out    string // a line on standard output
	Raw    string // the same without an end of line
	Err    string // a line on the error output
	Repeat int    // how often, 1 when 0
	Size   int    // bytes of {{pad}}
	Chunk  int    // write in pieces of this many bytes instead of at once
	Sleep  time.Duration
	Hang   bool   // never go on
	Spawn  *Child // leave a process behind
	Run    string // a shell command to run and wait for, its output on the error output
}

// Child is a process the fake starts and does not wait for. It ends by itself after a minute.
type Child struct {
	Setsid        bool   // in a POSIX session of its own, as the shell tool does
	KeepOutput    bool   // with the fake's standard output
	IgnoreSignals bool   // SIGINT, SIGTERM and SIGHUP
	EmptyEnv      bool   // without any environment
	Command       string // what it does instead of sleeping for ten minutes
}

// Call is one run of the fake as it saw it.
type Call struct {
	Args    []string // without the name of the program
	Env     []string
	Dir     string
	Stdin   string
	PID     int
	Tier    int
	Role    string
	Handler string
	Cycle   int
	Attempt int
}

// Option returns the value behind an option, and whether it was given.
func (c Call) Option(name string) (string, bool) {
	for i, arg := range c.Args {
		if arg == name && i+1 < len(c.Args) {
			return c.Args[i+1], true
		}
	}
	return "", false
}

// Var returns a variable of the environment, and whether it was set.
func (c Call) Var(name string) (string, bool) {
	for _, entry := range c.Env {
		if len(entry) > len(name) && entry[:len(name)] == name && entry[len(name)] == '=' {
			return entry[len(name)+1:], true
		}
	}
	return "", false
}

const (
	marker       = "agenttest-fake-cli"
	scenarioFile = "scenario.json"
	callsFolder  = "calls"
	programName  = "claude"
	raceOption   = "GORACE=atexit_sleep_ms=0"
)

// Fake writes a program that plays the scenario and returns its path.
func Fake(tb testing.TB, s Scenario) (bin string) {
	tb.Helper()
	dir := tb.TempDir()
	data, err := json.Marshal(s)
	if err != nil {
		tb.Fatalf("write scenario: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatalf("find test binary: %v", err)
	}
	// Behind walls an agent sees of the disk the folder of its program.
	if beside := filepath.Join(dir, "self"); os.Link(self, beside) == nil {
		self = beside
	}
	// The test binary is slow to start, so the script tells the version itself. Under the race detector a program sleeps a
	// second before it exits, unless it is told not to.
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = --version ]; then\n%s\nfi\n%s exec '%s' %s '%s' \"$@\"\n",
		s.tellVersion(), raceOption, self, marker, dir)
	bin = filepath.Join(dir, programName)
	if err := os.Mkdir(filepath.Join(dir, callsFolder), 0o700); err != nil {
		tb.Fatalf("make folder: %v", err)
	}
	for name, text := range map[string]string{filepath.Join(dir, scenarioFile): string(data), bin: script} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			tb.Fatalf("write %s: %v", name, err)
		}
	}
	return bin
}

// tellVersion is the part of the script that answers when it is asked for the version.
func (s Scenario) tellVersion() string {
	if s.NoVersion {
		return "exit 1"
	}
	text := cmp.Or(s.Version, "2.1.325 (Claude Code)")
	return "printf '%s\\n' '" + strings.ReplaceAll(text, "'", `'"'"'`) + "'; exit 0"
}

// Calls returns the runs of a fake so far, in order. Asking for its version does not count.
func Calls(tb testing.TB, bin string) []Call {
	tb.Helper()
	calls, err := readCalls(filepath.Join(filepath.Dir(bin), callsFolder))
	if err != nil {
		tb.Fatalf("read calls: %v", err)
	}
	return calls
}

func readCalls(dir string) ([]Call, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var calls []Call
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var c Call
		if err := json.Unmarshal(data, &c); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		calls = append(calls, c)
	}
	return calls, nil
}
