package agent_test

import (
	"slices"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

func TestTheSocketsOfASessionReachItsAgent(t *testing.T) {
	spec := ops.SessionSpec{
		Env:  []string{"DOCKER_HOST=unix:///var/run/docker.sock", "PATH=/bin"},
		Gate: &ops.GateSpec{Env: []string{"DOCKER_HOST=unix:///run/session/docker.sock"}},
	}
	passes := func(name string) bool { return name == "DOCKER_HOST" }
	got := agent.Environment(spec, agent.Folders{}, agent.Variables{Passes: passes})
	if !slices.Contains(got, "DOCKER_HOST=unix:///run/session/docker.sock") || slices.Contains(got, "DOCKER_HOST=unix:///var/run/docker.sock") {
		t.Errorf("the environment is %q", got)
	}
}
