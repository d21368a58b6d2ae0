package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// The statuses of an action.
const (
	actionReserved = "reserved"
	actionUsed     = "used"     // its command passed the shell gate
	actionOpen     = "open"     // taken down, not yet brought up again
	actionClosed   = "closed"   // taken down and brought up again
	actionCovered  = "covered"  // brought up again, as part of a redeployment that counts already
	actionReleased = "released" // it never started
)

const actionRedeployment = "redeployment"

// reserving handles the actions that one judgement wants.
type reserving struct {
	tx          db.Querier
	environment string
	record      ops.GuardRecord
	limits      []ops.CooldownLimit
	now         moment
	taken       map[int64]bool // rows that belong to one of the wanted actions already
}

// rule names the rule of a refusal at this gate.
func (p reserving) rule() string {
	if p.record.Gate == ops.GateShell {
		return ruleUnreserved
	}
	return ruleCooldown
}

// all reserves every wanted action, or at the shell gate uses its reservation. If one is refused, none is reserved.
func (p reserving) all(ctx context.Context, want []ops.Reservation) (reason string, err error) {
	take := p.reserve
	switch p.record.Gate {
	case ops.GateHook:
	case ops.GateShell:
		take = p.use
	case ops.GateDocker:
		take = p.docker
	case ops.GateAction:
		take = p.act
	default:
		return "", fmt.Errorf("there is no gate %q", p.record.Gate)
	}
	if _, err := p.tx.ExecContext(ctx, `SAVEPOINT reservations`); err != nil {
		return "", err
	}
	for _, w := range want {
		if w.Service == "" || w.Action == "" {
			return "", fmt.Errorf("an action needs a name and a service, got %q on %q", w.Action, w.Service)
		}
		if w.Half == ops.HalfOpen {
			w.Action = actionRedeployment
		}
		reason, err = take(ctx, w)
		if err != nil {
			return "", err
		}
		if reason != "" {
			_, err = p.tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT reservations`)
			return reason, err
		}
	}
	_, err = p.tx.ExecContext(ctx, `RELEASE SAVEPOINT reservations`)
	return "", err
}

// reserve reserves one action, unless it is reserved already.
func (p reserving) reserve(ctx context.Context, w ops.Reservation) (reason string, err error) {
	if again, err := p.repeated(ctx, w); again || err != nil {
		return "", err
	}
	switch w.Half {
	case ops.HalfClose:
		if covered, err := p.cover(ctx, w); covered || err != nil {
			return "", err
		}
	case ops.HalfOpen, ops.HalfNone:
	}
	if reason, err := p.refusal(ctx, w); reason != "" || err != nil {
		return reason, err
	}
	status := actionReserved
	if w.Half == ops.HalfOpen {
		status = actionOpen
	}
	_, err = p.insert(ctx, w, status, 0)
	return "", err
}

// repeated finds the reservation of an earlier question about the same tool call.
func (p reserving) repeated(ctx context.Context, w ops.Reservation) (bool, error) {
	if p.record.ToolUseID == "" {
		return false, nil
	}
	rows, err := db.List(ctx, p.tx, db.ScanInt, `SELECT id FROM cooldown_actions
		WHERE session_id = ? AND service = ? AND action = ? AND half = ? AND tool_use_id = ? AND status <> ? ORDER BY id`,
		p.record.SessionID, w.Service, w.Action, w.Half, p.record.ToolUseID, actionReleased)
	if err != nil {
		return false, err
	}
	for _, id := range rows {
		if !p.taken[id] {
			p.taken[id] = true
			return true, nil
		}
	}
	return false, nil
}

// refusal is the reason to refuse an action, empty if a limit leaves one.
func (p reserving) refusal(ctx context.Context, w ops.Reservation) (string, error) {
	limits := limitsFor(p.limits, w.Service, w.Action)
	if len(limits) == 0 {
		return "", nil
	}
	done, err := db.List(ctx, p.tx, scanDone, selectDone+` AND service = ? AND action = ?`,
		append(doneArgs(p.environment, p.now, limits), w.Service, w.Action)...)
	if err != nil {
		return "", err
	}
	left := allowed(limits, done, p.now)
	switch {
	case left.count > 0:
		return "", nil
	case left.never:
		return fmt.Sprintf("No %s of %s is permitted.", w.Action, w.Service), nil
	default:
		return fmt.Sprintf("The cooldown of %s permits the next %s at %s.",
			w.Service, w.Action, roundUp(p.now.at.Add(left.wait)).Format(time.RFC3339)), nil
	}
}

// roundUp is t rounded up to a whole second.
func roundUp(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

func (p reserving) insert(ctx context.Context, w ops.Reservation, status string, coveredBy int64) (id int64, err error) {
	err = p.tx.QueryRowContext(ctx, `INSERT INTO cooldown_actions (environment, service, project, action, half, cycle_id, session_id,
		tool_use_id, status, counts, covered_by, reserved_at, boot, uptime_us)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		p.environment, w.Service, w.Project, w.Action, w.Half, p.record.CycleID, p.record.SessionID,
		p.record.ToolUseID, status, status != actionCovered && status != actionTaken, db.OrNull(coveredBy), db.Time(p.now.at), p.now.boot,
		p.now.up.Microseconds()).Scan(&id)
	p.taken[id] = true
	return id, err
}

// use marks the reservation that the hook made for an action; the shell gate makes none of its own.
func (p reserving) use(ctx context.Context, w ops.Reservation) (reason string, err error) {
	rows, err := db.List(ctx, p.tx, db.ScanInt, `SELECT id FROM cooldown_actions
		WHERE session_id = ? AND service = ? AND action = ? AND half = ? AND used_at IS NULL AND status IN (?, ?, ?, ?)
		ORDER BY CASE WHEN tool_use_id = ? THEN 0 ELSE 1 END, id LIMIT 1`,
		p.record.SessionID, w.Service, w.Action, w.Half, actionReserved, actionOpen, actionClosed, actionCovered,
		p.record.ToolUseID)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return fmt.Sprintf("No %s of %s is reserved for this command, so it may not run.", w.Action, w.Service), nil
	}
	// Redeployments keep their status, which says whether the service is still down.
	_, err = p.tx.ExecContext(ctx, `UPDATE cooldown_actions SET used_at = ?, status = CASE WHEN status = ? THEN ? ELSE status END
		WHERE id = ?`, db.Time(p.now.at), actionReserved, actionUsed, rows[0])
	return "", err
}
