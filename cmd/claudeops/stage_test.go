package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/agent/process"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// prepared lists what is prepared for the next session of the box: the keys of the folders in its state folder.
func (b *box) prepared() (out []string) {
	entries, _ := os.ReadDir(filepath.Join(b.state, "staged"))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// waiting waits until a process waits behind its walls for the next session to be decided, and returns its key.
func (d *daemon) waiting() (key string) {
	d.t.Helper()
	d.until("the next session is prepared", func() bool {
		for _, key = range d.prepared() {
			for _, pid := range d.agents() {
				raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
				if strings.Contains(string(raw), "\x00confine\x00") && !strings.Contains(string(raw), "sandbox-relay") &&
					strings.Contains(string(env), key) {
					return true
				}
			}
		}
		return false
	})
	return key
}

// clean checks that nothing is left of what was prepared.
func (b *box) clean(key string) {
	b.t.Helper()
	b.nothingLeft()
	if left := b.prepared(); len(left) > 0 {
		b.t.Errorf("folders are left: %v", left)
	}
	if g := process.FindCgroup(key); g != nil {
		b.t.Errorf("a control group is left: %s", g.Path)
	}
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, e := range entries {
		if raw, err := os.ReadFile(e); err == nil && strings.Contains(string(raw), key) {
			b.t.Errorf("a process is left: %s", filepath.Dir(e))
		}
	}
}

// firstHeld is a chain whose first session waits for a file.
func firstHeld(t *testing.T, file string, second agenttest.Play) agenttest.Scenario {
	t.Helper()
	return plays(held(agenttest.Escalates(1, 0.03, "jellyfin"), file), tier(2, second))
}

func TestTheNextSessionIsPreparedWhileOneRuns(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	seen := filepath.Join(filepath.Dir(gate), "seen")
	second := agenttest.Healthy(0.1)
	// It tries to write to what is not its own, and uses what is.
	second.Steps = append([]agenttest.Step{{Run: `for f in /etc/passwd "$CLAUDEOPS_STATE_DIR/canary" "$CLAUDEOPS_STATE_DIR/claudeops.db"; do ` +
		`if [ -e "$f" ] && (: >> "$f") 2>/dev/null; then echo "can write $f"; fi; done > ` + seen + `; ` +
		`for d in "$TMPDIR" "$PWD" "$HOME"; do touch "$d/x" || echo "cannot write $d"; done >> ` + seen + `; ` +
		`cat "$CLAUDEOPS_STATE_DIR/cooldown.json" >> ` + seen}}, second.Steps...)
	b := newBox(t, firstHeld(t, gate, second))
	d := b.ready()
	key := d.waiting()
	if c := b.cycle(); len(c.Journal.Sessions) != 1 || c.Journal.Sessions[0].Key == key {
		t.Errorf("what is prepared counts as a session: %+v", c.Journal.Sessions)
	}
	open(t, gate)
	d.until("the cycle is finished", func() bool { return b.ended(1) })
	c := b.cycle()
	if len(c.Journal.Sessions) != 2 || c.Journal.Sessions[1].Key != key || c.Journal.Sessions[1].Status != ops.SessionCompleted {
		t.Fatalf("the sessions are %+v\n%s", c.Journal.Sessions, d.log)
	}
	if strings.Contains(d.log.String(), "is not used") {
		t.Errorf("what was prepared was not used:\n%s", d.log)
	}
	d.until("the walls of the second session are recorded", func() bool { return b.wallsHold(c.Journal.Sessions[1].ID) })
	if raw, err := os.ReadFile(seen); err != nil || strings.Contains(string(raw), " write ") || !strings.Contains(string(raw), `"cooldowns"`) {
		t.Errorf("the second session saw %s, %v", raw, err)
	}
	call := b.calls()[1]
	if home, _ := call.Var("HOME"); home != filepath.Join(b.state, "agent", "home") {
		t.Errorf("its home is %s", home)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("serve exited %d", code)
	}
	b.clean(key)
	b.noHandoff()
}

// wallsHold reports whether it is recorded that the walls of a session hold.
func (b *box) wallsHold(id ops.SessionID) (found bool) {
	b.read(func(s *store.Store) {
		events, err := s.Events(b.t.Context(), store.EventFilter{Limit: 100})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range events {
			found = found || e.SessionID != nil && *e.SessionID == id && strings.HasPrefix(e.Message, "The walls of the session hold")
		}
	})
	return found
}

func TestWhatWasPreparedIsNotUsedAfterAChange(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	b := newBox(t, firstHeld(t, gate, agenttest.Healthy(0.1)))
	d := b.ready()
	key := d.waiting()
	home := ""
	for _, entry := range b.env {
		if value, ok := strings.CutPrefix(entry, "HOME="); ok {
			home = value
		}
	}
	// The walls that wait do not hide it.
	if err := os.WriteFile(filepath.Join(home, ".secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, gate)
	d.until("the cycle is finished", func() bool { return b.ended(1) })
	c := b.cycle()
	if len(c.Journal.Sessions) != 2 || c.Journal.Sessions[1].Status != ops.SessionCompleted {
		t.Fatalf("the sessions are %+v\n%s", c.Journal.Sessions, d.log)
	}
	if !strings.Contains(d.log.String(), "what was prepared for the session is not used, because something changed") {
		t.Errorf("nothing says that it was not used:\n%s", d.log)
	}
	d.until("the walls of the second session are recorded", func() bool { return b.wallsHold(c.Journal.Sessions[1].ID) })
	if code := d.stop(); code != 0 {
		t.Errorf("serve exited %d", code)
	}
	b.clean(key)
}

func TestWhatWasPreparedIsRemovedWhereItIsNotNeeded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, d *daemon, gate string){
		"the cycle is cancelled": func(t *testing.T, d *daemon, _ string) {
			if r := d.run("cycles", "cancel", "1"); r.code != 0 {
				t.Fatalf("cancel exits %d: %s", r.code, r.stderr)
			}
			d.until("the cycle is over", func() bool { return d.ended(1) })
		},
		"nothing is to be done": func(t *testing.T, d *daemon, gate string) {
			open(t, gate)
			d.until("the cycle is over", func() bool { return d.ended(1) })
		},
		"the supervisor ends": func(t *testing.T, d *daemon, _ string) {
			if code := d.stop(); code != 0 {
				t.Fatalf("serve exited %d\n%s", code, d.log)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := gateFile(t)
			b := newBox(t, plays(held(agenttest.Healthy(0.01), gate)))
			d := b.ready()
			key := d.waiting()
			end(t, d, gate)
			// The slot of the cycle is free before everything of it is removed.
			if name != "the supervisor ends" {
				d.until("its folder is gone", func() bool { return len(b.prepared()) == 0 && process.FindCgroup(key) == nil })
			}
			b.clean(key)
		})
	}
}

func TestAKillLeavesNothingOfWhatWasPrepared(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(with(held(agenttest.Healthy(0.01), gateFile(t)), func(p *agenttest.Play) { p.Attempt = 1 }), agenttest.Healthy(0.01)))
	d := b.ready()
	key, keeper := d.waiting(), d.keeper()
	// What is prepared may wait before the first session has counted itself; killed then, the next one would be held again.
	d.until("the first session is at work", func() bool { return len(b.calls()) == 1 })
	signalTo(t, keeper, syscall.SIGKILL) // nobody is left who could end it
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.done
	d.done <- nil
	for begun := time.Now(); ; pause(20 * time.Millisecond) {
		left := 0
		for _, pid := range b.agents() {
			if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && strings.Contains(string(env), key) {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Since(begun) > 5*time.Second {
			t.Fatalf("%d processes wait although their supervisor is gone", left)
		}
	}
	if r := b.run("once"); r.code != 0 {
		t.Fatalf("the next start exits %d\n%s", r.code, r.stderr)
	}
	b.clean(key)
}

func TestNothingIsPreparedWhereNothingCanFollow(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]string{
		"dry run": "CLAUDEOPS_DRY_RUN=true", "the highest tier": "CLAUDEOPS_MAX_TIER=1", "a human is asked": "CLAUDEOPS_APPROVAL_TIER=2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, plays(agenttest.Escalates(1, 0.03, "jellyfin")), env)
			b.run("once")
			if _, err := os.Stat(filepath.Join(b.state, "staged")); err == nil {
				t.Error("something was prepared")
			}
			b.nothingLeft()
		})
	}
}
