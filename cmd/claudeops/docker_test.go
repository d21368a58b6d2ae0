package main_test

import (
	"fmt"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/dockertest"
	"claudeops/test/messagesapi"
)

// TestRealCLI_RepairsAContainerBehindWalls has the walls and the Docker broker meet: the engine's own socket is out of reach, the
// session's own socket is not.
func TestRealCLI_RepairsAContainerBehindWalls(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	d.Container(t, "grafana")
	d.Container(t, "other")
	started := func(name string) string { return d.Docker(t, "inspect", "--format", "{{.State.StartedAt}}", name) }
	web, other := started("grafana"), started("other")
	calls := map[int][]string{
		1: {"docker ps --format '{{.Names}}'", "ls -l " + d.Socket + "; echo looked"},
		2: {"docker restart grafana", "docker restart other"},
	}
	script := func(r messagesapi.Request) messagesapi.Answer {
		n := tierOf(r)
		if !done(r, callID("docker", n, 0)) {
			var a messagesapi.Answer
			for i, command := range calls[n] {
				a = a.Call(callID("docker", n, i), "Bash", map[string]any{"command": command})
			}
			return a
		}
		kind := ops.OutcomeEscalate
		if n == 2 {
			kind = ops.OutcomeResolved
		}
		return messagesapi.Structured(fmt.Sprintf("toolu_said_%d", n), says(n, kind))
	}
	b, server := realBox(t, script)
	b.configured(quickHooks + "docker: {broker: on, socket: " + d.Socket + "}\nservices: [{name: grafana}, {name: other}, {name: postgres}]\n")
	r := b.run("once")
	answers := map[string]messagesapi.Result{}
	for _, req := range server.Requests() {
		for n := range calls {
			for i := range calls[n] {
				if got, ok := req.Result(callID("docker", n, i)); ok {
					answers[callID("docker", n, i)] = got
				}
			}
		}
	}
	if got := answers[callID("docker", 1, 0)]; got.IsError || !strings.Contains(got.Text, "grafana") {
		t.Errorf("docker ps: %+v\n%s%s", got, r.stdout, r.stderr)
	}
	if got := answers[callID("docker", 1, 1)]; strings.Contains(got.Text, "srw") {
		t.Errorf("the engine's socket is there: %s", got.Text)
	}
	if started("grafana") == web {
		t.Errorf("the service was not restarted: %+v\n%s%s", answers[callID("docker", 2, 0)], r.stdout, r.stderr)
	}
	if got := answers[callID("docker", 2, 1)]; started("other") != other || !got.IsError {
		t.Errorf("a container outside the incident was restarted: %+v", got)
	}
	b.nothingLeft()
}
