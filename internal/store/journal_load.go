package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Load returns a cycle with its journal.
func (s *Journal) Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error) {
	known, err := s.Cycle(ctx, id)
	if err != nil {
		return ops.Claimed{}, fmt.Errorf("load cycle: %w", err)
	}
	return s.read(ctx, known, s.loadWhole)
}

// Look is Load without what the journal knows of other cycles, except what they have begun to work on: whoever has claimed the cycle has
// the rest from its claim. Of the known cycle it needs what does not change.
func (s *Journal) Look(ctx context.Context, known ops.Cycle) (ops.Claimed, error) {
	return s.read(ctx, known, func(ctx context.Context, q db.Querier, known ops.Cycle, at time.Time) (ops.Claimed, error) {
		var others []ops.Cycle
		out, err := s.load(ctx, q, known, at, chargesBeside(&others, known)...)
		out.Journal.Elsewhere = s.elsewhere(others)
		return out, err
	})
}

func (s *Journal) read(
	ctx context.Context, known ops.Cycle, load func(context.Context, db.Querier, ops.Cycle, time.Time) (ops.Claimed, error),
) (out ops.Claimed, err error) {
	err = s.db.ReadOnce(ctx, func(q db.Querier) error {
		out, err = load(ctx, q, known, s.clock())
		return err
	})
	return ops.Returning(out, err, "load cycle %d", known.ID)
}

// load reads a cycle with its journal, and more together with it. Of the known cycle it needs what does not change.
func (s *kernel) load(ctx context.Context, q db.Querier, known ops.Cycle, at time.Time, more ...db.Part) (ops.Claimed, error) {
	var out ops.Claimed
	id, environment, j := known.ID, known.Environment, &out.Journal
	var cycles []ops.Cycle
	var said judgements
	var withheld []ops.Withheld
	counts := false
	err := db.AtOnce(ctx, q, slices.Concat([]db.Part{
		db.Into(&cycles, scanLoaded(&s.inventory, j, &counts), selectLoaded, standstillName, id),
		db.Into(&j.Sessions, scanSession, selectSessions+` WHERE s.cycle_id = ? ORDER BY s.id`, id),
		db.Into(&j.Decisions, scanDecision, selectDecisions+` WHERE e.cycle_id = ? ORDER BY e.id`, id),
		db.Into(&j.Checks, scanCheck, selectChecks+` WHERE k.cycle_id = ? ORDER BY k.id`, id),
		db.Into(&j.Recoveries, scanRecovery, selectRecoveries+` WHERE y.cycle_id = ? ORDER BY y.id`, id),
		db.Into(&j.Approvals, scanApproval, selectApprovals+` WHERE a.cycle_id = ? ORDER BY a.id`, id),
		db.Into(&j.Runs, scanAction, selectActions+` WHERE r.cycle_id = ? ORDER BY r.id`, id),
		db.Into(&j.Denials, scanApproval, selectDenials, environment, db.Time(at)),
		db.Into(&j.Silences, scanSilence, selectSilencesAt, silencesArgs(environment, at)...),
		db.Into(&j.Lowered, scanLowered, selectLowered, environment),
		incidentsFor(&j.Incidents, environment, id),
		db.Into(&withheld, scanWithheld, selectWithheld+` ORDER BY service`, environment),
	}, said.ofCycle(id), reflexParts(j, environment, at), more)...)
	if err == nil && len(cycles) == 0 {
		err = ops.ErrNotFound
	}
	if err != nil {
		return ops.Claimed{}, err
	}
	out.Cycle, j.Effects = cycles[0], said.effects()
	if err := s.loadOthers(ctx, q, &out, counts, withheld, at); err != nil {
		return ops.Claimed{}, err
	}
	return out, nil
}

// loadOthers reads what most cycles do not need.
func (s *kernel) loadOthers(
	ctx context.Context, q db.Querier, out *ops.Claimed, counts bool, withheld []ops.Withheld, at time.Time,
) (err error) {
	c, j := out.Cycle, &out.Journal
	if j.Withheld, err = s.withheldFor(ctx, q, *out, withheld, at); err != nil {
		return err
	}
	if j.Notified, err = toldFor(ctx, q, c, j.Lowered); err != nil {
		return err
	}
	if j.Failing, err = failingFor(ctx, q, *out); err != nil {
		return err
	}
	// A session of this cycle may have used a reservation since the last load.
	if counts && len(c.Policy.Cooldowns) > 0 {
		j.Cooldowns, err = cooldowns(ctx, q, c.Environment, c.Policy.Cooldowns, s.moment(at))
	}
	return err
}

// selectLoaded finds with a cycle the standstill, and whether any action counts in its environment.
const selectLoaded = `SELECT ` + cycleColumns + `, c.inventory,
	COALESCE((SELECT value FROM store_state WHERE name = ?), ''),
	EXISTS (SELECT 1 FROM cooldown_actions WHERE environment = c.environment AND counts)
		OR EXISTS (SELECT 1 FROM action_runs WHERE environment = c.environment AND counts)
	FROM cycles c WHERE c.id = ?`

func scanLoaded(last *lastInventory, j *ops.Journal, counts *bool) func(db.Row, *ops.Cycle) error {
	return func(r db.Row, c *ops.Cycle) error {
		return scanWhole(last)(longerRow{r, []any{db.ToJSON(&j.Standstill), counts}}, c)
	}
}

// longerRow scans a row into the columns that the caller knows and into more.
type longerRow struct {
	db.Row
	more []any
}

func (r longerRow) Scan(dest ...any) error { return r.Row.Scan(append(dest, r.more...)...) }

// loadWhole is load with what concerns other cycles, which only a claim needs.
func (s *Journal) loadWhole(ctx context.Context, q db.Querier, known ops.Cycle, at time.Time) (ops.Claimed, error) {
	const before = 10 // enough to see whether they keep failing
	var looks []*time.Time
	var shown []map[string]int64
	var spend []float64
	var others []ops.Cycle
	var attacked []ops.Hold
	var endings []ops.Ending
	out, err := s.load(ctx, q, known, at, slices.Concat(
		[]db.Part{
			db.Into(&looks, scanLook, selectLastLook, known.Environment),
			spent(&spend, known.Environment, at, `cycle_id`, int64(known.ID)),
			db.Into(&attacked, s.scanAttacked, selectAttacked, known.Environment, db.Time(at.Add(-attackCounts))),
			db.Into(&endings, scanEnding, selectEndings, known.Environment, known.ID, before),
		},
		windows(&shown, known.Policy.Handlers),
		chargesBeside(&others, known),
	)...)
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
	j.Attacked, j.Before, j.Spend.DayUSD, j.Elsewhere = attacked, endings, spend[0], s.elsewhere(others)
	return out, nil
}

// selectAttacked finds the services about which two cycles called people after an attack: they get a look, and nothing above it.
const selectAttacked = `SELECT i.service, MIN(g.at) FROM guard_decisions g JOIN incident_cycles x ON x.cycle_id = g.cycle_id
	JOIN incidents i ON i.id = x.incident_id WHERE i.environment = ? AND i.service <> '' AND g.rule = 'never.attack' AND g.at > ?
	GROUP BY i.service HAVING COUNT(DISTINCT g.cycle_id) > 1`
const attackCounts = 24 * time.Hour

func (s *kernel) scanAttacked(r db.Row, h *ops.Hold) error {
	*h = ops.Hold{From: ops.Tier2, By: ops.HoldByAttack, Until: new(time.Time)}
	err := r.Scan(&h.Service, db.ToTime(h.Until))
	*h.Until = h.Until.Add(attackCounts)
	h.Why = s.words.AttackedTwice(*h.Until)
	return err
}

// chargesBeside reads what the other cycles of the environment work on. Only a look asks: it leaves that to them.
func chargesBeside(to *[]ops.Cycle, c ops.Cycle) []db.Part {
	if !c.Charge.Open {
		return nil
	}
	return []db.Part{charges(to, ` AND c.environment = ? AND c.id <> ?`, c.Environment, c.ID)}
}

// elsewhere is what the other cycles of the environment that have not ended work on.
func (s *kernel) elsewhere(others []ops.Cycle) []ops.Hold {
	var out []ops.Hold
	for _, o := range others {
		for _, name := range o.Charge.Services {
			out = append(out, ops.Hold{Service: name, From: ops.Tier1, By: ops.HoldByCycle, Why: s.words.InCharge(o.ID)})
		}
	}
	return out
}

// charges reads what cycles that have not ended work on now: what their newest decision handed on, else what they were started for.
func charges(to *[]ops.Cycle, which string, args ...any) db.Part {
	return db.Into(to, func(r db.Row, o *ops.Cycle) error {
		var handed []string
		err := r.Scan(&o.ID, db.ToJSON(&o.Charge), db.ToJSON(&handed))
		if len(handed) > 0 {
			o.Charge = ops.Charge{Services: handed}
		}
		return err
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
	return []db.Part{db.Into(to, func(r db.Row, windows *map[string]int64) error {
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
		*windows = out
		return err
	}, `SELECT `+strings.Join(columns, `, `), args...)}
}

// selectLastLook finds when an agent last looked at an environment. One that ended without a usable report has not looked.
const selectLastLook = `SELECT ended_at FROM sessions WHERE environment = ? AND tier = 1 AND role = 'work' AND status = 'completed'
	AND outcome <> 'inconclusive' ORDER BY id DESC LIMIT 1`

func scanLook(r db.Row, at **time.Time) error {
	return r.Scan(db.ToOptTime(at))
}

// Rules are what the watch makes of its rows, asked in the transaction that reads them.
type Rules interface {
	// Withheld adds to what the watch holds back what it would hold back of a cycle's own results, and what is in maintenance.
	Withheld(c ops.Claimed, seen ops.Seen, onHold []ops.Withheld, own []ops.Check, at time.Time) []ops.Withheld
	// Quiet reports whether nothing follows from a bad result of a cycle.
	Quiet(c ops.Claimed, seen ops.Seen, bad ops.Check, at time.Time) bool
	// Shown is a result as pages show it, with what its check adds up to.
	Shown(c ops.Check, state ops.CheckState) ops.Check
	// StartTime is how long a service took to work after a start.
	StartTime(start time.Time, results []ops.Check) (took time.Duration, known bool)
}

// withheldFor returns what a cycle must leave alone now. The watch may not have seen a failure yet, above all after a restart.
func (s *kernel) withheldFor(
	ctx context.Context, q db.Querier, c ops.Claimed, onHold []ops.Withheld, at time.Time,
) ([]ops.Withheld, error) {
	own := ownResults(c.Journal.Checks)
	if !slices.ContainsFunc(own, func(k ops.Check) bool { return k.Status != ops.Healthy }) {
		return s.rules.Withheld(c, ops.Seen{}, onHold, nil, at), nil
	}
	seen, err := seenBy(ctx, q, c, at)
	if err != nil {
		return nil, fmt.Errorf("judge own probes: %w", err)
	}
	return s.rules.Withheld(c, seen, onHold, own, at), nil
}

// ownResults are the results of a cycle's own probes of services, in order.
func ownResults(checks []ops.Check) []ops.Check {
	return slices.DeleteFunc(ofProbes(checks), func(k ops.Check) bool { return k.Purpose == ops.ProbeAlert })
}

// seenBy is what the watch knows about the environment of a cycle.
func seenBy(ctx context.Context, q db.Querier, c ops.Claimed, at time.Time) (s ops.Seen, err error) {
	environment, ago := c.Cycle.Environment, db.Time(at.Add(-time.Hour))
	err = db.AtOnce(ctx, q,
		db.Into(&s.States, scanState, `SELECT state FROM probe_states WHERE environment = ?`, environment),
		db.Into(&s.Causes, scanCause, selectCauses+` WHERE z.environment = ? AND (z.resolved_at IS NULL OR z.at >= ?) ORDER BY z.id`,
			environment, ago),
		// A silence that has just ended still leaves time to recover.
		db.Into(&s.Silences, scanSilence, selectSilences+` WHERE q.ends_at > ? AND q.starts_at <= ?
			AND (q.environment = ? OR q.environment = '') ORDER BY q.id LIMIT ?`, ago, db.Time(at), environment, maxSilences),
		db.Into(&s.Firing, scanAlert, selectAlerts+` WHERE a.environment = ? AND a.status = ? ORDER BY a.id`, environment, ops.AlertFiring))
	return s, err
}
