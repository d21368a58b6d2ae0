package act_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/ops"
	"claudeops/internal/watch/probe"
	"claudeops/test/dockertest"
)

// dockerWorld is a world whose service web is a container of a real engine, made from a committed compose file.
func dockerWorld(t *testing.T, project string) (*world, *dockertest.Daemon) {
	t.Helper()
	d := dockertest.Shared(t)
	w := newWorld(t)
	container := project + "_web_1"
	w.commit(t, project+"/compose.yml", composeFile("one"))
	out, err := d.Run(t, d.Socket, "docker-compose", "-f", filepath.Join(w.env.ReposDir, "lab", project, "compose.yml"), "up", "-d")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _, _ = d.Run(t, d.Socket, "docker", "rm", "-f", container) })
	compose := ops.Compose{Repo: "lab", File: project + "/compose.yml", Service: "web"}
	spec := func(kind ops.ActionKind, counts string) ops.ActionSpec {
		return ops.ActionSpec{Name: string(kind), Service: "web", Kind: kind, Tier: ops.Tier2, Counts: counts, Timeout: time.Minute, Container: container, Compose: compose}
	}
	w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{
		spec(ops.ActionRestart, "restart"), spec(ops.ActionStart, "restart"), spec(ops.ActionStop, "redeployment"), spec(ops.ActionRedeploy, "redeployment"),
		spec(ops.ActionApply, "redeployment"),
	}
	w.env.Probes = []ops.ProbeSpec{{Service: "web", Type: "container", Container: container}}
	w.options.Prober = probe.New(probe.Options{Clock: time.Now, Socket: d.Socket})
	w.options.Docker = d.Socket
	w.rebuild()
	return w, d
}

func composeFile(label string, extra ...string) string {
	return "version: '2.4'\nservices:\n  web:\n    image: " + dockertest.Image + "\n    network_mode: none\n    stop_grace_period: 1s\n    environment: {LABEL: " + label + "}\n" +
		"    command: [/bin/sh, -c, \"trap 'exit 0' TERM; while :; do sleep 0.2; done\"]\n" + strings.Join(extra, "")
}

func inspect(t *testing.T, d *dockertest.Daemon, name, format string) string {
	t.Helper()
	return d.Docker(t, "inspect", "--format", format, name)
}

func (w *world) do(t *testing.T, action string) act.Outcome {
	t.Helper()
	out, err := w.runner.Run(t.Context(), w.person(t, action))
	must(t, err)
	return out
}

func TestAContainerIsRestartedStoppedAndStarted(t *testing.T) {
	t.Parallel()
	w, d := dockerWorld(t, "actone")
	started := func() string { return inspect(t, d, "actone_web_1", "{{.State.StartedAt}}") }
	before := started()
	if out := w.do(t, "restart"); out.Run.Status != ops.ActionDone || started() == before || out.Run.Version != dockertest.Image {
		t.Errorf("%+v", out)
	}
	out := w.do(t, "stop")
	if out.Run.Status != ops.ActionDone || inspect(t, d, "actone_web_1", "{{.State.Running}}") != "false" || out.Run.After[0].Status != ops.Down || out.Undo != nil {
		t.Errorf("%+v", out)
	}
	undo, err := w.Store.Acts.RequestAction(t.Context(), ops.ActionRun{Environment: "home", Service: "web", Action: "stop", Person: "ada", Why: "wrong", UndoOf: out.Run.ID}, time.Time{})
	must(t, err)
	back, err := w.runner.Undo(t.Context(), act.Request{Environment: w.env, Run: out.Run.ID, Why: "wrong", Person: "ada", ID: undo.ID})
	must(t, err)
	if back.Run.Status != ops.ActionDone || inspect(t, d, "actone_web_1", "{{.State.Running}}") != "true" {
		t.Errorf("%+v", back)
	}
}

func TestAServiceIsRedeployedFromTheCommittedFile(t *testing.T) {
	t.Parallel()
	w, d := dockerWorld(t, "acttwo")
	id := func() string { return inspect(t, d, "acttwo_web_1", "{{.Id}}") }
	env := func() string { return inspect(t, d, "acttwo_web_1", "{{json .Config.Env}}") }
	before := id()
	out := w.do(t, "redeploy")
	if out.Run.Status != ops.ActionDone || id() == before || out.Run.Commit == "" {
		t.Fatalf("%+v", out.Run)
	}
	// The operator commits a change, and apply brings it about.
	w.commit(t, "acttwo/compose.yml", composeFile("two"))
	if out := w.do(t, "apply"); out.Run.Status != ops.ActionDone || !strings.Contains(env(), "LABEL=two") {
		t.Errorf("%+v: %s", out.Run, env())
	}
	// An agent changes the file and commits it: the next redeployment does not use it.
	w.asAgent(t, "claudeops/evil", "acttwo/compose.yml", composeFile("evil"))
	must(t, os.WriteFile(filepath.Join(w.env.ReposDir, "lab/acttwo/compose.yml"), []byte(composeFile("worse")), 0o600))
	if out := w.do(t, "redeploy"); out.Run.Status != ops.ActionDone || !strings.Contains(env(), "LABEL=two") {
		t.Errorf("%+v: %s", out.Run, env())
	}
}

// A repair that makes it worse is undone: the operator's own action stops the container, and its undo starts it.
func TestARepairThatMadeItWorseIsUndoneOnTheRealEngine(t *testing.T) {
	t.Parallel()
	w, d := dockerWorld(t, "actfour")
	docker := func(verb string) []string {
		return []string{"docker", "-H", "unix://" + d.Socket, verb, "actfour_web_1"}
	}
	w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{{
		Name: "repair", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute, Run: docker("stop"), Undo: docker("start"),
	}}
	session := w.session(t, ops.Tier2)
	out, err := w.runner.Run(t.Context(), w.ask(session, "repair"))
	must(t, err)
	if out.Run.Status != ops.ActionUndone || out.Undo == nil || out.Undo.Status != ops.ActionDone || out.Undo.After[0].Status != ops.Healthy {
		t.Errorf("%+v", out)
	}
	if inspect(t, d, "actfour_web_1", "{{.State.Running}}") != "true" {
		t.Error("it does not run")
	}
}
