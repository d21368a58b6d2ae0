package store

import (
	"context"
	"fmt"

	"claudeops/internal/ops"
)

// Effects reads what the gates let one session change, and what they refused.
func (s *Store) Effects(ctx context.Context, id ops.SessionID) (ops.Effects, error) {
	session, err := s.Session(ctx, id)
	if err != nil {
		return ops.Effects{}, err
	}
	all, err := effectsOfCycle(ctx, s.reader, session.CycleID)
	if err != nil {
		return ops.Effects{}, fmt.Errorf("read effects of session %d: %w", id, err)
	}
	return all[id], nil
}
