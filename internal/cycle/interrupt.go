package cycle

import (
	"context"
	"fmt"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
)

// interrupted clears up after a worker that died: nothing of its session may go on working unseen.
func (a *Advancer) interrupted(ctx context.Context, now ops.Claimed, id ops.SessionID) (ops.Result, error) {
	session := now.Journal.Session(id)
	if session == nil {
		return ops.Result{}, fmt.Errorf("interrupt session %d: %w", id, ops.ErrNotFound)
	}
	failpoint.Hit("sweep.before")
	killed, err := a.Sweep(ctx, session.Key)
	failpoint.Hit("sweep.after")
	if err != nil {
		return ops.Result{}, fmt.Errorf("end processes of session %d: %w", id, err)
	}
	s := *session
	at := a.Clock()
	s.Status, s.StopCause, s.EndedAt = ops.SessionInterrupted, ops.StopCrash, &at
	s.Failure, s.Error = ops.FailureInterrupted, "the supervisor ended while this session was running"
	message := fmt.Sprintf("session %d (%s) was in flight when the supervisor ended", s.ID, s.Tier)
	if killed > 0 {
		message += fmt.Sprintf("; %d of its processes were still there and were ended", killed)
	}
	return ops.Result{Session: &s, Events: []ops.Event{{
		At: at, CycleID: &s.CycleID, SessionID: &s.ID, Environment: now.Cycle.Environment,
		Level: ops.LevelWarning, Kind: ops.EventSession, Message: message,
	}}}, nil
}
