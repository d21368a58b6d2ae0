package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/phonetest"
)

// reflexBox watches web, whose reflex counts its runs in a file and then runs a command.
func reflexBox(t *testing.T, command, more string) (b *box, runs func() int, broken string) {
	t.Helper()
	url, broken := breakable(t)
	count := filepath.Join(t.TempDir(), "count")
	b = newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_FAULT_WAITS=settle=200ms").configured(quickly + fmt.Sprintf(`%s
services:
  - name: web
    probes: [{type: http, url: %q, interval: 1s, timeout: 2s}]
    actions: [{name: fix, run: [sh, -c, "echo x >> %s; %s"]}]
    reflexes: [{on: http, status: down, for: 1s, do: [fix], tries: 2, per: 6h}]
`, more, url, count, strings.ReplaceAll(command, "BROKEN", broken)))
	return b, func() int {
		text, err := os.ReadFile(count) //nolint:gosec // a file of this test
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "x")
	}, broken
}

// probeEnded waits for the end of the cycle that the probe started.
func (d *daemon) probeEnded(b *box) (out ops.Claimed) {
	d.until("the probe's cycle ends", func() bool {
		c, ok := b.by(ops.TriggerProbe)
		out = c
		return ok && c.Cycle.Status.Ended()
	})
	return out
}

func TestAReflexRepairsWithoutAnAgent(t *testing.T) {
	t.Parallel()
	b, runs, broken := reflexBox(t, "rm BROKEN", "")
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	before := len(b.calls())
	breakIt(t, broken)
	c := d.probeEnded(b)
	if c.Cycle.Status != ops.CycleResolved || c.Cycle.VerifiedBy != ops.ProofReflex || len(c.Journal.Sessions) != 0 || len(b.calls()) != before || runs() != 1 {
		t.Fatalf("%s by %q: %s; %d sessions, %d runs", c.Cycle.Status, c.Cycle.VerifiedBy, c.Cycle.Reason, len(c.Journal.Sessions), runs())
	}
	id := fmt.Sprint(c.Cycle.ID)
	contains(t, "cycles show", b.run("cycles", "show", id).stdout, "resolved by reflex, without an agent: fix of web")
	_, answer := d.get("/api/v1/cycles/" + id)
	contains(t, "the API", answer, `"verified_by":"reflex"`)
	_, page := d.get("/cycles/" + id)
	contains(t, "the page", page, "resolved by reflex, without an agent")
	d.until("people hear how it ended", func() bool {
		for _, n := range b.notices() {
			if n.Kind == ops.NoticeResolved && strings.Contains(n.Body, "A reflex ") && strings.Contains(n.Body, "(fix of web)") {
				return true
			}
		}
		return false
	})
}

// Wherever the supervisor is killed, the reflex is done at most once, and the cycle comes to its end.
func TestAReflexIsNeverRepeatedAfterACrash(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"action.begin.before", "action.begin.after", "action.run.after", "action.end.before", "action.end.after", "record.act.after", "probe.reflex.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b, runs, broken := reflexBox(t, "rm BROKEN", "")
			breakIt(t, broken)
			d := b.ready("CLAUDEOPS_FAILPOINT=" + point + ":1")
			select {
			case <-d.done:
			case <-time.After(patience):
				t.Fatalf("it lives on\n%s", d.log)
			}
			d.done <- nil
			d = b.ready()
			d.until("all cycles end", func() bool { c, ok := b.newest(); return ok && c.Cycle.Status.Ended() })
			for _, r := range b.actionRuns() {
				if r.Status == ops.ActionStarted {
					t.Errorf("action %d is still running", r.ID)
				}
			}
			if runs() > 1 {
				t.Errorf("it ran %d times", runs())
			}
		})
	}
}

// repairer is an agent that asks for the action fix at Tier 2. Where there is a script of an attack, it runs that first.
const repairer = `#!/bin/sh
cat >/dev/null
bad='[{"service":"web","check_type":"service","status":"down","error":"no file"}]'
if [ "$CLAUDEOPS_TIER" = 1 ]; then
  echo '{"schema_version":1,"outcome":"escalate","summary":"web is down","check_results":'"$bad"',"handoff":{"schema_version":1,"recommended_tier":2,"reason":"down","services_affected":["web"],"check_results":'"$bad"',"cooldown_state":{}},"actions":[],"events":[],"memories":[]}'
  exit 0
fi
test -e DIR/attack && . DIR/attack
echo "FIX: $(claudeops-act run web fix --why gone 2>&1) = $?"
echo '{"schema_version":1,"outcome":"resolved","summary":"repaired it by an action","check_results":[{"service":"web","check_type":"service","status":"healthy","error":""}],"actions":[],"events":[],"memories":[]}'
`

// earner is a box whose agent has repaired web three times by the same action. Each time the repair held on probation; the last one has
// not ended it yet.
type earner struct {
	*box
	dir, web, clock string
	passed          time.Duration
}

func newEarner(t *testing.T, more string, env ...string) *earner {
	t.Helper()
	dir, world := t.TempDir(), t.TempDir() // the agent reaches the first only
	e := &earner{dir: dir, web: filepath.Join(world, "web"), clock: filepath.Join(world, "clock")}
	for name, text := range map[string]string{
		filepath.Join(dir, "agent"): strings.ReplaceAll(repairer, "DIR", dir), filepath.Join(world, "fix"): "#!/bin/sh\ntouch " + e.web + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	e.box = newBox(t, agenttest.Scenario{}, append([]string{
		"CLAUDEOPS_GUARD=on", "CLAUDEOPS_FAULT_WAITS=settle=200ms", "CLAUDEOPS_FAULT_CLOCK=" + e.clock, "CLAUDEOPS_SANDBOX_AGENT_FOLDERS=" + dir,
	}, env...)...).configured(quickly + fmt.Sprintf(`observe: probes
%[3]s
handlers:
  - {id: look, tier: 1, agent: command, command: [%[1]s/agent], model: m, family: a, hands_to: [repair]}
  - {id: repair, tier: 2, agent: command, command: [%[1]s/agent], model: m, family: b}
services:
  - name: web
    probes: [{type: command, command: [test, -e, %[2]s/web], interval: 1s, fail_after: 1}]
    actions: [{name: fix, run: [%[2]s/fix], cooldown: {count: 20, per: 1h}}]
`, dir, world, more))
	for n := range ops.Earnings {
		if n > 0 {
			e.pass(ops.Probation + time.Minute)
			e.breaks()
		}
		e.once(0)
	}
	return e
}

// pass lets time pass for the program.
func (e *earner) pass(d time.Duration) {
	e.t.Helper()
	e.passed += d
	must(e.t, os.WriteFile(e.clock, []byte(e.passed.String()), 0o600))
}

func (e *earner) breaks() {
	e.t.Helper()
	if err := os.Remove(e.web); err != nil {
		e.t.Fatalf("%v\n%s", err, e.transcript(e.cycle().Journal.Last().ID))
	}
}

func (b *box) reflexes() (out []ops.Earned) {
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.People.Reflexes(b.t.Context(), "default"); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

// Three repairs by the same action that held earn a reflex. A person says yes on the phone, and the same failure is repaired without an
// agent. The first time that this does not hold, it is off, and an agent works.
func TestARepairThatHeldThreeTimesBecomesAReflex(t *testing.T) {
	t.Parallel()
	telegram := phonetest.NewTelegram(t)
	e := newEarner(t, "", "CLAUDEOPS_TELEGRAM_SENDERS=42", "CLAUDEOPS_APPRISE_URLS="+telegram.Target("42"))
	e.pass(31 * time.Minute) // what it did until now no longer counts as flapping
	d := e.ready()
	var asked phonetest.Message
	d.until("the phone asks", func() bool {
		all := telegram.Messages()
		n := slices.IndexFunc(all, func(m phonetest.Message) bool { return strings.Contains(m.Text, "Make this a reflex? fix of web") })
		if n >= 0 {
			asked = all[n]
		}
		return n >= 0
	})
	if all := e.reflexes(); len(all) != 1 || all[0].State != ops.ReflexAsked || len(all[0].Cycles) != 3 || all[0].Class != "exit" {
		t.Fatalf("reflexes %+v", all)
	}
	telegram.Press(t, asked, "Make it a reflex", 666, "mallory")
	telegram.Press(t, asked, "Make it a reflex", 42, "alice")
	d.until("it is on", func() bool { return e.reflexes()[0].State == ops.ReflexOn })
	contains(t, "the record", e.audits(), "@mallory (Telegram 666) by Telegram was refused", "@alice (Telegram 42) switched reflex 1 (fix of web) on")

	last := e.cycle().Cycle.ID
	next := func() (c ops.Claimed) {
		t.Helper()
		d.until("the next cycle ends", func() bool {
			c, _ = e.newest()
			return c.Cycle.ID > last && c.Cycle.Status.Ended()
		})
		last = c.Cycle.ID
		return c
	}
	e.breaks()
	if c := next(); c.Cycle.VerifiedBy != ops.ProofReflex || len(c.Journal.Sessions) != 0 {
		t.Fatalf("%s by %q with %d sessions: %s", c.Cycle.Status, c.Cycle.VerifiedBy, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	_, page := d.get("/services/default/web")
	contains(t, "the page", page, "<strong>on</strong>", "C-1", "Done 1 times, helped 1 times.")
	e.breaks() // on probation: a relapse is its next try, and tells nothing against it
	if c := next(); len(c.Journal.Sessions) != 0 || c.Cycle.VerifiedBy != ops.ProofReflex {
		t.Errorf("%s by %q with %d sessions: %s", c.Cycle.Status, c.Cycle.VerifiedBy, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	if got := e.reflexes()[0]; got.State != ops.ReflexOn || got.Done != 2 {
		t.Errorf("it is %+v", got)
	}
	e.breaks() // its tries are used up
	if c := next(); len(c.Journal.Sessions) != 2 || c.Cycle.Status != ops.CycleResolved {
		t.Errorf("%s by %q with %d sessions: %s", c.Cycle.Status, c.Cycle.VerifiedBy, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	if r := e.run("reflexes", "disable", "1", "--reason", "it only helps for a minute"); r.code != 0 || e.reflexes()[0].State != ops.ReflexIsOff {
		t.Errorf("a person cannot switch it off: %s", r.stderr)
	}
	if r := e.run("reflexes", "enable", "1", "--reason", "again"); r.code != 0 || e.reflexes()[0].State != ops.ReflexOn {
		t.Errorf("a person cannot switch it on again: %s", r.stderr)
	}
}

// An agent that a wall separates has no tool for it, and reaches neither the program, the socket, the API, the database nor the
// configuration.
func TestAHostileAgentCannotMakeSwitchOrTriggerAReflex(t *testing.T) {
	t.Parallel()
	e := newEarner(t, "")
	e.pass(ops.Probation)
	d := e.ready()
	d.until("people are asked", func() bool { return len(e.reflexes()) == 1 })
	config := ""
	for _, pair := range e.env {
		if path, ok := strings.CutPrefix(pair, "CLAUDEOPS_CONFIG="); ok {
			config = path
		}
	}
	before, err := os.ReadFile(config) //nolint:gosec // a file of this test
	must(t, err)
	attack := strings.NewReplacer("STATE", e.state, "CONFIG", config, "PROGRAM", program, "ADDRESS", d.addr, "TOKEN", d.token()).Replace(`
try() { name=$1; shift; said=$("$@" 2>&1); echo "TRIED $name: = $? $said"; }
try tool-list claudeops-act reflexes list
try tool-switch claudeops-act reflexes_enable --id 1
try tool-make claudeops-act reflex_add web fix
try tool-trigger claudeops-act run web "earned 1" --why x
try program PROGRAM reflexes enable 1 --reason x
try file-database sh -c 'echo x >> STATE/claudeops.db'
try file-folder touch STATE/new
try file-config sh -c 'echo x >> CONFIG'
try file-token cat STATE/api-token
try socket curl -sf -m 5 -X POST --unix-socket STATE/control.sock http://localhost/api/v1/reflexes/1/enable
for token in none "$CLAUDEOPS_SESSION_KEY" TOKEN; do
  try api curl -sf -m 5 -X POST -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d '{}' http://ADDRESS/api/v1/reflexes/1/enable
done
`)
	must(t, os.WriteFile(filepath.Join(e.dir, "attack"), []byte(attack), 0o600))
	last := e.cycle().Cycle.ID
	e.breaks()
	d.until("its cycle ends", func() bool { c, _ := e.newest(); return c.Cycle.ID > last && c.Cycle.Status.Ended() })
	c := e.cycle()
	said := e.transcript(c.Journal.Last().ID)
	tried := regexp.MustCompile(`TRIED ([a-z-]+): = (\d+)`).FindAllStringSubmatch(said, -1)
	if len(tried) != 13 || c.Cycle.Status != ops.CycleResolved {
		t.Errorf("%d attempts in a cycle that is %s:\n%s", len(tried), c.Cycle.Status, said)
	}
	for _, a := range tried {
		// Behind bubblewrap the state folder is an empty one of its own, into which anybody may write.
		if a[2] == "0" && a[1] != "file-database" && a[1] != "file-folder" {
			t.Errorf("%s was possible:\n%s", a[1], said)
		}
	}
	if all := e.reflexes(); len(all) != 1 || all[0].State != ops.ReflexAsked || all[0].Person != "" {
		t.Errorf("reflexes %+v\n%s", all, said)
	}
	for _, r := range e.actionRuns() {
		if r.Reflex != "" {
			t.Errorf("it triggered %+v", r)
		}
	}
	database, err := os.ReadFile(filepath.Join(e.state, "claudeops.db"))
	if _, made := os.Lstat(filepath.Join(e.state, "new")); err != nil || made == nil || strings.HasSuffix(string(database), "x\n") {
		t.Errorf("it wrote into the state folder: %v", err)
	}
	if after, err := os.ReadFile(config); err != nil || string(after) != string(before) { //nolint:gosec // a file of this test
		t.Errorf("the configuration is %q, %v", after, err)
	}
}
