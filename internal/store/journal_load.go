package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Load returns a cycle with its journal as one snapshot.
func (s *Journal) Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error) {
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

func (s *kernel) loadClaimed(ctx context.Context, q db.Querier, id ops.CycleID, at time.Time) (out ops.Claimed, err error) {
	has := contents{last: &s.inventory}
	if out.Cycle, err = db.One(ctx, q, has.scan, selectContents, db.Time(at), db.Time(at), id); err != nil {
		return ops.Claimed{}, err
	}
	c, j := out.Cycle, &out.Journal
	for _, err := range []error{
		read(ctx, q, true, &j.Sessions, scanSession, selectSessions+` WHERE s.cycle_id = ? ORDER BY s.id`, id),
		read(ctx, q, has.decisions, &j.Decisions, scanDecision, selectDecisions+` WHERE e.cycle_id = ? ORDER BY e.id`, id),
		read(ctx, q, has.checks, &j.Checks, scanCheck, selectChecks+` WHERE k.cycle_id = ? ORDER BY k.id`, id),
		read(ctx, q, has.recoveries, &j.Recoveries, scanRecovery, selectRecoveries+` WHERE y.cycle_id = ? ORDER BY y.id`, id),
		read(ctx, q, has.approvals, &j.Approvals, scanApproval, selectApprovals+` WHERE a.cycle_id = ? ORDER BY a.id`, id),
		read(ctx, q, has.runs, &j.Runs, scanAction, selectActions+` WHERE r.cycle_id = ? ORDER BY r.id`, id),
		read(ctx, q, has.denials, &j.Denials, scanApproval, selectDenials, c.Environment, db.Time(at)),
		read(ctx, q, has.silences, &j.Silences, scanSilence, selectSilencesAt, silencesArgs(c.Environment, at)...),
		read(ctx, q, has.lowered, &j.Lowered, scanLowered, selectLowered, c.Environment),
		reflexParts(ctx, q, j, c, has, at),
		s.loadOthers(ctx, q, &out, has, at),
	} {
		if err != nil {
			return ops.Claimed{}, err
		}
	}
	return out, nil
}

// read reads a part of the journal if the cycle has it.
func read[T any](
	ctx context.Context, q db.Querier, has bool, to *[]T, scan func(db.Row) (T, error), query string, args ...any,
) (err error) {
	if has {
		*to, err = db.List(ctx, q, scan, query, args...)
	}
	return err
}

// loadOthers reads the parts that take more than one query.
func (s *kernel) loadOthers(ctx context.Context, q db.Querier, out *ops.Claimed, has contents, at time.Time) (err error) {
	c, j := out.Cycle, &out.Journal
	if has.incidents {
		if j.Incidents, err = incidentsFor(ctx, q, c.Environment, c.ID); err != nil {
			return err
		}
	}
	if has.judgements {
		if j.Effects, err = effectsOfCycle(ctx, q, c.ID); err != nil {
			return err
		}
	}
	if j.Withheld, err = withheldFor(ctx, q, *out, has.withheld, at); err != nil {
		return err
	}
	if j.Told, err = toldFor(ctx, q, c, j.Lowered); err != nil {
		return err
	}
	// A session of this cycle may have used a reservation since the last load.
	if has.actions && len(c.Policy.Cooldowns) > 0 {
		j.Cooldowns, err = cooldowns(ctx, q, c.Environment, c.Policy.Cooldowns, s.moment(at))
	}
	return err
}

// contents are the parts of a journal that exist. Most cycles have few of them, and each one that is not queried saves a round
// trip.
type contents struct {
	decisions, checks, recoveries, approvals, denials, incidents, judgements, silences, withheld, lowered, actions, runs, reflexed,
	reflexes bool

	last *lastInventory
}

const selectContents = `SELECT ` + cycleColumns + `, c.inventory,
	EXISTS (SELECT 1 FROM escalations WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM checks WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM recoveries WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM approvals WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM approvals WHERE environment = c.environment AND denied_until > ?),
	EXISTS (SELECT 1 FROM incidents WHERE environment = c.environment AND resolved_at IS NULL)
		OR EXISTS (SELECT 1 FROM incident_waits WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM guard_decisions WHERE session_id IN (SELECT id FROM sessions WHERE cycle_id = c.id)),
	EXISTS (SELECT 1 FROM silences WHERE ends_at > ?),
	EXISTS (SELECT 1 FROM withheld WHERE environment = c.environment),
	EXISTS (SELECT 1 FROM trust WHERE environment = c.environment),
	EXISTS (SELECT 1 FROM cooldown_actions WHERE environment = c.environment AND counts)
		OR EXISTS (SELECT 1 FROM action_runs WHERE environment = c.environment AND counts),
	EXISTS (SELECT 1 FROM action_runs WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM action_runs WHERE environment = c.environment AND reflex <> ''),
	EXISTS (SELECT 1 FROM reflexes WHERE environment = c.environment AND state = 'on')
	FROM cycles c WHERE c.id = ?`

func (h *contents) scan(r db.Row) (ops.Cycle, error) {
	return scanWhole(h.last)(longerRow{r, []any{
		&h.decisions, &h.checks, &h.recoveries, &h.approvals, &h.denials, &h.incidents, &h.judgements, &h.silences, &h.withheld,
		&h.lowered, &h.actions, &h.runs, &h.reflexed, &h.reflexes,
	}})
}

// longerRow scans a row into the columns that the caller knows and into more.
type longerRow struct {
	db.Row
	more []any
}

func (r longerRow) Scan(dest ...any) error { return r.Row.Scan(append(dest, r.more...)...) }

// loadWhole is loadClaimed with what concerns other cycles, which only a claim needs.
func (s *Journal) loadWhole(ctx context.Context, q db.Querier, id ops.CycleID, at time.Time) (ops.Claimed, error) {
	out, err := s.loadClaimed(ctx, q, id, at)
	if err != nil {
		return ops.Claimed{}, err
	}
	j := &out.Journal
	environment := out.Cycle.Environment
	var looks []*time.Time
	var errs [7]error
	looks, errs[0] = db.List(ctx, q, scanLook, selectLastLook, environment)
	if len(looks) > 0 {
		j.LastLook = looks[0]
	}
	j.Windows, errs[1] = windows(ctx, q, out.Cycle.Policy.Handlers)
	j.Spend.DayUSD, errs[2] = spent(ctx, q, environment, at, `cycle_id`, int64(id))
	j.Elsewhere, errs[3] = elsewhere(ctx, q, out.Cycle)
	j.Attacked, errs[4] = db.List(ctx, q, scanAttacked, selectAttacked, environment, db.Time(at.Add(-attackCounts)))
	j.Standstill, errs[6] = standstill(ctx, q)
	const before = 10 // enough to see whether they keep failing
	j.Before, errs[5] = db.List(ctx, q, scanEnding, selectEndings, environment, id, before)
	return out, errors.Join(errs[:]...)
}

// selectAttacked finds the services about which two cycles called people after an attack: they get a look, and nothing above it.
const selectAttacked = `SELECT i.service, MIN(g.at) FROM guard_decisions g JOIN incident_cycles x ON x.cycle_id = g.cycle_id
	JOIN incidents i ON i.id = x.incident_id WHERE i.environment = ? AND i.service <> '' AND g.rule = 'never.attack' AND g.at > ?
	GROUP BY i.service HAVING COUNT(DISTINCT g.cycle_id) > 1`
const attackCounts = 24 * time.Hour

func scanAttacked(r db.Row) (ops.Hold, error) {
	h := ops.Hold{From: ops.Tier2, By: ops.HoldByAttack, Until: new(time.Time)}
	err := r.Scan(&h.Service, db.ToTime(h.Until))
	*h.Until = h.Until.Add(attackCounts)
	h.Why = notice.AttackedTwice(*h.Until)
	return h, err
}

// elsewhere reads what the other cycles of the environment that have not ended work on. Only a look asks: it leaves that to them.
func elsewhere(ctx context.Context, q db.Querier, c ops.Cycle) ([]ops.Hold, error) {
	if !c.Charge.Open {
		return nil, nil
	}
	others, err := charges(ctx, q, ` AND c.environment = ? AND c.id <> ?`, c.Environment, c.ID)
	if err != nil {
		return nil, err
	}
	var out []ops.Hold
	for _, o := range others {
		for _, name := range o.Charge.Services {
			out = append(out, ops.Hold{Service: name, From: ops.Tier1, By: ops.HoldByCycle, Why: notice.InCharge(o.ID)})
		}
	}
	return out, nil
}

// charges reads what cycles that have not ended work on now: what their newest decision handed on, else what they were started for.
func charges(ctx context.Context, q db.Querier, which string, args ...any) ([]ops.Cycle, error) {
	return db.List(ctx, q, func(r db.Row) (o ops.Cycle, err error) {
		var handed []string
		err = r.Scan(&o.ID, db.ToJSON(&o.Charge), db.ToJSON(&handed))
		if len(handed) > 0 {
			o.Charge = ops.Charge{Services: handed}
		}
		return o, err
	}, `SELECT c.id, c.charge, COALESCE((SELECT e.services FROM escalations e WHERE e.cycle_id = c.id AND e.services IS NOT NULL
			AND e.decision <> ? ORDER BY e.id DESC LIMIT 1), '[]')
		FROM cycles c WHERE c.ended_at IS NULL`+which+` ORDER BY c.id`, append([]any{ops.VerdictRefused}, args...)...)
}

// windows reads the context window that was last reported for each handler's model.
func windows(ctx context.Context, q db.Querier, handlers []ops.Handler) (map[string]int64, error) {
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
		out[h.Model] = window
	}
	maps.DeleteFunc(out, func(_ string, window int64) bool { return window <= 0 })
	return out, nil
}

// selectLastLook finds when an agent last looked at an environment. One that ended without a usable report has not looked.
const selectLastLook = `SELECT ended_at FROM sessions WHERE environment = ? AND tier = 1 AND role = 'work' AND status = 'completed'
	AND outcome <> 'inconclusive' ORDER BY id DESC LIMIT 1`

func scanLook(r db.Row) (*time.Time, error) {
	var at *time.Time
	err := r.Scan(db.ToOptTime(&at))
	return at, err
}
