package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const actionColumns = `r.id, r.environment, r.service, r.action, r.kind, r.tier, r.cycle_id, r.session_id, r.person, r.why,
	COALESCE(r.approval_id, 0), r.step, COALESCE(r.undo_of, 0), r.automatic, r.status, r.does, r.digest, r.branch, r.commit_id, r.version,
	r.states_before, r.states_after, r.output, r.error, r.owner, r.term, r.requested_at, r.started_at, r.ended_at,
	COALESCE((SELECT MAX(u.id) FROM action_runs u WHERE u.undo_of = r.id AND u.status = 'done'), 0)`

const selectActions = `SELECT ` + actionColumns + ` FROM action_runs r`

func scanAction(row db.Row) (ops.ActionRun, error) {
	var r ops.ActionRun
	err := row.Scan(&r.ID, &r.Environment, &r.Service, &r.Action, &r.Kind, &r.Tier, &r.CycleID, &r.SessionID, &r.Person, &r.Why,
		&r.ApprovalID, &r.Step, &r.UndoOf, &r.Automatic, &r.Status, &r.Does, &r.Digest, &r.Branch, &r.Commit, &r.Version,
		db.ToJSON(&r.Before), db.ToJSON(&r.After), db.ToText(&r.Output), &r.Error, &r.Owner, &r.Term,
		db.ToTime(&r.RequestedAt), db.ToOptTime(&r.StartedAt), db.ToOptTime(&r.EndedAt), &r.UndoneBy)
	return r, err
}

// ActionFilter chooses runs of actions; the zero value means all.
type ActionFilter struct {
	Environment string
	Service     string
	Status      ops.ActionStatus
	CycleID     *ops.CycleID
	SessionID   *ops.SessionID
	Before      int64 // only older ones: the last id of the page before
	Limit       int
}

// ActionRuns returns a page of runs, newest first.
func (s *Acts) ActionRuns(ctx context.Context, f ActionFilter) ([]ops.ActionRun, error) {
	var w db.Filter
	for cond, value := range map[string]string{
		`r.environment = ?`: f.Environment, `r.service = ?`: f.Service, `r.status = ?`: string(f.Status),
	} {
		if value != "" {
			w.Add(cond, value)
		}
	}
	if f.CycleID != nil {
		w.Add(`r.cycle_id = ?`, *f.CycleID)
	}
	if f.SessionID != nil {
		w.Add(`r.session_id = ?`, *f.SessionID)
	}
	if f.Before > 0 {
		w.Add(`r.id < ?`, f.Before)
	}
	out, err := db.List(ctx, s.db.Reader(), scanAction, selectActions+w.Where()+` ORDER BY r.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	return out, nil
}

// ActionRun returns one run.
func (s *Acts) ActionRun(ctx context.Context, id int64) (ops.ActionRun, error) {
	r, err := actionByID(ctx, s.db.Reader(), id)
	if err != nil {
		return ops.ActionRun{}, fmt.Errorf("read action %d: %w", id, err)
	}
	return r, nil
}

func actionByID(ctx context.Context, q db.Querier, id int64) (ops.ActionRun, error) {
	return db.One(ctx, q, scanAction, selectActions+` WHERE r.id = ?`, id)
}

// LastVersion returns the newest image that a container of the service had before an action and that is not the current one.
func (s *Acts) LastVersion(ctx context.Context, environment, service, current string) (string, error) {
	v, err := db.One(ctx, s.db.Reader(), db.ScanString, `SELECT version FROM action_runs
		WHERE environment = ? AND service = ? AND version <> '' AND version <> ? ORDER BY id DESC LIMIT 1`, environment, service, current)
	if err != nil && !errors.Is(err, ops.ErrNotFound) {
		return "", fmt.Errorf("read earlier version of %s: %w", service, err)
	}
	return v, nil
}

// RequestAction records that a person wants an action to be done, or a run to be undone. The daemon takes it from there.
func (s *Acts) RequestAction(ctx context.Context, r ops.ActionRun, at time.Time) (ops.ActionRun, error) {
	at = s.orNow(at)
	err := s.db.Write(ctx, "request_action", func(tx db.Querier) error {
		r.Status, r.RequestedAt = ops.ActionRequested, at
		var err error
		if r.ID, err = insertAction(ctx, tx, r); err != nil {
			return err
		}
		err = insertEvent(ctx, tx, ops.Event{
			Environment: r.Environment, CycleID: r.CycleID, Level: ops.LevelInfo, Kind: ops.EventAudit, Service: r.Service,
			Message: fmt.Sprintf("%s asked for %s (action %d): %s", r.Person, describeAction(r), r.ID, r.Why),
		}, at)
		return err
	})
	if err != nil {
		return ops.ActionRun{}, fmt.Errorf("request action %s of %s: %w", r.Action, r.Service, err)
	}
	return r, nil
}

func describeAction(r ops.ActionRun) string {
	if r.UndoOf != 0 {
		return fmt.Sprintf("the undo of %s of %s (action %d)", r.Action, r.Service, r.UndoOf)
	}
	return r.Action + " of " + r.Service
}

// RequestedActions returns what people have asked for in these environments, oldest first.
func (s *Acts) RequestedActions(ctx context.Context, environments []string) ([]ops.ActionRun, error) {
	all, err := db.List(ctx, s.db.Reader(), scanAction, selectActions+` WHERE r.status = ? ORDER BY r.id`, ops.ActionRequested)
	if err != nil {
		return nil, fmt.Errorf("list requested actions: %w", err)
	}
	return slices.DeleteFunc(all, func(r ops.ActionRun) bool { return !slices.Contains(environments, r.Environment) }), nil
}

// RefuseAction ends a request that is not carried out. One that was taken meanwhile is ops.ErrConflict.
func (s *Acts) RefuseAction(ctx context.Context, id int64, reason string, at time.Time) error {
	at = s.orNow(at)
	err := s.db.Write(ctx, "refuse_action", func(tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE action_runs SET status = ?, error = ?, ended_at = ? WHERE id = ? AND status = ?`,
			ops.ActionRefused, reason, db.Time(at), id, ops.ActionRequested))
		if err == nil && !ok {
			err = ops.ErrConflict
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("refuse action %d: %w", id, err)
	}
	return nil
}
