package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/agent/process"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

func TestMain(m *testing.M) {
	agenttest.RunIfFake()
	if len(os.Args) == 5 && os.Args[1] == superviseMarker {
		supervise(os.Args[2], os.Args[3], os.Args[4])
	}
	os.Exit(m.Run())
}

const superviseMarker = "supervise-one-session"

// supervise runs a session until it is killed: a supervisor in a process of its own.
func supervise(bin, key, dir string) {
	newRunner(claude.Options{Bin: bin}).Run(context.Background(), ops.SessionSpec{
		Session: ops.Session{Key: key, Tier: ops.Tier1}, Prompt: "p", StateDir: dir, Env: testEnv(),
	}, &agenttest.Recorder{})
	os.Exit(0)
}

func testSpec(t testing.TB) ops.SessionSpec {
	t.Helper()
	return agenttest.Spec(t, agent.Sweep)
}

// testEnv is the least that programs need.
func testEnv() []string { return []string{"PATH=" + agent.StandardPath} }

func play(steps ...agenttest.Step) agenttest.Scenario {
	return agenttest.Scenario{Plays: []agenttest.Play{{Steps: steps}}}
}

func say(lines ...string) []agenttest.Step { return agenttest.Lines(lines...) }

func newRunner(o claude.Options) *agent.Runner {
	return agent.NewRunner(claude.New(o), agent.Options{})
}

// runFake runs a scenario and fails the test when anything of the session is left.
func runFake(ctx context.Context, t testing.TB, s agenttest.Scenario, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	t.Helper()
	c := newRunner(claude.Options{Bin: agenttest.Fake(t, s), Env: testEnv()})
	res := c.Run(ctx, spec, rec)
	noneLeft(t, spec.Session.Key)
	return res
}

func noneLeft(t testing.TB, key string) {
	t.Helper()
	processes, group, err := agent.Left(key)
	must(t, err)
	if processes > 0 {
		t.Errorf("%d processes are left", processes)
	}
	if group != "" {
		t.Errorf("the control group %s is left", group)
	}
}

func wantStop(t *testing.T, res ops.RunResult, cause ops.StopCause, class ops.FailureClass) {
	t.Helper()
	if res.Stop != cause || res.Failure != class || res.Success() || res.Err == "" || res.StopWhy == "" {
		t.Errorf("got stop %q, failure %q, error %q, why %q; want stop %q, failure %q",
			res.Stop, res.Failure, res.Err, res.StopWhy, cause, class)
	}
}

func TestAHundredThousandLinesAreAllRecorded(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n /= 5
	}
	rec := &agenttest.Recorder{}
	steps := append(say(agenttest.Init()),
		agenttest.Step{Out: agenttest.Text("line {{n}}. {{pad}}"), Size: 40, Repeat: n},
		agenttest.Step{Out: agenttest.Result(1, "done")})
	res := runFake(t.Context(), t, play(steps...), testSpec(t), rec)
	if !res.Success() {
		t.Fatalf("the session failed: %+v", res)
	}
	if len(rec.All) != n+2 {
		t.Fatalf("recorded %d lines, want %d", len(rec.All), n+2)
	}
	for i, l := range rec.All {
		if l.Seq != int64(i+1) {
			t.Fatalf("line %d has number %d", i, l.Seq)
		}
		if i > 0 && i <= n && !strings.Contains(l.Text, "line "+strconv.Itoa(i)+".") {
			t.Fatalf("line %d is %s", i, l.Text)
		}
	}
	if rec.Batches > n/agent.FlushLines*4 {
		t.Errorf("the lines came in %d batches", rec.Batches)
	}
}

func TestAResultNeedNotBeTheLastLine(t *testing.T) {
	rec := &agenttest.Recorder{}
	steps := append(say(agenttest.Init(), agenttest.Result(0.5, "done")), agenttest.Step{Out: agenttest.Text("after {{n}}"), Repeat: 500})
	steps = append(steps, agenttest.Step{Raw: "the very last words"})
	res := runFake(t.Context(), t, play(steps...), testSpec(t), rec)
	if !res.Success() || res.Text != "done" || len(rec.All) != 503 {
		t.Fatalf("recorded %d lines: %+v", len(rec.All), res)
	}
	if last := rec.All[502].Text; last != "the very last words" {
		t.Errorf("the last line, which has no end, is %q", last)
	}
}

func TestALongLineIsDecodedAndCutInTheRecord(t *testing.T) {
	rec := &agenttest.Recorder{}
	steps := append(say(agenttest.Init()),
		agenttest.Step{Out: agenttest.Text("{{pad}}"), Size: 8 << 20},
		agenttest.Step{Out: strings.Replace(agenttest.Result(0.5, "{{pad}}"), `"subtype"`, `"filling":"{{pad}}","subtype"`, 1), Size: 3 << 20},
		agenttest.Step{Out: "the end"})
	res := runFake(t.Context(), t, play(steps...), testSpec(t), rec)
	if !res.Success() || res.CostUSD == nil || *res.CostUSD != 0.5 {
		t.Fatalf("the session failed: %s %s", res.Failure, res.Err)
	}
	if len(rec.All) != 4 || rec.All[3].Text != "the end" {
		t.Fatalf("recorded %d lines", len(rec.All))
	}
	long := rec.All[1].Text
	if len(long) > agent.MaxRecorded+100 || !strings.HasSuffix(long, "bytes]") || !strings.Contains(long, "x … [cut: ") {
		t.Errorf("the long line was recorded as %d bytes, ending in %q", len(long), long[len(long)-40:])
	}
}

func TestALineWrittenInPiecesIsOneLine(t *testing.T) {
	rec := &agenttest.Recorder{}
	res := runFake(t.Context(), t, play(
		agenttest.Step{Out: agenttest.Init(), Chunk: 7},
		agenttest.Step{Out: agenttest.Result(0.5, "grüße"), Chunk: 1},
	), testSpec(t), rec)
	if !res.Success() || res.Text != "grüße" || len(rec.All) != 2 {
		t.Errorf("recorded %d lines: %+v", len(rec.All), res)
	}
}

func TestTheTailWrittenRightBeforeTheExitIsNotLost(t *testing.T) {
	for range 20 {
		rec := &agenttest.Recorder{}
		res := runFake(t.Context(), t, play(agenttest.Step{Out: agenttest.Text("tail {{n}}"), Repeat: 150}, agenttest.Step{Out: agenttest.Result(0.5, "done")}), testSpec(t), rec)
		if !res.Success() || len(rec.All) != 151 {
			t.Fatalf("recorded %d lines: %+v", len(rec.All), res)
		}
	}
}

func TestSecretsNeverReachTheRecorderOrTheResult(t *testing.T) {
	const secret = "hunter2-hunter2"
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{{
		Steps: []agenttest.Step{
			{Out: agenttest.Init()},
			{Out: agenttest.Text("it is " + secret), Chunk: 3},
			{Out: agenttest.Use("toolu_1", "login "+secret)},
			{Err: "bad login: " + secret},
			{Out: strings.Replace(agenttest.Structured(0.1, "I used "+secret, `{"summary":"`+secret+`"}`),
				`"permission_denials":[]`, `"permission_denials":[{"tool_name":"Bash","tool_use_id":"t","tool_input":{"command":"`+secret+`"}}]`, 1)},
			{Out: agenttest.Use("toolu_2", "login "+secret)},
		},
		Exit: 1,
	}}})
	rec := &agenttest.Recorder{}
	c := agent.NewRunner(claude.New(claude.Options{Bin: bin, Env: testEnv()}), agent.Options{Redactor: redact.New([]string{secret})})
	res := c.Run(t.Context(), testSpec(t), rec)
	all, err := json.Marshal(res)
	must(t, err)
	if strings.Contains(rec.Text(), secret) || strings.Contains(string(all), secret) {
		t.Errorf("the secret is in the record or the result:\n%s\n%s", rec.Text(), all)
	}
	if len(rec.All) != 6 || len(res.Denials) != 1 || string(res.Structured) != `{"summary":"[redacted: secret]"}` {
		t.Errorf("got %+v", res)
	}
	if res.OpenTool != "Bash: login [redacted: secret]" || res.Err != "claude exited with code 1: bad login: [redacted: secret]" {
		t.Errorf("open tool %q, error %q", res.OpenTool, res.Err)
	}
	if !strings.Contains(rec.Text(), `{"type":"stderr","text":"bad login: [redacted: secret]"}`) {
		t.Errorf("the error output is not in the record:\n%s", rec.Text())
	}
}

func TestAGrandchildThatHoldsTheOutputCannotHangTheSession(t *testing.T) {
	for _, child := range []agenttest.Child{
		{Setsid: true, KeepOutput: true},
		{Setsid: true, KeepOutput: true, IgnoreSignals: true},
		{Setsid: true, IgnoreSignals: true},
		{Setsid: true, KeepOutput: true, IgnoreSignals: true, EmptyEnv: true},
	} {
		t.Run(fmt.Sprintf("%+v", child), func(t *testing.T) {
			t.Parallel()
			if child.EmptyEnv && !process.CgroupAvailable() {
				t.Skip("only its control group tells whose it is, which needs root or delegation")
			}
			rec := &agenttest.Recorder{}
			begun := time.Now()
			res := runFake(t.Context(), t, play(append(say(agenttest.Init()), agenttest.Step{Spawn: &child}, agenttest.Step{Out: agenttest.Result(0.5, "done")})...), testSpec(t), rec)
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %v", took)
			}
			if !res.Success() || len(rec.All) != 2 {
				t.Errorf("a result that was read counts: %+v", res)
			}
			if len(res.Warnings) == 0 || !strings.Contains(res.Warnings[0], "left running") {
				t.Errorf("warnings: %q", res.Warnings)
			}
		})
	}
}

func TestWithoutAControlGroupTheSameHoldsByKey(t *testing.T) {
	spec := testSpec(t)
	// A key that cannot name a folder has no control group.
	spec.Session.Key = "no/group/" + spec.Session.Key
	if process.FileNameSafe(spec.Session.Key) {
		t.Fatal("there is a control group")
	}
	begun := time.Now()
	res := runFake(t.Context(), t, agenttest.Scenario{Plays: []agenttest.Play{{OnInterrupt: "ignore", Steps: []agenttest.Step{
		{Spawn: &agenttest.Child{Setsid: true, KeepOutput: true, IgnoreSignals: true}},
		{Spawn: &agenttest.Child{Setsid: true, IgnoreSignals: true, Command: "(trap '' INT TERM; (sleep 600; true); true) & sleep 600"}},
		{Out: agenttest.Result(0.5, "done")},
	}}}}, spec, &agenttest.Recorder{})
	if took := time.Since(begun); took > time.Minute || !res.Success() {
		t.Errorf("after %v: %+v", took, res)
	}
}

func TestADescendantWithoutTheKeyIsKilledWithTheTree(t *testing.T) {
	spec, rec := testSpec(t), agenttest.Waiting("ready")
	spec.Session.Key = "no/group/" + spec.Session.Key
	spec.Limits.Grace = 100 * time.Millisecond
	pidFile := filepath.Join(t.TempDir(), "pid")
	s := agenttest.Scenario{Plays: []agenttest.Play{{OnInterrupt: "ignore", Steps: []agenttest.Step{
		{Spawn: &agenttest.Child{Setsid: true, EmptyEnv: true, IgnoreSignals: true, Command: "echo $$ > " + pidFile + "; while :; do sleep 0.1; done"}},
		{Run: "while [ ! -s " + pidFile + " ]; do sleep 0.01; done"},
		{Out: "ready"},
		{Hang: true},
	}}}}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-rec.Seen
		cancel(ops.Stop(ops.StopUser, "enough"))
	}()
	res := runFake(ctx, t, s, spec, rec)
	wantStop(t, res, ops.StopUser, "stopped")
	data, err := os.ReadFile(pidFile)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	must(t, err)
	if _, alive := agent.Alive(pid); alive {
		t.Errorf("process %d still runs", pid)
	}
}

func TestLimitsStopTheSessionWithTheirCause(t *testing.T) {
	tests := []struct {
		name   string
		limits ops.Limits
		steps  []agenttest.Step
		cause  ops.StopCause
		class  ops.FailureClass
		open   string
	}{
		{
			"wall",
			ops.Limits{Wall: 300 * time.Millisecond, Idle: time.Minute, Tool: time.Minute},
			[]agenttest.Step{{Out: agenttest.Init()}, {Out: "tick", Sleep: 50 * time.Millisecond}, {Hang: true}},
			ops.StopWall, "wall_limit", "",
		},
		{
			"idle",
			ops.Limits{Wall: time.Minute, Idle: 300 * time.Millisecond, Tool: time.Minute},
			[]agenttest.Step{{Out: agenttest.Use("toolu_1", "ls")}, {Out: agenttest.Answer("toolu_1", "ok")}, {Hang: true}},
			ops.StopIdle, "idle", "",
		},
		{
			"tool",
			ops.Limits{Wall: time.Minute, Idle: time.Minute, Tool: 300 * time.Millisecond},
			[]agenttest.Step{{Out: agenttest.Init()}, {Out: agenttest.Use("toolu_1", "sleep 1000")}, {Hang: true}},
			ops.StopTool, "tool_limit", "Bash: sleep 1000",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := testSpec(t)
			tt.limits.Grace = 2 * time.Second
			spec.Limits = tt.limits
			res := runFake(t.Context(), t, play(tt.steps...), spec, &agenttest.Recorder{})
			wantStop(t, res, tt.cause, tt.class)
			if res.OpenTool != tt.open {
				t.Errorf("open tool %q, want %q", res.OpenTool, tt.open)
			}
		})
	}
}

func TestAStoppedSessionSaysWhoStoppedIt(t *testing.T) {
	tests := []struct {
		name   string
		cancel error
		cause  ops.StopCause
		why    string
	}{
		{"user", ops.Stop(ops.StopUser, "stopped by alice"), ops.StopUser, "stopped by alice"},
		{"shutdown", ops.Stop(ops.StopShutdown, ""), ops.StopShutdown, "stopped: shutdown"},
		{"plain", nil, ops.StopShutdown, "the supervisor is shutting down"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rec := agenttest.Waiting("ready")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-rec.Seen
				cancel(tt.cancel)
			}()
			s := agenttest.Scenario{Plays: []agenttest.Play{{
				OnInterrupt: "result",
				Steps:       append(say(agenttest.Init(), agenttest.Use("toolu_1", "sleep 9"), "ready"), agenttest.Step{Hang: true}),
			}}}
			res := runFake(ctx, t, s, testSpec(t), rec)
			wantStop(t, res, tt.cause, "stopped")
			if res.StopWhy != tt.why || !res.ResultRead || *res.ExitCode != 1 {
				t.Errorf("why %q, result read %v, exit %d", res.StopWhy, res.ResultRead, *res.ExitCode)
			}
		})
	}
}

func TestAProgramThatIgnoresTheSignalIsKilledAfterTheGrace(t *testing.T) {
	spec, rec := testSpec(t), agenttest.Waiting("ready")
	spec.Limits.Grace = 300 * time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var asked time.Time
	go func() {
		<-rec.Seen
		asked = time.Now()
		cancel(ops.Stop(ops.StopUser, "enough"))
	}()
	s := agenttest.Scenario{Plays: []agenttest.Play{{OnInterrupt: "ignore", Steps: []agenttest.Step{
		{Spawn: &agenttest.Child{Setsid: true, KeepOutput: true, IgnoreSignals: true}},
		{Out: agenttest.Result(0.1, "done")},
		{Out: "ready"},
		{Hang: true},
	}}}}
	res := runFake(ctx, t, s, spec, rec)
	if took := time.Since(asked); took < spec.Limits.Grace || took > time.Minute {
		t.Errorf("stopping took %v", took)
	}
	wantStop(t, res, ops.StopUser, "stopped")
	if *res.ExitCode != 128+9 || !res.ResultRead {
		t.Errorf("exit %d, result read %v", *res.ExitCode, res.ResultRead)
	}
}

func TestTwoSessionsAreStoppedIndependently(t *testing.T) {
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{{Steps: append(say("ready"), agenttest.Step{Hang: true})}}})
	c := newRunner(claude.Options{Bin: bin, Env: testEnv()})
	type running struct {
		spec   ops.SessionSpec
		rec    *agenttest.Recorder
		cancel context.CancelCauseFunc
		done   chan ops.RunResult
	}
	var both [2]running
	for i := range both {
		r := running{spec: testSpec(t), rec: agenttest.Waiting("ready"), done: make(chan ops.RunResult, 1)}
		ctx, cancel := context.WithCancelCause(t.Context())
		r.cancel = cancel
		go func() { r.done <- c.Run(ctx, r.spec, r.rec) }()
		both[i] = r
	}
	for _, r := range both {
		<-r.rec.Seen
	}
	both[0].cancel(ops.Stop(ops.StopUser, "the first"))
	wantStop(t, <-both[0].done, ops.StopUser, "stopped")
	noneLeft(t, both[0].spec.Session.Key)
	select {
	case res := <-both[1].done:
		t.Fatalf("the other session ended, too: %+v", res)
	default:
	}
	if started, alive := agent.Alive(both[1].rec.PID); !alive || started != both[1].rec.Since {
		t.Error("the other session's process is gone")
	}
	both[1].cancel(ops.Stop(ops.StopShutdown, "the second"))
	wantStop(t, <-both[1].done, ops.StopShutdown, "stopped")
	noneLeft(t, both[1].spec.Session.Key)
}

func TestOutputThatCannotBeStoredStopsTheSession(t *testing.T) {
	for name, steps := range map[string][]agenttest.Step{
		"while it runs": append(say(agenttest.Init()), agenttest.Step{Hang: true}),
		"at its end":    say(agenttest.Init(), agenttest.Result(0.1, "done")),
		"in a flood":    {{Out: agenttest.Text("{{pad}}"), Size: 300, Repeat: 20_000}, {Hang: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := runFake(t.Context(), t, play(steps...), testSpec(t), &agenttest.Recorder{Err: errors.New("disk full")})
			wantStop(t, res, ops.StopJournal, "journal")
			if res.StopWhy != "output could not be stored: disk full" {
				t.Errorf("why %q", res.StopWhy)
			}
		})
	}
}

func TestASessionIsNotStartedWhenItIsAlreadyCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ops.Stop(ops.StopUser, "never mind"))
	bin := agenttest.Fake(t, play(agenttest.Step{Hang: true}))
	res := newRunner(claude.Options{Bin: bin}).Run(ctx, testSpec(t), &agenttest.Recorder{})
	wantStop(t, res, ops.StopUser, "stopped")
	if res.ExitCode != nil || len(agenttest.Calls(t, bin)) != 0 {
		t.Errorf("it ran: %+v", res)
	}
}

func TestTheAgentEndsWhenItsSupervisorIsKilled(t *testing.T) {
	spec := testSpec(t)
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{{OnInterrupt: "result", Steps: []agenttest.Step{{Hang: true}}}}})
	self, err := os.Executable()
	must(t, err)
	supervisor := exec.CommandContext(t.Context(), self, superviseMarker, bin, spec.Session.Key, t.TempDir())
	must(t, supervisor.Start())
	var calls []agenttest.Call
	until(t, "the agent started", func() bool {
		calls = agenttest.Calls(t, bin)
		return len(calls) == 1
	})
	must(t, supervisor.Process.Kill())
	_ = supervisor.Wait()
	until(t, "the agent ended", func() bool {
		_, alive := agent.Alive(calls[0].PID)
		return !alive
	})
	if _, err := agent.Sweep(t.Context(), spec.Session.Key); err != nil {
		t.Error(err)
	}
	noneLeft(t, spec.Session.Key)
}

// until polls for something another process does.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestASupervisorThatIgnoresTheSignalCanStillStopPolitely(t *testing.T) {
	signal.Ignore(os.Interrupt)
	defer signal.Reset(os.Interrupt)
	s := agenttest.Scenario{Plays: []agenttest.Play{{OnInterrupt: "result", Steps: append(say("ready"), agenttest.Step{Hang: true})}}}
	for range 2 {
		rec := agenttest.Waiting("ready")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-rec.Seen
			cancel(ops.Stop(ops.StopUser, "enough"))
		}()
		if res := runFake(ctx, t, s, testSpec(t), rec); *res.ExitCode != 1 || !res.ResultRead {
			t.Errorf("the agent did not hear the signal: exit %d", *res.ExitCode)
		}
	}
}

func TestSomethingOutOfReachThatHoldsTheOutputCannotHangTheSession(t *testing.T) {
	spec, rec := testSpec(t), &agenttest.Recorder{}
	spec.Session.Key = "no/group/" + spec.Session.Key
	pidFile := filepath.Join(t.TempDir(), "pid")
	t.Cleanup(func() {
		data, err := os.ReadFile(pidFile)
		must(t, err)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	})
	begun := time.Now()
	res := runFake(t.Context(), t, play(
		agenttest.Step{Spawn: &agenttest.Child{Setsid: true, KeepOutput: true, EmptyEnv: true, Command: "echo $$ > " + pidFile + "; sleep 600"}},
		agenttest.Step{Run: "while [ ! -s " + pidFile + " ]; do sleep 0.01; done"},
		agenttest.Step{Out: agenttest.Text("{{n}}"), Repeat: 100},
		agenttest.Step{Raw: agenttest.Result(0.5, "done")},
	), spec, rec)
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	if !res.Success() || len(rec.All) != 101 {
		t.Errorf("recorded %d lines: %+v", len(rec.All), res)
	}
}

func TestManySessionsLeaveNothingBehind(t *testing.T) {
	bin := agenttest.Fake(t, play(
		agenttest.Step{Spawn: &agenttest.Child{Setsid: true, IgnoreSignals: true}},
		agenttest.Step{Spawn: &agenttest.Child{Command: "sleep 60 & sleep 60 & exit"}},
		agenttest.Step{Out: agenttest.Result(0.1, "done")},
	))
	c := newRunner(claude.Options{Bin: bin})
	once := func() {
		spec := testSpec(t)
		if res := c.Run(t.Context(), spec, &agenttest.Recorder{}); !res.Success() {
			t.Errorf("the session failed: %+v", res)
		}
		noneLeft(t, spec.Session.Key)
	}
	once()
	files, routines := openFiles(t), runtime.NumGoroutine()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				once()
			}
		})
	}
	all.Wait()
	if now := openFiles(t); now > files+2 {
		t.Errorf("%d files are open, %d were before", now, files)
	}
	until(t, "every goroutine ended", func() bool { return runtime.NumGoroutine() <= routines+2 })
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
