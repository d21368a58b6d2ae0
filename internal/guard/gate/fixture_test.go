package gate

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
)

const forbidden = "That is forbidden at Tier 2: escalate with <what> you found & why."

// judgeFunc refuses what names the forbidden, unless told otherwise.
type judgeFunc func(tier ops.Tier, tool string, input json.RawMessage, facts guard.Facts) guard.Decision

func (f judgeFunc) Check(tier ops.Tier, tool string, input json.RawMessage, facts guard.Facts) guard.Decision {
	return f(tier, tool, input, facts)
}

func plainJudge(_ ops.Tier, _ string, input json.RawMessage, _ guard.Facts) guard.Decision {
	if strings.Contains(string(input), "forbidden") {
		return guard.Decision{Verdict: guard.Deny, Rule: "R1", Reason: forbidden}
	}
	var in struct {
		Command string `json:"command"`
	}
	_ = json.Unmarshal(input, &in)
	return guard.Decision{Verdict: guard.Allow, Rule: "tool.Bash", Script: in.Command}
}

// ledger keeps what it is given, and fails or refuses when told.
type ledger struct {
	mu     sync.Mutex
	rows   []ops.GuardRecord
	want   [][]ops.Reservation
	err    error
	refuse string
	panics bool
}

func (l *ledger) RecordGuard(_ context.Context, _ ops.Owner, r ops.GuardRecord, want []ops.Reservation, _ []ops.CooldownLimit) (ops.GuardRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.panics {
		panic("the ledger is broken")
	}
	if l.err != nil {
		return ops.GuardRecord{}, l.err
	}
	if l.refuse != "" {
		r.Allowed, r.Rule, r.Reason = false, "cooldown", l.refuse
	}
	r.ID = int64(len(l.rows) + 1)
	l.rows, l.want = append(l.rows, r), append(l.want, want)
	return r, nil
}

func (l *ledger) records() []ops.GuardRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]ops.GuardRecord(nil), l.rows...)
}

type fixture struct {
	*Session
	t      *testing.T
	gate   *Gate
	ledger *ledger
	alarms chan ops.GuardRecord
}

// shortDir is a temporary folder whose path a socket can bear.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "gate-") //nolint:usetesting // the folders of a test have long names
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func open(t *testing.T, change func(*Options, *Gate)) *fixture {
	t.Helper()
	l := &ledger{}
	self, err := os.Executable()
	must(t, err)
	o := Options{
		Judge: judgeFunc(plainJudge), Ledger: l, Owner: func() ops.Owner { return ops.Owner{Host: "here", Term: 1} }, Clock: time.Now,
		Logger: slog.New(slog.DiscardHandler), Dir: shortDir(t), Self: self,
		Redact: func(s string) string { return strings.ReplaceAll(s, "s3cret", "[redacted]") },
	}
	if change != nil {
		change(&o, nil)
	}
	g, err := New(o)
	must(t, err)
	if change != nil {
		change(&g.o, g)
	}
	alarms := make(chan ops.GuardRecord, 10)
	s, err := g.Open(t.Context(), ops.Session{ID: 7, CycleID: 3, Tier: ops.Tier2}, guard.Facts{StateDir: "/state"},
		func(r ops.GuardRecord) { alarms <- r })
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{Session: s, t: t, gate: g, ledger: l, alarms: alarms}
}

// send writes raw bytes to the socket and returns the answer, if there is one.
func (f *fixture) send(raw string) (client.Answer, bool) {
	f.t.Helper()
	conn, err := net.Dial("unix", f.Socket())
	must(f.t, err)
	defer conn.Close() //nolint:errcheck // it is read
	if _, err := conn.Write([]byte(raw)); err != nil {
		f.t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return client.Answer{}, false
	}
	var a client.Answer
	must(f.t, json.Unmarshal(line, &a))
	return a, true
}

func (f *fixture) ask(r client.Request) client.Answer {
	f.t.Helper()
	a, ok := f.send(jsonText(f.t, r) + "\n")
	if !ok {
		f.t.Fatal("no answer")
	}
	return a
}

// hooked asks as the hook does before a command.
func (f *fixture) hooked(id, command string) client.Answer {
	f.t.Helper()
	return f.ask(client.Request{Kind: client.KindHook, Input: hookText(f.t, id, "Bash", map[string]any{"command": command})})
}

// shelled asks as the shell does.
func (f *fixture) shelled(text string) client.Answer {
	f.t.Helper()
	return f.ask(client.Request{Kind: client.KindShell, Command: text, Cwd: "/srv"})
}

func hookText(t *testing.T, id, tool string, input any) json.RawMessage {
	t.Helper()
	return json.RawMessage(jsonText(t, map[string]any{
		"session_id": "s", "cwd": "/repos", "hook_event_name": "PreToolUse",
		"tool_name": tool, "tool_input": input, "tool_use_id": id,
	}))
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}
