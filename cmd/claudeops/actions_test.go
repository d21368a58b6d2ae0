package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

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
func actionBox(t *testing.T) (*box, string) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"agent": asker, "fix": "#!/bin/sh\necho fixed >>" + dir + "/ran\ntouch " + dir + "/web\n", "break": "#!/bin/sh\nrm -f " + dir + "/web\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	return newBox(t, agenttest.Scenario{}, "CLAUDEOPS_GUARD=on").configured(fmt.Sprintf(`agent: {command_trusted: true}
handlers:
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
		if out, err = s.ActionRuns(b.t.Context(), store.ActionFilter{}); err != nil {
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
	b, dir := actionBox(t)
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

// The operator silences a service while an agent works on it: from then on the agent cannot change it, and nothing counts as repaired.
func TestASilenceHoldsTheActionsOfARunningSession(t *testing.T) {
	t.Parallel()
	b, dir := actionBox(t)
	waiting := strings.Replace(asker, "for words in", "touch "+dir+"/working; until [ -e "+dir+"/silenced ]; do sleep 0.05; done\nfor words in", 1)
	if err := os.WriteFile(filepath.Join(dir, "agent"), []byte(waiting), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	d := b.ready()
	d.until("Tier 2 works", func() bool {
		_, err := os.Stat(filepath.Join(dir, "working"))
		return err == nil
	})
	if got := b.run("silences", "add", "--service", "web", "--for", "1h", "--reason", "I am at it"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	must(t, os.WriteFile(filepath.Join(dir, "silenced"), nil, 0o600))
	d.until("the cycle ends", func() bool { return b.ended(1) })
	contains(t, "its transcript", b.transcript(b.load(1).Journal.Last().ID), "web may not be changed now: ", "silenced", "I am at it. Leave it alone and report it.")
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the action ran in spite of the silence")
	}
	if c := b.load(1).Cycle; c.Status == ops.CycleResolved {
		t.Errorf("the cycle is %s: %s", c.Status, c.Reason)
	}
}
