package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"claudeops/internal/decide/rehearse"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// rehearsed runs `claudeops rehearse` with a configuration.
func (b *box) rehearsed(yaml string, args ...string) (ran, rehearse.Report) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "new.yaml")
	must(b.t, os.WriteFile(file, []byte(yaml), 0o600))
	args = append([]string{"rehearse", "--config", file}, args...)
	r := b.run(append(args, "-o", "json")...)
	var report rehearse.Report
	if r.code == 0 || r.code == 8 {
		if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
			b.t.Fatalf("%v: %s", err, r.stdout)
		}
	}
	return b.run(args...), report
}

// A configuration is tried beside a running daemon: 0 without a difference, 8 with one, 3 when it is wrong.
func TestRehearsal(t *testing.T) {
	t.Parallel()
	const services = "services:\n  - name: jellyfin\n"
	b := newBox(t, plays(agenttest.Escalates(1, 0.03, "jellyfin"), tier(2, agenttest.Healthy(0.3)))).configured(services)
	d := b.ready()
	d.until("the first cycle has ended", func() bool { return b.ended(1) })
	if c := b.load(1).Cycle; c.Status != ops.CycleResolved {
		t.Fatalf("the cycle is %s: %s", c.Status, c.Reason)
	}
	r, got := b.rehearsed(services)
	if r.code != 0 || !got.Equal || got.Counts.Cycles < 1 || got.Counts.Steps < 3 || got.Counts.Decisions < 1 {
		t.Errorf("the same configuration exits %d: %+v\n%s%s", r.code, got, r.stdout, r.stderr)
	}
	contains(t, "the summary", r.stdout, "no difference: ")

	r, got = b.rehearsed(services + "max_tier: 1\n")
	if r.code != 8 || got.Equal || len(got.Differences) != 1 || got.Differences[0].Setting != "max_tier" || !got.Differences[0].CutShort {
		t.Errorf("a lower maximum tier exits %d: %+v\n%s", r.code, got, r.stderr)
	}
	contains(t, "the difference", r.stdout, "C-1 step ", "before: starts tier2 (claude sonnet, handoff)", "after:  ends needs_human; needs_human by maximum tier",
		"because of max_tier", "what follows cannot be rehearsed")
	if r, _ = b.rehearsed(services+"max_tier: 1\n", "--cycle", "C-1"); r.code != 8 {
		t.Errorf("one cycle exits %d: %s", r.code, r.stderr)
	}
	if r, _ = b.rehearsed(services, "--cycle", "999"); r.code != 4 {
		t.Errorf("a cycle that does not exist exits %d: %s", r.code, r.stderr)
	}
	r, _ = b.rehearsed(services + "max_teir: 1\n")
	if r.code != 3 {
		t.Errorf("a wrong configuration exits %d", r.code)
	}
	contains(t, "the problem", r.stderr, "new.yaml:3", "max_teir")
	b.rehearseCopy(services)
}

// rehearseCopy rehearses on a copy of the database, which stays as it is.
func (b *box) rehearseCopy(services string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "copy.db")
	if r := b.run("db", "backup", file); r.code != 0 {
		b.t.Fatal(r.stderr)
	}
	before, info := b.content(file)
	old := filepath.Join(b.t.TempDir(), "old.yaml")
	must(b.t, os.WriteFile(old, []byte(services+"max_tier: 1\n"), 0o600))
	for yaml, code := range map[string]int{services: 8, services + "max_tier: 1\nlisten: 127.0.0.1:0\n": 0} {
		if r, got := b.rehearsed(yaml, "--db", file, "--against", old); r.code != code {
			b.t.Errorf("against %q exits %d, want %d: %+v", yaml, r.code, code, got)
		}
	}
	if after, now := b.content(file); !bytes.Equal(before, after) || !now.ModTime().Equal(info.ModTime()) {
		b.t.Error("the copy was changed")
	}
}

func (b *box) content(file string) ([]byte, os.FileInfo) {
	b.t.Helper()
	raw, err := os.ReadFile(file)
	must(b.t, err)
	info, err := os.Stat(file)
	must(b.t, err)
	return raw, info
}
