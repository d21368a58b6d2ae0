package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/agent/process"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/loopback"
	"claudeops/test/testtoken"
)

// stubborn is a session that hangs in a tool with a child of its own that ignores every polite signal.
func stubborn(ignore bool) agenttest.Play {
	p := agenttest.Play{Steps: append(agenttest.Lines(agenttest.Init(), agenttest.Use("toolu_1", "sleep 600")), agenttest.Step{
		Spawn: &agenttest.Child{Setsid: true, KeepOutput: true, IgnoreSignals: true},
	}, agenttest.Step{Hang: true})}
	if ignore {
		p.OnInterrupt = "ignore"
	}
	return p
}

// Every session of a chain gets walls and folders of its own, and none of its processes, control groups or folders outlives it.
func TestEverySessionRunsBehindItsOwnWalls(t *testing.T) {
	t.Parallel()
	seen := filepath.Join(t.TempDir(), "seen")
	// It tries to write to what is not its own, and uses what is.
	second := with(agenttest.Healthy(0.1), func(p *agenttest.Play) {
		p.Steps = append([]agenttest.Step{{Run: `for f in /etc/passwd "$CLAUDEOPS_STATE_DIR/canary" "$CLAUDEOPS_STATE_DIR/claudeops.db"; do ` +
			`if [ -e "$f" ] && (: >> "$f") 2>/dev/null; then echo "can write $f"; fi; done > ` + seen + `; ` +
			`for d in "$TMPDIR" "$PWD" "$HOME"; do touch "$d/x" || echo "cannot write $d"; done >> ` + seen + `; ` +
			`cat "$CLAUDEOPS_STATE_DIR/cooldown.json" >> ` + seen}}, p.Steps...)
	})
	b := newBox(t, plays(agenttest.Escalates(1, 0.03, "jellyfin"), tier(2, second)))
	b.once(0)
	sessions := b.cycle().Journal.Sessions
	if len(sessions) != 2 || sessions[0].Key == sessions[1].Key {
		t.Fatalf("the sessions are %+v", sessions)
	}
	for _, s := range sessions {
		if !b.wallsHold(s.ID) {
			t.Errorf("it is not recorded that the walls of session %d hold", s.ID)
		}
		if g := process.FindCgroup(s.Key); g != nil {
			t.Errorf("a control group is left: %s", g.Path)
		}
	}
	if raw, err := os.ReadFile(seen); err != nil || strings.Contains(string(raw), " write ") || !strings.Contains(string(raw), `"cooldowns"`) {
		t.Errorf("the second session saw %s, %v", raw, err)
	}
	if home, _ := b.calls()[1].Var("HOME"); home != filepath.Join(b.state, "agent", "home") {
		t.Errorf("its home is %s", home)
	}
	if _, err := os.Lstat(filepath.Join(b.state, "agent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folders of a session are left: %v", err)
	}
	b.nothingLeft()
	b.noHandoff()
}

// wallsHold reports whether it is recorded that the walls of a session hold.
func (b *box) wallsHold(id ops.SessionID) (found bool) {
	b.read(func(s *store.Store) {
		session, err := s.Journal.Session(b.t.Context(), id)
		must(b.t, err)
		found = strings.HasPrefix(session.Walls, "they hold: ")
	})
	return found
}

func TestStoppingASessionLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(stubborn(false)))
	d := b.ready()
	d.until("a session runs", func() bool { return len(b.calls()) == 1 && b.cycle().Journal.Last().Status == ops.SessionRunning })
	if r := b.run("sessions", "stop", "1"); r.code != 0 {
		t.Fatalf("stop exits %d: %s", r.code, r.stderr)
	}
	d.until("the cycle is cancelled", func() bool { return b.cycle().Cycle.Status == ops.CycleCancelled })
	s := b.cycle().Journal.Sessions[0]
	if s.Status != ops.SessionCancelled || s.StopCause != ops.StopUser {
		t.Errorf("session %s by %s", s.Status, s.StopCause)
	}
	b.nothingLeft()
	if r := b.run("sessions", "stop", "1"); r.code != 5 {
		t.Errorf("a late stop exits %d", r.code)
	}
	if r := b.run("cycles", "cancel", "99"); r.code != 4 {
		t.Errorf("cancelling an unknown cycle exits %d", r.code)
	}
}

// Everything is stopped by one command: the agent that runs ends, nothing starts any more, also after a restart, and one command takes
// it back.
func TestStopEndsAgentsAndHoldsUntilItIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(stubborn(false)))
	d := b.ready()
	d.until("a session runs", func() bool { return len(b.calls()) == 1 && b.cycle().Journal.Last().Status == ops.SessionRunning })
	if r := b.run("stop", "--reason", "somebody works on the switch"); r.code != 0 {
		t.Fatalf("stop exits %d: %s", r.code, r.stderr)
	}
	d.until("the cycle is cancelled", func() bool { return b.cycle().Cycle.Status == ops.CycleCancelled })
	b.nothingLeft()
	if r := b.run("stop"); r.code != 5 {
		t.Errorf("a second stop exits %d: %s", r.code, r.stderr)
	}
	if r := b.run("status"); !strings.HasPrefix(r.stdout, "Stopped ") || !strings.Contains(r.stdout, "somebody works on the switch") {
		t.Errorf("status begins\n%s", r.stdout)
	}
	contains(t, "doctor", b.run("doctor").stdout, "!  ready", "Claude Ops is stopped by", "claudeops resume")
	if _, page := d.get("/"); !strings.Contains(page, "somebody works on the switch") || !strings.Contains(page, `action="/resume"`) {
		t.Error("the page does not say it")
	}
	if r := b.run("run", "look"); r.code != 7 || !strings.Contains(r.stderr, "claudeops resume") {
		t.Errorf("run exits %d: %s", r.code, r.stderr)
	}
	d.stop()
	if r := b.run("once"); r.code != 7 {
		t.Errorf("once exits %d: %s", r.code, r.stderr)
	}
	if r := b.run("resume"); r.code != 0 {
		t.Errorf("resume exits %d: %s", r.code, r.stderr)
	}
	if r := b.run("resume"); r.code != 5 {
		t.Errorf("a second resume exits %d: %s", r.code, r.stderr)
	}
	if n := len(b.calls()); n != 1 {
		t.Errorf("%d agents were started", n)
	}
}

func TestShutdownIsBoundedAndRecorded(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(stubborn(true)))
	d := b.ready()
	d.until("a session runs", func() bool { return len(b.calls()) == 1 && b.cycle().Journal.Last().Status == ops.SessionRunning })
	if code := d.stop(); code != 0 {
		t.Errorf("serve exited %d\n%s", code, d.log)
	}
	c := b.cycle()
	if s := c.Journal.Sessions[0]; s.Status != ops.SessionInterrupted || s.StopCause != ops.StopShutdown {
		t.Errorf("session %s by %s", s.Status, s.StopCause)
	}
	if c.Cycle.Status != ops.CycleQueued {
		t.Errorf("the cycle is %s", c.Cycle.Status)
	}
	b.nothingLeft()
	if _, err := os.Lstat(filepath.Join(b.state, "control.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("control.sock is left: %v", err)
	}
}

func TestAKilledDaemonsSessionIsClearedByTheNext(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(with(stubborn(true), func(p *agenttest.Play) { p.Attempt = 1 }), agenttest.Healthy(0.01)))
	d := b.ready()
	d.until("a session runs", func() bool { return len(b.calls()) == 1 && b.cycle().Journal.Last().Status == ops.SessionRunning })
	must(t, d.cmd.Process.Kill())
	<-d.done
	d.done <- nil
	d2 := b.ready()
	d2.until("the cycle is finished", func() bool { return b.ended(1) })
	c := b.cycle()
	if c.Cycle.ID != 1 || c.Cycle.Status != ops.CycleHealthy {
		t.Errorf("cycle %d ended %s: %s", c.Cycle.ID, c.Cycle.Status, c.Cycle.Reason)
	}
	if s := c.Journal.Sessions[0]; s.Status != ops.SessionInterrupted || s.StopCause != ops.StopCrash {
		t.Errorf("session %s by %s", s.Status, s.StopCause)
	}
	b.nothingLeft()
}

func TestOneDaemonPerStateFolder(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	d := b.ready()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := exec.Command(program, "once")
			c.Env = b.env
			out, err := c.CombinedOutput()
			if err == nil || c.ProcessState.ExitCode() != 5 || !strings.Contains(string(out), "in use by pid") {
				t.Errorf("a second one exits %d: %s", c.ProcessState.ExitCode(), out)
			}
		})
	}
	wg.Wait()
	if r := b.runWith([]string{"CLAUDEOPS_LISTEN=" + d.addr}, "serve"); r.code != 5 || !strings.Contains(r.stderr, fmt.Sprintf("already running: %s is in use by pid %d on ", b.state, d.cmd.Process.Pid)) {
		t.Errorf("a second serve exits %d: %s", r.code, r.stderr)
	}
}

// A drain can be undone, and /readyz says that a host drains.
func TestADrainCanBeUndone(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	d := b.ready()
	if r := b.run("hosts", "drain"); r.code != 0 || !strings.Contains(r.stderr, "claudeops hosts resume") {
		t.Fatalf("drain exits %d: %s", r.code, r.stderr)
	}
	d.until("it says that it drains", func() bool {
		code, body := d.get("/readyz")
		return code == 200 && strings.Contains(body, `"draining"`)
	})
	if r := b.run("healthcheck", "--listen", d.addr); r.code != 0 || r.stdout != "draining\n" {
		t.Errorf("healthcheck exits %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r := b.run("run", "--detach", "look")
	if r.code != 0 {
		t.Fatalf("run exits %d: %s", r.code, r.stderr)
	}
	if r := b.run("hosts", "resume"); r.code != 0 || !strings.Contains(r.stderr, "takes cycles again") {
		t.Fatalf("resume exits %d: %s", r.code, r.stderr)
	}
	d.until("the cycle that waited ends", func() bool { c, ok := b.newest(); return ok && c.Cycle.Status.Ended() })
	if _, body := d.get("/readyz"); !strings.Contains(body, `"ready"`) {
		t.Errorf("after the resume: %s", body)
	}
}

func TestAPortInUseStartsNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	taken := b.ready()
	other := emptyBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_LISTEN="+taken.addr)
	r := other.run("serve")
	if r.code != 5 || !strings.Contains(r.stderr, "in use") || !strings.Contains(r.stderr, "CLAUDEOPS_LISTEN") {
		t.Errorf("serve exits %d: %s", r.code, r.stderr)
	}
	if entries, err := os.ReadDir(other.state); err != nil || len(entries) != 0 {
		t.Errorf("something was started: %v %v", entries, err)
	}
}

func TestBadStateFoldersAndDatabases(t *testing.T) {
	t.Parallel()
	t.Run("corrupt", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, plays(agenttest.Healthy(0.01)))
		must(t, os.WriteFile(filepath.Join(b.state, "claudeops.db"), []byte(strings.Repeat("garbage ", 1000)), 0o600))
		r := b.run("once")
		if r.code != 1 || !strings.Contains(r.stderr, "claudeops.db") || !strings.Contains(r.stderr, "backup") || len(b.calls()) != 0 {
			t.Errorf("once exits %d: %s", r.code, r.stderr)
		}
	})
	t.Run("newer", func(t *testing.T) {
		t.Parallel()
		b := emptyBox(t, plays(agenttest.Healthy(0.01)))
		b.once(0)
		raise(t, filepath.Join(b.state, "claudeops.db"))
		r := b.run("once")
		if r.code != 1 || !strings.Contains(r.stderr, "newer") || len(b.calls()) != 1 {
			t.Errorf("once exits %d: %s", r.code, r.stderr)
		}
	})
	t.Run("not a folder", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, plays(agenttest.Healthy(0.01)))
		file := filepath.Join(b.state, "file")
		must(t, os.WriteFile(file, nil, 0o600))
		r := b.runWith([]string{"CLAUDEOPS_STATE_DIR=" + file}, "once")
		if r.code == 0 || !strings.Contains(r.stderr, "CLAUDEOPS_STATE_DIR") {
			t.Errorf("once exits %d: %s", r.code, r.stderr)
		}
	})
}

func TestNoAgentOnTheMachine(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_CLAUDE_BIN=claude-is-not-here")
	r := b.run("once")
	if r.code != 8 || !strings.Contains(r.stdout+r.stderr, "npm install -g @anthropic-ai/claude-code") {
		t.Errorf("once exits %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
	contains(t, "the last line of once", lastLine(r.stdout), "To do: ", "npm install -g @anthropic-ai/claude-code", "set CLAUDEOPS_CLAUDE_BIN")
	r = b.run("doctor")
	if r.code != 1 || !strings.Contains(r.stdout, "claude-is-not-here") || !strings.Contains(r.stdout, "npm install") {
		t.Errorf("doctor exits %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
	d := b.ready()
	d.until("the log says what to set", func() bool {
		return strings.Contains(d.log.String(), "agents may not be able to run") && strings.Contains(d.log.String(), "set CLAUDEOPS_CLAUDE_BIN")
	})
}

// A wrong or missing key is named by once, by the log and by doctor.
func TestAWrongKeyIsNamed(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Play{
		Steps: []agenttest.Step{{Out: `{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key · Please run /login","num_turns":1,"duration_ms":10}`}},
		Exit:  1,
	}))
	r := b.run("once")
	for what, line := range map[string]string{"once": lastLine(r.stdout), "the log": lastLine(r.stderr), "doctor": b.run("doctor").stdout} {
		contains(t, what, line, "Set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN")
	}
	if strings.Contains(r.stderr, "keeper") {
		t.Errorf("the keeper found a session that had ended:\n%s", r.stderr)
	}
	if r.code != 8 {
		t.Errorf("once exits %d", r.code)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestRunBesideADaemon(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.02)))
	d := b.ready()
	d.until("the first cycle has ended", func() bool { return b.ended(1) })
	r := b.run("run", "look at the certificates")
	if r.code != 0 || !strings.Contains(r.stdout, "Cycle #2") {
		t.Fatalf("run exits %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
	prompt, _ := b.calls()[1].Option("-p")
	contains(t, "Tier 1's prompt", prompt, "look at the certificates")
	if got := b.cycle().Cycle.Trigger; got != ops.TriggerManual {
		t.Errorf("trigger is %s", got)
	}
	code, body := d.post("/api/v1/cycles", map[string]any{"prompt": "and the disks"})
	if code != http.StatusAccepted || body["id"] != 3.0 {
		t.Fatalf("POST answers %d: %v", code, body)
	}
	d.until("the third cycle has ended", func() bool { return b.ended(3) })
	if code, _ := d.post("/api/v1/cycles", map[string]any{"tier": 3}); code < 400 {
		t.Errorf("a body that chooses a tier is answered %d", code)
	}
}

func TestSeveralEnvironmentsSideBySide(t *testing.T) {
	t.Parallel()
	hang := agenttest.Play{Steps: append(agenttest.Lines(agenttest.Init()), agenttest.Step{Hang: true})}
	b := newBox(t, plays(hang))
	file := filepath.Join(t.TempDir(), "claudeops.yaml")
	must(t, os.WriteFile(file, []byte("environments:\n  - name: default\n  - name: lab\n"), 0o600))
	b.env = append(b.env, "CLAUDEOPS_CONFIG="+file)
	d := b.ready()
	d.until("both run", func() bool { return len(b.calls()) == 2 })
	folders := map[string]bool{}
	for _, c := range b.calls() {
		dir, _ := c.Var("CLAUDEOPS_STATE_DIR")
		folders[dir] = true
	}
	if !folders[b.state] || !folders[filepath.Join(b.state, "env", "lab")] {
		t.Errorf("state folders are %v", folders)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("serve exits %d", code)
	}
	b.nothingLeft()
}

func TestTheAgentsEnvironmentIsItsOwn(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_API_TOKEN=a-very-secret-token-of-ours", "SECRET_OF_THE_HOST=x", "ANTHROPIC_API_KEY=key-for-the-agent-1234")
	b.once(0)
	call := b.calls()[0]
	env := strings.Join(call.Env, "\n")
	for _, bad := range []string{"a-very-secret-token-of-ours", "SECRET_OF_THE_HOST"} {
		if strings.Contains(env, bad) {
			t.Errorf("the agent sees %s", bad)
		}
	}
	for name, want := range map[string]string{
		"CLAUDEOPS_STATE_DIR": b.state, "CLAUDEOPS_TIER": "1", "CLAUDEOPS_CYCLE_ID": "1",
		"CLAUDEOPS_SESSION_ID": "1", "CLAUDEOPS_DRY_RUN": "false",
	} {
		if got, _ := call.Var(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if key, _ := call.Var("ANTHROPIC_API_KEY"); !strings.HasPrefix(key, "claudeops-session-") || strings.Contains(env, "key-for-the-agent-1234") {
		t.Errorf("the key is inside the session: %q", key)
	}
	if home, _ := call.Var("HOME"); !strings.HasPrefix(home, b.state) {
		t.Errorf("HOME is %s", home)
	}
	if call.Dir != filepath.Join(b.state, "work") {
		t.Errorf("the working folder is %s", call.Dir)
	}
}

func TestSecretsDoNotReachTheDatabase(t *testing.T) {
	t.Parallel()
	secret := "s3cr3t/value+with=signs"
	b := newBox(t, plays(agenttest.Play{
		Steps:   agenttest.Lines(agenttest.Init(), agenttest.Text("the key is "+secret), agenttest.Use("toolu_1", "echo "+secret), agenttest.Answer("toolu_1", secret), agenttest.Result(0.01, secret)),
		Handoff: strings.Replace(agenttest.Handoff(2, "web"), "connection refused", secret, 1),
	}), "ANTHROPIC_API_KEY="+secret, "CLAUDEOPS_MAX_TIER=1")
	r := b.run("once")
	for _, out := range []string{r.stdout, r.stderr} {
		if strings.Contains(out, secret) {
			t.Errorf("the secret is printed:\n%s", out)
		}
	}
	files, err := filepath.Glob(filepath.Join(b.state, "claudeops.db*"))
	must(t, err)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		must(t, err)
		if strings.Contains(string(raw), secret) {
			t.Errorf("%s holds the secret", filepath.Base(f))
		}
	}
	b.read(func(s *store.Store) {
		lines, err := s.Journal.Transcript(context.Background(), 1, 0, 100)
		if err != nil || len(lines) != 5 || !strings.Contains(lines[1].Text, "[redacted: secret]") {
			t.Errorf("the transcript is %v, %v", lines, err)
		}
	})
}

func TestDeniedToolsAreEvents(t *testing.T) {
	t.Parallel()
	result := strings.Replace(agenttest.Result(0.01, "ok"), `"permission_denials":[]`,
		`"permission_denials":[{"tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"docker restart web"}}]`, 1)
	b := newBox(t, plays(agenttest.Play{Steps: agenttest.Lines(agenttest.Init(), result)}))
	b.once(0)
	found := false
	for _, e := range b.events(ops.LevelWarning) {
		found = found || (e.Kind() == "permission" && strings.Contains(e.Message.Words(), "docker restart web"))
	}
	if !found {
		t.Errorf("events: %+v", b.events(ops.LevelWarning))
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(stubborn(false)))
	if r := b.run("once", "--timeout", "4s"); r.code != 124 {
		t.Errorf("once exits %d: %s", r.code, r.stderr)
	}
	b.nothingLeft()
	if got := b.cycle().Cycle.Status; got != ops.CycleQueued {
		t.Errorf("the cycle is %s", got)
	}
}

func demoBox(t *testing.T) *box {
	t.Helper()
	return &box{t: t, state: privateFolder(t), env: []string{
		quickExit, "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + shortTemp(t), "CLAUDEOPS_DEMO_PACE=0",
	}}
}

func TestTheDemoRepairsARealService(t *testing.T) {
	t.Parallel()
	b := demoBox(t)
	r := b.run("demo", "--once", "--keep")
	if r.code != 0 {
		t.Fatalf("demo exits %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	contains(t, "the chain", r.stdout, "Tier 1", "haiku", "$0.02", "Tier 2", "sonnet", "$0.31", "Tier 3", "opus", "$1.20", "Total: $1.53", "resolved", "confirmed by our own probes",
		"Actions:", "rebuild-cache of mediabox", "by session #2", "undone", "player: healthy → down",
		"undo of #1", "by claudeops", "player: down → healthy",
		"restore-config of mediabox", "by session #3", "mediabox: down → healthy", "why: the upstream in service.conf is wrong")
	contains(t, "the progress", r.stderr, "Now its configuration is broken", "mediabox is down", "It is being undone", "restore-config of mediabox")

	// The first agent that a stranger sees found what it says: no call of it fails or is refused, and each shows its evidence.
	_, rest, _ := strings.Cut(r.stderr, "state folder: ")
	kept, _, _ := strings.Cut(rest, "\n")
	defer func() { must(t, os.RemoveAll(kept)) }()
	var all string
	for id := range 3 {
		all += b.run("--state-dir", filepath.Join(kept, "state"), "sessions", "logs", fmt.Sprint(id+1)).stdout
	}
	for line := range strings.Lines(all) {
		if words := strings.Fields(line); len(words) > 1 && words[1] == "failed" {
			t.Errorf("a call of the demo fails: %s", line)
		}
	}
	contains(t, "the sessions", all, "502 Bad Gateway", "the library does not answer", "connection refused", "upstream = 127.0.0.1:1", "200 OK")
}

func TestAnInterruptedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	b := demoBox(t)
	c := exec.Command(program, "demo", "--listen", loopback.FreeAddress(t))
	log := &loopback.Output{}
	c.Env, c.Stderr = b.env, log
	must(t, c.Start())
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for _, said := range []string{"Ctrl-C ends the demo", "ending the demo"} {
		for end := time.Now().Add(patience); !strings.Contains(log.String(), said); <-time.After(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the demo does not say %q\n%s", said, log.String())
			}
		}
		_ = c.Process.Signal(os.Interrupt) // the second one is an impatient person's, and may find it ended
	}
	<-done
	if code := c.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the demo exits %d\n%s", code, log.String())
	}
}

// shortTemp is a folder whose path leaves room for a socket.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "co") //nolint:usetesting // the path of t.TempDir is too long for a socket
	must(t, err)
	t.Cleanup(func() {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 0 {
			t.Errorf("the demo left %v, %v", entries, err)
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// What the program may take, in MB: a tenth more than the 48 that were measured at rest, and a little more than the file has now. The goal
// for the file is 30, which it misses; docs/benchmarks.md says why.
const (
	largestProgram = 43.9
	largestIdle    = 52.8
)

// TestTheProgramStaysSmall builds the program as it is delivered and looks at it when it has nothing to do.
func TestTheProgramStaysSmall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "claudeops")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "claudeops/cmd/claudeops")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(path)
	must(t, err)
	if size := float64(info.Size()) / 1e6; size > largestProgram {
		t.Errorf("the program has %.1f MB; the limit is %.1f MB", size, largestProgram)
	}

	idle := idleMemory(t, path)
	t.Logf("program %.1f MB, at rest %.1f MB", float64(info.Size())/1e6, idle)
	if idle > largestIdle {
		t.Errorf("at rest it holds %.1f MB; the limit is %.1f MB", idle, largestIdle)
	}
}

// idleMemory starts the daemon with a history in which nothing is to do, and returns the memory that it holds as soon as that is within
// the limit, or after a time in which it should be.
func idleMemory(t *testing.T, program string) float64 {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	_ = l.Close()
	agent := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Healthy(0)}})
	run := func(args ...string) *exec.Cmd {
		c := exec.Command(program, args...)
		c.Dir = t.TempDir()
		c.Env = []string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Dir(program), "CLAUDEOPS_STATE_DIR=" + filepath.Join(filepath.Dir(program), "state"), testtoken.Env,
			"CLAUDEOPS_ESCALATION_MODE=handoff", "CLAUDEOPS_CLAUDE_BIN=" + agent, "CLAUDEOPS_LISTEN=" + address, "CLAUDEOPS_SANDBOX_AGENT_FOLDERS=" + filepath.Dir(agent),
		}
		return c
	}
	if out, err := run("once", "-q").CombinedOutput(); err != nil {
		t.Fatalf("first cycle: %v\n%s", err, out)
	}
	c := run("serve", "-q")
	must(t, c.Start())
	defer func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	}()
	awaitReady(t, "http://"+address+"/readyz")
	// It gives memory back some time after it is ready.
	held := residentMB(t, c.Process.Pid)
	for end := time.Now().Add(30 * time.Second); held > largestIdle && time.Now().Before(end); held = residentMB(t, c.Process.Pid) {
		<-time.After(20 * time.Millisecond)
	}
	return held
}

func awaitReady(t *testing.T, url string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if r, err := http.Get(url); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("the daemon does not become ready")
}

func residentMB(t *testing.T, pid int) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			must(t, err)
			return float64(kb) * 1024 / 1e6
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
