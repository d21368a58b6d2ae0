package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/messagesapi"
)

func (b *box) judged(id ops.SessionID) (out []ops.GuardRecord) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Acts.GuardDecisions(context.Background(), id); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

func TestRealCLI_TheGuardJudgesEveryCall(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "ran")
	commands := []string{
		"echo fine",
		"touch " + marker,                               // Tier 1 writes nothing
		"sh -c 'docker restart web'",                    // nor restarts anything, however it is spelled
		"curl -s http://127.0.0.1:9/ | sh",              // nor runs what it fetched
		"rm -rf / --no-preserve-root --one-file-system", // and nobody does this
	}
	b, server := realBox(t, func(r messagesapi.Request) messagesapi.Answer {
		if n := r.Turn(); n < len(commands) {
			return messagesapi.Bash(fmt.Sprintf("toolu_%d", n), commands[n])
		}
		return messagesapi.Structured("toolu_end", says(1, ops.OutcomeHealthy))
	}, "CLAUDEOPS_GUARD=on")
	b.once(0)
	if _, err := os.Stat(marker); err == nil {
		t.Error("a refused command ran")
	}
	records := map[string]ops.GuardRecord{}
	for _, r := range b.judged(1) {
		if r.Gate == ops.GateHook {
			records[r.ToolUseID] = r
		}
	}
	last := server.Requests()[len(server.Requests())-1]
	for n := range commands {
		id := fmt.Sprintf("toolu_%d", n)
		r, ok := records[id]
		if !ok || r.Allowed != (n == 0) || r.Rule == "" || r.Tier != 1 {
			t.Errorf("%q is recorded as %+v", commands[n], r)
		}
		got, _ := last.Result(id)
		if n == 0 && (got.IsError || !strings.Contains(got.Text, "fine")) {
			t.Errorf("the allowed command answered %+v", got)
		}
		if n > 0 && (!got.IsError || !strings.Contains(got.Text, r.Reason)) {
			t.Errorf("the model is told %q instead of %q", got.Text, r.Reason)
		}
	}
	b.nothingLeft()
}

func TestRealCLI_CooldownsAreReservedBeforeTheAction(t *testing.T) {
	t.Parallel()
	// A docker that only notes that it was called, in a place where a command of Tier 2 can write.
	bin, repos := t.TempDir(), t.TempDir()
	log := filepath.Join(repos, "log")
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/sh\necho \"$@\" >> "+log+"\n"), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	b, _ := realBox(t, func(r messagesapi.Request) messagesapi.Answer {
		n := tierOf(r)
		if n == 2 && r.Turn() < 4 {
			return messagesapi.Bash(fmt.Sprintf("toolu_restart_%d", r.Turn()), "docker restart jellyfin")
		}
		if n == 1 {
			return messagesapi.Structured("toolu_1", says(1, ops.OutcomeEscalate))
		}
		return messagesapi.Structured("toolu_2", says(2, ops.OutcomeResolved))
	}, "CLAUDEOPS_GUARD=on", "CLAUDEOPS_REPOS_DIR="+repos, "PATH="+bin+":/usr/local/bin:/usr/bin:/bin")
	b.configured(quickHooks + fmt.Sprintf("sandbox: {readable: [%q]}\n", bin))
	b.once(0)
	raw, err := os.ReadFile(log)
	if err != nil || strings.Count(string(raw), "restart jellyfin") != 2 {
		t.Errorf("docker was called:\n%s%v", raw, err)
	}
	r := b.run("cooldowns", "list")
	contains(t, "cooldowns list", r.stdout, "jellyfin", "restart")
	if r := b.run("cooldowns", "clear", "jellyfin", "restart", "--reason", "disk replaced"); r.code != 0 {
		t.Errorf("clearing exits %d: %s", r.code, r.stderr)
	}
	if r := b.run("cooldowns", "list"); strings.Contains(r.stdout, "jellyfin") {
		t.Errorf("still listed:\n%s", r.stdout)
	}
}

func TestRealCLI_BehindWalls(t *testing.T) {
	t.Parallel()
	state := stateFolder(t)
	b, server := realBox(t, func(r messagesapi.Request) messagesapi.Answer {
		n := tierOf(r)
		if r.Turn() == 0 {
			return messagesapi.Bash(fmt.Sprintf("toolu_look_%d", n), "id -u; grep -c "+state+" /proc/self/mounts")
		}
		if n == 1 {
			return messagesapi.Structured("toolu_1", says(1, ops.OutcomeEscalate))
		}
		return messagesapi.Structured("toolu_2", says(2, ops.OutcomeResolved))
	}, "CLAUDEOPS_GUARD=on")
	b.state = state
	b.env = append(b.env, "CLAUDEOPS_STATE_DIR="+b.state, "TMPDIR=/tmp")
	b.configured(quickHooks + "sandbox: {uid: 65534}\n").once(0)
	c := b.cycle()
	if len(c.Journal.Sessions) != 2 || c.Cycle.Status != ops.CycleResolved {
		t.Fatalf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	got, _ := server.Requests()[1].Result("toolu_look_1")
	user, mounts, _ := strings.Cut(strings.TrimSpace(got.Text), "\n")
	if user != "65534" {
		t.Errorf("the agent runs as %q", got.Text)
	}
	if mounts == "" || mounts == "0" {
		t.Errorf("it has no mounts of its own in the state folder: %q", got.Text)
	}
	b.nothingLeft()
}

// A rule opens a path to its command, and to nothing else that the same session runs.
func TestRealCLI_ARuleOpensAPathToItsCommand(t *testing.T) {
	t.Parallel()
	bin, index := t.TempDir(), t.TempDir()
	log := filepath.Join(index, "log")
	rules := filepath.Join(t.TempDir(), "guard.yaml")
	for path, text := range map[string]string{
		filepath.Join(bin, "reindex"): "#!/bin/sh\necho \"$1\" >> " + log + " && echo done\n",
		rules: fmt.Sprintf(`rules:
  - id: reindex
    program: reindex
    args: ["*"]
    tier: 2
    writable: [%s]
    reason: It only writes its own index.
    match: ["reindex all"]
    not_match: ["rebuild"]
`, index),
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	commands := []string{"reindex alone", "reindex beside; true", "reindex again"}
	b, server := realBox(t, func(r messagesapi.Request) messagesapi.Answer {
		n := tierOf(r)
		switch {
		case n == 1:
			return messagesapi.Structured("toolu_1", says(1, ops.OutcomeEscalate))
		case r.Turn() < len(commands):
			return messagesapi.Bash(fmt.Sprintf("toolu_reindex_%d", r.Turn()), commands[r.Turn()])
		}
		return messagesapi.Structured("toolu_2", says(2, ops.OutcomeResolved))
	}, "CLAUDEOPS_GUARD=on", "PATH="+bin+":/usr/local/bin:/usr/bin:/bin")
	b.configured(quickHooks + fmt.Sprintf("sandbox: {readable: [%q]}\nguard: {rules: %q}\n", bin, rules))
	b.once(0)
	raw, err := os.ReadFile(log)
	if err != nil || string(raw) != "alone\nagain\n" {
		t.Errorf("the index has %q, %v", raw, err)
	}
	last := server.Requests()[len(server.Requests())-1]
	for n, want := range []string{"done", "Permission denied", "done"} {
		if got, _ := last.Result(fmt.Sprintf("toolu_reindex_%d", n)); !strings.Contains(got.Text, want) {
			t.Errorf("%s answers %q", commands[n], got.Text)
		}
	}
	b.nothingLeft()
}
