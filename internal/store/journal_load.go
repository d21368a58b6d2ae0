package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
	"claudeops/internal/watch/health"
)

// Load returns a cycle with its journal as one snapshot.
func (s *Journal) Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error) {
	return s.loadAt(ctx, id, s.loadWhole)
}

// Look is Load without what the journal knows of other cycles, except what they have begun to work on: whoever has claimed the cycle has
// the rest from its claim.
func (s *Journal) Look(ctx context.Context, id ops.CycleID) (ops.Claimed, error) {
	return s.loadAt(ctx, id, func(ctx context.Context, q db.Querier, id ops.CycleID, at time.Time) (ops.Claimed, error) {
		var others []ops.Cycle
		out, err := s.loadWith(ctx, q, id, at, func(out *ops.Claimed) []db.Part { return chargesBeside(&others, out.Cycle) })
		out.Journal.Elsewhere = elsewhere(others)
		return out, err
	})
}

func (s *Journal) loadAt(
	ctx context.Context, id ops.CycleID, load func(context.Context, db.Querier, ops.CycleID, time.Time) (ops.Claimed, error),
) (out ops.Claimed, err error) {
	err = s.db.Read(ctx, func(tx db.Querier) error {
		out, err = load(ctx, tx, id, s.clock())
		return err
	})
	if err != nil {
		return ops.Claimed{}, fmt.Errorf("load cycle %d: %w", id, err)
	}
	return out, nil
}

func (s *kernel) loadClaimed(ctx context.Context, q db.Querier, id ops.CycleID, at time.Time) (ops.Claimed, error) {
	return s.loadWith(ctx, q, id, at, nil)
}

// loadWith asks for more together with the journal.
func (s *kernel) loadWith(
	ctx context.Context, q db.Querier, id ops.CycleID, at time.Time, more func(*ops.Claimed) []db.Part,
) (out ops.Claimed, err error) {
	has := contents{last: &s.inventory}
	if out.Cycle, err = db.One(ctx, q, has.scan, selectContents, standstillName, db.Time(at), db.Time(at), id); err != nil {
		return ops.Claimed{}, err
	}
	c, j := out.Cycle, &out.Journal
	j.Standstill = has.standstill
	var states []health.State
	var said judgements
	parts := slices.Concat(
		[]db.Part{db.Into(&j.Sessions, scanSession, selectSessions+` WHERE s.cycle_id = ? ORDER BY s.id`, id)},
		when(has.decisions, db.Into(&j.Decisions, scanDecision, selectDecisions+` WHERE e.cycle_id = ? ORDER BY e.id`, id)),
		when(has.checks, db.Into(&j.Checks, scanCheck, selectChecks+` WHERE k.cycle_id = ? ORDER BY k.id`, id)),
		when(has.recoveries, db.Into(&j.Recoveries, scanRecovery, selectRecoveries+` WHERE y.cycle_id = ? ORDER BY y.id`, id)),
		when(has.approvals, db.Into(&j.Approvals, scanApproval, selectApprovals+` WHERE a.cycle_id = ? ORDER BY a.id`, id)),
		when(has.runs, db.Into(&j.Runs, scanAction, selectActions+` WHERE r.cycle_id = ? ORDER BY r.id`, id)),
		when(has.denials, db.Into(&j.Denials, scanApproval, selectDenials, c.Environment, db.Time(at))),
		when(has.silences, db.Into(&j.Silences, scanSilence, selectSilencesAt, silencesArgs(c.Environment, at)...)),
		when(has.lowered, db.Into(&j.Lowered, scanLowered, selectLowered, c.Environment)),
		when(has.incidents, incidentsFor(&j.Incidents, c.Environment, c.ID)),
		when(has.judgements, said.ofCycle(id)...),
		reflexParts(j, &states, c, has, at),
	)
	if more != nil {
		parts = append(parts, more(&out)...)
	}
	if err := db.Together(ctx, q, parts...); err != nil {
		return ops.Claimed{}, err
	}
	j.Failing, j.Effects = failing(states), said.effects()
	if err := s.loadOthers(ctx, q, &out, has, at); err != nil {
		return ops.Claimed{}, err
	}
	return out, nil
}

// when are parts of the journal, if the cycle has them.
func when(has bool, parts ...db.Part) []db.Part {
	if !has {
		return nil
	}
	return parts
}

// loadOthers reads the parts that take more than one query.
func (s *kernel) loadOthers(ctx context.Context, q db.Querier, out *ops.Claimed, has contents, at time.Time) (err error) {
	c, j := out.Cycle, &out.Journal
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
	standstill *ops.Standstill

	last *lastInventory
}

const selectContents = `SELECT ` + cycleColumns + `, c.inventory,
	COALESCE((SELECT value FROM store_state WHERE name = ?), ''),
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
		db.ToJSON(&h.standstill), &h.decisions, &h.checks, &h.recoveries, &h.approvals, &h.denials, &h.incidents, &h.judgements, &h.silences,
		&h.withheld, &h.lowered, &h.actions, &h.runs, &h.reflexed, &h.reflexes,
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
	var looks []*time.Time
	var shown []map[string]int64
	var spend []float64
	var others []ops.Cycle
	out, err := s.loadWith(ctx, q, id, at, func(out *ops.Claimed) []db.Part {
		const before = 10 // enough to see whether they keep failing
		environment, j := out.Cycle.Environment, &out.Journal
		return slices.Concat(
			[]db.Part{
				db.Into(&looks, scanLook, selectLastLook, environment),
				spent(&spend, environment, at, `cycle_id`, int64(id)),
				db.Into(&j.Attacked, scanAttacked, selectAttacked, environment, db.Time(at.Add(-attackCounts))),
				db.Into(&j.Before, scanEnding, selectEndings, environment, id, before),
			},
			windows(&shown, out.Cycle.Policy.Handlers),
			chargesBeside(&others, out.Cycle),
		)
	})
	if err != nil {
		return ops.Claimed{}, err
	}
	j := &out.Journal
	if len(looks) > 0 {
		j.LastLook = looks[0]
	}
	if len(shown) > 0 {
		j.Windows = shown[0]
	}
	j.Spend.DayUSD, j.Elsewhere = spend[0], elsewhere(others)
	return out, nil
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

// chargesBeside reads what the other cycles of the environment work on. Only a look asks: it leaves that to them.
func chargesBeside(to *[]ops.Cycle, c ops.Cycle) []db.Part {
	return when(c.Charge.Open, charges(to, ` AND c.environment = ? AND c.id <> ?`, c.Environment, c.ID))
}

// elsewhere is what the other cycles of the environment that have not ended work on.
func elsewhere(others []ops.Cycle) []ops.Hold {
	var out []ops.Hold
	for _, o := range others {
		for _, name := range o.Charge.Services {
			out = append(out, ops.Hold{Service: name, From: ops.Tier1, By: ops.HoldByCycle, Why: notice.InCharge(o.ID)})
		}
	}
	return out
}

// charges reads what cycles that have not ended work on now: what their newest decision handed on, else what they were started for.
func charges(to *[]ops.Cycle, which string, args ...any) db.Part {
	return db.Into(to, func(r db.Row) (o ops.Cycle, err error) {
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
func windows(to *[]map[string]int64, handlers []ops.Handler) []db.Part {
	var models []string
	for _, h := range handlers {
		if !slices.Contains(models, h.Model) {
			models = append(models, h.Model)
		}
	}
	if len(models) == 0 {
		return nil
	}
	var columns []string
	var args []any
	for _, m := range models {
		columns = append(columns, `COALESCE((SELECT context_window FROM sessions WHERE model = ? AND context_window IS NOT NULL
			ORDER BY id DESC LIMIT 1), 0)`)
		args = append(args, m)
	}
	return []db.Part{db.Into(to, func(r db.Row) (map[string]int64, error) {
		found, dest := make([]int64, len(models)), make([]any, len(models))
		for i := range found {
			dest[i] = &found[i]
		}
		err := r.Scan(dest...)
		out := map[string]int64{}
		for i, m := range models {
			if found[i] > 0 {
				out[m] = found[i]
			}
		}
		return out, err
	}, `SELECT `+strings.Join(columns, `, `), args...)}
}

// selectLastLook finds when an agent last looked at an environment. One that ended without a usable report has not looked.
const selectLastLook = `SELECT ended_at FROM sessions WHERE environment = ? AND tier = 1 AND role = 'work' AND status = 'completed'
	AND outcome <> 'inconclusive' ORDER BY id DESC LIMIT 1`

func scanLook(r db.Row) (*time.Time, error) {
	var at *time.Time
	err := r.Scan(db.ToOptTime(&at))
	return at, err
}
