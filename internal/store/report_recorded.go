package store

import (
	"context"
	"fmt"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// RecordFilter says which part of the record is read, and where the last page ended.
type RecordFilter struct {
	Cycle  ops.CycleID // only this one; 0: all
	Before int64       // rows with a lower id; 0: from the newest
	Limit  int
}

// page is the end of a query for rows with that id, which the other condition finds by their cycle.
func (f RecordFilter) page(id, ofCycle string, more ...string) (query string, args []any) {
	var w db.Filter
	if f.Before > 0 {
		w.Add(id+` < ?`, f.Before)
	}
	if f.Cycle > 0 {
		w.Add(ofCycle, f.Cycle)
	}
	for _, cond := range more {
		w.Add(cond)
	}
	return w.Where() + ` ORDER BY ` + id + ` DESC LIMIT ?`, append(w.Args, f.Limit)
}

// Recorded returns cycles in which something was decided, the newest first, with their stored steps and decisions.
func (s *Reports) Recorded(ctx context.Context, f RecordFilter) (out []ops.Recorded, err error) {
	err = s.db.Read(ctx, func(tx db.Querier) error {
		out, err = recorded(ctx, tx, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list recorded cycles: %w", err)
	}
	return out, nil
}

func recorded(ctx context.Context, q db.Querier, f RecordFilter) ([]ops.Recorded, error) {
	page, args := f.page(`c.id`, `c.id = ?`,
		`c.started_at IS NOT NULL AND (c.ended_at IS NOT NULL OR EXISTS (SELECT 1 FROM steps WHERE cycle_id = c.id))`)
	out, err := db.List(ctx, q, func(r db.Row) (c ops.Recorded, err error) {
		return c, r.Scan(&c.ID, &c.Environment, db.ToJSON(&c.Options), db.ToTime(&c.At))
	}, `SELECT c.id, c.environment, c.options, c.created_at FROM cycles c`+page, args...)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	of := make(map[ops.CycleID]*ops.Recorded, len(out))
	for i := range out {
		of[out[i].ID] = &out[i]
	}
	first, last := out[len(out)-1].ID, out[0].ID
	_, err = db.List(ctx, q, func(r db.Row) (id ops.CycleID, err error) {
		var s ops.RecordedStep
		if err = r.Scan(&id, &s.N, &s.Facts); err == nil && of[id] != nil {
			of[id].Steps = append(of[id].Steps, s)
		}
		return id, err
	}, `SELECT cycle_id, n, facts FROM steps WHERE cycle_id BETWEEN ? AND ? ORDER BY cycle_id, n`, first, last)
	if err != nil {
		return nil, err
	}
	_, err = db.List(ctx, q, func(r db.Row) (d ops.RecordedDecision, err error) {
		if d.Decision, err = scanDecision(longerRow{r, []any{&d.Family}}); err == nil && of[d.CycleID] != nil {
			of[d.CycleID].Decisions = append(of[d.CycleID].Decisions, d)
		}
		return d, err
	}, decisionColumns+`, COALESCE(s.family, '') FROM escalations e LEFT JOIN sessions s ON s.id = e.session_id
		WHERE e.cycle_id BETWEEN ? AND ? ORDER BY e.id`, first, last)
	return out, err
}

// JudgedCall is a judgement of the guard with the environment of its cycle.
type JudgedCall struct {
	ops.GuardRecord
	Environment string
}

// JudgedCalls returns judgements of the guard, the newest first.
func (s *Reports) JudgedCalls(ctx context.Context, f RecordFilter) ([]JudgedCall, error) {
	page, args := f.page(`g.id`, `g.session_id IN (SELECT id FROM sessions WHERE cycle_id = ?)`)
	out, err := db.List(ctx, s.db.Reader(), func(r db.Row) (x JudgedCall, err error) {
		x.GuardRecord, err = scanGuard(longerRow{r, []any{&x.Environment}})
		return x, err
	}, guardColumns+`, c.environment FROM guard_decisions g JOIN cycles c ON c.id = g.cycle_id`+page, args...)
	if err != nil {
		return nil, fmt.Errorf("list judged calls: %w", err)
	}
	return out, nil
}
