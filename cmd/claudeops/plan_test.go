package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/dockertest"
)

// planner writes an agent that hands the services up to Tier 3, with a plan at Tier 2, and repairs nothing itself. At Tier 3 it says
// that a human is needed.
func planner(t *testing.T, services []string, plan []map[string]string) string {
	t.Helper()
	var bad []map[string]string
	for _, s := range services {
		bad = append(bad, map[string]string{"service": s, "check_type": "service", "status": "down", "error": "it does not run"})
	}
	answer := func(outcome string, tier int, more map[string]any) string {
		said := map[string]any{
			"schema_version": 1, "outcome": outcome, "summary": "they are down", "check_results": bad, "actions": []any{}, "events": []any{}, "memories": []any{},
		}
		if tier > 0 {
			said["handoff"] = map[string]any{
				"schema_version": 1, "recommended_tier": tier, "reason": "down", "services_affected": services, "check_results": bad, "cooldown_state": map[string]any{},
			}
			for k, v := range more {
				said["handoff"].(map[string]any)[k] = v //nolint:forcetypeassert // it is made above
			}
		}
		text, err := json.Marshal(said)
		must(t, err)
		return string(text)
	}
	second := map[string]any{"investigation_findings": "its container is stopped", "remediation_attempted": "nothing", "plan": plan}
	path := filepath.Join(t.TempDir(), "agent")
	script := fmt.Sprintf("#!/bin/sh\ncat >/dev/null\ncase $CLAUDEOPS_TIER in\n1) cat <<'END'\n%s\nEND\n;;\n2) cat <<'END'\n%s\nEND\n;;\n*) cat <<'END'\n%s\nEND\nesac\n",
		answer("escalate", 2, nil), answer("escalate", 3, second), answer("needs_human", 0, nil))
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return path
}

// planBox is a box in which such an agent works at all tiers, and a human is asked before Tier 3.
func planBox(t *testing.T, agent, config string) *box {
	t.Helper()
	return newBox(t, agenttest.Scenario{}, "CLAUDEOPS_GUARD=on", "CLAUDEOPS_APPROVAL_TIER=3", "CLAUDEOPS_FAULT_WAITS=settle=200ms").configured(fmt.Sprintf(`handlers:
  - {id: look, tier: 1, agent: command, command: [%[1]s], model: m, family: a, hands_to: [repair]}
  - {id: repair, tier: 2, agent: command, command: [%[1]s], model: m, family: b, hands_to: [rebuild]}
  - {id: rebuild, tier: 3, agent: command, command: [%[1]s], model: m, family: c}
%[2]s`, agent, config))
}

func step(service, action string) map[string]string {
	return map[string]string{"service": service, "action": action, "reason": "it is down", "expected_effect": "it runs", "way_back": "none"}
}

// steps are the runs of the plan, oldest first, as "step action service status".
func (b *box) steps() (out []string) {
	for _, r := range slices.Backward(b.actionRuns()) {
		out = append(out, fmt.Sprintf("%d %s %s %s", r.Step, r.Action, r.Service, r.Status))
	}
	return out
}

func (b *box) firstCycle() (out ops.Claimed) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Journal.Load(b.t.Context(), 1); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

// A human approves a part of a plan: the supervisor does exactly this part on a real engine, in order, and stops at the first failure.
func TestAPlanIsApprovedInPartOnARealEngine(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	for name, tt := range map[string]struct {
		plan     []map[string]string
		approved string
		steps    []string
		cache    bool // it was restarted
		sessions int
		status   ops.CycleStatus
	}{
		"it helps": {
			[]map[string]string{step("web", "start"), step("cache", "restart"), step("cache", "stop")},
			"1,2",
			[]string{"1 start web done", "2 restart cache done"},
			true, 2, ops.CycleResolved,
		},
		"a step fails": {
			[]map[string]string{step("web", "restart"), step("web", "fail"), step("cache", "restart")},
			"2,3",
			[]string{"2 fail web failed"},
			false, 3, ops.CycleNeedsHuman,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := "plan-" + strings.ReplaceAll(name, " ", "-") + "-"
			web, cache := prefix+"web", prefix+"cache"
			d.Container(t, web)
			d.Container(t, cache)
			d.Docker(t, "stop", web)
			started := func(name string) string {
				return d.Docker(t, "inspect", "--format", "{{.State.Running}} {{.State.StartedAt}}", name)
			}
			before, stopped := started(cache), started(web)
			b := planBox(t, planner(t, []string{"web", "cache"}, tt.plan), fmt.Sprintf(`docker: {broker: on, socket: %[1]s}
services:
  - {name: web, container: %[2]s, probes: [{type: container, container: %[2]s}], actions: [{name: fail, run: ["false"]}]}
  - {name: cache, container: %[3]s, probes: [{type: container, container: %[3]s}]}
`, d.Socket, web, cache))
			b.once(6)
			contains(t, "the approval", b.run("approvals", "show", "1").stdout, "step 1: "+tt.plan[0]["action"]+" of web", "step 3: ")
			if got := b.steps(); len(got) > 0 || started(web) != stopped {
				t.Fatalf("done without an approval: %v", got)
			}
			if r := b.run("approvals", "approve", "1", "--steps", "1,4"); r.code == 0 {
				t.Errorf("a step that does not exist is approved: %s", r.stdout)
			}
			if r := b.run("approvals", "approve", "1", "--steps", tt.approved); r.code != 0 {
				t.Fatalf("approve exits %d: %s%s", r.code, r.stdout, r.stderr)
			}
			r := b.run("once")
			c := b.firstCycle()
			if got := b.steps(); !slices.Equal(got, tt.steps) {
				t.Errorf("steps %q, want %q\n%s%s", got, tt.steps, r.stdout, r.stderr)
			}
			if c.Cycle.Status != tt.status || len(c.Journal.Sessions) != tt.sessions {
				t.Errorf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
			}
			if got := started(cache); !strings.HasPrefix(got, "true ") || (got != before) != tt.cache {
				t.Errorf("cache: %s, before: %s", got, before)
			}
			if got := started(web); strings.HasPrefix(got, "true ") != (tt.status == ops.CycleResolved) {
				t.Errorf("web: %s", got)
			}
		})
	}
}

// A container whose writable layer holds a database is replaced only if the step that a human approved says that it is lost.
func TestAPlanLosesDataOnlyAsItWasApproved(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	for name, tt := range map[string]struct {
		reason string // %s is the container
		steps  []string
		status ops.CycleStatus
	}{
		"not said": {"it is down", []string{"1 redeploy web refused"}, ops.CycleNeedsHuman},
		"said": {
			"it can be made again, and it loses the data outside the volumes of container %.12s",
			[]string{"1 redeploy web done"},
			ops.CycleResolved,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := "lose" + strings.ReplaceAll(name, " ", "")
			web := project + "_web_1"
			repos := t.TempDir()
			file := filepath.Join(repos, "lab", project, "compose.yml")
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			text := "version: '2.4'\nservices:\n  web:\n    image: " + dockertest.Image + "\n    container_name: " + web +
				"\n    network_mode: none\n    stop_grace_period: 1s\n    command: [/bin/sh, -c, \"trap 'exit 0' TERM; while :; do sleep 0.2; done\"]\n"
			must(t, os.WriteFile(file, []byte(text), 0o600))
			lab := filepath.Join(repos, "lab")
			gitIn(t, lab, "init", "-q")
			gitIn(t, lab, "add", "--all")
			gitIn(t, lab, "commit", "-q", "-m", "web")
			if out, err := d.Run(t, d.Socket, "docker-compose", "-f", file, "up", "-d"); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Cleanup(func() { _, _ = d.Run(t, d.Socket, "docker", "rm", "-f", web) })
			d.Docker(t, "exec", web, "sh", "-c", "mkdir -p /var/lib/app && head -c 3000000 /dev/zero > /var/lib/app/data.db")
			d.Docker(t, "stop", "-t", "0", web)
			id := func() string { return d.Docker(t, "inspect", "--format", "{{.Id}}", web) }
			before := id()
			plan := step("web", "redeploy")
			if plan["reason"] = tt.reason; strings.Contains(tt.reason, "%") {
				plan["reason"] = fmt.Sprintf(tt.reason, before)
			}
			b := planBox(t, planner(t, []string{"web"}, []map[string]string{plan}), fmt.Sprintf(`docker: {broker: on, socket: %[1]s}
repos_dir: %[2]q
services:
  - name: web
    container: %[3]s
    compose: {repo: lab, file: %[4]s/compose.yml}
    probes: [{type: container, container: %[3]s}]
`, d.Socket, repos, web, project))
			b.once(6)
			if r := b.run("approvals", "approve", "1"); r.code != 0 {
				t.Fatalf("approve exits %d: %s%s", r.code, r.stdout, r.stderr)
			}
			r := b.run("once")
			c := b.firstCycle()
			if got := b.steps(); c.Cycle.Status != tt.status || !slices.Equal(got, tt.steps) {
				t.Errorf("the cycle is %s, with %q\n%s%s", c.Cycle.Status, got, r.stdout, r.stderr)
			}
			if kept := id() == before; kept != (tt.status == ops.CycleNeedsHuman) {
				t.Errorf("the container was kept: %v", kept)
			}
			if tt.status == ops.CycleNeedsHuman {
				contains(t, "the plan", b.run("approvals", "show", "1").stdout, "/var/lib/app/data.db", "loses the data outside the volumes of container "+before[:12])
			}
			b.nothingLeft()
		})
	}
}

// asker is an agent that only reports at Tier 1, and asks the supervisor to act at Tier 2.
const asker = `#!/bin/sh
cat >/dev/null
bad='[{"service":"web","check_type":"service","status":"down","error":"no file"}]'
if [ "$CLAUDEOPS_TIER" = 1 ]; then
  echo '{"schema_version":1,"outcome":"escalate","summary":"web is down","check_results":'"$bad"',"handoff":{"schema_version":1,"recommended_tier":2,"reason":"down","services_affected":["web"],"check_results":'"$bad"',"cooldown_state":{}},"actions":[],"events":[],"memories":[]}'
  exit 0
fi
for words in "list" "run web fix --why gone" "run db fix --why gone" "run web stop --why gone" "run web --force --why gone"; do
  echo "ASKED $words: $(claudeops-act $words 2>&1) = $?"
done
echo "OTHER KEY: $(CLAUDEOPS_SESSION_KEY=guessed claudeops-act run web fix --why gone 2>&1)"
echo '{"schema_version":1,"outcome":"resolved","summary":"repaired it by an action","check_results":[{"service":"web","check_type":"service","status":"healthy","error":""}],"actions":[],"events":[],"memories":[]}'
`

// actionBox is a box with a service that is healthy while a file exists, and an action that makes the file.
func actionBox(t *testing.T, environ ...string) (*box, string) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"agent": asker, "fix": "#!/bin/sh\necho fixed >>" + dir + "/ran\ntouch " + dir + "/web\n", "break": "#!/bin/sh\nrm -f " + dir + "/web\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	return newBox(t, agenttest.Scenario{}, append(environ, "CLAUDEOPS_GUARD=on")...).configured(fmt.Sprintf(`handlers:
  - {id: look, tier: 1, agent: command, command: [%[1]s/agent], model: m, family: a, hands_to: [repair]}
  - {id: repair, tier: 2, agent: command, command: [%[1]s/agent], model: m, family: b}
services:
  - name: web
    probes: [{type: command, command: [test, -e, %[1]s/web]}]
    actions:
      - {name: fix, run: [%[1]s/fix]}
      - {name: spoil, run: [%[1]s/break], undo: [%[1]s/fix]}
      - {name: stop, tier: 3, run: [%[1]s/break]}
      - {name: limited, run: ["true"], cooldown: {count: 1, per: 1h}}
  - {name: db, actions: [{name: fix, run: [%[1]s/fix]}]}
`, dir)), dir
}

func (b *box) actionRuns() (out []ops.ActionRun) {
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Acts.ActionRuns(b.t.Context(), store.ActionFilter{}); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

// The whole way: an agent behind its walls asks for an action, the supervisor does it outside of them, and probes confirm it.
func TestAnAgentRepairsByAnAction(t *testing.T) {
	t.Parallel()
	b, dir := actionBox(t)
	b.once(0)
	runs := b.actionRuns()
	if len(runs) != 1 || runs[0].Status != ops.ActionDone || runs[0].Before[0].Status != ops.Down || runs[0].After[0].Status != ops.Healthy || runs[0].Why != "gone" {
		t.Fatalf("runs %+v\n%s", runs, b.transcript(b.cycle().Journal.Last().ID))
	}
	said := b.transcript(b.cycle().Journal.Last().ID)
	contains(t, "its transcript", said, "db does not belong to this incident")
	contains(t, "its transcript", said, "stop of web needs Tier 3")
	contains(t, "its transcript", said, "the option --force is not known")
	contains(t, "its transcript", said, "does not come from this session")
	if text, err := os.ReadFile(filepath.Join(dir, "ran")); err != nil || strings.TrimSpace(string(text)) != "fixed" {
		t.Errorf("it ran %q, %v", text, err)
	}
}

// A person asks beside a daemon; what made things worse is undone.
func TestAPersonRunsActionsBesideADaemon(t *testing.T) {
	t.Parallel()
	b, dir := actionBox(t, "CLAUDEOPS_MAX_TIER=1") // the agent leaves the cooldowns to the person
	must(t, os.WriteFile(filepath.Join(dir, "web"), nil, 0o600))
	d := b.ready()
	contains(t, "the list", b.run("actions", "list").stdout, "spoil")
	if got := b.run("actions", "run", "web", "fix", "--why", "to be sure"); got.code != 0 || !strings.Contains(got.stdout, "done") {
		t.Errorf("%+v", got)
	}
	if got := b.run("actions", "run", "web", "spoil", "--why", "an experiment"); got.code != 8 || !strings.Contains(got.stdout, "undone") {
		t.Errorf("%+v", got)
	}
	if got := b.run("actions", "run", "web", "fix", "--why", "too often"); got.code != 7 || !strings.Contains(got.stdout, "cooldown") {
		t.Errorf("%+v", got)
	}
	if got := b.run("actions", "run", "web", "wipe", "--why", "x"); got.code != 4 {
		t.Errorf("%+v", got)
	}
	if got := b.run("actions", "undo", "1", "--why", "x"); got.code != 5 {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "web")); err != nil {
		t.Errorf("the undo did not bring it back: %v", err)
	}
	contains(t, "the history", b.run("actions", "history").stdout, "undo of 2")
	// An action with a cooldown of its own is listed with the others, and can be cleared like them.
	if got := b.run("actions", "run", "web", "limited", "--why", "once"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := b.run("actions", "run", "web", "limited", "--why", "twice"); got.code != 7 || !strings.Contains(got.stdout, "cooldown") {
		t.Errorf("%+v", got)
	}
	contains(t, "the cooldowns", b.run("cooldowns", "list").stdout, "limited", "restart")
	if _, body := d.get("/services"); !strings.Contains(body, "limited") {
		t.Error("the services page does not show the cooldown of the action")
	}
	if got := b.run("cooldowns", "clear", "web", "limited", "--reason", "to try again"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := b.run("actions", "run", "web", "limited", "--why", "again"); got.code != 0 {
		t.Errorf("%+v", got)
	}
}
