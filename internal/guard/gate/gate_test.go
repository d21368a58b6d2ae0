package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
)

func TestAHookCallIsJudgedAndRecorded(t *testing.T) {
	t.Parallel()
	var cwd, state string
	f := open(t, func(o *Options, _ *Gate) {
		o.Judge = judgeFunc(func(tier ops.Tier, tool string, input json.RawMessage, facts guard.Facts) guard.Decision {
			cwd, state = facts.Cwd, facts.StateDir
			d := plainJudge(tier, tool, input, facts)
			d.Effects = []guard.Effect{{Kind: guard.EffectRestart, Service: "web", Project: "p", Phase: guard.PhaseOpen}}
			return d
		})
	})
	if a := f.hooked("toolu_1", "docker restart web s3cret"); a.Verdict != client.Allow {
		t.Fatalf("%+v", a)
	}
	if a := f.hooked("toolu_2", "forbidden"); a.Verdict != client.Deny || a.Reason != forbidden {
		t.Errorf("%+v", a)
	}
	rows := f.ledger.records()
	if len(rows) != 2 {
		t.Fatalf("rows: %+v", rows)
	}
	r := rows[0]
	if r.SessionID != 7 || r.CycleID != 3 || r.Tier != ops.Tier2 || r.Gate != ops.GateHook || r.ToolUseID != "toolu_1" || r.Tool != "Bash" || !r.Allowed || !r.Mutating || len(r.Digest) != 64 || r.At.IsZero() {
		t.Errorf("allowed row: %+v", r)
	}
	if r.Input != `{"command":"docker restart web [redacted]"}` {
		t.Errorf("input: %s", r.Input)
	}
	if got := f.ledger.want[0]; len(got) != 1 || got[0] != (ops.Reservation{Service: "web", Project: "p", Action: "restart", Phase: ops.PhaseOpen}) {
		t.Errorf("reservations: %+v", got)
	}
	if r := rows[1]; r.Allowed || r.Mutating || r.Rule != "R1" || r.Reason != forbidden || len(f.ledger.want[1]) != 0 {
		t.Errorf("refused row: %+v", r)
	}
	if cwd != "/repos" || state != "/state" {
		t.Errorf("facts: %q %q", cwd, state)
	}
	if !f.Allowed("toolu_1") || f.Allowed("toolu_2") || f.Allowed("toolu_3") {
		t.Error("what was allowed is not what is remembered")
	}
}

// A handler may have fewer permissions than its tier: those are what its calls are judged by.
func TestASessionIsJudgedByItsPermissions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		session ops.Session
		want    ops.Tier
	}{
		"its tier":         {ops.Session{ID: 8, Tier: ops.Tier2}, ops.Tier2},
		"less than it":     {ops.Session{ID: 9, Tier: ops.Tier2, Permissions: ops.Tier1}, ops.Tier1},
		"far less than it": {ops.Session{ID: 10, Tier: ops.Tier3, Permissions: ops.Tier1}, ops.Tier1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, func(o *Options, _ *Gate) {
				// Tier 1 only looks.
				o.Judge = judgeFunc(func(tier ops.Tier, tool string, input json.RawMessage, facts guard.Facts) guard.Decision {
					if tier > tt.want { // below it, only whether the call changes anything is asked
						t.Errorf("judged as %s, want %s", tier, tt.want)
					}
					if tier == ops.Tier1 {
						return guard.Decision{Verdict: guard.Deny, Rule: "R1", Reason: forbidden}
					}
					return plainJudge(tier, tool, input, facts)
				})
			})
			s, err := f.gate.Open(t.Context(), tt.session, guard.Facts{}, nil)
			must(t, err)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			f.Session = s
			allowed := tt.want > ops.Tier1
			if a := f.hooked("toolu_1", "docker restart web"); (a.Verdict == client.Allow) != allowed {
				t.Errorf("the hook answers %+v", a)
			}
			if a := f.shelled(wrapped("docker restart web")); (a.Verdict == client.Allow) != allowed {
				t.Errorf("the shell answers %+v", a)
			}
			rows := f.ledger.records()
			if len(rows) != 2 {
				t.Fatalf("rows: %+v", rows)
			}
			for _, r := range rows {
				if r.Tier != tt.want || r.Allowed != allowed || r.SessionID != tt.session.ID {
					t.Errorf("row: %+v", r)
				}
			}
		})
	}
}

func TestTheShellRunsWhatWasJudged(t *testing.T) {
	t.Parallel()
	f := open(t, func(o *Options, _ *Gate) {
		o.Judge = judgeFunc(func(tier ops.Tier, tool string, input json.RawMessage, facts guard.Facts) guard.Decision {
			d := plainJudge(tier, tool, input, facts)
			if facts.Cwd == "/srv" {
				d.Script = "printed 'form'"
			}
			return d
		})
	})
	f.hooked("toolu_1", "ls -l")
	a := f.shelled(wrapped("ls -l"))
	want := measuredSource + measuredPieces + `eval 'printed '"'"'form'"'"'' < /dev/null` + measuredEnd
	if a.Verdict != client.Allow || a.Script != want {
		t.Errorf("%+v", a)
	}
	rows := f.ledger.records()
	if r := rows[len(rows)-1]; r.Gate != ops.GateShell || r.ToolUseID != "toolu_1" || r.Tool != "Bash" || !r.Allowed || r.Digest != rows[0].Digest {
		t.Errorf("row: %+v", r)
	}
	if a := f.shelled(wrapped("ls -l")); a.Verdict != client.Deny {
		t.Errorf("one allowed call ran twice: %+v", a)
	}
}

func TestTheShellRefuses(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	f.hooked("toolu_1", "ls")
	for text, rule := range map[string]string{
		"ls":                            ruleShape,
		wrapped("ls") + "; id":          ruleShape,
		wrapped("id"):                   ruleHook,
		"'/bin/other' guard hook '/s'":  ruleShape,
		strings.Repeat("x", 100) + "\n": ruleShape,
	} {
		a := f.shelled(text)
		rows := f.ledger.records()
		if r := rows[len(rows)-1]; a.Verdict != client.Deny || a.Script != "" || a.Reason == "" || r.Rule != rule || r.Allowed || r.Gate != ops.GateShell {
			t.Errorf("%q: %+v, %+v", text, a, r)
		}
	}
}

func TestTheShellJudgesForItself(t *testing.T) {
	t.Parallel()
	verdict := guard.Allow
	f := open(t, func(o *Options, _ *Gate) {
		o.Judge = judgeFunc(func(ops.Tier, string, json.RawMessage, guard.Facts) guard.Decision {
			return guard.Decision{Verdict: verdict, Reason: "no", Script: "ls"}
		})
	})
	f.hooked("toolu_1", "ls")
	verdict = guard.Deny
	if a := f.shelled(wrapped("ls")); a.Verdict != client.Deny || a.Reason != "no" {
		t.Errorf("%+v", a)
	}
}

func TestWhateverBreaksRefuses(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	judge := func(f judgeFunc) func(*Options, *Gate) {
		return func(o *Options, g *Gate) {
			o.Judge = f
			if g != nil {
				g.limits.check, g.limits.late = 20*time.Millisecond, 20*time.Millisecond
			}
		}
	}
	book := func(l *ledger) func(*Options, *Gate) { return func(o *Options, _ *Gate) { o.Ledger = l } }
	for name, c := range map[string]struct {
		change func(*Options, *Gate)
		rule   string // of the row, if there is one
		reason string
	}{
		"judge panics": {judge(func(ops.Tier, string, json.RawMessage, guard.Facts) guard.Decision { panic("oh") }), rulePanic, "broke"},
		"judge slow": {judge(func(ops.Tier, string, json.RawMessage, guard.Facts) guard.Decision {
			<-release
			return guard.Decision{Verdict: guard.Allow}
		}), ruleTimeout, "too long"},
		"judge says nothing": {judge(func(ops.Tier, string, json.RawMessage, guard.Facts) guard.Decision { return guard.Decision{} }), "", "refused"},
		"judge says maybe": {judge(func(ops.Tier, string, json.RawMessage, guard.Facts) guard.Decision {
			return guard.Decision{Verdict: "ask", Reason: "hm", Rule: "R2"}
		}), "R2", "hm"},
		"ledger fails":   {book(&ledger{err: errors.New("disk full")}), "", "could not be recorded"},
		"ledger panics":  {book(&ledger{panics: true}), "", "broke"},
		"ledger refuses": {book(&ledger{refuse: "web may be restarted again at 14:00."}), "", "web may be restarted again at 14:00."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, c.change)
			a := f.hooked("toolu_1", "ls")
			if a.Verdict != client.Deny || !strings.Contains(a.Reason, c.reason) {
				t.Errorf("%+v", a)
			}
			if f.Allowed("toolu_1") {
				t.Error("it is remembered as allowed")
			}
			if rows := f.ledger.records(); c.rule != "" && (len(rows) != 1 || rows[0].Rule != c.rule || rows[0].Allowed) {
				t.Errorf("rows: %+v", rows)
			}
		})
	}
}

// What a long command writes to often stands at its end, so the record keeps both ends, in whole characters.
func TestALongInputKeepsItsStartAndItsEnd(t *testing.T) {
	t.Parallel()
	for _, filling := range []string{"x", "ä", "€", "😀"} {
		long := "printf " + strings.Repeat(filling, 8<<10) + " > /tmp/handoff.json"
		got := shorten(long)
		if len(got) > maxRecorded+len("…") || !utf8.ValidString(got) || strings.Contains(got, "�") {
			t.Errorf("%s: %d bytes, valid %v", filling, len(got), utf8.ValidString(got))
		}
		start, end, cut := strings.Cut(got, "…")
		if !cut || !strings.HasPrefix(long, start) || !strings.HasSuffix(long, end) || !strings.HasSuffix(end, " > /tmp/handoff.json") {
			t.Errorf("%s: kept %.40q … %q", filling, start, end[max(0, len(end)-40):])
		}
	}
	if short := strings.Repeat("x", maxRecorded); shorten(short) != short {
		t.Error("a short one is cut")
	}
}

func TestAHookInputThatCannotBeJudgedIsRefused(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	for name, input := range map[string]string{
		"not an object":   `[]`,
		"null":            `null`,
		"a text":          `"x"`,
		"other event":     `{"hook_event_name":"PostToolUse","cwd":"/r","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t"}`,
		"no tool":         `{"hook_event_name":"PreToolUse","cwd":"/r","tool_input":{"command":"ls"},"tool_use_id":"t"}`,
		"no id":           `{"hook_event_name":"PreToolUse","cwd":"/r","tool_name":"Bash","tool_input":{"command":"ls"}}`,
		"no folder":       `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t"}`,
		"no input":        `{"hook_event_name":"PreToolUse","cwd":"/r","tool_name":"Bash","tool_use_id":"t"}`,
		"input is a list": `{"hook_event_name":"PreToolUse","cwd":"/r","tool_name":"Bash","tool_input":["ls"],"tool_use_id":"t"}`,
		"a field twice":   `{"hook_event_name":"PreToolUse","cwd":"/r","tool_name":"Bash","tool_input":{"command":"rm -rf /","Command":"ls"},"tool_use_id":"t"}`,
	} {
		a := f.ask(client.Request{Kind: client.KindHook, Input: json.RawMessage(input)})
		if a.Verdict != client.Deny || a.Reason == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for _, r := range f.ledger.records() {
		if r.Allowed || r.Rule != ruleInput {
			t.Errorf("row: %+v", r)
		}
	}
}

func TestGarbageIsRefused(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	for name, raw := range map[string]string{
		"no JSON":      "hello\n",
		"empty line":   "\n",
		"no kind":      "{}\n",
		"unknown kind": `{"kind":"admin"}` + "\n",
		"no input":     `{"kind":"hook"}` + "\n",
		"too long":     strings.Repeat("x", maxLine+10) + "\n",
		"long input":   `{"kind":"hook","input":"` + strings.Repeat("x", client.MaxInput) + `"}` + "\n",
	} {
		if a, ok := f.send(raw); !ok || a.Verdict != client.Deny || a.Reason == "" {
			t.Errorf("%s: %+v, %t", name, a, ok)
		}
	}
}

func TestManyAskAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			command, want := fmt.Sprintf("ls %d", i), client.Allow
			if i%2 == 0 {
				command, want = fmt.Sprintf("forbidden %d", i), client.Deny
			}
			if a := f.hooked(fmt.Sprintf("toolu_%d", i), command); a.Verdict != want {
				t.Errorf("%s: %+v", command, a)
			}
		})
	}
	all.Wait()
	if n := len(f.ledger.records()); n != 100 {
		t.Errorf("%d rows", n)
	}
	for i := range 100 {
		if f.Allowed(fmt.Sprintf("toolu_%d", i)) != (i%2 == 1) {
			t.Errorf("call %d is remembered wrongly", i)
		}
	}
}

func TestTheSocketIsPrivateAndGoesAway(t *testing.T) {
	t.Parallel()
	f := open(t, func(_ *Options, g *Gate) {
		if g != nil {
			g.limits.read = time.Hour
		}
	})
	info, err := os.Lstat(f.Socket())
	if err != nil || info.Mode().Type() != os.ModeSocket || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info, err)
	}
	link, err := f.ShellPrefix()
	again, _ := f.ShellPrefix()
	if err != nil || filepath.Base(link) != client.ShellName || filepath.Dir(link) != filepath.Dir(f.Socket()) || again != link {
		t.Errorf("link: %q, %q, %v", link, again, err)
	}
	if to, err := os.Readlink(link); err != nil || to != f.gate.o.Self {
		t.Errorf("it leads to %q: %v", to, err)
	}
	idle, err := net.Dial("unix", f.Socket())
	must(t, err)
	defer idle.Close()                //nolint:errcheck // it is never used
	if err := f.Close(); err != nil { // it does not wait for one who never asks
		t.Error(err)
	}
	if left, err := os.ReadDir(f.gate.o.Dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestSettingsNameTheHook(t *testing.T) {
	t.Parallel()
	f := open(t, func(o *Options, _ *Gate) { o.Self = "/opt/it's here/claudeops" })
	var got map[string]any
	must(t, json.Unmarshal(f.Settings(), &got))
	want := fmt.Sprintf(`{"hooks":{"PreToolUse":[{"hooks":[{"args":["guard","hook",%s],"command":"/opt/it's here/claudeops","onFailure":"block","timeout":10,"type":"command"}],"matcher":"*"}]}}`,
		jsonText(t, f.Socket()))
	if text := jsonText(t, got); text != want {
		t.Errorf("settings: %s", text)
	}
	if _, err := hookSettings("a\xffb", "/s"); err == nil {
		t.Error("settings that do not survive were taken")
	}
}

func TestAFolderOfOthersIsRefused(t *testing.T) {
	t.Parallel()
	base := shortDir(t)
	wide, link, file := filepath.Join(base, "wide"), filepath.Join(base, "link"), filepath.Join(base, "file")
	for _, err := range []error{
		os.Mkdir(wide, 0o700), os.Chmod(wide, 0o775), //nolint:gosec // too wide on purpose
		os.Symlink(base, link), os.WriteFile(file, nil, 0o600),
	} {
		must(t, err)
	}
	for _, dir := range []string{wide, link, file, "relative", "", filepath.Join(base, "a b"), filepath.Join(base, "no", "parent")} {
		if err := prepareDir(dir); err == nil {
			t.Errorf("%q was taken", dir)
		}
	}
	if err := prepareDir(filepath.Join(base, "new")); err != nil {
		t.Error(err)
	}
	lent := filepath.Join(base, "lent")
	must(t, os.Mkdir(lent, 0o750))
	if err := prepareDir(lent); err != nil || checkPrivate(lent) != nil {
		t.Errorf("a folder that was lent is not taken back: %v", err)
	}
	if dir := DefaultDir(); !plainPath().MatchString(dir) || len(dir) > 60 {
		t.Errorf("the default is %q", dir)
	}
}

func TestAPathTooLongForASocketIsToldAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t, func(o *Options, g *Gate) {
		if g == nil {
			o.Dir = filepath.Join(o.Dir, strings.Repeat("d", 40))
		}
	})
	f.gate.o.Dir = filepath.Join(f.gate.o.Dir, strings.Repeat("e", 60))
	must(t, prepareDir(f.gate.o.Dir))
	_, err := f.gate.Open(context.Background(), ops.Session{ID: 1}, guard.Facts{}, nil)
	if err == nil || !strings.Contains(err.Error(), "shorter folder") {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(f.gate.o.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestARecordedAttackRaisesTheAlarmBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	f := open(t, func(o *Options, _ *Gate) {
		o.Judge = judgeFunc(func(tier ops.Tier, tool string, input json.RawMessage, facts guard.Facts) guard.Decision {
			if strings.Contains(string(input), "attack") {
				return guard.Decision{Verdict: guard.Deny, Rule: ops.RuleAttack, Reason: "leave it alone"}
			}
			return plainJudge(tier, tool, input, facts)
		})
	})
	f.hooked("t1", "docker ps")
	f.hooked("t2", "forbidden")
	if a := f.hooked("t3", "attack s3cret"); a.Verdict != client.Deny || len(f.alarms) != 1 {
		t.Fatalf("%+v; %d alarms", a, len(f.alarms))
	}
	if r := <-f.alarms; r.ToolUseID != "t3" || r.ID != 3 || strings.Contains(r.Input, "s3cret") {
		t.Errorf("the alarm is told of %+v", r)
	}
	f.ledger.err = errors.New("no database")
	if a := f.hooked("t4", "attack"); a.Verdict != client.Deny || len(f.alarms) != 0 {
		t.Errorf("what is not on record: %+v; %d alarms", a, len(f.alarms))
	}
}
