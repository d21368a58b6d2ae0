package agent

import (
	"encoding/json"
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

func TestErrorOutputBecomesOneLineOfJSON(t *testing.T) {
	got := errorLine("a \"quoted\" <b> & ü\t")
	var line struct{ Type, Text string }
	if err := json.Unmarshal([]byte(got), &line); err != nil || line.Type != "stderr" || line.Text != "a \"quoted\" <b> & ü\t" || strings.Contains(got, "\n") {
		t.Errorf("got %s (%v)", got, err)
	}
}
