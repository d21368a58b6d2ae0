package store

import (
	"context"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// actionTaken is a request to the Docker engine that belongs to an action which a command has reserved. It does not count again.
const actionTaken = "taken"

// docker reserves an action for a request to the Docker engine. The command that makes the request may have reserved the action
// at the hook: each reservation is good for one request per container. Otherwise the request reserves for itself.
func (p reserving) docker(ctx context.Context, w ops.Reservation) (reason string, err error) {
	rows, err := db.List(ctx, p.tx, db.ScanInt, `SELECT a.id FROM cooldown_actions a
		WHERE a.session_id = ? AND a.half = ? AND a.status IN (?, ?, ?, ?, ?) AND a.tool_use_id NOT LIKE 'docker:%'
		AND a.tool_use_id NOT LIKE 'action:%'
		AND ((a.service = ? AND a.action = ?) OR a.service = ?)
		AND NOT EXISTS (SELECT 1 FROM cooldown_actions t
			WHERE t.covered_by = a.id AND t.status = ? AND t.tool_use_id = ?)
		ORDER BY a.id LIMIT 1`,
		p.record.SessionID, w.Half, actionReserved, actionUsed, actionOpen, actionClosed, actionCovered,
		w.Service, w.Action, wholeProject(w.Project), actionTaken, p.record.ToolUseID)
	if err != nil {
		return "", err
	}
	if len(rows) > 0 {
		_, err = p.insert(ctx, w, actionTaken, rows[0])
		return "", err
	}
	if w.Half == ops.HalfClose {
		if covered, err := p.cover(ctx, w); covered || err != nil {
			return "", err
		}
	}
	if reason, err := p.refusal(ctx, w); reason != "" || err != nil {
		return reason, err
	}
	status := actionUsed
	if w.Half == ops.HalfOpen {
		status = actionOpen
	}
	_, err = p.insert(ctx, w, status, 0)
	return "", err
}
