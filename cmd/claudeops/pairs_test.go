package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/pgtest"
)

// street has two services, each of which is down while a file with its name exists, and whose reflex removes it.
type street struct {
	*box
	*daemon
	t   *testing.T
	dir string
}

// houses is the configuration of the two. More is added to each service and to its action.
func houses(dir string, more map[string]string) string {
	out := quickly + "observe: probes\n" + more[""] + "services:\n"
	for _, name := range []string{"web", "db"} {
		probe, on := fmt.Sprintf("{type: command, command: [test, '!', -e, %s/%s], interval: 1s, fail_after: 1, recover_after: 1}", dir, name), "command"
		if name == "db" && more["db probe"] != "" {
			probe, on = more["db probe"], "heartbeat"
		}
		run := more[name+" run"]
		if run == "" {
			run = fmt.Sprintf("[%s/fix, %s]", dir, name)
		}
		out += fmt.Sprintf("  - name: %s\n%s    probes: [%s]\n", name, more[name], probe)
		if more[name+" action"] != "none" {
			out += fmt.Sprintf("    actions: [{name: fix, run: %s%s}]\n    reflexes: [{on: %s, status: down, do: [fix]}]\n", run, more[name+" action"], on)
		}
	}
	return out
}

func newStreet(t *testing.T, more map[string]string, plays ...agenttest.Play) *street {
	t.Helper()
	s := &street{t: t, dir: t.TempDir()}
	for name, text := range map[string]string{
		"fix":     "echo $1 >> DIR/log; for f in \"$@\"; do rm -f DIR/$f; done",
		"spoil":   "echo spoil >> DIR/log; touch DIR/db",
		"unspoil": "rm -f DIR/db",
		"call":    "echo call >> DIR/log; for i in $(seq 600); do curl -fsS $(cat DIR/address) && exit 0; sleep 0.1; done; exit 1",
	} {
		text = "#!/bin/sh\n" + strings.ReplaceAll(text, "DIR", s.dir) + "\n"
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	if len(plays) == 0 {
		plays = []agenttest.Play{agenttest.Healthy(0.01)}
	}
	s.box = newBox(t, agenttest.Scenario{Plays: plays}, "CLAUDEOPS_FAULT_WAITS=settle=200ms").configured(houses(s.dir, s.in(more)))
	return s
}

// in puts the folder into a configuration.
func (s *street) in(more map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range more {
		out[k] = strings.ReplaceAll(v, "DIR", s.dir)
	}
	return out
}

func (s *street) start(env ...string) { s.t.Helper(); s.daemon = s.ready(env...) }

func (s *street) restart(more map[string]string, env ...string) {
	s.t.Helper()
	if code := s.stop(); code != 0 {
		s.t.Fatalf("exit %d\n%s", code, s.log)
	}
	s.configured(houses(s.dir, s.in(more)))
	s.start(env...)
}

func (s *street) breaks(names ...string) {
	s.t.Helper()
	for _, name := range names {
		breakIt(s.t, filepath.Join(s.dir, name))
	}
}

func (s *street) must(args ...string) {
	s.t.Helper()
	if r := s.run(args...); r.code != 0 {
		s.t.Fatalf("%v exits %d: %s", args, r.code, r.stderr)
	}
}

// done fails unless exactly these reflexes were done, in this order.
func (s *street) done(want ...string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	if got := strings.Fields(string(text)); !slices.Equal(got, want) {
		s.t.Errorf("done were %v, want %v", got, want)
	}
}

func (s *street) isHeld(service string, why ops.HoldReason) {
	s.t.Helper()
	s.until(fmt.Sprintf("%s is held: %s", service, why), func() bool { return s.held(service, why) })
}

// ends waits until the newest cycle of a trigger has ended, and returns it.
func (s *street) ends(trigger ops.Trigger) (out ops.Claimed) {
	s.t.Helper()
	s.until("a cycle by "+string(trigger)+" ends", func() bool {
		var ok bool
		out, ok = s.by(trigger)
		return ok
	})
	return out
}

// byReflex fails unless the next cycle ends by reflex, without a session.
func (s *street) byReflex() {
	s.t.Helper()
	if c := s.ends(ops.TriggerProbe); c.Cycle.VerifiedBy != ops.ProofReflex || len(c.Journal.Sessions) != 0 {
		s.t.Errorf("%s by %q with %d sessions: %s\n%s", c.Cycle.Status, c.Cycle.VerifiedBy, len(c.Journal.Sessions), c.Cycle.Reason, s.log)
	}
}

// byAgent fails unless an agent is started instead, which is told why.
func (s *street) byAgent(why string) {
	s.t.Helper()
	s.until("an agent is started", func() bool { return len(s.calls()) > 0 })
	if why != "" {
		contains(s.t, "the prompt", strings.Join(s.calls()[0].Args, "\n"), why)
	}
}

// asks waits until people are asked about the reflex.
func (s *street) asks() {
	s.t.Helper()
	s.until("people are asked", func() bool { c, ok := s.newest(); return ok && c.Cycle.Status == ops.CycleWaitingHuman })
	s.done()
}

// address is what the repair of a job calls; an empty one changes nothing.
func (s *street) address(to string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, "address")
	if to != "" {
		must(s.t, os.WriteFile(path, []byte(to), 0o600))
	}
	text, err := os.ReadFile(path) //nolint:gosec // a file of this test
	must(s.t, err)
	return string(text)
}

func maintenanceNow() string {
	now := time.Now().UTC()
	return fmt.Sprintf("maintenance: [{name: disk, from: %s, until: %s}]\n", now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
}

const cronJob = "{type: heartbeat, every: 24h, grace: 1h}"

func TestPairs(t *testing.T) {
	t.Parallel()
	asking := map[string]string{"web action": ", approval: true"}
	beating := map[string]string{"db probe": cronJob, "db run": "[DIR/call]"}
	with := func(base map[string]string, key, value string) map[string]string {
		out := map[string]string{key: value}
		for k, v := range base {
			out[k] = v
		}
		return out
	}
	fails := func(s *street) {
		s.t.Helper()
		j := s.job("db")
		s.address(j.URL)
		if code := j.calls(s.t, "/fail", "disk full"); code != http.StatusOK {
			s.t.Fatalf("the job is answered %d", code)
		}
	}
	for name, tt := range map[string]struct {
		more map[string]string
		run  func(*street)
	}{
		"reflex and silence": {nil, func(s *street) {
			s.must("silences", "add", "web", "--for", "1h", "--reason", "a new disk")
			s.breaks("web")
			s.isHeld("web", ops.HoldSilenced)
			s.done()
			s.must("silences", "rm", "1")
			s.byReflex()
			s.done("web")
		}},
		"reflex and maintenance": {map[string]string{"": maintenanceNow()}, func(s *street) {
			s.breaks("web")
			s.isHeld("web", ops.HoldMaintenance)
			s.done()
			s.restart(nil)
			s.byReflex()
			s.done("web")
		}},
		"reflex and dependency": {map[string]string{"web": "    depends_on: [db]\n", "db run": "[DIR/fix, db, web]"}, func(s *street) {
			s.must("silences", "add", "db", "--for", "1h", "--reason", "a new disk")
			s.breaks("db")
			s.isHeld("db", ops.HoldSilenced)
			s.breaks("web")
			s.isHeld("web", ops.HoldDependency)
			s.done()
			s.must("silences", "rm", "1")
			s.byReflex()
			s.done("db")
		}},
		"reflex and approval": {asking, func(s *street) {
			s.breaks("web")
			s.asks()
			s.must("approvals", "approve", "1")
			s.byReflex()
			s.done("web")
		}},
		"reflex and a cooldown that a person used": {map[string]string{"web action": ", cooldown: {count: 1, per: 1h}"}, func(s *street) {
			s.must("actions", "run", "web", "fix", "--why", "to be sure")
			s.breaks("web")
			s.byAgent("was not done: ")
			s.done("web")
		}},
		"reflex and an alert alone": {nil, func(s *street) {
			if code := s.daemon.told("generic", `{"name":"Down","service":"web","severity":"critical","message":"it is down"}`); code != http.StatusAccepted {
				s.t.Fatalf("answered %d", code)
			}
			if c := s.ends(ops.TriggerAlert); len(c.Journal.Sessions) == 0 {
				s.t.Errorf("%s without an agent: %s", c.Cycle.Status, c.Cycle.Reason)
			}
			s.done()
		}},
		"two reflexes at once": {map[string]string{"db run": "[DIR/fix, db]"}, func(s *street) {
			s.breaks("web", "db")
			s.until("both are repaired", func() bool {
				c, ok := s.newest()
				_, web := os.Lstat(filepath.Join(s.dir, "web"))
				_, db := os.Lstat(filepath.Join(s.dir, "db"))
				return ok && c.Cycle.Status.Ended() && web != nil && db != nil
			})
			if len(s.calls()) != 0 || len(s.actionRuns()) != 2 {
				s.t.Errorf("%d agents, %+v", len(s.calls()), s.actionRuns())
			}
		}},
		"reflex and undo": {map[string]string{
			"web run": "[DIR/spoil]", "web action": ", undo: [DIR/unspoil]", "db": "    depends_on: [web]\n", "db action": "none",
		}, func(s *street) {
			s.breaks("web")
			s.byAgent("made things worse and was undone")
			s.done("spoil")
			if runs := s.actionRuns(); runs[len(runs)-1].Status != ops.ActionUndone {
				s.t.Errorf("the action is %s", runs[len(runs)-1].Status)
			}
		}},
		"reflex and a crash and trust that is lowered meanwhile": {asking, func(s *street) {
			s.breaks("web")
			s.asks()
			_ = s.cmd.Process.Kill()
			<-s.daemon.done
			s.daemon.done <- nil
			s.must("trust", "web", "suggest")
			s.start()
			contains(s.t, "the list", s.run("trust").stdout, "suggest")
			s.must("approvals", "approve", "1")
			s.byAgent("trust is suggest")
			s.done()
		}},
		"reflex and an action that is removed meanwhile": {asking, func(s *street) {
			s.breaks("web")
			s.asks()
			s.restart(map[string]string{"web action": "none"})
			s.must("approvals", "approve", "1")
			s.byAgent("")
			s.done()
		}},
		"reflex and a dry run that begins meanwhile": {asking, func(s *street) {
			s.breaks("web")
			s.asks()
			s.restart(asking, "CLAUDEOPS_DRY_RUN=true")
			s.must("approvals", "approve", "1")
			s.byAgent("this is a dry run")
			s.done()
		}},
		"heartbeat and reflex and silence": {beating, func(s *street) {
			s.must("silences", "add", "db", "--for", "1h", "--reason", "a new disk")
			fails(s)
			s.isHeld("db", ops.HoldSilenced)
			s.done()
			s.must("silences", "rm", "1")
			s.byReflex()
			s.done("call")
		}},
		"heartbeat and reflex and maintenance and a restart": {with(beating, "", maintenanceNow()), func(s *street) {
			fails(s)
			s.isHeld("db", ops.HoldMaintenance)
			s.done()
			before := s.addr
			s.restart(beating)
			s.address(strings.ReplaceAll(s.address(""), before, s.addr))
			s.byReflex()
			s.done("call")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStreet(t, tt.more)
			s.start()
			s.until("the first cycle ends", func() bool { return s.ended(1) })
			tt.run(s)
		})
	}
}

// A reflex never interrupts a session, and does not run beside one: it waits for the slot.
func TestPairs_ReflexAndABusySlot(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	s := newStreet(t, nil, held(agenttest.Healthy(0.01), gate))
	s.start()
	s.until("the first cycle ends", func() bool { return s.ended(1) })
	s.must("run", "--detach", "look")
	s.working(ops.Tier1)
	s.breaks("web")
	s.until("a cycle waits for the slot", func() bool { c, ok := s.newest(); return ok && c.Cycle.Trigger == ops.TriggerProbe })
	s.done()
	open(t, gate)
	s.byReflex()
	s.done("web")
}

// Two hosts do a reflex once, whichever of them is asked, told to lower the trust or called by a job, and open one incident.
func TestPairs_SecondHost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		more map[string]string
		want string
	}{
		"reflex and trust":     {nil, "web"},
		"heartbeat and reflex": {map[string]string{"db probe": cronJob, "db run": "[DIR/call]"}, "call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStreet(t, tt.more)
			boxes := hosts(t, pgtest.URL(t), plays(agenttest.Healthy(0.01)), "a", "b")
			for _, b := range boxes {
				b.env = append(b.env, "CLAUDEOPS_FAULT_WAITS=settle=200ms")
				b.configured(houses(s.dir, s.in(tt.more)))
			}
			a, b := boxes[0].ready(), boxes[1].ready()
			s.box, s.daemon = boxes[0], a
			s.until("the first cycle ends", func() bool { return s.ended(1) })
			if tt.want == "web" {
				s.must("trust", "web", "ask")
				s.breaks("web")
				s.asks()
				if status, answer := b.post("/api/v1/approvals/1/approve", map[string]any{}); status != http.StatusOK {
					t.Fatalf("approve answers %d: %v", status, answer)
				}
			} else {
				j := boxes[1].job("db")
				s.address(j.URL)
				j.calls(t, "/fail", "disk full")
			}
			s.byReflex()
			s.done(tt.want)
			if all := s.incidents(); len(all) != 1 {
				t.Errorf("incidents are %+v", all)
			}
			s.read(func(st *store.Store) {
				all, err := st.Cycles(t.Context(), store.CycleFilter{Limit: 10})
				probes := slices.DeleteFunc(all, func(c store.CycleSummary) bool { return c.Trigger != ops.TriggerProbe })
				if err != nil || len(probes) != 1 {
					t.Errorf("%d cycles, %v", len(probes), err)
				}
			})
		})
	}
}
