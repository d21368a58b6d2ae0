package store

import (
	"context"
	"fmt"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// searchedDecisions is how many decisions one page searches, because no index supports the filters.
const searchedDecisions = 20_000

// GuardFilter chooses decisions of the guard; the zero value means all.
type GuardFilter struct {
	Verdict string // allow or deny
	Tier    ops.Tier
	Rule    string // the whole name, or its beginning
	Service string // named in the command or in the reason
	Before  int64  // only older ones: the last id of the page before
	Limit   int
}

// GuardPage is a page of decisions, newest first.
type GuardPage struct {
	Records []ops.GuardRecord
	Next    int64 // where the following page begins; 0 when there is none
}

// GuardList returns a page of the guard's decisions in all sessions.
func (s *Acts) GuardList(ctx context.Context, f GuardFilter) (GuardPage, error) {
	var out GuardPage
	var w db.Filter
	if f.Verdict != "" {
		w.Add(`g.verdict = ?`, f.Verdict)
	}
	if f.Tier > 0 {
		w.Add(`g.tier = ?`, f.Tier)
	}
	if f.Rule != "" {
		w.Add(`LOWER(g.rule) LIKE ? ESCAPE '\'`, db.Contains(f.Rule)[1:])
	}
	if f.Service != "" {
		w.Add(`(LOWER(g.input) LIKE ? ESCAPE '\' OR LOWER(g.reason) LIKE ? ESCAPE '\')`, db.Contains(f.Service), db.Contains(f.Service))
	}
	limit := db.PageSize(f.Limit)
	err := s.db.Read(ctx, func(tx db.Querier) error {
		before := f.Before
		if before == 0 {
			newest, err := db.One(ctx, tx, db.ScanInt, `SELECT COALESCE(MAX(id), 0) FROM guard_decisions`)
			if err != nil {
				return err
			}
			before = newest + 1
		}
		lowest := max(1, before-searchedDecisions)
		w.Add(`g.id < ? AND g.id >= ?`, before, lowest)
		var err error
		out.Records, err = db.List(ctx, tx, scanGuard, selectGuard+w.Where()+` ORDER BY g.id DESC LIMIT ?`, append(w.Args, limit+1)...)
		if err != nil {
			return err
		}
		if len(out.Records) > limit {
			out.Records = out.Records[:limit]
			out.Next = out.Records[limit-1].ID
			return nil
		}
		older, err := db.One(ctx, tx, db.ScanInt, `SELECT COALESCE(MAX(id), 0) FROM guard_decisions WHERE id < ?`, lowest)
		if older > 0 {
			out.Next = lowest
		}
		return err
	})
	if err != nil {
		return GuardPage{}, fmt.Errorf("list decisions of the guard: %w", err)
	}
	return out, nil
}
