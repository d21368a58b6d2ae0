package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/watch/alert"
)

// judge decides for every bad service whether it starts a cycle, and records those that are held back.
func (w *Watch) judge(ctx context.Context, env *environment) {
	now := w.o.Clock()
	env.next = time.Time{}
	if env.allGood() {
		return
	}
	if due := env.judged.Add(env.judgePause()); now.Before(due) && !now.Before(env.judged) {
		env.next = due
		return
	}
	env.judged = now
	claims := w.claims(ctx, env, now)
	w.confirm(ctx, env, now)
	picture, open, err := w.picture(ctx, env, now)
	if err != nil {
		w.logError(ctx, "read silences and incidents", err)
		env.next = now.Add(5 * time.Second)
		return
	}
	w.endResolved(ctx, env, picture, now)
	w.releaseEnded(ctx, env, picture, open)
	picture.Causes = env.causes
	verdict := health.Judge(picture, env.grouping, now)
	w.relapses(ctx, env, claims, picture, verdict, now)
	verdict.Causes = slices.DeleteFunc(verdict.Causes, func(c health.NewCause) bool {
		cycle, repeats := env.onlyRepeats(c)
		if repeats {
			verdict.Held = append(verdict.Held, coveredAlert(c, cycle))
		}
		return repeats
	})
	w.join(ctx, env, verdict.Held)
	w.withhold(ctx, env, verdict.Held) // before a cycle reads it: what a silence held until now is held no more
	for _, c := range verdict.Causes {
		w.open(ctx, env, c, now)
	}
	env.next = verdict.Next
	w.dispute(ctx, env, picture, verdict.Held, open, now)
	if len(verdict.Flapping) > 0 {
		if err := w.tellFlapping(ctx, env, verdict.Flapping, now); err != nil {
			w.logError(ctx, "tell people of flapping services", err)
		}
	}
}

// tellFlapping tells people of services that flap, unless a cycle still works on them or an incident says enough.
func (w *Watch) tellFlapping(ctx context.Context, env *environment, flapping []health.Flapping, now time.Time) error {
	open, err := w.o.People.Unresolved(ctx, env.config.Name)
	if err != nil {
		return fmt.Errorf("read incidents: %w", err)
	}
	busy := map[string]bool{}
	for _, i := range open {
		busy[i.Service] = true
	}
	for _, c := range env.causes {
		if cycle, err := w.o.Cycles.Cycle(ctx, c.Cycle); err == nil && !cycle.Status.Ended() {
			for _, name := range c.Services {
				busy[name] = true
			}
		}
	}
	flapping = slices.DeleteFunc(flapping, func(f health.Flapping) bool { return busy[f.Service] })
	if len(flapping) == 0 {
		return nil
	}
	if _, err := w.o.People.AddNotice(ctx, flappingNotice(env.config.Name, flapping, now)); err != nil {
		return err
	}
	notified := map[string]bool{}
	for _, f := range flapping {
		notified[f.Service] = true
	}
	for k, v := range env.states {
		if v.Flapping && notified[k.service] {
			v.Notified = true
			env.states[k] = v
		}
	}
	w.o.Changed(ops.ReachAll)
	return nil
}

// judgePause is the shortest time between two judgements: with very many states each takes long.
func (env *environment) judgePause() time.Duration {
	const many = 1000
	if len(env.states) <= many {
		return 0
	}
	return min(time.Duration(len(env.states)/many)*minPause, 5*time.Second)
}

// allGood: nothing is bad, no cause has to be ended, and nobody has to be told of anything.
func (env *environment) allGood() bool {
	if len(env.withheld) > 0 || slices.ContainsFunc(env.causes, func(c ops.Cause) bool { return c.ResolvedAt == nil }) {
		return false
	}
	for _, v := range env.states {
		if v.Failing() || v.Unsettled() || (v.Flapping && !v.Notified) {
			return false
		}
	}
	return true
}

// picture is what is known about an environment, with its open incidents.
func (w *Watch) picture(ctx context.Context, env *environment, now time.Time) (health.Picture, []ops.Incident, error) {
	out := health.Picture{Environment: env.config.Name, Services: env.services, Windows: env.windows}
	// A person who resolves an incident ends its cause.
	if err := env.readCauses(ctx, w.o.Store, now); err != nil {
		return out, nil, err
	}
	out.Causes = env.causes
	for _, v := range env.states {
		// What has been healthy for long does not matter.
		if v.Failing() || v.Unsettled() || v.Flapping || now.Sub(v.Recovered) < env.remember() {
			out.States = append(out.States, v)
		}
	}
	// A silence that has just ended still leaves time to recover.
	silences, err := w.o.Store.SilencesSince(ctx, env.config.Name, now.Add(-time.Hour))
	if err != nil {
		return out, nil, fmt.Errorf("read silences: %w", err)
	}
	firing := slices.Collect(maps.Values(env.alerts))
	incidents, err := w.o.People.Unresolved(ctx, env.config.Name)
	if err != nil {
		return out, nil, fmt.Errorf("read incidents: %w", err)
	}
	out.Silences = health.Silences(silences, firing, incidents, 0, now)
	denials, err := w.o.Store.Denials(ctx, env.config.Name, now)
	if err != nil {
		return out, nil, fmt.Errorf("read denials: %w", err)
	}
	for _, no := range denials {
		out.Silences = append(out.Silences, env.refused(no, incidents)...)
	}
	return out, incidents, nil
}

// refused are the checks for which no cycle starts, because somebody said no to an agent and they fail as they did then. An outage that
// began after it is told once, by its cause, before it is held back too.
func (env *environment) refused(no ops.Approval, open []ops.Incident) []ops.Silence {
	var out []ops.Silence
	for _, f := range no.Facts {
		v := env.states[key{f.Service, f.Probe}]
		notified := slices.ContainsFunc(open, func(i ops.Incident) bool { return i.LastCycle == no.CycleID && i.Service == f.Service }) ||
			slices.ContainsFunc(env.causes, func(c ops.Cause) bool {
				return c.ResolvedAt == nil && slices.Contains(c.Services, f.Service) && !v.Began.After(c.At)
			})
		if !v.Failing() || !notified || (v.Last.Status != ops.Healthy && ops.FactOf(v.Last) != f) {
			continue
		}
		out = append(out, ops.Silence{
			Approval: no.ID, Environment: env.config.Name, Service: f.Service, Probe: f.Probe, From: *no.AnsweredAt, Until: *no.DeniedUntil,
			Author: no.AnsweredBy, Reason: notice.SaidNo(no),
		})
	}
	return out
}

// onlyRepeats: the cause consists of alerts that had their cycle. Their sender repeats them; another cycle would find nothing new.
func (env *environment) onlyRepeats(c health.NewCause) (ops.CycleID, bool) {
	had := map[string]ops.Cause{} // the last one of a service
	for _, o := range env.causes {
		for _, name := range o.Services {
			if o.ResolvedAt == nil && o.At.After(had[name].At) {
				had[name] = o
			}
		}
	}
	for _, k := range c.Checks {
		since := env.states[key{k.Service, k.Probe}].Since
		if o, ok := had[k.Service]; k.Purpose != ops.ProbeAlert || !ok || since.After(o.At) {
			return 0, false
		}
	}
	return had[c.Services[0]].Cycle, true
}

func coveredAlert(c health.NewCause, cycle ops.CycleID) ops.Withheld {
	return ops.Withheld{
		Service: c.Services[0], Why: ops.HoldCovered, Cycle: cycle,
		Reason: c.Services[0] + " has an alert that is still firing; a cycle was started for it.",
	}
}

// endResolved ends the causes whose services have all recovered. What is not watched any more was seen by nobody: its incidents stay open,
// and people are told only that.
func (w *Watch) endResolved(ctx context.Context, env *environment, picture health.Picture, now time.Time) {
	over := map[string]bool{}
	for _, o := range health.Resolved(picture) {
		over[o.Key] = true
	}
	for i, c := range env.causes {
		if c.ResolvedAt != nil || !over[c.Key] {
			continue
		}
		fails := env.having(ops.CheckState.Failing)
		// What it needs is well again, and it is not.
		c.Affected = slices.DeleteFunc(slices.Clone(c.Affected), func(name string) bool { return fails[name] })
		recovered, lost := env.seen(c)
		how, why := "", notice.NotWatched(lost)
		tell := func(news []string, _ []ops.Incident) ops.Notice { return lostNotice(c, news, now) }
		if len(recovered) > 0 {
			c.Services = recovered
			how = fmt.Sprintf("%s recovered after %s", ops.Listed(c.Services), now.Sub(c.Began).Round(time.Second))
			replaced := env.having(func(v ops.CheckState) bool { return v.Replaced })
			if !slices.ContainsFunc(c.Services, func(name string) bool { return !replaced[name] }) {
				how = health.ReplacedProbe(c.Services...)
			}
			why, tell = how, func(news []string, open []ops.Incident) ops.Notice { return resolvedNotice(c, news, open, how, now) }
		}
		if err := w.o.Store.ResolveCause(ctx, c, how, tell, now); err != nil {
			w.logError(ctx, "record the end of a cause", err)
			continue
		}
		env.causes[i].ResolvedAt = &now
		w.cancelQueued(ctx, c, why)
		w.ended()
	}
}

// releaseEnded frees the services of a cause that its ended cycle left bad with nobody behind them: it was somebody else's, handed on other
// services, left alone what was held then and is not any more, or called people, and that is over. A person who cancels a cycle knows of
// it, and a repair has the time of its probation. After the pause between two cycles they get one of their own. Alerts have another way,
// see dispute.
func (w *Watch) releaseEnded(ctx context.Context, env *environment, picture health.Picture, open []ops.Incident) {
	inhibited := health.Inhibited(picture, env.grouping, env.judged)
	free := func(v ops.CheckState) bool { return v.Failing() && !inhibited(v) }
	seen := func(v ops.CheckState) bool { return free(v) && v.Last.Purpose != ops.ProbeAlert }
	probed, bad := env.having(seen), env.having(free)
	owned := map[string]bool{}
	for _, o := range open {
		owned[o.Service] = owned[o.Service] || o.UnverifiedAt == nil && (o.CalledAt != nil || o.Waiting != nil || o.Holds(env.judged))
	}
	for i, c := range env.causes {
		if c.ResolvedAt != nil {
			continue
		}
		cycle, err := w.o.Cycles.Cycle(ctx, c.Cycle)
		if err != nil || cycle.EndedAt == nil {
			continue
		}
		onProbation := env.judged.Sub(*cycle.EndedAt) <= ops.Probation+maxPause // see confirm
		done := cycle.Trigger == ops.TriggerAlert && cycle.Status != ops.CycleSuppressed || cycle.Status == ops.CycleHealthy ||
			cycle.Status == ops.CycleCancelled || cycle.Status == ops.CycleResolved && onProbation
		var left, kept []string
		for _, name := range c.Services {
			sent := len(c.Handed) == 0 && (cycle.Trigger == ops.TriggerProbe || cycle.Trigger == ops.TriggerAlert)
			worked := sent || slices.Contains(c.Handed, name)
			byAlert := cycle.Status != ops.CycleSuppressed && !probed[name]
			if worked && (done || byAlert) || owned[name] || !bad[name] {
				kept = append(kept, name)
			} else {
				left = append(left, name)
			}
		}
		if len(left) == 0 {
			continue
		}
		if err := w.o.Store.ReleaseCause(ctx, c, left, kept, notice.NotItsWork(left, cycle.ID), *cycle.EndedAt); err != nil {
			w.logError(ctx, "free the services of a cause whose cycle has ended", err)
			continue
		}
		over := c
		over.Services, over.ResolvedAt = left, cycle.EndedAt
		if env.causes[i].Services = kept; len(kept) == 0 {
			env.causes[i] = over
			continue
		}
		env.causes = append(env.causes, over)
	}
}

// join adds the services that fail for the same cause to its cycle, as long as that has handed nothing on. What comes too late gets a
// cycle of its own at the next judgement.
func (w *Watch) join(ctx context.Context, env *environment, onHold []ops.Withheld) {
	for i, c := range env.causes {
		if !c.Takes || c.ResolvedAt != nil {
			continue
		}
		known := map[string]bool{}
		for _, name := range c.Services {
			known[name] = true
		}
		var more []string
		for _, h := range onHold {
			if h.Why == ops.HoldCovered && h.Cycle == c.Cycle && !known[h.Service] {
				more = append(more, h.Service)
			}
		}
		if len(more) == 0 {
			continue
		}
		joined, err := w.o.Store.JoinCause(ctx, c, more)
		if err != nil {
			w.logError(ctx, "add services to a cycle", err)
		}
		if joined {
			env.causes[i].Services = append(env.causes[i].Services, more...)
		}
	}
}

// ended wakes everybody who waits for the end of a problem: the outbox has a notice, and a cycle that asked about an incident may go on.
func (w *Watch) ended() {
	w.o.Changed(ops.ReachAll)
	w.o.Start(0)
}

// cancelQueued cancels the cause's cycle if it has not started yet: its problem is over.
func (w *Watch) cancelQueued(ctx context.Context, c ops.Cause, how string) {
	cycle, err := w.o.Cycles.Cycle(ctx, c.Cycle)
	if err != nil || cycle.Status != ops.CycleQueued || cycle.StartedAt != nil {
		return
	}
	if cycle.Trigger != ops.TriggerProbe && cycle.Trigger != ops.TriggerAlert {
		return
	}
	if err := w.o.Cancel(ctx, c.Cycle, how+" before the cycle started"); err != nil {
		w.logError(ctx, "cancel a cycle that is no longer needed", err)
	}
}

// open starts the cycle of a cause, or uses the cycle that found the same problem.
func (w *Watch) open(ctx context.Context, env *environment, c health.NewCause, now time.Time) {
	checks, alerts := env.evidence(c)
	n := ops.NewCycle{Environment: env.config.Name, Trigger: ops.TriggerAlert, At: now}
	if slices.ContainsFunc(c.Checks, func(k ops.Check) bool { return k.Purpose != ops.ProbeAlert }) {
		n.Trigger = ops.TriggerProbe
	}
	if len(alerts) > 0 {
		n.Prompt = alert.Prompt(c.Reason, alerts)
	}
	n.Problem, n.Services = problemOf(c), env.charge(c, n.Trigger)
	row := c.Cause
	row.At = now
	told := openedNotice(row, c.Checks, env.config.Policy.DryRun, now)
	got, started, err := w.o.Store.OpenCause(ctx, row, n, checks, told, now.Add(-env.pause()))
	if err != nil {
		w.logError(ctx, "start a cycle", err)
		env.next = now.Add(time.Second)
		return
	}
	env.causes = append(env.causes, got)
	if started {
		w.o.Logger.InfoContext(ctx, "started a cycle for bad services", "reason", c.Reason, "cycle", got.Cycle,
			"environment", env.config.Name, "services", len(c.Services))
		w.o.Start(got.Cycle)
	} else {
		w.o.Logger.InfoContext(ctx, "a running cycle already found the bad services", "reason", c.Reason, "cycle", got.Cycle,
			"environment", env.config.Name)
	}
	w.o.Changed(ops.ReachAll)
}

// charge is what the cycle of a cause is about. An alert that names no service of the inventory asks for a look.
func (env *environment) charge(c health.NewCause, t ops.Trigger) []string {
	if t == ops.TriggerProbe || len(env.services) == 0 {
		return c.Services
	}
	return slices.DeleteFunc(slices.Clone(c.Services), func(name string) bool {
		return !slices.ContainsFunc(env.services, func(s ops.Service) bool { return s.Name == name })
	})
}

// problemOf names a cause by its services and the reason of their failed checks.
func problemOf(c health.NewCause) string {
	bad := make(map[string]int, len(c.Services)) // the first bad check of each; there may be very many
	for i := len(c.Checks) - 1; i >= 0; i-- {
		if c.Checks[i].Status != ops.Healthy {
			bad[c.Checks[i].Service] = i
		}
	}
	var all []ops.Trouble
	for _, name := range c.Services {
		found := ops.Trouble{Service: name, Status: c.Level}
		if i, ok := bad[name]; ok {
			found.Status, found.Error = c.Checks[i].Status, c.Checks[i].Error
		}
		all = append(all, found)
	}
	return ops.ProblemOf(all)
}

// maxEvidence is how many results a cycle is given; the bad ones come first.
const maxEvidence = 100

// evidence is what a cycle is given: the results and alerts of its cause and, if there are probes among them, the last results of all
// other probes.
func (env *environment) evidence(c health.NewCause) (checks []ops.Check, alerts []ops.Alert) {
	probed := false
	seen := map[key]bool{}
	for _, k := range c.Checks {
		seen[key{k.Service, k.Probe}] = true
		if v := env.states[key{k.Service, k.Probe}]; !v.Newest().Known() && !slices.Contains(c.Services, k.Service) {
			k = v.Unknown // what it needs hides how it is now
		}
		if k.Purpose != ops.ProbeAlert {
			probed = true
			k.Purpose = ops.ProbeObserve
		}
		checks = append(checks, k)
	}
	for _, a := range env.alerts {
		if seen[alertKey(a)] {
			alerts = append(alerts, a)
		}
	}
	slices.SortFunc(alerts, func(a, b ops.Alert) int { return int(a.ID - b.ID) })
	if !probed {
		return checks[:min(len(checks), maxEvidence)], alerts
	}
	var rest []ops.CheckState
	for k, v := range env.states {
		if !seen[k] && v.Last.Purpose != ops.ProbeAlert && !v.Newest().At.IsZero() {
			rest = append(rest, v)
		}
	}
	slices.SortFunc(rest, func(a, b ops.CheckState) int {
		if a.Failing() != b.Failing() {
			if a.Failing() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Service+"\x00"+a.Probe, b.Service+"\x00"+b.Probe)
	})
	checks = checks[:min(len(checks), maxEvidence)]
	for _, v := range rest[:min(len(rest), maxEvidence-len(checks))] {
		last := v.Newest()
		last.Purpose = ops.ProbeObserve
		checks = append(checks, last)
	}
	return checks, alerts
}

// withhold records which services are held back, if that has changed.
func (w *Watch) withhold(ctx context.Context, env *environment, onHold []ops.Withheld) {
	slices.SortFunc(onHold, func(a, b ops.Withheld) int { return strings.Compare(a.Service, b.Service) })
	if slices.EqualFunc(onHold, env.withheld, func(a, b ops.Withheld) bool {
		return a.Service == b.Service && a.Why == b.Why && a.Reason == b.Reason
	}) {
		return
	}
	if err := w.o.Store.SaveWithheld(ctx, env.config.Name, onHold); err != nil {
		w.logError(ctx, "record what is held back", err)
		return
	}
	env.withheld = onHold
	w.o.Changed(ops.ReachAll)
}
