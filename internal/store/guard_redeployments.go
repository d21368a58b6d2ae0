package store

import (
	"context"
	"fmt"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// wholeProject is the name under which an action on every service of a compose project is reserved.
func wholeProject(project string) string { return "compose:" + project }

// takenDown is a redeployment that has taken a service down.
type takenDown struct {
	id      int64
	service string
	project string
	open    bool
}

func scanTakenDown(r db.Row) (takenDown, error) {
	var h takenDown
	var status string
	err := r.Scan(&h.id, &h.service, &h.project, &status)
	h.open = status == actionOpen
	return h, err
}

// cover finds the redeployments of this cycle that an action completes, closes them and records the action as covered by them. A
// later session must be able to bring up what an earlier one left down.
func (p reserving) cover(ctx context.Context, w ops.Reservation) (bool, error) {
	halves, err := db.List(ctx, p.tx, scanTakenDown, `SELECT id, service, project, status FROM cooldown_actions
		WHERE cycle_id = ? AND half = ? AND status IN (?, ?) ORDER BY id`,
		p.record.CycleID, ops.HalfOpen, actionOpen, actionClosed)
	if err != nil {
		return false, err
	}
	var closes []int64
	for _, h := range halves {
		completes, err := p.completes(ctx, w, h)
		if err != nil {
			return false, err
		}
		if completes {
			closes = append(closes, h.id)
		}
	}
	if len(closes) == 0 {
		return false, nil
	}
	id, err := p.insert(ctx, w, actionCovered, closes[0])
	if err != nil {
		return false, err
	}
	for _, h := range closes {
		_, err := p.tx.ExecContext(ctx, `UPDATE cooldown_actions SET status = ?, closed_by = ? WHERE id = ? AND status = ?`,
			actionClosed, id, h, actionOpen)
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// completes reports whether bringing w up belongs to taking h down.
func (p reserving) completes(ctx context.Context, w ops.Reservation, h takenDown) (bool, error) {
	switch {
	case h.service == w.Service:
		return h.open, nil
	case w.Project == "":
		return false, nil
	case w.Service == wholeProject(w.Project):
		return h.open && h.project == w.Project, nil
	case h.service != wholeProject(w.Project):
		return false, nil
	}
	// A project that was taken down as a whole may be brought up one service at a time, each once.
	back, err := db.One(ctx, p.tx, db.ScanInt, `SELECT COUNT(*) FROM cooldown_actions
		WHERE covered_by = ? AND status = ? AND service IN (?, ?)`,
		h.id, actionCovered, w.Service, h.service)
	return back == 0, err
}

// ServicesLeftDown returns the services that a session has taken down and not brought up again.
func (s *Acts) ServicesLeftDown(ctx context.Context, session ops.SessionID) ([]string, error) {
	out, err := db.List(ctx, s.db.Reader(), db.ScanString, `SELECT DISTINCT service FROM cooldown_actions
		WHERE session_id = ? AND status = ? ORDER BY service`, session, actionOpen)
	if err != nil {
		return nil, fmt.Errorf("list what session %d left down: %w", session, err)
	}
	return out, nil
}

// ReleaseActions gives back what a tool call reserved, for a call that is known never to have started. Actions that passed the
// shell gate stay.
func (s *Acts) ReleaseActions(ctx context.Context, owner ops.Owner, session ops.SessionID, toolUseID string) (released int, err error) {
	err = s.db.WriteIn(ctx, "release_actions", db.OfSession(session), func(tx db.Querier) error {
		if _, err := fenceSession(ctx, tx, owner, session); err != nil {
			return err
		}
		if toolUseID == "" {
			return ops.ErrNotFound
		}
		// The services that the call would have brought up are still down.
		_, err := tx.ExecContext(ctx, `UPDATE cooldown_actions SET status = ? WHERE session_id = ? AND status = ? AND closed_by IN (
			SELECT id FROM cooldown_actions WHERE session_id = ? AND tool_use_id = ? AND status = ? AND used_at IS NULL)`,
			actionOpen, session, actionClosed, session, toolUseID, actionCovered)
		if err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, `UPDATE cooldown_actions SET status = ?, counts = FALSE
			WHERE session_id = ? AND tool_use_id = ? AND used_at IS NULL AND status IN (?, ?, ?, ?)`,
			actionReleased, session, toolUseID, actionReserved, actionOpen, actionClosed, actionCovered)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		released = int(n)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("release what %s of session %d reserved: %w", toolUseID, session, err)
	}
	return released, nil
}
