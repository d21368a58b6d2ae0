package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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

// days are the first and the last text, exclusive, of the UTC days that lie within the time as a whole, and the parts of other days.
func (f CostFilter) days() (from, until string, parts [][2]string) {
	const end = "9999-12-31"
	since, last := f.Since.UTC().Truncate(time.Microsecond), f.Until.UTC().Truncate(time.Microsecond)
	first := since.Truncate(day)
	if first.Before(since) {
		first = first.Add(day)
	}
	if f.Until.IsZero() {
		if since.Before(first) {
			parts = append(parts, [2]string{db.Time(since), db.Time(first)})
		}
		return first.Format(dayLayout), end, parts
	}
	whole := last.Truncate(day)
	switch {
	case whole.Before(first): // both are within one day
		return end, end, [][2]string{{db.Time(since), db.Time(last)}}
	case since.Before(first):
		parts = append(parts, [2]string{db.Time(since), db.Time(first)})
	}
	if whole.Before(last) {
		parts = append(parts, [2]string{db.Time(whole), db.Time(last)})
	}
	return first.Format(dayLayout), whole.Format(dayLayout), parts
}

// inEnvironment adds a condition on the environment to others.
func (f CostFilter) inEnvironment(column, cond string, args ...any) (string, []any) {
	if f.Environment == "" {
		return cond, args
	}
	return cond + ` AND ` + column + ` = ?`, append(args, f.Environment)
}

// sums is a query with the columns of cost_days: whole days come from there, parts of days from the sessions.
func (f CostFilter) sums() (string, []any) {
	from, until, parts := f.days()
	cond, args := f.inEnvironment(`environment`, `day >= ? AND day < ?`, from, until)
	query := `SELECT ` + costKey + `, ` + strings.Join(costFigures(), `, `) + ` FROM cost_days WHERE ` + cond
	for _, p := range parts {
		cond, more := f.inEnvironment(`s.environment`, `s.ended_at >= ? AND s.ended_at < ?`, p[0], p[1])
		query += ` UNION ALL ` + addedCosts(cond, ``)
		args = append(args, more...)
	}
	return query, args
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

// sumCosts adds up rows of cost_days.
func sumCosts() string {
	sum := func(column string) string { return `CAST(SUM(` + column + `) AS BIGINT)` }
	reported := func(column string) string {
		return `CASE WHEN SUM(` + column + `_reported) > 0 THEN ` + sum(column) + ` END`
	}
	return strings.Join([]string{
		reported(`cost`), sum(`sessions`), sum(`cost_reported`),
		reported(`input`), reported(`output`), reported(`cache_read`), reported(`cache_write`),
	}, `, `)
}

const nano = 1e9 // of a dollar

func scanCost(r db.Row, c *CostRow) error {
	var at string
	var cost *int64
	err := r.Scan(&at, db.ToText(&c.Key), &cost, &c.Sessions, &c.Reported, &c.InputTokens, &c.OutputTokens, &c.CacheReadTokens,
		&c.CacheWriteTokens)
	if err == nil {
		c.Day, err = time.Parse(dayLayout, at)
	}
	if cost != nil {
		c.USD = ops.Ptr(float64(*cost) / nano)
	}
	return err
}

// Costs returns what was spent per day and group, oldest day first. Days on which no session ended have no row.
func (s *Reports) Costs(ctx context.Context, by CostGroup, f CostFilter) ([]CostRow, error) {
	var key string
	switch by {
	case CostByTier:
		key = `CAST(tier AS TEXT)`
	case CostByModel:
		key = `model`
	case CostByTrigger:
		key = `"trigger"`
	case CostByService:
		key = `services`
	default:
		return nil, fmt.Errorf("sum costs: %q is not something costs are told apart by", by)
	}
	query, args := f.sums()
	rows, err := db.List(ctx, s.db.Reader(), scanCost, `SELECT day, `+key+`, `+sumCosts()+` FROM (`+query+`) AS d
		GROUP BY 1, 2 HAVING SUM(sessions) > 0 OR SUM(cost_reported) > 0 ORDER BY 1, 2`, args...)
	if err == nil && by == CostByService {
		rows, err = byNames(rows)
	}
	return ops.Returning(rows, err, "sum costs by %s", by)
}

// byNames turns the JSON lists of services into joined names. Lists of the same services in another order are one group.
func byNames(rows []CostRow) ([]CostRow, error) {
	type key struct {
		day  time.Time
		name string
	}
	sums := map[key]CostRow{}
	for _, r := range rows {
		var services []string
		if r.Key != "" {
			if err := json.Unmarshal([]byte(r.Key), &services); err != nil {
				return nil, fmt.Errorf("read services: %w", err)
			}
		}
		slices.Sort(services)
		k := key{r.Day, strings.Join(services, ", ")}
		sums[k] = CostRow{Day: k.day, Key: k.name, Cost: sums[k].Add(r.Cost)}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b CostRow) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Key, b.Key))
	}), nil
}

// Spending returns what an environment has spent today and in the window before now.
func (s *Reports) Spending(ctx context.Context, environment string, window time.Duration, now time.Time) (ops.Spending, error) {
	var out ops.Spending
	var err error
	if out.TodayUSD, _, err = s.CostSince(ctx, environment, now.UTC().Truncate(day)); err == nil {
		out.RecentUSD, _, err = s.CostSince(ctx, environment, now.Add(-window))
	}
	return out, err
}

// CostSince returns what the sessions that ended since then cost, in one environment or, with "", in all. It is not known when
// sessions ran and none of them reported a cost.
func (s *Reports) CostSince(ctx context.Context, environment string, since time.Time) (total float64, known bool, err error) {
	query, args := CostFilter{Environment: environment, Since: since}.sums()
	var cost, ran, reported int64
	err = s.db.Reader().QueryRowContext(ctx, `SELECT CAST(COALESCE(SUM(cost), 0) AS BIGINT), CAST(COALESCE(SUM(sessions), 0) AS BIGINT),
		CAST(COALESCE(SUM(cost_reported), 0) AS BIGINT) FROM (`+query+`) AS d`, args...).Scan(&cost, &ran, &reported)
	if err != nil {
		return 0, false, fmt.Errorf("sum costs: %w", err)
	}
	return float64(cost) / nano, ran == 0 || reported > 0, nil
}

// ChainCost is what one cycle cost as a whole.
type ChainCost struct {
	ops.Cycle
	Cost
}

// ExpensiveChains returns the cycles that cost the most, of those in which a session ended within the time.
func (s *Reports) ExpensiveChains(ctx context.Context, f CostFilter, limit int) ([]ChainCost, error) {
	var out []ChainCost
	err := s.db.Read(ctx, func(tx db.Querier) error {
		from, until, parts := f.days()
		found, err := f.dearestOfDays(ctx, tx, from, until, db.PageSize(limit))
		if err != nil {
			return err
		}
		more, err := f.dearestOfRows(ctx, tx, append(parts, [2]string{from, until}), db.PageSize(limit))
		if err != nil {
			return err
		}
		out, err = chainCosts(ctx, tx, dearest(append(found, more...), db.PageSize(limit)))
		return err
	})
	return ops.Returning(out, err, "list expensive chains")
}

// cycleCost is what a cycle cost, in billionths of a dollar.
type cycleCost struct {
	cycle ops.CycleID
	cost  int64
}

func scanCycleCost(r db.Row, c *cycleCost) error {
	return r.Scan(&c.cycle, &c.cost)
}

// dearest are the most expensive ones, each cycle once.
func dearest(found []cycleCost, limit int) []cycleCost {
	slices.SortFunc(found, func(a, b cycleCost) int { return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(b.cycle, a.cycle)) })
	found = slices.CompactFunc(found, func(a, b cycleCost) bool { return a.cycle == b.cycle })
	return found[:min(limit, len(found))]
}

// dearestOfDays finds the most expensive ended cycles of whole days: those of each day, in a few queries.
func (f CostFilter) dearestOfDays(ctx context.Context, tx db.Querier, from, until string, limit int) ([]cycleCost, error) {
	days, err := db.List(ctx, tx, db.ScanString, `SELECT DISTINCT day FROM cost_days WHERE day >= ? AND day < ?`, from, until)
	if err != nil {
		return nil, err
	}
	var out []cycleCost
	const atOnce = 100 // SQLite allows 500 parts of a query
	for some := range slices.Chunk(days, atOnce) {
		queries := make([]string, len(some))
		var args []any
		for i, day := range some {
			cond, of := f.inEnvironment(`environment`, `day = ?`, day)
			queries[i] = `SELECT * FROM (SELECT cycle_id, cost FROM cycle_cost_days WHERE ` + cond +
				` ORDER BY cost DESC, cycle_id DESC LIMIT ?) AS d`
			args = append(append(args, of...), limit)
		}
		found, err := db.List(ctx, tx, scanCycleCost, strings.Join(queries, ` UNION ALL `), args...)
		if err != nil {
			return nil, err
		}
		out = dearest(append(out, found...), limit)
	}
	return out, nil
}

// dearestOfRows finds the most expensive cycles among those that have not ended, and among those of parts of days.
func (f CostFilter) dearestOfRows(ctx context.Context, tx db.Querier, spans [][2]string, limit int) ([]cycleCost, error) {
	var out []cycleCost
	for i, span := range spans {
		cond, args := f.inEnvironment(`s.environment`, `s.ended_at >= ? AND s.ended_at < ?`, span[0], span[1])
		whose := `SELECT s.cycle_id FROM sessions s WHERE ` + counted + ` AND ` + cond
		if i == len(spans)-1 { // the whole days, of which the ended cycles are known
			whose += ` AND s.cycle_id IN (SELECT id FROM cycles WHERE ended_at IS NULL)`
		}
		found, err := db.List(ctx, tx, scanCycleCost, `SELECT s.cycle_id, CAST(SUM(`+nanoCost+`) AS BIGINT) FROM sessions s
			WHERE `+counted+` AND s.cycle_id IN (`+whose+`) GROUP BY s.cycle_id HAVING COUNT(s.cost_usd) > 0
			ORDER BY 2 DESC, 1 DESC LIMIT ?`, append(args, limit)...)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// chainCosts reads the cycles and their figures, in the given order.
func chainCosts(ctx context.Context, tx db.Querier, found []cycleCost) ([]ChainCost, error) {
	if len(found) == 0 {
		return nil, nil
	}
	out := make([]ChainCost, len(found))
	at := make(map[ops.CycleID]int, len(found))
	ids := make([]any, len(found))
	for i, c := range found {
		at[c.cycle], ids[i] = i, c.cycle
	}
	marks := db.Placeholders(len(ids))
	cycles, err := db.List(ctx, tx, scanCycle, selectCycles+` WHERE c.id IN (`+marks+`)`, ids...)
	if err != nil {
		return nil, err
	}
	for _, c := range cycles {
		out[at[c.ID]].Cycle = c
	}
	_, err = db.List(ctx, tx, func(r db.Row, _ *struct{}) error {
		var id ops.CycleID
		var c Cost
		err := r.Scan(&id, &c.USD, &c.Sessions, &c.Reported, &c.InputTokens, &c.OutputTokens, &c.CacheReadTokens, &c.CacheWriteTokens)
		if err == nil {
			out[at[id]].Cost = c
		}
		return err
	}, `SELECT s.cycle_id, SUM(s.cost_usd), COUNT(s.started_at), COUNT(s.cost_usd), CAST(SUM(s.input_tokens) AS BIGINT),
			CAST(SUM(s.output_tokens) AS BIGINT), CAST(SUM(s.cache_read_tokens) AS BIGINT), CAST(SUM(s.cache_write_tokens) AS BIGINT)
		FROM sessions s WHERE `+counted+` AND s.cycle_id IN (`+marks+`) GROUP BY s.cycle_id`, ids...)
	return out, err
}
