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

// where is the condition for rows with that id, of which the other one says that they belong to a cycle.
func (f RecordFilter) where(id, ofCycle string) *db.Filter {
	var w db.Filter
	if f.Before > 0 {
		w.Add(id+` < ?`, f.Before)
	}
	if f.Cycle > 0 {
		w.Add(ofCycle, f.Cycle)
	}
	return &w
}

// Recorded returns cycles in which something was decided, the newest first, with their stored steps and decisions.
func (s *Reports) Recorded(ctx context.Context, f RecordFilter) ([]ops.Recorded, error) {
	var out []ops.Recorded
	err := s.db.Read(ctx, func(tx db.Querier) (err error) {
		out, err = recorded(ctx, tx, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list recorded cycles: %w", err)
	}
	return out, nil
}

func recorded(ctx context.Context, q db.Querier, f RecordFilter) ([]ops.Recorded, error) {
	w := f.where(`c.id`, `c.id = ?`)
	// In others nothing was decided yet.
	w.Add(`c.started_at IS NOT NULL AND (c.ended_at IS NOT NULL OR EXISTS (SELECT 1 FROM steps WHERE cycle_id = c.id))`)
	out, err := db.List(ctx, q, scanRecorded, `SELECT c.id, c.environment, c.options, c.created_at FROM cycles c`+w.Where()+
		` ORDER BY c.id DESC LIMIT ?`, append(w.Args, f.Limit)...)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	byID := make(map[ops.CycleID]*ops.Recorded, len(out))
	for i := range out {
		byID[out[i].ID] = &out[i]
	}
	first, last := out[len(out)-1].ID, out[0].ID
	type step struct {
		cycle ops.CycleID
		ops.RecordedStep
	}
	steps, err := db.List(ctx, q, func(r db.Row) (x step, err error) {
		return x, r.Scan(&x.cycle, &x.N, &x.Facts)
	}, `SELECT cycle_id, n, facts FROM steps WHERE cycle_id BETWEEN ? AND ? ORDER BY cycle_id, n`, first, last)
	if err != nil {
		return nil, err
	}
	for _, x := range steps {
		if c := byID[x.cycle]; c != nil {
			c.Steps = append(c.Steps, x.RecordedStep)
		}
	}
	decisions, err := db.List(ctx, q, scanDecision, selectDecisions+` WHERE e.cycle_id BETWEEN ? AND ? ORDER BY e.id`, first, last)
	if err != nil {
		return nil, err
	}
	for _, d := range decisions {
		if c := byID[d.CycleID]; c != nil {
			c.Decisions = append(c.Decisions, d)
		}
	}
	return out, families(ctx, q, byID, first, last)
}

func scanRecorded(r db.Row) (ops.Recorded, error) {
	c := ops.Recorded{Families: map[ops.SessionID]string{}}
	err := r.Scan(&c.ID, &c.Environment, db.ToJSON(&c.Options), db.ToTime(&c.At))
	return c, err
}

// families adds those of the sessions whose proposals were decided.
func families(ctx context.Context, q db.Querier, cycles map[ops.CycleID]*ops.Recorded, first, last ops.CycleID) error {
	rows, err := db.List(ctx, q, func(r db.Row) (x ops.Session, err error) {
		return x, r.Scan(&x.ID, &x.CycleID, &x.Family)
	}, `SELECT s.id, s.cycle_id, s.family FROM sessions s WHERE s.cycle_id BETWEEN ? AND ?
		AND s.id IN (SELECT session_id FROM escalations WHERE cycle_id BETWEEN ? AND ?)`, first, last, first, last)
	for _, x := range rows {
		if c := cycles[x.CycleID]; c != nil {
			c.Families[x.ID] = x.Family
		}
	}
	return err
}

// JudgedCall is a judgement of the guard with the environment of its cycle.
type JudgedCall struct {
	ops.GuardRecord
	Environment string
}

// JudgedCalls returns judgements of the guard, the newest first.
func (s *Reports) JudgedCalls(ctx context.Context, f RecordFilter) ([]JudgedCall, error) {
	w := f.where(`g.id`, `g.session_id IN (SELECT id FROM sessions WHERE cycle_id = ?)`)
	out, err := db.List(ctx, s.db.Reader(), func(r db.Row) (x JudgedCall, err error) {
		x.GuardRecord, err = scanGuard(longerRow{r, []any{&x.Environment}})
		return x, err
	}, guardColumns+`, c.environment FROM guard_decisions g JOIN cycles c ON c.id = g.cycle_id`+w.Where()+` ORDER BY g.id DESC LIMIT ?`,
		append(w.Args, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("list judged calls: %w", err)
	}
	return out, nil
}
