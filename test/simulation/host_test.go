package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"claudeops/internal/cycle"
	"claudeops/internal/engine"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch"
	"claudeops/internal/watch/notify"
)

// The lease of a host as in production: its agents are stopped at two thirds.
const (
	leaseLength = 15 * time.Second
	stopAfter   = leaseLength * 2 / 3
	// keeperTime is how long the agents of a killed supervisor live on: then their keeper has ended them. It is less than a lease.
	keeperTime = 10 * time.Second
)

var errAway = errors.New("the database is away")

// killed unwinds the goroutine of a task whose host was killed.
type killed struct{}

// task is one thing that a host does. It stands still except between two parks.
type task struct {
	sim    *simulation
	host   *host
	name   string
	cycle  ops.CycleID
	env    string
	ends   bool            // it was started to end a cancelled cycle
	ctx    context.Context //nolint:containedctx // the task is a goroutine with its life
	cancel context.CancelCauseFunc
	resume chan bool // false: its host was killed
	parked bool
	killed bool
	done   bool
	ready  time.Time // it does not go on before
	label  string
	read   time.Time // when it last read its cycle, by the clock of the world

	unknown []string // of a watch: the services of which its look found nothing out
}

// park stands still until the seed lets the task go on, and not before a time.
func (k *task) park(ready time.Time, format string, args ...any) {
	if k.killed {
		panic(killed{})
	}
	k.label, k.ready, k.parked = fmt.Sprintf(format, args...), ready, true
	if !<-k.resume {
		panic(killed{})
	}
}

// before parks ahead of a call to the database, which fails on a host that is cut off.
func (k *task) before(format string, args ...any) error {
	k.park(time.Time{}, format, args...)
	k.sim.trace("%s %s", k.name, k.label)
	if k.host.cut {
		return errAway
	}
	return nil
}

// goes reports whether the task can go on now.
func (k *task) goes() bool {
	return k.parked && !k.done && !k.host.paused && (!k.ready.After(time.Now()) || k.ctx.Err() != nil)
}

// step lets the task go on until it parks again, waits for time to pass, or ends.
func (k *task) step() {
	k.parked = false
	k.resume <- true
	synctest.Wait()
}

// host is one supervisor.
type host struct {
	sim     *simulation
	name    string
	owner   ops.Owner
	up      bool
	paused  bool // its processes stand still, as those of a machine that is being moved
	cut     bool // from the database
	late    bool // it was paused or cut off and has not renewed its lease since
	back    time.Time
	renewed time.Time // by the clock that never jumps
	since   time.Time // since when it holds its lease without a gap
	tasks   map[string]*task
	pace    *engine.Pace
	duties  map[string]bool
	watches map[string]*watch.Watch // by environment
	rounds  map[string]time.Time    // when each looks next
	outbox  *notify.Outbox
}

// begin is the start of the supervisor on its host.
func (h *host) begin() {
	h.up, h.paused, h.cut = true, false, false
	h.tasks, h.pace, h.outbox = map[string]*task{}, engine.NewPace(time.Second), nil
	h.duties = map[string]bool{}
	h.watches, h.rounds = map[string]*watch.Watch{}, map[string]time.Time{}
	h.enlist()
	if _, err := h.sim.store.Acts.InterruptActions(h.sim.ctx, h.owner, h.sim.clock()); err != nil {
		h.sim.fail("interrupt actions: %v", err)
	}
}

func (h *host) enlist() {
	s := h.sim
	owner, err := s.store.Journal.Enlist(s.ctx, ops.Host{Name: h.name, Identity: h.name, Environments: s.names()}, leaseLength)
	if err != nil {
		s.fail("enlist %s: %v", h.name, err)
		return
	}
	h.owner, h.renewed, h.since = owner, time.Now(), time.Now()
	s.trace("%s begins term %d", h.name, owner.Term)
}

// kill ends the supervisor where it stands. What it had started lives on until its keeper ends it.
func (h *host) kill(back time.Duration) {
	h.up, h.back = false, time.Now().Add(back)
	for _, k := range h.sorted() {
		if k.done {
			continue
		}
		k.killed = true
		k.cancel(ops.Stop(ops.StopCrash, "killed"))
		if k.parked {
			k.parked = false
			k.resume <- false
		}
		synctest.Wait()
	}
	for _, p := range h.sim.processes {
		if p.host == h && p.until.IsZero() {
			p.until = time.Now().Add(keeperTime)
		}
	}
}

func (h *host) sorted() []*task {
	var out []*task
	for _, k := range h.tasks {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b *task) int { return compare(a.name, b.name) })
	return out
}

// busy reports whether a task of that name has not ended.
func (h *host) busy(name string) bool { k := h.tasks[name]; return k != nil && !k.done }

// start runs a task up to its first park.
func (h *host) start(name string, run func(k *task) error) *task {
	k := &task{sim: h.sim, host: h, name: h.name + "/" + name, resume: make(chan bool)}
	k.ctx, k.cancel = context.WithCancelCause(h.sim.ctx)
	h.tasks[name] = k
	go func() {
		defer func() {
			k.done = true
			if r := recover(); r != nil && r != (killed{}) {
				panic(r)
			}
		}()
		if err := run(k); err != nil {
			h.sim.trace("%s ends: %v", k.name, err)
			if k.cycle != 0 {
				h.pace.Failed(k.cycle, h.sim.clock())
			}
		} else if k.cycle != 0 {
			h.pace.Forget(k.cycle)
		}
	}()
	synctest.Wait()
	return k
}

// lease does what the lease of a host needs after some time. A host that is well has renewed it every few seconds meanwhile.
func (h *host) lease() {
	if !h.up || h.paused {
		return
	}
	if h.cut {
		if time.Since(h.renewed) >= stopAfter {
			h.lost()
		}
		return
	}
	if h.late && time.Since(h.renewed) >= stopAfter {
		h.lost()
		h.since = time.Now()
	}
	if !h.late && time.Since(h.renewed) < leaseLength/5 {
		return
	}
	_, err := h.sim.store.Journal.Renew(h.sim.ctx, h.owner, leaseLength)
	switch {
	case errors.Is(err, ops.ErrFenced):
		h.lost()
		h.enlist()
	case err != nil:
		h.sim.fail("renew lease of %s: %v", h.name, err)
	}
	h.renewed, h.late = time.Now(), false
}

// lost stops what a host may do only while it holds its lease.
func (h *host) lost() {
	for _, k := range h.sorted() {
		if !k.done && k.ctx.Err() == nil {
			k.cancel(ops.Stop(ops.StopLease, "the lease is lost"))
			h.sim.trace("%s is stopped: the lease is lost", k.name)
		}
	}
	clear(h.watches)
	clear(h.duties)
	for key, p := range h.sim.processes {
		if p.host == h {
			delete(h.sim.processes, key)
		}
	}
	synctest.Wait()
}

// holds is nil while the host may change something.
func (h *host) holds() error {
	if h.cut || time.Since(h.renewed) >= stopAfter {
		return errors.New("the lease is not held")
	}
	return nil
}

// tick is what the services of a host do by themselves. The cycles are those that have not ended.
func (h *host) tick(cycles []ops.Cycle) {
	s := h.sim
	if !h.up || h.paused || h.holds() != nil {
		return
	}
	if time.Since(h.since) >= leaseLength {
		reaped, err := s.store.Journal.Reap(s.ctx, h.owner)
		if err != nil {
			s.fail("reap: %v", err)
		}
		for _, r := range reaped {
			s.trace("%s takes over from %s: %v", h.name, r.Host, r.Cycles)
		}
	}
	for _, e := range s.envs {
		if h.has("watch/" + e.Name) {
			h.look(e)
		}
	}
	if h.has("notices") {
		h.tell()
	}
	h.scan(cycles)
}

// has reports whether a duty that one host has is this one's.
func (h *host) has(duty string) bool {
	if h.duties[duty] || !h.sim.chance(30) {
		return h.duties[duty] // it is renewed with the lease
	}
	taken, err := h.sim.store.Journal.TakeDuty(h.sim.ctx, h.owner, duty, leaseLength)
	if err != nil {
		h.sim.fail("take duty: %v", err)
	}
	h.duties[duty] = taken
	return taken
}

// look watches the services of an environment every half minute.
func (h *host) look(e ops.Environment) {
	s, name := h.sim, "watch-"+e.Name
	if h.busy(name) || time.Now().Before(h.rounds[name]) {
		return
	}
	h.rounds[name] = time.Now().Add(30 * time.Second)
	h.start(name, func(k *task) error {
		k.park(time.Time{}, "probes")
		e := s.byName()[e.Name]
		w := h.watches[e.Name]
		if w == nil { // it has the duty anew: another host may have watched since
			var err error
			if w, err = s.newWatch(k, e); err != nil {
				return err
			}
			h.watches[e.Name] = w
		}
		results := s.results(e.Name, e.Probes, ops.ProbeWatch)
		for _, c := range results {
			if !c.Known() {
				k.unknown = append(k.unknown, c.Service)
			}
		}
		w.Deliver(k.ctx, results)
		if len(e.Probes) == 0 || s.chance(10) { // the results are judged as they come
			w.Pass(k.ctx)
		}
		return nil
	})
}

// tell delivers what people are to be told, and reminds them.
func (h *host) tell() {
	s := h.sim
	if h.outbox == nil {
		h.outbox = notify.NewOutbox(notify.OutboxOptions{
			Store: outbox{s.store.People, h}, Sender: sender{h}, Clock: s.clock, Logger: s.logger,
		})
	}
	if !h.busy("outbox") {
		if due, err := s.store.People.DueNotices(s.ctx, s.clock(), 1); err == nil && len(due) > 0 {
			h.start("outbox", func(k *task) error { return h.outbox.Drain(k.ctx) })
		}
	}
	if s.chance(10) {
		if err := s.keeper.Look(s.ctx); err != nil {
			s.fail("look for reminders: %v", err)
		}
	}
}

func (s *simulation) newWatch(k *task, e ops.Environment) (*watch.Watch, error) {
	at := watched{s.store.Watch, k.host, e.Name}
	w, err := watch.New(watch.Options{
		Store: at, Cycles: s.store.Journal, People: heard{s.store.People, at}, Environments: []ops.Environment{e}, Describe: describe, Clock: s.clock, Logger: s.logger,
		Start: func(ops.CycleID) {}, // every host looks for work in every tick
		Cancel: func(ctx context.Context, id ops.CycleID, why string) error {
			_, err := s.store.Journal.RequestCancel(ctx, id, why, s.clock())
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return w, w.Load(k.ctx)
}

// scan starts a task for every environment that has work and none on this host, as the engines do.
func (h *host) scan(cycles []ops.Cycle) {
	s := h.sim
	taken := map[string]bool{} // what a host reads first may be old: now and then two try
	for _, c := range cycles {
		name := "cycle-" + c.Environment
		if c.Status == ops.CycleRunning && c.Owner.Host != h.name {
			taken[c.Environment] = !s.chance(5)
		}
		switch {
		case h.busy(name):
			if k := h.tasks[name]; k.cycle == c.ID && c.CancelRequestedAt != nil && !k.ends && k.ctx.Err() == nil {
				k.cancel(ops.Stop(ops.StopUser, engine.Why(c)))
			}
			continue
		case taken[c.Environment] && c.CancelRequestedAt == nil:
			continue
		case max(h.pace.Wait(c.ID, s.clock()), engine.Due(c, s.clock())) > 0:
			continue
		}
		h.start(name, func(k *task) error {
			k.cycle, k.env, k.ends = c.ID, c.Environment, c.CancelRequestedAt != nil
			k.park(time.Time{}, "work on cycle %d", c.ID)
			return cycle.New(h.parts(k)).Advance(k.ctx, c.ID, c.Environment)
		})
	}
}

// parts are what an advancer of the simulation works with: the real journal, and scripted surroundings.
func (h *host) parts(k *task) cycle.Parts {
	s := h.sim
	agent := agent{k}
	return cycle.Parts{
		Journal: journal{s.store.Journal, k}, Environments: s.byName(), Runners: map[string]cycle.Runner{"claude": agent, "codex": agent},
		Gates: cycle.Ungated{}, Prober: prober{k}, Health: probing{s}, Handoffs: noFiles{}, Host: machine{h}, Record: s.store.Acts,
		Knowledge: noKnowledge{}, Workplace: workplace{k}, Actions: actions{k},
		Redact: func(text string) string { return text }, Clock: s.clock, Logger: s.logger,
	}
}

// machine is a host as its advancers see it.
type machine struct{ h *host }

func (m machine) Owner() ops.Owner                     { return m.h.owner }
func (m machine) Hold(context.Context, ops.Tier) error { return m.h.holds() }
func (machine) Draining() bool                         { return false }
func (machine) Changed(ops.Reach)                      {}
func (machine) Newer(e ops.Environment) (ops.Environment, bool) {
	return e, false
}

type noKnowledge struct{}

func (noKnowledge) Transcript(context.Context, ops.SessionID) ([]ops.Line, error) { return nil, nil }

func (noKnowledge) Recall(context.Context, string, []string) ([]ops.Memory, error) { return nil, nil }
func (noKnowledge) Changes(context.Context, ops.Environment, []string) []string    { return nil }
func (noKnowledge) Notes(context.Context, ops.Environment) []ops.Notes             { return nil }

// workplace knows the processes of sessions; they change the repositories as they are.
type workplace struct{ k *task }

func (w workplace) Sweep(_ context.Context, key string) (int, error) {
	if err := w.k.before("sweep"); err != nil {
		return 0, err
	}
	s := w.k.sim
	defer delete(s.processes, key)
	if s.processes[key] != nil {
		return 1, nil
	}
	return 0, nil
}

func (workplace) Lend(_ context.Context, e ops.Environment, _ ops.Session, _ bool) (string, error) {
	return e.ReposDir, nil
}
func (workplace) TakeBack(context.Context, string) []ops.Event         { return nil }
func (workplace) Recorded(string)                                      {}
func (workplace) Forget(context.Context, ops.Environment, ops.CycleID) {}

// journal is the real one, with a park around every write: a host can be killed before it and after it.
type journal struct {
	*store.Journal
	k *task
}

func (j journal) Claim(ctx context.Context, owner ops.Owner, id ops.CycleID, policy ops.Policy, at time.Time) (ops.Claimed, error) {
	if err := j.k.before("claims cycle %d", id); err != nil {
		return ops.Claimed{}, err
	}
	j.k.sim.moved[j.k.env], j.k.read = time.Now(), j.k.sim.clock()
	return j.Journal.Claim(ctx, owner, id, policy, j.k.sim.clock())
}

func (j journal) Commit(ctx context.Context, owner ops.Owner, t ops.Transition) (ops.Claimed, error) {
	if err := j.k.before("commits %s of cycle %d (%s) %s", t.Step.Kind, t.Cycle, t.Step.Row, t.Step.Status); err != nil {
		return ops.Claimed{}, err
	}
	j.k.sim.moved[j.k.env] = time.Now()
	out, err := j.Journal.Commit(context.WithoutCancel(ctx), owner, t) // how long the seed lets it wait is not how long it takes
	if err == nil && t.Step.Status == ops.CycleResolved {
		j.k.sim.repaired(j.k.env)
	}
	return out, j.after(err)
}

// after parks when a write is done: a host may be killed before it knows.
func (j journal) after(err error) error {
	j.k.park(time.Time{}, "has written")
	return err
}

func (j journal) Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error) {
	if err := j.k.before("loads cycle %d", id); err != nil {
		return ops.Claimed{}, err
	}
	j.k.read = j.k.sim.clock()
	return j.Journal.Load(context.WithoutCancel(ctx), id)
}

func (j journal) Release(ctx context.Context, owner ops.Owner, id ops.CycleID) error {
	if err := j.k.before("releases cycle %d", id); err != nil {
		return err
	}
	return j.Journal.Release(context.WithoutCancel(ctx), owner, id)
}

func (j journal) StartSession(ctx context.Context, owner ops.Owner, id ops.SessionID, planned string, at time.Time, ask ops.BudgetAsk) (*float64, error) {
	if err := j.k.before("starts session %d", id); err != nil {
		return nil, err
	}
	granted, err := j.Journal.StartSession(ctx, owner, id, planned, at, ask)
	return granted, j.after(err)
}

func (j journal) NoteProcess(ctx context.Context, owner ops.Owner, id ops.SessionID, pid int, started string) error {
	if err := j.k.before("notes process of session %d", id); err != nil {
		return err
	}
	return j.Journal.NoteProcess(ctx, owner, id, pid, started)
}

func (j journal) AppendTranscript(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error {
	if err := j.k.before("writes output of session %d", id); err != nil {
		return err
	}
	return j.Journal.AppendTranscript(context.WithoutCancel(ctx), owner, id, lines)
}

// watched is the store of a watch, with a park before what changes incidents, causes and notices.
type watched struct {
	*store.Watch
	h   *host
	env string
}

func (w watched) before(what string) error { return w.h.tasks["watch-"+w.env].before("%s", what) }

// unknown reports whether the look that is being worked on found nothing out about a service.
func (w watched) unknown(service string) bool {
	return slices.Contains(w.h.tasks["watch-"+w.env].unknown, service)
}

func (w watched) RecordResults(ctx context.Context, environment string, kept, counted []ops.Check, states []ops.CheckState, events []ops.Event, alerts []ops.Alert) error {
	if err := w.before("records results in " + environment); err != nil {
		return err
	}
	return w.Watch.RecordResults(ctx, environment, kept, counted, states, events, alerts)
}

func (w watched) OpenCause(ctx context.Context, c ops.Cause, n ops.NewCycle, checks []ops.Check, notice *ops.Notice, since time.Time) (ops.Cause, bool, error) {
	if err := w.before("opens the cause of " + ops.Listed(c.Services)); err != nil {
		return c, false, err
	}
	w.h.sim.moved[w.env] = time.Now()
	if slices.ContainsFunc(c.Services, w.unknown) {
		w.h.sim.fail("nothing starts for who is unknown: a cause of %s is opened", c.Services)
	}
	return w.Watch.OpenCause(ctx, c, n, checks, notice, since)
}

func (w watched) ResolveCause(ctx context.Context, c ops.Cause, how string, over func([]string, []ops.Incident) ops.Notice, at time.Time) error {
	if err := w.before("ends the cause of " + ops.Listed(c.Services)); err != nil {
		return err
	}
	return w.Watch.ResolveCause(ctx, c, how, over, at)
}

func (w watched) ServiceRecovered(ctx context.Context, environment, service string, began time.Time, how string, at time.Time) (int, error) {
	if err := w.before("sees the recovery of " + service); err != nil {
		return 0, err
	}
	proven, err := w.Proven(ctx, environment, at.Add(-ops.Probation-time.Minute)) // what a cycle saw before counts
	if w.unknown(service) && err == nil && !slices.ContainsFunc(proven, func(p ops.Proven) bool { return p.Service == service }) {
		w.h.sim.fail("nothing ends for who is unknown: %s: %s", service, how)
	}
	return w.Watch.ServiceRecovered(ctx, environment, service, began, how, at)
}

func (w watched) Relapsed(ctx context.Context, r ops.Relapse) (bool, error) {
	if err := w.before("sees the relapse of " + r.Claim.Service); err != nil {
		return false, err
	}
	return w.Watch.Relapsed(ctx, r)
}

// heard is where a watch tells people, with a park before.
type heard struct {
	*store.People
	watched
}

func (w heard) AddNotice(ctx context.Context, n ops.Notice) (int64, error) {
	if err := w.before("tells of " + n.Service); err != nil {
		return 0, err
	}
	return w.People.AddNotice(ctx, n)
}

// outbox is the store of an outbox.
type outbox struct {
	*store.People
	h *host
}

func (o outbox) SettleNotice(ctx context.Context, n ops.Notice, event *ops.Event) error {
	if err := o.h.tasks["outbox"].before("settles notice %d: %s", n.ID, n.Status); err != nil {
		return err
	}
	return o.People.SettleNotice(context.WithoutCancel(ctx), n, event)
}

// sender is how notices leave a host. It fails now and then.
type sender struct{ h *host }

func (d sender) Send(_ context.Context, n ops.Notice) ([]string, error) {
	s := d.h.sim
	d.h.tasks["outbox"].park(time.Time{}, "sends notice %d", n.ID)
	if s.chance(5) {
		return nil, errors.New("the phone network is down")
	}
	s.delivered[n.ID]++
	s.trace("%s tells %d: %s %s", d.h.name, n.ID, n.Kind, n.Title)
	return []string{"phone"}, nil
}

// noFiles are the handoff files of agents that report by structured output.
type noFiles struct{}

func (noFiles) Read(string) ([]byte, bool, error) { return nil, false, nil }
func (noFiles) Delete(string) error               { return nil }

func describe(p ops.ProbeSpec) string { return p.Name }
