package realcodex_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/codex"
	"claudeops/internal/guard"
	_ "claudeops/internal/guard/early" // this program is mounted in the place of shells
	"claudeops/internal/guard/gate"
	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
	"claudeops/test/responsesapi"
)

// ledger keeps what the guard decided.
type ledger struct {
	mu   sync.Mutex
	rows []ops.GuardRecord
}

func (l *ledger) RecordGuard(
	_ context.Context, _ ops.Owner, r ops.GuardRecord, _ []ops.Reservation, _ []ops.CooldownLimit,
) (ops.GuardRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, r)
	return r, nil
}

// verdict is what was recorded about the one command with this text.
func (l *ledger) verdict(t *testing.T, text string) ops.GuardRecord {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := slices.DeleteFunc(slices.Clone(l.rows), func(r ops.GuardRecord) bool { return !strings.Contains(r.Input, text) })
	if len(found) != 1 {
		t.Fatalf("%q was recorded %d times: %+v", text, len(found), l.rows)
	}
	return found[0]
}

// gated are walls that put the gate in the place of the shells.
type gated struct {
	sandboxed

	bypass bool // it is forgotten
}

func (w gated) Wrap(tier ops.Tier, p agent.Program) (agent.Program, error) {
	session := wall.Session{Gate: agent.Variable(p.Env, confine.GateVariable), Shells: !w.bypass}
	out, err := w.WrapSession(tier, session, wall.Command{Path: p.Path, Argv: p.Argv, Env: p.Env, Dir: p.Dir})
	p.Path, p.Argv, p.Env, p.Dir, p.Credential = out.Path, out.Argv, out.Env, out.Dir, out.Credential
	return p, err
}

// judged puts the desk's sessions behind the walls of the default settings and the real guard.
func (d *desk) judged(bypass bool) *ledger {
	d.t.Helper()
	d.byDefault("", true)
	self, err := os.Executable()
	must(d.t, err)
	dir, err := os.MkdirTemp("/tmp", "gate-")
	must(d.t, err)
	d.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	box := wall.New(wall.Config{
		Confine: true, Auto: true, Relay: []string{self, relayWord}, StateDir: d.spec.StateDir, WorkDir: d.spec.WorkDir,
		ExtraReadOnly: []string{self}, Gates: dir,
	})
	d.walls = gated{sandboxed{box}, bypass}
	judge, err := guard.New(nil)
	must(d.t, err)
	l := &ledger{}
	g, err := gate.New(gate.Options{
		Judge: judge, Ledger: l, Owner: func() ops.Owner { return ops.Owner{Host: "here", Term: 1} }, Clock: time.Now,
		Logger: slog.New(slog.DiscardHandler), Dir: dir, Self: self,
	})
	must(d.t, err)
	opened, err := g.Open(context.WithoutCancel(d.t.Context()), d.spec.Session, guard.Facts{
		Cwd: d.spec.WorkDir, StateDir: d.spec.StateDir, TempDir: os.TempDir(),
	})
	must(d.t, err)
	d.t.Cleanup(func() { _ = opened.Close() })
	opened.Confine(box.Command(d.spec.Session.Tier, wall.Session{Gate: filepath.Dir(opened.Socket())}), nil, nil)
	prefix, err := opened.ShellPrefix()
	must(d.t, err)
	d.spec.Gate = &ops.GateSpec{ShellPrefix: prefix, Allowed: opened.Allowed}
	if !codex.New(d.options).Gated(d.spec, d.walls) {
		d.t.Fatal("the commands of this session are not judged")
	}
	return l
}

// exec runs a command in a way that the model chooses.
func exec(id, command string, how map[string]any) responsesapi.Answer {
	arguments := map[string]any{"cmd": command, "yield_time_ms": 30_000}
	for name, value := range how {
		arguments[name] = value
	}
	return responsesapi.Call(id, "exec_command", arguments)
}

// TestEveryCommandIsJudged holds that Codex starts no shell but the gate, whichever shell the model names.
func TestEveryCommandIsJudged(t *testing.T) {
	t.Parallel()
	const drop = `psql -h 127.0.0.1 -p 1 -U postgres -c 'DROP TABLE orders%d'`
	ways := []map[string]any{
		nil,
		{"login": false},
		{"login": true},
		{"shell": "/bin/sh"},
		{"shell": "/bin/bash"},
		{"shell": "bash"},
		{"shell": "/usr/bin/zsh"},
		{"shell": "/bin/dash"},
		{"shell": "/usr/bin/python3"},
		{"shell": ""},
		{"shell": "fish", "login": false},
		{"sandbox_permissions": "require_escalated", "justification": "why not"},
	}
	var answers []responsesapi.Answer
	for i, how := range ways {
		answers = append(answers, exec(fmt.Sprintf("call_%d", i), fmt.Sprintf(drop, i), how))
	}
	const last = 100
	answers = append(answers, exec("call_tty", "echo typed", map[string]any{"tty": true}), exec("call_look", `cat /etc/hostname | wc -l
sh -c 'echo inner $0'; cat; which ls; echo "$PATH"`, nil), exec("call_pwsh", fmt.Sprintf(drop, last), map[string]any{"shell": "pwsh"}))
	d := newDesk(t, responsesapi.Turns(append(answers, responsesapi.Text("done"))...))
	l := d.judged(false)
	d.succeeded(d.run(nil))
	for i, how := range ways {
		out := d.output(fmt.Sprintf("call_%d", i))
		if how["sandbox_permissions"] != nil {
			if !strings.Contains(out, "approval") {
				t.Errorf("%v: %s", how, out)
			}
			continue
		}
		r := l.verdict(t, fmt.Sprintf("orders%d'", i))
		if r.Allowed || r.Gate != ops.GateShell || r.Tool != "Bash" || !strings.Contains(out, r.Reason) || strings.Contains(out, "psql: error") {
			t.Errorf("%v: %s\n%+v", how, out, r)
		}
	}
	if out := d.output("call_tty"); strings.Contains(out, "\ntyped") || !strings.Contains(out, "terminal") {
		t.Errorf("a terminal: %s", out)
	}
	if out := d.output("call_pwsh"); strings.Contains(out, "psql: error") {
		t.Errorf("another language: %s", out)
	}
	out := d.output("call_look")
	if r := l.verdict(t, "/etc/hostname"); !r.Allowed || !strings.Contains(out, "\n1\ninner sh\n/usr/bin/ls\n/usr/local/sbin:") {
		t.Errorf("an allowed command: %s\n%+v", out, r)
	}
}

// TestCodeModeIsJudgedToo holds the same for the models that get a JavaScript tool instead of a shell.
func TestCodeModeIsJudgedToo(t *testing.T) {
	t.Parallel()
	d := newDesk(t, responsesapi.Turns(
		responsesapi.Custom("call_1", "exec", `const r = await tools.exec_command({cmd: "systemctl stop nginx", shell: "/bin/ksh"}); text(r.output)`),
		responsesapi.Custom("call_2", "exec", `const r = await tools.exec_command({cmd: "id"}); text(r.output)`),
		responsesapi.Text("done"),
	))
	l := d.judged(false)
	d.succeeded(d.run(func(s *ops.SessionSpec) { s.Session.Model = "gpt-5.6-sol" }))
	if r := l.verdict(t, "nginx"); r.Allowed || !strings.Contains(d.output("call_1"), r.Reason) {
		t.Errorf("%s\n%+v", d.output("call_1"), r)
	}
	if out := d.output("call_2"); !strings.Contains(out, "uid=") {
		t.Errorf("an allowed command: %s", out)
	}
}

// TestACommandThatPassesTheGateStopsTheSession holds that a Codex that finds its shell in another way does not go on unnoticed.
func TestACommandThatPassesTheGateStopsTheSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t, responsesapi.Turns(responsesapi.Exec("call_1", "sleep 30"), responsesapi.Text("done")))
	d.judged(true)
	if res := d.run(nil); res.Stop != ops.StopInvariant || !strings.Contains(res.Err+res.StopWhy, "no gate had allowed") {
		t.Errorf("result: %+v", res)
	}
}
