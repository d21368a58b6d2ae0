package store

import (
	"context"
	"time"

	"claudeops/internal/ops"
)

// insertLesson keeps what a session wants remembered.
func insertLesson(ctx context.Context, tx querier, cycle held, source *ops.Session, l ops.Lesson, at time.Time) error {
	var session any
	if source != nil {
		session = int64(source.ID)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO memories (environment, category, service, observation, session_id, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, cycle.environment, l.Category, l.Service, l.Observation, session, formatTime(at), formatTime(at))
	return err
}
