package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Load returns a cycle with its journal as one snapshot.
func (s *Store) Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error) {
	var out ops.Claimed
	err := s.db.Read(ctx, func(tx db.Querier) error {
		var err error
		out, err = s.loadWhole(ctx, tx, id, s.clock())
		return err
	})
	if err != nil {
		return ops.Claimed{}, fmt.Errorf("load cycle %d: %w", id, err)
	}
	return out, nil
}

func (s *Store) loadClaimed(ctx context.Context, q db.Querier, id ops.CycleID, at time.Time) (ops.Claimed, error) {
	var out ops.Claimed
	var has contents
	var err error
	if out.Cycle, has, err = cycleWithContents(ctx, q, id, at); err != nil {
		return ops.Claimed{}, err
	}
	environment := out.Cycle.Environment
	j := &out.Journal
	for _, part := range []struct {
		there bool
		load  func() error
	}{
		{true, func() (err error) { j.Sessions, err = sessionsOfCycle(ctx, q, id); return err }},
		{has.decisions, func() (err error) { j.Decisions, err = decisionsOfCycle(ctx, q, id); return err }},
		{has.checks, func() (err error) {
			j.Checks, err = db.List(ctx, q, scanCheck, selectChecks+` WHERE k.cycle_id = ? ORDER BY k.id`, id)
			return err
		}},
		{has.recoveries, func() (err error) { j.Recoveries, err = recoveriesOfCycle(ctx, q, id); return err }},
		{has.approvals, func() (err error) { j.Approvals, err = approvalsOfCycle(ctx, q, id); return err }},
		{has.incidents, func() (err error) { j.Incidents, err = incidentsFor(ctx, q, environment, id); return err }},
		{has.judgements, func() (err error) { j.Effects, err = effectsOfCycle(ctx, q, id); return err }},
		{has.runs, func() (err error) { j.Runs, err = actionsOfCycle(ctx, q, id); return err }},
		{has.silences, func() (err error) { j.Silences, err = silencesAt(ctx, q, environment, at); return err }},
		{true, func() (err error) { j.Withheld, err = withheldFor(ctx, q, out, has.withheld, at); return err }},
		// A session of this cycle may have used a reservation since the last load.
		{has.actions && len(out.Cycle.Policy.Cooldowns) > 0, func() (err error) {
			j.Cooldowns, err = cooldowns(ctx, q, environment, out.Cycle.Policy.Cooldowns, s.moment(at))
			return err
		}},
	} {
		if !part.there {
			continue
		}
		if err := part.load(); err != nil {
			return ops.Claimed{}, err
		}
	}
	return out, nil
}

// contents are the parts of a journal that exist. Most cycles have few of them, and each one that is not queried saves a round
// trip.
type contents struct {
	decisions, checks, recoveries, approvals, incidents, judgements, silences, withheld, actions, runs bool
}

const selectContents = `SELECT ` + cycleColumns + `,
	EXISTS (SELECT 1 FROM escalations WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM checks WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM recoveries WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM approvals WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM incidents WHERE environment = c.environment AND resolved_at IS NULL)
		OR EXISTS (SELECT 1 FROM incident_waits WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM guard_decisions WHERE session_id IN (SELECT id FROM sessions WHERE cycle_id = c.id)),
	EXISTS (SELECT 1 FROM silences WHERE ends_at > ?),
	EXISTS (SELECT 1 FROM withheld WHERE environment = c.environment),
	EXISTS (SELECT 1 FROM cooldown_actions WHERE environment = c.environment AND counts)
		OR EXISTS (SELECT 1 FROM action_runs WHERE environment = c.environment AND counts),
	EXISTS (SELECT 1 FROM action_runs WHERE cycle_id = c.id)
	FROM cycles c WHERE c.id = ?`

func cycleWithContents(ctx context.Context, q db.Querier, id ops.CycleID, at time.Time) (ops.Cycle, contents, error) {
	var has contents
	c, err := db.One(ctx, q, func(r db.Row) (ops.Cycle, error) {
		return scanCycle(longerRow{r, []any{
			&has.decisions, &has.checks, &has.recoveries, &has.approvals, &has.incidents, &has.judgements, &has.silences, &has.withheld,
			&has.actions, &has.runs,
		}})
	}, selectContents, db.Time(at), id)
	return c, has, err
}

// longerRow scans a row into the columns that the caller knows and into more.
type longerRow struct {
	db.Row
	more []any
}

func (r longerRow) Scan(dest ...any) error { return r.Row.Scan(append(dest, r.more...)...) }

// loadWhole is loadClaimed with what concerns other cycles, which only a claim needs.
func (s *Store) loadWhole(ctx context.Context, q db.Querier, id ops.CycleID, at time.Time) (ops.Claimed, error) {
	out, err := s.loadClaimed(ctx, q, id, at)
	if err != nil {
		return ops.Claimed{}, err
	}
	j := &out.Journal
	if j.LastLook, err = lastLook(ctx, q, out.Cycle.Environment); err != nil {
		return ops.Claimed{}, err
	}
	if j.Windows, err = reportedWindows(ctx, q, out.Cycle.Policy.Handlers); err != nil {
		return ops.Claimed{}, err
	}
	const before = 10 // enough to see whether they keep failing
	j.Before, err = endings(ctx, q, out.Cycle.Environment, id, before)
	if err != nil {
		return ops.Claimed{}, err
	}
	if j.Spend.DayUSD, err = spent(ctx, q, out.Cycle.Environment, at, `cycle_id`, int64(id)); err != nil {
		return ops.Claimed{}, err
	}
	return out, nil
}

// reportedWindows reads the context window that was last reported for each handler's model.
func reportedWindows(ctx context.Context, q db.Querier, handlers []ops.Handler) (map[string]int64, error) {
	out := map[string]int64{}
	for _, h := range handlers {
		if _, done := out[h.Model]; done {
			continue
		}
		window, err := db.One(ctx, q, db.ScanInt, `SELECT context_window FROM sessions
			WHERE model = ? AND context_window IS NOT NULL ORDER BY id DESC LIMIT 1`, h.Model)
		if err != nil && !errors.Is(err, ops.ErrNotFound) {
			return nil, err
		}
		if window > 0 {
			out[h.Model] = window
		}
	}
	return out, nil
}

// lastLook is when an agent last looked at an environment; nil when none has.
func lastLook(ctx context.Context, q db.Querier, environment string) (*time.Time, error) {
	at, err := db.One(ctx, q, func(r db.Row) (*time.Time, error) {
		var at *time.Time
		err := r.Scan(db.ToOptTime(&at))
		return at, err
	}, `SELECT ended_at FROM sessions WHERE environment = ? AND tier = 1 AND role = 'work' AND status = 'completed'
		ORDER BY id DESC LIMIT 1`, environment)
	if errors.Is(err, ops.ErrNotFound) {
		return nil, nil //nolint:nilnil // no agent has looked yet
	}
	return at, err
}
