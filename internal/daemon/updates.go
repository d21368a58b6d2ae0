package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/agent"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/decide"
	"claudeops/internal/decide/health"
	"claudeops/internal/desk"
	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// versionsEvery is how often a registry is asked about a service.
	versionsEvery = 24 * time.Hour
	// updatePoll is how often updates are looked for that another process has written.
	updatePoll = 10 * time.Second
	// updateSlot is how long after its time a schedule is still obeyed.
	updateSlot = 2 * time.Hour
	// watchRound is the longest time between two looks at a changed service, confirmRound the time after a bad one.
	watchRound   = 10 * time.Second
	confirmRound = 2 * time.Second
	// troubleApart is the time between two looks that find the same wrong with a container.
	troubleApart = 5 * time.Second
)

// updater gives services newer images, one at a time. The rows say how far it is; it remembers only what it did itself.
type updater struct {
	plan  *plan
	desk  *desk.Desk
	since time.Time // the schedule counts from here on: the updater of an earlier configuration may not have looked since
	at    phaseOf
	bad   bool // the last look found something worse
	memo  struct {
		effect decide.UpdateEffect
		failed string
		worse  []string
		ill    time.Time // since when every look has found the container in trouble
	}
}

// updated is the service of an update, and how it is recreated.
type updated struct {
	env  ops.Environment
	spec ops.ActionSpec
}

// phaseOf is what the memory of an updater is about.
type phaseOf struct {
	id    int64
	phase ops.UpdatePhase
}

func (p *plan) newUpdater() *updater {
	return &updater{plan: p, since: p.Clock().Add(-2 * updatePoll), desk: letters{p}.newDesk()}
}

// run updates services until ctx ends.
func (p *updater) run(ctx context.Context, nudges <-chan struct{}) error {
	supervisor.Every(ctx, updatePoll, nudges, func() {
		if err := p.round(ctx); err != nil && ctx.Err() == nil {
			p.plan.Logger.WarnContext(ctx, "updates could not be looked after", "error", err)
		}
	})
	return nil
}

func (p *updater) round(ctx context.Context) error {
	if err := p.askBySchedule(ctx); err != nil {
		return err
	}
	open, err := p.plan.store.Acts.Updates(ctx, store.UpdateFilter{Open: true})
	if err != nil {
		return err
	}
	slices.Reverse(open) // the oldest first
	for _, u := range open {
		if ctx.Err() != nil {
			return nil
		}
		env, mine := p.plan.works(u.Environment)
		if !mine || u.Owner != "" && u.Owner != p.plan.Config.Host.Name || u.Phase == ops.UpdateWaiting {
			continue
		}
		if err := p.last(ctx, env, u); err != nil {
			return err
		}
	}
	return p.seeVersions(ctx)
}

// askBySchedule asks for the updates that are due. A time that passes while no daemon runs is skipped.
func (p *updater) askBySchedule(ctx context.Context) error {
	now := p.plan.Clock()
	for _, e := range p.plan.mine {
		for _, s := range e.Policy.Inventory.Services {
			if s.Updates.Schedule == "" {
				continue
			}
			window, err := health.ParseMaintenance(ops.Maintenance{Schedule: s.Updates.Schedule, Length: updateSlot})
			if err != nil {
				return err
			}
			until, due := window.Active(now)
			slot := until.Add(-updateSlot)
			if !due || slot.Before(p.since) {
				continue
			}
			if still, err := p.plan.store.People.Standstill(ctx); err != nil || still != nil {
				return err // a time that passes is skipped
			}
			_, err = p.plan.store.Acts.AskUpdate(ctx, ops.Update{Environment: e.Name, Service: s.Name, Slot: &slot}, now)
			if err != nil && !errors.Is(err, ops.ErrConflict) {
				return err
			}
		}
	}
	return nil
}

// seeVersions looks at images, once a day each, and at one of them in a round: a registry may take long to answer.
func (p *updater) seeVersions(ctx context.Context) error {
	for _, e := range p.plan.mine {
		var seen []ops.Version
		for _, s := range e.Policy.Inventory.Services {
			spec, not := s.Update()
			if not != "" {
				continue // most services of a large machine
			}
			if seen == nil {
				var err error
				if seen, err = p.plan.store.Acts.Versions(ctx, e.Name); err != nil {
					return err
				}
			}
			i := slices.IndexFunc(seen, func(v ops.Version) bool { return v.Service == s.Name })
			if i >= 0 && p.plan.Clock().Sub(seen[i].At) < versionsEvery {
				continue
			}
			if _, err := p.plan.actions.Current(ctx, e, spec); err != nil && p.plan.lease != nil {
				continue // another host may have it
			}
			return p.plan.store.Acts.SeeVersion(ctx, p.plan.actions.Version(ctx, e, spec))
		}
	}
	return nil
}

// last advances an update to its end under the plan that begins here, whatever takes the place of that.
func (p *updater) last(ctx context.Context, env ops.Environment, u ops.Update) error {
	ctx, end := ops.Lasting(ctx)
	defer end()
	return p.advance(ctx, env, u)
}

// advance does what is next for an update, until it ends or has to wait for something else than time.
func (p *updater) advance(ctx context.Context, env ops.Environment, u ops.Update) error {
	spec, not := env.Policy.Inventory.Update(u.Service)
	of := updated{env, spec}
	if u.Phase.Runs() && p.at.id != u.ID { // of a process that ended
		if _, err := agent.Sweep(ctx, act.UpdateKey(u)); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		if now := (phaseOf{u.ID, u.Phase}); p.at != now {
			p.at, p.bad = now, false
			p.memo.effect, p.memo.failed, p.memo.worse, p.memo.ill = decide.EffectNone, "", nil, time.Time{}
		}
		facts, here, err := p.facts(ctx, of, u)
		if err != nil || !here {
			return err
		}
		facts.Watch = failpoint.Wait("update", env.Policy.Inventory.Watched(u.Service))
		if not != "" && u.Phase.Runs() { // it was taken out of the configuration meanwhile
			facts.Failed = "it is not configured any more: " + not
		}
		step := decide.Update(u, facts, p.plan.Clock())
		switch {
		case step.Effect != decide.EffectNone:
			failpoint.Hit("update.", string(step.Effect), ".before")
			p.perform(ctx, of, &u, step.Effect)
			failpoint.Hit("update.", string(step.Effect), ".after")
		case step.Phase != "":
			if u, err = p.move(ctx, of, u, step, facts.Watch); err != nil || u.Phase.Ended() || u.Phase == ops.UpdateWaiting {
				return err
			}
		case u.Phase == ops.UpdateWatching:
			pause := min(watchRound, max(facts.Watch/20, 100*time.Millisecond))
			if facts.Doubt != "" {
				pause = min(confirmRound, pause)
			}
			ops.Pause(ctx, pause)
		default:
			return nil
		}
	}
	return nil
}

// facts reads what the next step depends on. Here is false if another host has the container.
func (p *updater) facts(ctx context.Context, of updated, u ops.Update) (f decide.UpdateFacts, here bool, err error) {
	env, spec := of.env, of.spec
	f.Done, f.Failed, f.Worse = p.memo.effect, p.memo.failed, p.memo.worse
	if u.Phase == ops.UpdateAsked || u.Phase == ops.UpdateTagged { // nothing is changed yet
		still, err := p.plan.store.People.Standstill(ctx)
		if err != nil || u.Phase == ops.UpdateAsked && (still != nil || p.plan.draining.Load()) {
			return f, false, err
		}
		lowered, err := p.plan.store.People.Lowered(ctx, env.Name)
		if err != nil {
			return f, false, err
		}
		f.Trust, f.Tier, f.MaxTier = env.Policy.Trusts(u.Service, lowered), spec.Tier, env.Policy.MaxTier
		if f.Held, err = p.desk.UpdateHeld(ctx, env, u.Service, u.ID); err != nil || f.Held != "" {
			return f, true, err
		}
		if err := p.plan.may(); err != nil {
			f.Held = "nothing may be changed now: " + err.Error()
			return f, true, nil
		}
		if _, err := p.plan.actions.Current(ctx, env, spec); err != nil {
			f.Held = "its container cannot be looked at: " + p.plan.redact(err.Error())
			return f, p.plan.lease == nil, nil // another host may have it
		}
		return f, true, nil
	}
	var worse []string
	if u.Phase == ops.UpdateWatching {
		f.Settle = p.plan.actions.SettleTime(ctx, env, u.Touches)
		worse = ops.Worse(u.States, p.plan.actions.Look(ctx, env, u.Touches))
	}
	now, err := p.plan.actions.Current(ctx, env, spec)
	if err == nil && now.Started {
		f.Image, f.Running = now.Image.ID, now.Running
	}
	if u.Phase == ops.UpdateWatching {
		p.judge(&f, worse, now, err)
	}
	return f, true, nil
}

// judge says what a look at a watched service means: a bad one is confirmed by the next, but what its engine has counted counts at once.
func (p *updater) judge(f *decide.UpdateFacts, worse []string, now act.Current, err error) {
	if p.bad {
		f.Worse = worse
	}
	if p.bad = len(worse) > 0; p.bad {
		f.Doubt = "worse than before: " + strings.Join(worse, ", ")
	}
	trouble := now.Trouble
	switch {
	case errors.Is(err, ops.ErrNotFound):
		trouble = "its container is gone"
	case err != nil:
		f.Doubt = p.plan.redact(err.Error())
	case now.Restarts > 0: // the update has made this container
		f.Against = fmt.Sprintf("its container ended by itself and was started again %s", ops.Plural(now.Restarts, "time", "times"))
	}
	switch {
	case trouble == "":
		p.memo.ill = time.Time{}
	case p.memo.ill.IsZero():
		f.Doubt, p.memo.ill = trouble, p.plan.Clock()
	case p.plan.Clock().Sub(p.memo.ill) >= troubleApart && f.Against == "":
		f.Against = trouble
	default:
		f.Doubt = trouble
	}
}

// perform does one thing and remembers how it went.
func (p *updater) perform(ctx context.Context, of updated, u *ops.Update, e decide.UpdateEffect) {
	env, spec := of.env, of.spec
	var err error
	switch e {
	case decide.EffectPull:
		err = p.plan.actions.Fetch(ctx, env, spec, u)
	case decide.EffectChange:
		err = p.plan.actions.Change(ctx, env, spec, *u, false)
	case decide.EffectBack:
		err = p.plan.actions.Change(ctx, env, spec, *u, true)
	case decide.EffectVerify:
		p.memo.worse = p.plan.actions.Verify(ctx, env, spec, *u)
	case decide.EffectNone:
	}
	p.memo.effect = e
	if err != nil && ctx.Err() == nil {
		p.memo.failed = p.plan.redact(err.Error())
	}
	if ctx.Err() != nil {
		p.memo.effect = decide.EffectNone // it is looked at again after the next start
	}
}

// move writes the next phase.
func (p *updater) move(ctx context.Context, of updated, u ops.Update, step decide.UpdateStep, watch time.Duration) (ops.Update, error) {
	from := u.Phase
	if step.Phase == ops.UpdateKept {
		earlier, err := p.plan.store.Acts.Updates(ctx, store.UpdateFilter{Environment: u.Environment, Service: u.Service, Before: u.ID})
		if err != nil {
			return u, err
		}
		if err := p.plan.actions.Keep(ctx, of.env, u, earlier); err != nil {
			p.plan.Logger.WarnContext(ctx, "a kept update could not be tagged", "update", u.ID, "error", err)
		}
	}
	u.Phase, u.PhaseAt = step.Phase, p.plan.Clock()
	if step.Why != "" {
		u.Result = step.Why
	}
	err := p.plan.store.Acts.AdvanceUpdate(ctx, p.plan.Owner(), u, from, watch)
	if errors.Is(err, ops.ErrConflict) { // another one runs, or somebody withdrew it
		u.Phase = from
		return u, err
	}
	if err != nil {
		return u, err
	}
	p.plan.Logger.InfoContext(ctx, "an update goes on",
		"update", u.ID, "service", u.Service, "phase", u.Phase, "row", step.Row, "why", step.Why)
	if u.Phase.Ended() {
		if err := p.plan.store.Acts.SeeVersion(ctx, p.plan.actions.Version(ctx, of.env, of.spec)); err != nil {
			return u, err
		}
	}
	p.plan.hub.Nudge()
	return u, nil
}
