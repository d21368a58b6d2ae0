package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// CostGroup is how costs are grouped.
type CostGroup string

// The groups. A chain that concerns several services counts for all of them together, under their joined names.
const (
	CostByTier    CostGroup = "tier"
	CostByModel   CostGroup = "model"
	CostByService CostGroup = "service"
	CostByTrigger CostGroup = "trigger"
)

// CostGroups are all groups.
func CostGroups() []CostGroup {
	return []CostGroup{CostByTier, CostByModel, CostByService, CostByTrigger}
}

// CostFilter chooses sessions by when they ended.
type CostFilter struct {
	Environment string
	Since       time.Time // of this moment or later
	Until       time.Time // before this moment; zero means no end
}

func (f CostFilter) filter() db.Filter {
	w := db.Filter{}
	w.Add(`s.ended_at >= ?`, db.Time(f.Since))
	if !f.Until.IsZero() {
		w.Add(`s.ended_at < ?`, db.Time(f.Until))
	}
	if f.Environment != "" {
		w.Add(`s.environment = ?`, f.Environment)
	}
	return w
}

// Cost is what sessions used. A figure that none of them reported is nil.
type Cost struct {
	USD              *float64
	Sessions         int // how many ran
	Reported         int // how many of them reported a cost
	InputTokens      *int64
	OutputTokens     *int64
	CacheReadTokens  *int64
	CacheWriteTokens *int64
}

// Add returns the cost of both.
func (c Cost) Add(o Cost) Cost {
	return Cost{
		USD: plus(c.USD, o.USD), Sessions: c.Sessions + o.Sessions, Reported: c.Reported + o.Reported,
		InputTokens: plus(c.InputTokens, o.InputTokens), OutputTokens: plus(c.OutputTokens, o.OutputTokens),
		CacheReadTokens: plus(c.CacheReadTokens, o.CacheReadTokens), CacheWriteTokens: plus(c.CacheWriteTokens, o.CacheWriteTokens),
	}
}

// plus adds figures; nil is unknown.
func plus[T int64 | float64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return ops.Ptr(*a + *b)
}

// CostRow is what one group cost on one day.
type CostRow struct {
	Day time.Time // midnight, UTC: budgets are counted by the same days
	Key string    // the tier as a digit, or a name; empty where there is none
	Cost
}

const sumCosts = `SUM(s.cost_usd), COUNT(s.started_at), COUNT(s.cost_usd),
	SUM(s.input_tokens), SUM(s.output_tokens), SUM(s.cache_read_tokens), SUM(s.cache_write_tokens)`

func (c *Cost) scanned() []any {
	return []any{&c.USD, &c.Sessions, &c.Reported, &c.InputTokens, &c.OutputTokens, &c.CacheReadTokens, &c.CacheWriteTokens}
}

func scanCost(r db.Row) (CostRow, error) {
	var c CostRow
	var at string
	err := r.Scan(append([]any{&at, db.ToText(&c.Key)}, c.scanned()...)...)
	if err == nil {
		c.Day, err = time.Parse(dayLayout, at)
	}
	return c, err
}

// Costs returns what was spent per day and group, oldest day first. Days on which no session ended have no row.
func (s *Store) Costs(ctx context.Context, by CostGroup, f CostFilter) ([]CostRow, error) {
	var key, join string
	switch by {
	case CostByTier:
		key = `CAST(s.tier AS TEXT)`
	case CostByModel:
		key = `s.model`
	case CostByTrigger:
		key, join = `c."trigger"`, ` JOIN cycles c ON c.id = s.cycle_id`
	case CostByService:
		return s.costsByService(ctx, f)
	default:
		return nil, fmt.Errorf("sum costs: %q is not something costs are told apart by", by)
	}
	w := f.filter()
	rows, err := db.List(ctx, s.db.Reader(), scanCost, `SELECT substr(s.ended_at, 1, 10), `+key+`, `+sumCosts+` FROM sessions s`+join+
		w.Where()+` AND s.started_at IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2`, w.Args...)
	if err != nil {
		return nil, fmt.Errorf("sum costs by %s: %w", by, err)
	}
	return rows, nil
}

// costsByService adds up whole cycles, because a session does not know yet which services the cycle turns out to be about.
func (s *Store) costsByService(ctx context.Context, f CostFilter) ([]CostRow, error) {
	type named struct {
		cycle    ops.CycleID
		services []string
	}
	type chain struct {
		cycle ops.CycleID
		CostRow
	}
	var chains []chain
	names := map[ops.CycleID]string{}
	w := f.filter()
	err := s.db.Read(ctx, func(tx db.Querier) error {
		var err error
		chains, err = db.List(ctx, tx, func(r db.Row) (chain, error) {
			var c chain
			var at string
			err := r.Scan(append([]any{&at, &c.cycle}, c.scanned()...)...)
			if err == nil {
				c.Day, err = time.Parse(dayLayout, at)
			}
			return c, err
		}, `SELECT substr(s.ended_at, 1, 10), s.cycle_id, `+sumCosts+` FROM sessions s`+w.Where()+
			` AND s.started_at IS NOT NULL GROUP BY 1, 2`, w.Args...)
		if err != nil {
			return err
		}
		found, err := db.List(ctx, tx, func(r db.Row) (named, error) {
			var n named
			err := r.Scan(&n.cycle, db.ToJSON(&n.services))
			return n, err
		}, `SELECT e.cycle_id, e.services FROM escalations e WHERE e.services IS NOT NULL
			AND e.cycle_id IN (SELECT s.cycle_id FROM sessions s`+w.Where()+`) ORDER BY e.id`, w.Args...)
		for _, n := range found {
			if len(n.services) > 0 { // the last decision counts
				names[n.cycle] = strings.Join(slices.Sorted(slices.Values(n.services)), ", ")
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sum costs by service: %w", err)
	}
	type key struct {
		day  time.Time
		name string
	}
	sums := map[key]CostRow{}
	for _, c := range chains {
		k := key{c.Day, names[c.cycle]}
		sums[k] = CostRow{Day: k.day, Key: k.name, Cost: sums[k].Add(c.Cost)}
	}
	out := make([]CostRow, 0, len(sums))
	for _, r := range sums {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b CostRow) int { return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Key, b.Key)) })
	return out, nil
}

// ChainCost is what one cycle cost as a whole.
type ChainCost struct {
	ops.Cycle
	Cost
}

// ExpensiveChains returns the cycles that cost the most, of those in which a session ended within the time.
func (s *Store) ExpensiveChains(ctx context.Context, f CostFilter, limit int) ([]ChainCost, error) {
	var out []ChainCost
	err := s.db.Read(ctx, func(tx db.Querier) error {
		w := f.filter()
		var err error
		out, err = db.List(ctx, tx, func(r db.Row) (ChainCost, error) {
			var c ChainCost
			err := r.Scan(append([]any{&c.ID}, c.scanned()...)...)
			return c, err
		}, `SELECT s.cycle_id, `+sumCosts+` FROM sessions s WHERE s.started_at IS NOT NULL
			AND s.cycle_id IN (SELECT s.cycle_id FROM sessions s`+w.Where()+`)
			GROUP BY s.cycle_id HAVING COUNT(s.cost_usd) > 0 ORDER BY 2 DESC, 1 DESC LIMIT ?`, append(w.Args, db.PageSize(limit))...)
		for i := range out {
			if err == nil {
				out[i].Cycle, err = cycleByID(ctx, tx, out[i].ID)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list expensive chains: %w", err)
	}
	return out, nil
}

// CostSince returns what the sessions that ended since then cost, in one environment or, with "", in all. It is not known when
// sessions ran and none of them reported a cost.
func (s *Store) CostSince(ctx context.Context, environment string, since time.Time) (total float64, known bool, err error) {
	w := db.Filter{}
	w.Add(`ended_at >= ?`, db.Time(since))
	if environment != "" {
		w.Add(`environment = ?`, environment)
	}
	var ran, reported int
	err = s.db.Reader().QueryRowContext(ctx, `SELECT COALESCE(SUM(cost_usd), 0), COUNT(started_at), COUNT(cost_usd) FROM sessions`+w.Where(),
		w.Args...).Scan(&total, &ran, &reported)
	if err != nil {
		return 0, false, fmt.Errorf("sum costs: %w", err)
	}
	return total, ran == 0 || reported > 0, nil
}
