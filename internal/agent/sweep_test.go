package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"claudeops/internal/agent/process"
	"claudeops/test/agenttest"
)

func TestSweepEndsTheSessionOfADeadSupervisor(t *testing.T) {
	key := "test-" + uuid.NewString()
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{{OnInterrupt: "ignore", Steps: []agenttest.Step{
		{Spawn: &agenttest.Child{Setsid: true, IgnoreSignals: true}},
		{Raw: "ready"},
		{Hang: true},
	}}}})
	p, err := start(Program{
		Path: bin, Argv: []string{bin}, Dir: t.TempDir(), Key: key,
		Env: []string{process.KeyName + "=" + key, "PATH=" + standardPath},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	defer p.group.Remove()
	if _, err := p.stdout.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	killed, err := Sweep(t.Context(), key)
	if err != nil || killed < 2 {
		t.Errorf("killed %d, %v", killed, err)
	}
	<-p.done
	if processes, group, err := Left(key); err != nil || processes > 0 || group != "" {
		t.Errorf("%d processes and the control group %q are left (%v)", processes, group, err)
	}
	if killed, err := Sweep(t.Context(), key); err != nil || killed != 0 {
		t.Errorf("again: killed %d, %v", killed, err)
	}
	if _, err := Sweep(t.Context(), ""); err == nil {
		t.Error("a sweep without a key must be refused")
	}
}

// A process that moves itself to another control group is not there when the session's own group is empty, and is found after that.
func TestAProcessThatLeftItsControlGroupIsFoundLater(t *testing.T) {
	key := "test-" + uuid.NewString()
	group := process.MakeCgroup(key)
	if group == nil {
		t.Skip("no control groups here")
	}
	parent := filepath.Dir(group.Path)
	script := fmt.Sprintf(`setsid bash -c 'echo $$ > %s/cgroup.procs; echo moved; exec sleep 300' > moved 2>&1 &
while ! grep -q moved moved; do :; done; cat moved`, parent)
	p, err := start(Program{
		Path: "/bin/bash", Argv: []string{"bash", "-c", script}, Dir: t.TempDir(), Key: key,
		Env: []string{process.KeyName + "=" + key, "PATH=" + standardPath},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	out, err := io.ReadAll(p.stdout)
	<-p.done
	if err != nil || string(out) != "moved\n" {
		t.Skipf("a process may not leave its control group here: %q, %v", out, err)
	}
	if killed, err := p.sweep(t.Context()); err != nil || killed != 0 || !p.proven {
		t.Errorf("sweep: killed %d, %v, proven %v", killed, err, p.proven)
	}
	if processes, _, err := Left(key); err != nil || processes != 1 {
		t.Errorf("%d processes are left (%v), want 1", processes, err)
	}
	if killed, err := p.search(t.Context()); err != nil || killed != 1 {
		t.Errorf("search: killed %d, %v", killed, err)
	}
	if processes, group, err := Left(key); err != nil || processes > 0 || group != "" {
		t.Errorf("%d processes and the control group %q are left (%v)", processes, group, err)
	}
}

func TestErrorOutputBecomesOneLineOfJSON(t *testing.T) {
	got := errorLine("a \"quoted\" <b> & ü\t")
	var line struct{ Type, Text string }
	if err := json.Unmarshal([]byte(got), &line); err != nil || line.Type != "stderr" || line.Text != "a \"quoted\" <b> & ü\t" || strings.Contains(got, "\n") {
		t.Errorf("got %s (%v)", got, err)
	}
}
