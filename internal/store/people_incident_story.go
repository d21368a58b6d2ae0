package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const (
	// maxStoryCycles limits the cycles of one story to the newest.
	maxStoryCycles  = 20
	maxStoryNotices = 200
)

// IncidentStory returns everything on record about an incident. Cycles that were removed because of their age are left out.
func (s *People) IncidentStory(ctx context.Context, id int64) (ops.IncidentStory, error) {
	var out ops.IncidentStory
	err := s.db.Read(ctx, func(tx db.Querier) error {
		var err error
		if out.Incident, err = incidentByID(ctx, tx, id); err != nil {
			return err
		}
		cycles, err := db.List(ctx, tx, db.ScanInt, `SELECT cycle_id FROM incident_cycles WHERE incident_id = ? ORDER BY cycle_id DESC LIMIT ?`,
			id, maxStoryCycles)
		if err != nil {
			return err
		}
		slices.Reverse(cycles)
		for _, cycle := range cycles {
			one, err := s.cycleStory(ctx, tx, ops.CycleID(cycle))
			if errors.Is(err, ops.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			out.Cycles = append(out.Cycles, one)
		}
		out.Notices, err = db.List(ctx, tx, scanNotice, selectNotices+` WHERE n.cycle_id IN
			(SELECT cycle_id FROM incident_cycles WHERE incident_id = ?) ORDER BY n.id LIMIT ?`, id, maxStoryNotices)
		return err
	})
	if err == nil {
		out.Events, err = s.incidentEvents(ctx, out.Incident)
	}
	if err != nil {
		return ops.IncidentStory{}, fmt.Errorf("read incident %d: %w", id, err)
	}
	return out, nil
}

// incidentEvents returns what people did with an incident, oldest first.
func (s *People) incidentEvents(ctx context.Context, i ops.Incident) ([]ops.Event, error) {
	return db.List(ctx, s.db.Reader(), scanEvent, `SELECT * FROM (`+selectEvents+` WHERE v.cycle_id >= ? AND v.environment = ?
		AND v.kind = ? AND v.message LIKE ? ORDER BY v.id DESC LIMIT ?) AS newest ORDER BY id`,
		i.FirstCycle, i.Environment, kindIncident, fmt.Sprintf("%%incident %d (%%", i.ID), maxHistory)
}

func (s *People) cycleStory(ctx context.Context, tx db.Querier, id ops.CycleID) (ops.CycleStory, error) {
	loaded, err := s.loadClaimed(ctx, tx, id, s.clock())
	if err != nil {
		return ops.CycleStory{}, err
	}
	out := ops.CycleStory{Cycle: loaded.Cycle, Journal: loaded.Journal, Refused: map[ops.SessionID]int{}}
	type count struct {
		session ops.SessionID
		n       int
	}
	counts, err := db.List(ctx, tx, func(r db.Row) (count, error) {
		var c count
		err := r.Scan(&c.session, &c.n)
		return c, err
	},
		`SELECT session_id, COUNT(*) FROM guard_decisions WHERE cycle_id = ? AND verdict = 'deny' GROUP BY session_id`, id)
	for _, c := range counts {
		out.Refused[c.session] = c.n
	}
	return out, err
}
