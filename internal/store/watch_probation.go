package store

import (
	"context"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// startProbation begins the probation of the incidents that were closed in a resolved cycle, by the cycle itself or by probes while it
// ran. What a person closed is not on probation: nobody claims to have repaired it. Where an incident is opened again, its
// probation_until is that moment.
func startProbation(ctx context.Context, tx db.Querier, cycle ops.CycleID, at time.Time) error {
	return db.Exec(ctx, tx, `UPDATE incidents SET probation_until = ?, last_cycle_id = ? WHERE id IN
			(SELECT incident_id FROM incident_cycles WHERE cycle_id = ?)
			AND (probation_until IS NULL OR probation_until < resolved_at) AND resolved_by = ?
			AND service <> '' AND class <> ? AND resolved_at >= (SELECT COALESCE(c.started_at, c.created_at) FROM cycles c WHERE c.id = ?)`,
		db.Time(at.Add(ops.Probation)), cycle, cycle, ops.Supervisor, ops.ClassAgent, cycle)
}

// longestClaim is how long before the end of its cycle an incident on probation can have been closed.
const longestClaim = 24 * time.Hour

const selectClaims = `SELECT i.id, i.environment, i.service, i."check", i.last_cycle_id, i.probation_until FROM incidents i
	WHERE i.resolved_at >= ? AND i.probation_until >= ? AND i.probation_until > i.resolved_at`

func scanClaim(r db.Row, c *ops.Claim) error {
	err := r.Scan(&c.Incident, &c.Environment, &c.Service, &c.Check, &c.Cycle, db.ToTime(&c.Until))
	c.At = c.Until.Add(-ops.Probation)
	return err
}

// OnProbation returns the claims of an environment that are on probation at a time.
func (s *Watch) OnProbation(ctx context.Context, environment string, at time.Time) ([]ops.Claim, error) {
	out, err := claims(ctx, s.db.Reader(), environment, at)
	return ops.Returning(out, err, "list what is on probation in %s", environment)
}

// Proven returns the probes that cycles ended since a time found healthy last: those of a resolved cycle after its repair, and those of
// a look that closed an incident of the service.
func (s *Watch) Proven(ctx context.Context, environment string, since time.Time) ([]ops.Proven, error) {
	out, err := db.List(ctx, s.db.Reader(), func(r db.Row, p *ops.Proven) error {
		return r.Scan(&p.Service, &p.Probe, db.ToTime(&p.At))
	}, `SELECT k.service, k.probe, k.at FROM cycles c JOIN checks k ON k.cycle_id = c.id
		WHERE c.environment = ? AND c.ended_at >= ? AND k.status = ?
		AND (c.status = ? AND k.purpose IN (?, ?, ?, ?) OR k.purpose = ? AND EXISTS (SELECT 1 FROM incidents i
			WHERE i.environment = c.environment AND i.service = k.service AND i.resolved_at = c.ended_at))
		AND NOT EXISTS (SELECT 1 FROM checks l WHERE l.cycle_id = c.id AND l.service = k.service AND l.probe = k.probe AND l.id > k.id)
		ORDER BY k.id`,
		environment, db.Time(since), ops.Healthy, ops.CycleResolved, ops.ProbeVerify, ops.ProbePlan, ops.ProbeReflex, ops.ProbeRecheck,
		ops.ProbeObserve)
	return ops.Returning(out, err, "list what cycles proved in %s", environment)
}

// claims reads those of all environments: there are few at a time, and with an environment SQLite would read all its incidents.
func claims(ctx context.Context, q db.Querier, environment string, at time.Time) ([]ops.Claim, error) {
	out, err := db.List(ctx, q, scanClaim, selectClaims+` ORDER BY i.resolved_at, i.id`, db.Time(at.Add(-longestClaim)), db.Time(at))
	return slices.DeleteFunc(out, func(c ops.Claim) bool { return c.Environment != environment }), err
}

// Relapsed opens the incident of a claim again, because its check fails on probation, marks the cycle as refuted and tells people once.
// It reports whether it did: an incident that is open already stays as it is.
func (s *Watch) Relapsed(ctx context.Context, r ops.Relapse) (bool, error) {
	r.At = s.orNow(r.At)
	done := false
	err := s.db.WriteIn(ctx, "relapsed", db.InEnvironment(r.Claim.Environment), func(tx db.Querier) (err error) {
		done, err = s.reopen(ctx, tx, r, false)
		return err
	})
	return ops.Returning(done, err, "open incident %d again", r.Claim.Incident)
}

// reopen is Relapsed within a transaction. Told means that the report that found it counts and calls people itself.
func (s *kernel) reopen(ctx context.Context, tx db.Querier, r ops.Relapse, notified bool) (bool, error) {
	i, err := incidentByID(ctx, tx, r.Claim.Incident)
	if err != nil {
		return false, err
	}
	claimed, err := cycleByID(ctx, tx, r.Claim.Cycle)
	if err != nil {
		return false, err
	}
	more, called, remind := 1, &r.At, (*time.Time)(nil)
	if every := claimed.Policy.Approval.Remind; every > 0 {
		remind = ops.Ptr(r.At.Add(every))
	}
	if notified {
		more, called, remind = 0, nil, nil
	}
	i.Title, i.Level = result(r.Found).Title(), levelOf(r.Found.Status)
	report := reopenedReport(i, r, s.words.AfterRelapse(r))
	failed := &r.At
	if r.Found.Purpose == "" {
		failed = nil // no probe says so
	}
	ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE incidents SET status = ?, resolved_at = NULL, resolved_by = '', resolution = '',
			probation_until = ?, unverified_at = NULL, acknowledged_at = NULL, acknowledged_by = '', snoozed_until = NULL, reminders = 0,
			title = ?, level = ?, report = ?, occurrences = occurrences + ?, called_at = ?, remind_at = ?,
			probe_failed_at = COALESCE(?, probe_failed_at), updated_at = ?
		WHERE id = ? AND probation_until > resolved_at
			AND NOT EXISTS (SELECT 1 FROM incidents o WHERE o.fingerprint = incidents.fingerprint AND o.resolved_at IS NULL)`,
		ops.IncidentOpen, db.Time(r.At), i.Title, i.Level, report, more, db.OptTime(called), db.OptTime(remind), db.OptTime(failed),
		db.Time(r.At), i.ID))
	if err != nil || !ok {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE cycles SET refuted_at = ? WHERE id = ? AND refuted_at IS NULL`, db.Time(r.At), claimed.ID)
	if err != nil {
		return false, err
	}
	if claimed.VerifiedBy != ops.ProofReflex { // a reflex has its next try, and after the last one Tier 1 is told
		why := s.words.DidNotLast(claimed)
		if err := s.reduceTrust(ctx, tx, claimed, ops.Reduced{Service: i.Service, Why: why}, r.At); err != nil {
			return false, err
		}
		if err := s.doubtReflexes(ctx, tx, claimed.ID, i.Service, why, r.At); err != nil {
			return false, err
		}
	}
	if r.Cycle != 0 {
		if err := countCycle(ctx, tx, i.ID, r.Cycle); err != nil {
			return false, err
		}
	}
	err = s.insertEvent(ctx, tx, ops.Event{
		CycleID: &claimed.ID, Environment: i.Environment, Level: i.Level, Verb: ops.VerbIncidentReopened,
		Subject: ops.About(ops.SubjectIncident, i.ID), Reason: s.words.Refutes(claimed, r), Service: i.Service,
		Detail: ops.IncidentDetail{Title: i.Title},
	}, r.At)
	if err != nil || notified {
		return true, err
	}
	text := s.words.DidNotHold(i, claimed, r)
	_, err = insertNotice(ctx, tx, ops.Notice{
		CycleID: &claimed.ID, Kind: ops.NoticeNeedsHuman, Level: i.Level, Title: text.Title, Body: text.Body, Incident: i.ID,
		Environment: i.Environment, Service: i.Service,
	}, r.At)
	return true, err
}

func result(c ops.Check) ops.CheckResult {
	return ops.CheckResult{Service: c.Service, CheckType: c.Type, Status: c.Status, Error: c.Error}
}

// reopenedReport is the stored report of an incident with what is true now. One that cannot be read stays as it is.
func reopenedReport(i ops.Incident, r ops.Relapse, advice string) any {
	known, err := i.Known()
	if err != nil {
		return string(i.Report)
	}
	known.Title, known.Titles, known.Level, known.Checks = i.Title, nil, i.Level, []ops.CheckResult{result(r.Found)}
	known.Handled, known.Waits, known.Recommendation = false, false, advice
	return db.JSON(known)
}

// relapse opens the incident of a service again that is on probation and that the report is about.
func (p *reporting) relapse(ctx context.Context, service string, claim ops.Claim) error {
	r := ops.Relapse{Claim: claim, Found: p.found(service), At: p.at}
	if p.report.Handled {
		r.Cycle = p.cycle.id
	}
	if err := countCycle(ctx, p.tx, r.Claim.Incident, p.cycle.id); err != nil {
		return err
	}
	done, err := p.s.reopen(ctx, p.tx, r, p.notified)
	if err != nil || !done || !p.notified {
		return err
	}
	claimed, err := cycleByID(ctx, p.tx, r.Claim.Cycle)
	p.again = append(p.again, p.s.words.Claimed(claimed, r))
	return err
}

// found is what the report says of a service; no probe has looked.
func (p *reporting) found(service string) ops.Check {
	for _, c := range p.report.Checks {
		if c.Service == service && c.Status != ops.Healthy {
			return ops.Check{Service: service, Type: c.CheckType, Status: c.Status, Error: c.Error}
		}
	}
	return ops.Check{Service: service, Status: ops.Down}
}

// relapses opens the incidents again whose check is found bad on probation. It reports whether there were any.
func (s *kernel) relapses(ctx context.Context, tx db.Querier, now ops.Claimed, t ops.Transition, bad []ops.Check) (bool, error) {
	if len(bad) == 0 {
		return false, nil
	}
	found, err := claims(ctx, tx, now.Cycle.Environment, t.At)
	if err != nil || len(found) == 0 {
		return false, err
	}
	seen, err := seenBy(ctx, tx, now, t.At)
	if err != nil {
		return false, err
	}
	reopened := false
	for _, c := range found {
		n := slices.IndexFunc(bad, c.About)
		if n < 0 || s.rules.Quiet(now, seen, bad[n], t.At) {
			continue
		}
		r := ops.Relapse{Claim: c, Found: bad[n], At: t.At}
		held := slices.IndexFunc(now.Journal.Withheld, func(w ops.Withheld) bool { return w.Service == c.Service })
		switch {
		case held >= 0 && now.Journal.Withheld[held].Why == ops.HoldDependency:
			continue // not this repair failed, but what the service needs
		case !t.Step.Kind.Leaves():
			r.Cycle = now.Cycle.ID
		case held >= 0:
			r = r.After(now.Journal.Withheld[held])
		}
		done, err := s.reopen(ctx, tx, r, false)
		if err != nil {
			return reopened, err
		}
		reopened = reopened || done
	}
	return reopened, nil
}

// linkRelapses gives the cycle of a cause the incidents that were opened again since its failure began. It reports whether these are all
// of its services: then people know of the failure already.
func linkRelapses(ctx context.Context, tx db.Querier, c ops.Cause) (known bool, err error) {
	rows, err := db.List(ctx, tx, scanIncident, selectIncidents+` WHERE i.environment = ? AND i.resolved_at IS NULL
		AND i.probation_until >= ? ORDER BY i.id`,
		c.Environment, db.Time(c.Began))
	if err != nil {
		return false, err
	}
	notified := map[string]bool{}
	for _, i := range rows {
		if !slices.Contains(c.Services, i.Service) {
			continue
		}
		notified[i.Service] = true
		if _, err := tx.ExecContext(ctx, `UPDATE incidents SET last_cycle_id = ? WHERE id = ?`, c.Cycle, i.ID); err != nil {
			return false, err
		}
		if err := countCycle(ctx, tx, i.ID, c.Cycle); err != nil {
			return false, err
		}
	}
	return len(notified) == len(c.Services), nil
}
