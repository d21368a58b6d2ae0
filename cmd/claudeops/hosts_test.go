package main_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/pgtest"
)

// hostLease is short for a test and long for a busy machine.
const hostLease = 6 * time.Second

// hosts makes boxes that share one database and one fake agent.
func hosts(t *testing.T, address string, s agenttest.Scenario, names ...string) []*box {
	t.Helper()
	var out []*box
	for _, name := range names {
		b := newBox(t, s, "CLAUDEOPS_DATABASE_URL="+address, "CLAUDEOPS_HOST="+name, "CLAUDEOPS_FAULT_WAITS=lease="+hostLease.String(),
			"CLAUDEOPS_RECOVERY=on", "CLAUDEOPS_INTERVAL=24h")
		b.url = address
		if len(out) > 0 {
			b.env = append(b.env, "CLAUDEOPS_CLAUDE_BIN="+out[0].bin, "CLAUDEOPS_SANDBOX_AGENT_FOLDERS="+filepath.Dir(filepath.Dir(out[0].bin)))
			b.bin = out[0].bin
		}
		out = append(out, b)
	}
	return out
}

// held is a play that goes on when the file exists.
func held(p agenttest.Play, file string) agenttest.Play {
	p.Steps = append([]agenttest.Step{
		{Out: agenttest.Init()},
		{Out: agenttest.Text("I am at it.")},
		{Run: fmt.Sprintf("while [ ! -e %s ]; do sleep 0.05; done", file)},
	}, p.Steps...)
	return p
}

func gateFile(t *testing.T) string { return filepath.Join(t.TempDir(), "go-on") }

func open(t *testing.T, file string) {
	t.Helper()
	must(t, os.WriteFile(file, nil, 0o600))
}

// session returns the newest session of the newest cycle.
func (b *box) session() (ops.Session, bool) {
	c, ok := b.newest()
	if !ok || len(c.Journal.Sessions) == 0 {
		return ops.Session{}, false
	}
	return c.Journal.Sessions[len(c.Journal.Sessions)-1], true
}

// working waits until a session of the tier runs, and returns it.
func (d *daemon) working(tier ops.Tier) (out ops.Session) {
	d.t.Helper()
	d.until(fmt.Sprintf("a session of %s runs", tier), func() bool {
		s, ok := d.session()
		out = s
		return ok && s.Tier == tier && s.Status == ops.SessionRunning && s.PID > 0
	})
	return out
}

// finishedOnce fails when a tier was finished twice.
func (b *box) finishedOnce(want ops.CycleStatus) {
	b.t.Helper()
	c := b.cycle()
	if c.Cycle.Status != want {
		b.t.Errorf("the cycle is %s (%s), want %s", c.Cycle.Status, c.Cycle.Reason, want)
	}
	done := map[ops.Tier]int{}
	for _, s := range c.Journal.Sessions {
		if s.Status == ops.SessionCompleted {
			done[s.Tier]++
		}
		if !s.Status.Ended() {
			b.t.Errorf("session %d is still %s", s.ID, s.Status)
		}
	}
	for tier, n := range done {
		if n != 1 {
			b.t.Errorf("%s was finished %d times", tier, n)
		}
	}
}

func TestSeveralHostsShareOneDatabase(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	boxes := hosts(t, pgtest.URL(t), plays(held(agenttest.Healthy(0.02), gate)), "a", "b")
	a, b := boxes[0].ready(), boxes[1].ready()
	s := a.working(ops.Tier1)
	runs, looks := a, b
	if s.Owner == "b" {
		runs, looks = b, a
	}
	// The page of the host that does not run it shows it, and so does its API.
	looks.until("the other host shows what it says", func() bool {
		status, page := looks.get(fmt.Sprintf("/sessions/%d", s.ID))
		return status == 200 && strings.Contains(page, "I am at it.")
	})
	// Cancelled there, it ends here.
	begun := time.Now()
	if status, _ := looks.post(fmt.Sprintf("/api/v1/cycles/%d/cancel", s.CycleID), map[string]string{"reason": "enough"}); status >= 300 {
		t.Fatalf("cancel answers %d", status)
	}
	runs.until("the stop has come", func() bool { return strings.Contains(runs.log.String(), "stopping session") })
	t.Logf("the stop came after %s", time.Since(begun).Round(time.Millisecond))
	looks.until("the cycle is cancelled", func() bool { return looks.cycle().Cycle.Status.Ended() })
	runs.finishedOnce(ops.CycleCancelled)
	if n := len(a.calls()); n != 1 {
		t.Errorf("%d sessions were started", n)
	}
	r := boxes[0].run("hosts", "list")
	if r.code != 0 || strings.Count(r.stdout, "alive") != 2 {
		t.Errorf("hosts list exits %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for path, want := range map[string]string{"/hosts": `<code>b</code>`, "/api/v1/hosts": `"name":"b"`} {
		if status, body := a.get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s answers %d without %s", path, status, want)
		}
	}
	for _, d := range []*daemon{a, b} {
		if code := d.stop(); code != 0 {
			t.Errorf("exit %d\n%s", code, d.log)
		}
		d.nothingLeft()
	}
}

// The lease is kept while the rest of the start goes on, however long that takes; so it is there to be given up.
func TestAHostThatCannotStartGivesUpItsLease(t *testing.T) {
	t.Parallel()
	b := hosts(t, pgtest.URL(t), plays(agenttest.Healthy(0.02)), "a")[0]
	config := filepath.Join(t.TempDir(), "claudeops.yaml")
	must(t, os.WriteFile(config, []byte("environments: [{name: near}]\n"), 0o600))
	must(t, os.MkdirAll(filepath.Join(b.state, "env"), 0o700))
	must(t, os.WriteFile(filepath.Join(b.state, "env", "near"), nil, 0o600))
	if r := b.run("serve", "--config", config); r.code == 0 || !strings.Contains(r.stderr, "create state folder of near") {
		t.Fatalf("serve exits %d\n%s", r.code, r.stderr)
	}
	b.read(func(s *store.Store) {
		all, err := s.Journal.Hosts(context.Background())
		must(t, err)
		if len(all) != 1 || all[0].ExpiresAt != nil {
			t.Errorf("it still holds its lease: %+v", all)
		}
	})
}

func TestAHostTakesOnlyWhatItIsLabelledFor(t *testing.T) {
	t.Parallel()
	boxes := hosts(t, pgtest.URL(t), plays(agenttest.Healthy(0.02)), "a", "b")
	config := filepath.Join(t.TempDir(), "claudeops.yaml")
	must(t, os.WriteFile(config, []byte("environments:\n  - {name: near, labels: [here]}\n  - {name: far, labels: [there]}\n"), 0o600))
	for i, label := range []string{"here", "there"} {
		boxes[i].env = append(boxes[i].env, "CLAUDEOPS_CONFIG="+config, "CLAUDEOPS_HOST_LABELS="+label)
	}
	a := boxes[0].ready()
	a.until("its own environment was checked", func() bool { return a.ended(1) })
	if r := boxes[0].run("run", "--environment", "far", "--detach", "look"); r.code != 0 {
		t.Fatalf("run exits %d\n%s", r.code, r.stderr)
	}
	b := boxes[1].ready()
	b.until("both of the other were checked", func() bool {
		var open []ops.Cycle
		b.read(func(s *store.Store) { open, _ = s.Journal.Unfinished(context.Background()) })
		c, _ := b.newest()
		return len(open) == 0 && c.Cycle.ID >= 2
	})
	b.read(func(s *store.Store) {
		all, err := s.Reports.Cycles(context.Background(), store.CycleFilter{Limit: 10})
		must(t, err)
		for _, c := range all {
			want := map[string]string{"near": "a", "far": "b"}[c.Environment]
			for _, s := range c.Sessions {
				if s.Owner != want {
					t.Errorf("%s was checked by %s", c.Environment, s.Owner)
				}
			}
		}
	})
}

func TestAHostThatDiesIsFollowed(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	boxes := hosts(t, pgtest.URL(t), plays(agenttest.Escalates(1, 0.03, "jellyfin"), held(tier(2, agenttest.Healthy(0.3)), gate)), "a", "b")
	a, b := boxes[0].ready(), boxes[1].ready()
	s := a.working(ops.Tier2)
	dies, lives := a, b
	if s.Owner == "b" {
		dies, lives = b, a
	}
	killed := time.Now()
	must(t, dies.cmd.Process.Kill())
	lives.until("the other continues", func() bool {
		n, ok := lives.session()
		return ok && n.ID != s.ID && n.Owner == lives.name() && n.Status == ops.SessionRunning
	})
	t.Logf("continued after %s with a lease of %s", time.Since(killed).Round(time.Millisecond), hostLease)
	open(t, gate)
	lives.until("the cycle ends", func() bool { return lives.cycle().Cycle.Status.Ended() })
	lives.finishedOnce(ops.CycleResolved)
	now := lives.cycle()
	left := now.Journal.Session(s.ID)
	if left.Status != ops.SessionInterrupted || left.StopCause != ops.StopLease {
		t.Errorf("what ran on the dead host is %s, %s", left.Status, left.StopCause)
	}
	next := now.Journal.Sessions[len(now.Journal.Sessions)-1]
	if next.RetryOf == nil || *next.RetryOf != s.ID || next.ContextMode == ops.ContextResume {
		t.Errorf("it was continued as %+v", next)
	}
	lives.nothingLeft()
	dies.nothingLeft()
}

func (b *box) name() string {
	for _, v := range b.env {
		if name, ok := strings.CutPrefix(v, "CLAUDEOPS_HOST="); ok {
			return name
		}
	}
	return ""
}

func TestADatabaseThatIsAwayStopsRepairsAndLosesNothing(t *testing.T) {
	t.Parallel()
	c := pgtest.New(t)
	gate := gateFile(t)
	talks := held(tier(2, agenttest.Healthy(0.3)), gate)
	talks.Steps = talks.Steps[:2:2]
	for i := range 1000 { // far longer than a lease
		talks.Steps = append(talks.Steps, agenttest.Step{Out: agenttest.Text(fmt.Sprintf("line %d", i)), Sleep: 50 * time.Millisecond})
	}
	talks.Attempt = 1
	boxes := hosts(t, c.Database(t), plays(agenttest.Escalates(1, 0.03, "jellyfin"), talks, tier(2, agenttest.Healthy(0.3))), "a")
	d := boxes[0].ready()
	s := d.working(ops.Tier2)
	d.until("it talks", func() bool { n := 0; d.read(func(st *store.Store) { n = count(t, st, s.ID) }); return n > 5 })
	before := 0
	d.read(func(st *store.Store) { before = count(t, st, s.ID) })
	must(t, c.Stop(t.Context()))
	d.until("the agent is gone", func() bool { return !alive(s.PID) })
	must(t, c.Resume(t.Context()))
	d.until("the cycle ends", func() bool { return d.cycle().Cycle.Status.Ended() })
	d.finishedOnce(ops.CycleResolved)
	if left := d.cycle().Journal.Session(s.ID); left.Status != ops.SessionInterrupted {
		t.Errorf("what ran is %s", left.Status)
	}
	d.until("what was kept is stored", func() bool {
		kept, _ := filepath.Glob(filepath.Join(d.state, "spool", "*"))
		return len(kept) == 0
	})
	d.read(func(st *store.Store) {
		lines, err := st.Journal.Transcript(context.Background(), s.ID, 0, 1000)
		must(t, err)
		said := 0
		for i, l := range lines {
			if l.Seq != int64(i+1) {
				t.Fatalf("line %d has the number %d", i+1, l.Seq)
			}
			if strings.Contains(l.Text, "line ") {
				said++
			}
		}
		t.Logf("%d lines are stored", said)
		if said <= before+10 { // it went on for seconds after the database had gone
			t.Errorf("only %d lines, %d of them from before", said, before)
		}
	})
	d.nothingLeft()
}

func TestADaemonWaitsForADatabaseThatStarts(t *testing.T) {
	t.Parallel()
	c := pgtest.New(t)
	b := hosts(t, c.Database(t), plays(agenttest.Healthy(0.02)), "a")[0]
	must(t, c.Stop(t.Context()))
	if r := b.run("once"); r.code == 0 || strings.Contains(r.stderr, "trying again") {
		t.Errorf("once waits, although somebody waits for it: %d\n%s", r.code, r.stderr)
	}
	waiting := func() *daemon {
		d := b.serve()
		d.until("it says what it waits for", func() bool {
			return strings.Contains(d.log.String(), "the database does not answer yet; trying again")
		})
		return d
	}
	if code := waiting().stop(); code != 0 {
		t.Errorf("asked to stop while it waits, it exits %d", code)
	}
	d := waiting()
	must(t, c.Resume(t.Context()))
	d.until("it works", func() bool {
		status, _ := d.get("/readyz")
		return status == http.StatusOK
	})
}

func count(t *testing.T, s *store.Store, id ops.SessionID) int {
	t.Helper()
	n, err := s.Journal.TranscriptCount(context.Background(), id)
	if err != nil {
		return 0 // the database may be away
	}
	return int(n)
}

func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestAHostThatIsCutOffCannotWrite(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	line, err := pgtest.NewProxy(t.Context(), address, 0)
	must(t, err)
	t.Cleanup(func() { _ = line.Close() })
	gate := gateFile(t)
	boxes := hosts(t, address, plays(agenttest.Escalates(1, 0.03, "jellyfin"), held(tier(2, agenttest.Healthy(0.3)), gate)), "a", "b")
	boxes[0].env = append(boxes[0].env, "CLAUDEOPS_DATABASE_URL="+line.Address(address))
	a := boxes[0].ready()
	s := a.working(ops.Tier2)
	b := boxes[1].ready()
	line.Cut()
	b.until("the other continues", func() bool {
		n, ok := b.session()
		return ok && n.ID != s.ID && n.Owner == "b" && n.Status == ops.SessionRunning
	})
	if alive(s.PID) {
		t.Error("the agent of the host that was cut off works on beside the next one")
	}
	if status, body := a.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "cannot reach its database") {
		t.Errorf("the host that was cut off says that it is ready: %d %s", status, body)
	}
	line.Mend()
	a.until("it is back with a new term", func() bool {
		back := false
		b.read(func(s *store.Store) {
			all, err := s.Journal.Hosts(context.Background())
			back = err == nil && len(all) == 2 && all[0].Alive && all[0].Term > 1
		})
		return back
	})
	a.until("it is ready", func() bool { status, _ := a.get("/readyz"); return status == http.StatusOK })
	open(t, gate)
	b.until("the cycle ends", func() bool { return b.cycle().Cycle.Status.Ended() })
	b.finishedOnce(ops.CycleResolved)
	a.nothingLeft()
}

func TestARollingUpgradeDrains(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	boxes := hosts(t, pgtest.URL(t), plays(held(agenttest.Escalates(1, 0.03, "jellyfin"), gate), tier(2, agenttest.Healthy(0.3))), "a", "b")
	a := boxes[0].ready()
	first := a.working(ops.Tier1)
	drained := make(chan ran, 1)
	go func() { drained <- boxes[0].run("hosts", "drain") }()
	a.until("it drains", func() bool { return strings.Contains(a.log.String(), "draining:") })
	b := boxes[1].ready()
	open(t, gate)
	if r := <-drained; r.code != 0 || !strings.Contains(r.stderr, "is drained") {
		t.Errorf("drain exits %d\n%s", r.code, r.stderr)
	}
	b.until("the cycle ends", func() bool { return b.cycle().Cycle.Status.Ended() })
	b.finishedOnce(ops.CycleResolved)
	sessions := b.cycle().Journal.Sessions
	if len(sessions) != 2 || sessions[0].ID != first.ID || sessions[0].Owner != "a" || sessions[1].Owner != "b" {
		t.Errorf("the sessions are %+v", sessions)
	}
	if code := a.stop(); code != 0 {
		t.Errorf("stopped with %d", code)
	}
}

// What a chain asks of the database is what it waits for where the database is far away. What the daemon also asks at rest does not
// count, and of several chains the least does.
func TestAChainAsksLittleOfTheDatabase(t *testing.T) {
	t.Parallel()
	const chains, most = 4, 132
	address := pgtest.URL(t)
	proxy, err := pgtest.NewProxy(t.Context(), address, 0)
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	b := hosts(t, proxy.Address(address), plays(
		agenttest.Escalates(1, 0.01, "jellyfin"), agenttest.Escalates(2, 0.01, "jellyfin"), tier(3, agenttest.Healthy(0.01)),
	), "a")[0]
	b.url = address // what the test reads does not count
	d := b.ready()
	d.until("the first chain ends", func() bool { c, ok := d.newest(); return ok && c.Cycle.Status.Ended() })
	rest, atRest := proxy.Traffic(), pgtest.Traffic{}
	d.until("the lease was renewed twice", func() bool {
		atRest = proxy.Traffic().Since(rest)
		renewed := 0
		for text, n := range atRest.Statements {
			if strings.HasPrefix(text, "UPDATE hosts SET seen_at") {
				renewed += n
			}
		}
		return renewed >= 2
	})
	var least pgtest.Traffic
	for n := range ops.CycleID(chains) {
		if sessions := len(d.cycle().Journal.Sessions); sessions != 3 {
			t.Fatalf("the chain has %d sessions", sessions)
		}
		before := proxy.Traffic()
		if status, _ := d.post("/api/v1/cycles", map[string]string{}); status != http.StatusAccepted {
			t.Fatalf("a cycle is answered with %d", status)
		}
		d.until("the next chain ends", func() bool { c := d.cycle().Cycle; return c.ID > n+1 && c.Status.Ended() })
		asked := proxy.Traffic().Since(before)
		for text := range atRest.Statements {
			delete(asked.Statements, text)
		}
		if n == 0 || asked.Sum() < least.Sum() {
			least = asked
		}
	}
	if least.Sum() > most {
		t.Errorf("a chain of three sessions may ask %d statements, and it asks\n%s", most, least)
	}
	t.Logf("%d statements, %d waits", least.Sum(), least.Trips)
}
