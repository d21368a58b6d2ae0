package cycle_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// reflexive gives web a reflex.
func reflexive(change ...func(*ops.Reflex)) func(*ops.Policy) {
	return func(p *ops.Policy) {
		r := ops.Reflex{Service: "web", On: "http", Status: ops.Down, Do: []string{"restart"}, Tries: 2, Per: 6 * time.Hour}
		for _, c := range change {
			c(&r)
		}
		p.Inventory.Services[0].Reflexes = []ops.Reflex{r}
	}
}

func afterAMinute(r *ops.Reflex) { r.For = time.Minute }

// asksFirst makes each action need a yes.
func asksFirst(p *ops.Policy) {
	for i := range p.Inventory.Services[0].Actions {
		p.Inventory.Services[0].Actions[i].Approval = true
	}
}

func (p planned) Reflex(ctx context.Context, env ops.Environment, cycle ops.CycleID, reflex ops.Reflex, step int) (ops.ActionRun, error) {
	run := ops.ActionRun{
		Environment: env.Name, Service: reflex.Service, Action: reflex.Do[step-1], Kind: ops.ActionCommand, Tier: ops.Tier2, CycleID: &cycle,
		Why: "reflex", Reflex: reflex.Key(), Step: step, Automatic: true, Digest: reflex.Digests[step-1], Does: "/bin/" + reflex.Do[step-1],
	}
	if step == p.refuses {
		return p.r.store.Acts.RefuseStep(ctx, p.r.owner, run, "the cooldown", clock())
	}
	begun, _, err := p.r.store.Acts.BeginAction(ctx, p.r.owner, store.ActionIntent{Run: run, At: clock()})
	p.r.must(err)
	if step == p.dies {
		p.r.die()
		return ops.ActionRun{}, errDead
	}
	status := ops.ActionDone
	if step == p.fails {
		status = ops.ActionFailed
	}
	return p.r.store.Acts.EndAction(ctx, p.r.owner, store.ActionResult{ID: begun.ID, Status: status, At: clock()})
}

func reflexChains() []chain {
	probe := ops.NewCycle{Trigger: ops.TriggerProbe, Services: []string{"web"}}
	with := func(p planned) func(*rehearsal) {
		return func(r *rehearsal) {
			p.r = r
			r.Actions = p
		}
	}
	one, late := policy(probed, acting, reflexive()), policy(probed, acting, reflexive(afterAMinute))
	asked := policy(probed, acting, reflexive(), asksFirst, expiring)
	answered := func(status ops.ApprovalStatus) func(*rehearsal) {
		return func(r *rehearsal) {
			r.advance()
			r.answer(status)
			r.advance()
		}
	}
	twice := policy(probed, acting, reflexive(func(r *ops.Reflex) { r.Do = []string{"restart", "clear"} }))
	return []chain{
		{name: "a-reflex-helps", ends: ops.CycleResolved, policy: one, new: probe, before: with(planned{}), probes: healthyFor(ops.ProbeReflex)},
		{name: "a-reflex-does-not-help", ends: ops.CycleResolved, policy: one, new: probe, acts: []act{hands(2), well}, before: with(planned{}), probes: healthyFor(ops.ProbeVerify)},
		{name: "a-reflex-of-two-actions", ends: ops.CycleResolved, policy: twice, new: probe, before: with(planned{}), probes: healthyFor(ops.ProbeReflex)},
		{name: "a-reflex-stops-at-the-first-failure", ends: ops.CycleResolved, policy: twice, new: probe, acts: []act{hands(2), well}, before: with(planned{fails: 1}), probes: healthyFor(ops.ProbeVerify)},
		{name: "a-reflex-is-refused", ends: ops.CycleResolved, policy: one, new: probe, acts: []act{hands(2), well}, before: with(planned{refuses: 1}), probes: healthyFor(ops.ProbeVerify)},
		{name: "a-reflex-waits-until-it-is-due", ends: ops.CycleResolved, policy: late, new: probe, before: with(planned{}), probes: healthyFor(ops.ProbeReflex)},
		{name: "a-reflex-is-not-needed-any-more", ends: ops.CycleResolved, policy: late, new: probe, before: with(planned{}), probes: healthyFor(ops.ProbeRecheck)},
		{name: "a-worker-dies-within-a-reflex", ends: ops.CycleResolved, policy: one, new: probe, before: with(planned{dies: 1}), probes: healthyFor(ops.ProbeReflex), play: func(r *rehearsal) {
			r.crash()
			with(planned{})(r)
			r.reborn()
		}},
		{name: "a-reflex-is-approved", ends: ops.CycleResolved, policy: asked, new: probe, before: with(planned{}), probes: healthyFor(ops.ProbeReflex), play: answered(ops.ApprovalApproved)},
		{name: "a-reflex-is-denied", ends: ops.CycleBlocked, policy: asked, new: probe, before: with(planned{}), probes: healthyFor(), play: answered(ops.ApprovalDenied)},
		{name: "silence-approves-no-reflex", ends: ops.CycleResolved, policy: asked, new: probe, acts: []act{hands(2), well}, before: with(planned{}), probes: healthyFor(ops.ProbeVerify), play: func(r *rehearsal) {
			r.advance()
			pass(2 * time.Hour)
			r.advance()
		}},
		{name: "a-reflex-is-asked-for-too-late", ends: ops.CycleResolved, policy: asked, new: probe, before: with(planned{}), probes: func(r *rehearsal, purpose ops.ProbePurpose) []ops.Check {
			_, err := r.store.Journal.Rewake(r.t.Context(), []ops.CycleID{r.id}) // something else is answered meanwhile
			r.must(err)
			return healthyFor()(r, purpose)
		}, play: func(r *rehearsal) {
			r.advance()
			r.advance()
			_, err := r.store.Watch.ServiceRecovered(r.t.Context(), "default", "web", time.Time{}, "it answers again", clock())
			r.must(err)
			r.advance()
		}},
		{name: "a-reflex-is-held-by-a-silence", ends: ops.CycleSuppressed, policy: one, new: probe, acts: []act{hands(2)}, before: func(r *rehearsal) {
			with(planned{})(r)
			_, err := r.store.Watch.AddSilence(r.t.Context(), ops.Silence{Environment: "default", Service: "web", Reason: "new disk", Author: "ada", CreatedAt: clock(), Until: clock().Add(time.Hour)})
			r.must(err)
		}, probes: healthyFor()},
	}
}

// A service that fails again and again is repaired so often and no more; then Tier 1 is told that it does not hold.
func TestAReflexIsNotRepeatedForEver(t *testing.T) {
	storetest.NewFile(t)
	c := reflexChains()[0]
	c.acts = []act{hands(2), well}
	synctest.Test(t, func(t *testing.T) {
		r := newRehearsal(t, c)
		defer func() { r.must(r.store.Close()) }()
		r.tape.off = true
		c.before(r)
		for range 3 {
			pass(20 * time.Minute)
			r.submit(c.new)
			r.must(r.Advance(t.Context(), r.id, "default"))
		}
		now, err := r.store.Journal.Load(t.Context(), r.id)
		r.must(err)
		events, err := r.store.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventAction), Limit: 50})
		r.must(err)
		notified := slices.ContainsFunc(events, func(e ops.Event) bool {
			return strings.Contains(e.Message.Words(), "restart was done 2 times in 40 min, and it does not hold")
		})
		if len(now.Journal.Runs) != 0 || len(now.Journal.Sessions) == 0 || !notified {
			t.Errorf("runs %+v, %d sessions, %+v", now.Journal.Runs, len(now.Journal.Sessions), events)
		}
	})
}

// A reflex helps, and the service fails again on probation: that uses the next try, and lowers no trust.
func TestAReflexThatRelapsesHasItsNextTry(t *testing.T) {
	storetest.NewFile(t)
	c := reflexChains()[0]
	c.policy = policy(probed, acting, reflexive(), func(p *ops.Policy) { p.Trust = ops.TrustRepair })
	synctest.Test(t, func(t *testing.T) {
		r := newRehearsal(t, c)
		defer func() { r.must(r.store.Close()) }()
		r.tape.off = true
		c.before(r)
		for try := 1; try <= 2; try++ {
			pass(15 * time.Minute)
			r.submit(c.new)
			r.must(r.Advance(t.Context(), r.id, "default"))
			now, err := r.store.Journal.Load(t.Context(), r.id)
			r.must(err)
			if now.Cycle.VerifiedBy != ops.ProofReflex || len(now.Journal.Runs) != 1 || len(now.Journal.Sessions) != 0 {
				t.Fatalf("try %d: %s by %s with %d sessions", try, now.Cycle.Status, now.Cycle.VerifiedBy, len(now.Journal.Sessions))
			}
			pass(time.Minute)
			claims, err := r.store.Watch.OnProbation(t.Context(), "default", clock())
			r.must(err)
			if len(claims) != 1 {
				t.Fatalf("try %d: on probation are %+v", try, claims)
			}
			again, err := r.store.Watch.Relapsed(t.Context(), ops.Relapse{Claim: claims[0], At: clock(), Found: ops.Check{Service: "web", Probe: "http", Type: ops.CheckHTTP, Status: ops.Down, Error: "502", Purpose: ops.ProbeWatch}})
			r.must(err)
			lowered, err := r.store.People.Lowered(t.Context(), "default")
			r.must(err)
			if !again || len(lowered) != 0 {
				t.Errorf("opened again: %v, trusted less are %+v", again, lowered)
			}
		}
	})
}
