package cycle_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/cycle"
	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
	"claudeops/test/cycletest"
	"claudeops/test/storetest"
	"claudeops/test/storytest"
)

var record = flag.Bool("record", false, "play the chains of testdata/replay again and write what is decided")

// errDead is what a worker that died would have been told.
var errDead = errors.New("this worker is dead")

// tape stands between Advance and the real journal and keeps every decision with what it was made from.
type tape struct {
	cycle.Journal
	t       *testing.T
	now     ops.Claimed
	taken   []cycletest.Taken
	dead    bool // nothing is written any more
	written int  // steps
	off     bool // another cycle goes first
}

func clock() time.Time { return time.Now().UTC() }

func (p *tape) Claim(ctx context.Context, owner ops.Owner, id ops.CycleID, policy ops.Policy, at time.Time) (ops.Claimed, error) {
	claimed, err := p.Journal.Claim(ctx, owner, id, policy, at)
	if err == nil {
		p.now = claimed
		p.follow()
	}
	return claimed, err
}

// Commit sees a decision as it is written.
func (p *tape) Commit(ctx context.Context, owner ops.Owner, t ops.Transition) (ops.Claimed, error) {
	if p.dead {
		return ops.Claimed{}, errDead
	}
	p.keep(p.now.Journal.With(t.Result), t.At, t.Step)
	next, err := p.Journal.Commit(ctx, owner, t)
	if err != nil {
		return next, err
	}
	p.written++
	p.take(next)
	if t.Step.Kind == ops.StepQueue {
		p.follow()
	}
	return next, nil
}

// take keeps what was known of other cycles, as Advance does.
func (p *tape) take(next ops.Claimed) {
	known := p.now.Journal
	p.now = next
	j := &p.now.Journal
	j.Spend, j.Windows, j.Before, j.LastLook, j.Attacked = known.Spend, known.Windows, known.Before, known.LastLook, known.Attacked
}

func (p *tape) Look(ctx context.Context, known ops.Cycle) (ops.Claimed, error) {
	claimed, err := p.Journal.Look(ctx, known)
	if err == nil {
		p.take(claimed)
	}
	return claimed, err
}

// follow keeps a decision that is only done and not written: it follows from the journal as it stands.
func (p *tape) follow() {
	for i := range p.now.Journal.Sessions {
		report.Read(&p.now.Journal.Sessions[i])
	}
	step := decide.Next(notice.Steps{}, ops.Claimed{Cycle: p.now.Cycle, Journal: p.now.Journal}, clock())
	if (ops.Transition{Step: step}).Empty() {
		p.keep(p.now.Journal, clock(), step)
	}
}

func (p *tape) StartSession(ctx context.Context, owner ops.Owner, id ops.SessionID, planned string, at time.Time, ask ops.BudgetAsk) (*float64, error) {
	if !p.off {
		if p.taken[len(p.taken)-1].Step.Kind == ops.StepPause {
			p.follow() // the pause is over
		}
		if last := p.taken[len(p.taken)-1].Step; last.Kind != ops.StepRun || last.Target != id {
			p.t.Errorf("session %d starts, and the last decision kept is %+v", id, last)
		}
	}
	return p.Journal.StartSession(ctx, owner, id, planned, at, ask)
}

func (p *tape) Release(ctx context.Context, owner ops.Owner, id ops.CycleID) error {
	if p.dead {
		return errDead
	}
	return p.Journal.Release(ctx, owner, id)
}

// keep keeps a decision. Names that are made up anew every time are replaced: nothing is decided from them.
func (p *tape) keep(j ops.Journal, at time.Time, step ops.Step) {
	if p.off {
		return
	}
	j.Sessions = append([]ops.Session(nil), j.Sessions...)
	for i := range j.Sessions {
		s := &j.Sessions[i]
		report.Read(s)
		s.Key = fmt.Sprint("key-", s.ID)
		if s.PlannedID != "" {
			s.PlannedID = fmt.Sprint("planned-", s.ID)
		}
	}
	if is := decide.Next(notice.Steps{}, ops.Claimed{Cycle: p.now.Cycle, Journal: j}, at); len(cycletest.Differences(p.t, step, is)) > 0 {
		p.t.Errorf("what was kept decides otherwise: %v", cycletest.Differences(p.t, step, is))
	}
	p.taken = append(p.taken, cycletest.Taken{Cycle: p.now.Cycle, Journal: j, At: at, Step: step})
}

// act is one run of an agent.
type act func(r *rehearsal, spec ops.SessionSpec) ops.RunResult

// chain is a cycle that is played through the real Advance and the real store.
type chain struct {
	name   string
	ends   ops.CycleStatus
	policy ops.Policy
	new    ops.NewCycle
	acts   []act  // one per session; the last one stays
	plain  bool   // the agent gives no structured output
	gated  bool   // the sessions run behind gates
	says   string // a line of output of each session, which does not see what lies in /srv
	probes func(r *rehearsal, purpose ops.ProbePurpose) []ops.Check
	before func(r *rehearsal) // what was before
	play   func(r *rehearsal) // nil: it goes through in one piece
}

// rehearsal is a chain on its way.
type rehearsal struct {
	*stage
	t     *testing.T
	store *store.Store
	tape  *tape
	owner ops.Owner
	id    ops.CycleID
	ran   int
	seen  int                  // probes
	first func() ops.RunResult // the first session, where the test must hold it
}

func newRehearsal(t *testing.T, c chain) *rehearsal {
	t.Helper()
	s, err := store.Open(t.Context(), storetest.With(store.Options{
		Path: storetest.NewFile(t), Clock: clock, Uptime: func() (string, time.Duration) { return "", 0 },
	}))
	must(t, err)
	r := &rehearsal{t: t, store: s, tape: &tape{Journal: s.Journal, t: t}}
	r.register()
	agent := play(func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
		r.ran++
		if r.ran == 1 && r.first != nil {
			return r.first()
		}
		return c.acts[min(r.ran, len(c.acts))-1](r, spec)
	})
	var runner cycle.Runner = structured{agent}
	if c.plain {
		runner = agent
	}
	if c.says != "" {
		runner = saying{structured{agent}, c.says}
	}
	r.stage = newStage(t, c.policy, func(*stage) play { return nil }, func(p *cycle.Parts) {
		p.Journal, p.Host, p.Clock, p.Health = r.tape, host{owner: func() ops.Owner { return r.owner }}, clock, oneRound(3*time.Second)
		p.Runners = map[string]cycle.Runner{"claude": runner, "codex": runner}
		p.Record = s.Acts
		if c.gated {
			p.Gates = &gates{}
		}
		if c.says != "" {
			p.Gates = &hiding{}
		}
		p.Logger = slog.New(slog.DiscardHandler)
		p.Prober = probes(func(_ []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
			if c.probes == nil {
				return nil
			}
			r.seen++
			return c.probes(r, purpose)
		})
	})
	return r
}

func (r *rehearsal) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rehearsal) register() {
	owner, err := r.store.Journal.RegisterHost(r.t.Context(), "host")
	r.must(err)
	r.owner = owner
}

func (r *rehearsal) submit(n ops.NewCycle) {
	n.Environment, n.At = "default", clock()
	if n.Trigger == "" {
		n.Trigger = ops.TriggerManual
	}
	id, err := r.store.Journal.SubmitCycle(r.t.Context(), n)
	r.must(err)
	r.id = id
}

// advance takes the cycle as far as it goes, and asks once more: of what rests nothing is wanted.
func (r *rehearsal) advance() {
	r.t.Helper()
	r.must(r.Advance(r.t.Context(), r.id, "default"))
	r.rest()
	if c := r.tape.now.Cycle; c.Status == ops.CycleQueued && c.WakeAt != nil { // it waits for a provider
		pass(c.WakeAt.Sub(clock()))
		r.advance()
	}
}

func (r *rehearsal) rest() {
	r.t.Helper()
	c, err := r.store.Journal.Load(r.t.Context(), r.id)
	r.must(err)
	r.tape.now = c
	r.tape.follow()
}

// earlier plays another cycle first.
func (r *rehearsal) earlier() {
	r.t.Helper()
	r.tape.off = true
	r.submit(ops.NewCycle{})
	r.must(r.Advance(r.t.Context(), r.id, "default"))
	r.tape.off = false
}

// die ends the worker in the middle of a session: nothing more is written of it.
func (r *rehearsal) die() { r.tape.dead = true }

// reborn is the next start of the host.
func (r *rehearsal) reborn() {
	r.t.Helper()
	r.register()
	r.tape.dead = false
	r.advance()
}

// crash runs until the worker dies.
func (r *rehearsal) crash() {
	r.t.Helper()
	if err := r.Advance(r.t.Context(), r.id, "default"); !errors.Is(err, errDead) {
		r.t.Fatalf("the worker did not die: %v", err)
	}
}

func (r *rehearsal) answer(status ops.ApprovalStatus) {
	r.t.Helper()
	all, err := r.store.People.Approvals(r.t.Context(), store.ApprovalFilter{Status: ops.ApprovalPending})
	r.must(err)
	if len(all) != 1 {
		r.t.Fatalf("%d questions are open", len(all))
	}
	pass(time.Minute)
	_, err = r.store.People.Answer(r.t.Context(), all[0].ID, status, "ada", "as I see it", clock())
	r.must(err)
}

// incident is the only open one.
func (r *rehearsal) incident() ops.Incident {
	r.t.Helper()
	all, err := r.store.People.Unresolved(r.t.Context(), "default")
	r.must(err)
	if len(all) != 1 {
		r.t.Fatalf("%d incidents are open", len(all))
	}
	return all[0]
}

// A chain ends as it should, through the real store. Some of them are enough to see that; with -record all are played, and their
// decisions are written for the replay.
func TestChainsThroughTheRealStore(t *testing.T) {
	storetest.NewFile(t) // its template is made once, and not within a bubble
	const some = 8
	names := map[string]bool{}
	for i, c := range chains() {
		if names[c.name] {
			t.Errorf("two chains are named %s", c.name)
		}
		names[c.name] = true
		_, err := os.Stat(storyOf(c))
		golden := err == nil
		if !*record && !golden && i%some != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { rehearse(t, c, golden) })
		})
	}
}

// perform plays the whole chain.
func (r *rehearsal) perform(c chain) {
	r.t.Helper()
	if c.before != nil {
		c.before(r)
	}
	r.submit(c.new)
	if c.play == nil {
		r.advance()
		return
	}
	c.play(r)
}

// storyOf is the file with the story of a chain. Those that have one are compared with it.
func storyOf(c chain) string {
	return filepath.Join("..", "story", "testdata", "chains", c.name+".txt")
}

func rehearse(t *testing.T, c chain, golden bool) {
	r := newRehearsal(t, c)
	defer func() { r.must(r.store.Close()) }()
	r.perform(c)
	got, err := r.store.Journal.Cycle(t.Context(), r.id)
	r.must(err)
	if got.Status != c.ends {
		t.Fatalf("the cycle ended %s: %s; want %s", got.Status, got.Reason, c.ends)
	}
	r.replayed()
	rows, err := r.store.Reports.CycleStory(t.Context(), r.id)
	r.must(err)
	told := story.Tell(rows, time.Now())
	if wrong := storytest.Wrong(told); wrong != "" {
		t.Error(wrong)
	}
	if golden {
		storytest.Golden(t, storyOf(c), told, *record)
	}
	if *record && !t.Failed() {
		r.must(os.WriteFile(filepath.Join("..", "decide", "testdata", "replay", c.name+".json"), cycletest.EncodeRecording(t, c.name, c.ends, r.tape.taken), 0o600))
	}
}
