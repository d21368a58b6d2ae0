package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

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
	if err != nil {
		return nil, fmt.Errorf("list expensive chains: %w", err)
	}
	return out, nil
}

// cycleCost is what a cycle cost, in billionths of a dollar.
type cycleCost struct {
	cycle ops.CycleID
	cost  int64
}

func scanCycleCost(r db.Row) (cycleCost, error) {
	var c cycleCost
	err := r.Scan(&c.cycle, &c.cost)
	return c, err
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
	_, err = db.List(ctx, tx, func(r db.Row) (struct{}, error) {
		var id ops.CycleID
		var c Cost
		err := r.Scan(&id, &c.USD, &c.Sessions, &c.Reported, &c.InputTokens, &c.OutputTokens, &c.CacheReadTokens, &c.CacheWriteTokens)
		if err == nil {
			out[at[id]].Cost = c
		}
		return struct{}{}, err
	}, `SELECT s.cycle_id, SUM(s.cost_usd), COUNT(s.started_at), COUNT(s.cost_usd), CAST(SUM(s.input_tokens) AS BIGINT),
			CAST(SUM(s.output_tokens) AS BIGINT), CAST(SUM(s.cache_read_tokens) AS BIGINT), CAST(SUM(s.cache_write_tokens) AS BIGINT)
		FROM sessions s WHERE `+counted+` AND s.cycle_id IN (`+marks+`) GROUP BY s.cycle_id`, ids...)
	return out, err
}
