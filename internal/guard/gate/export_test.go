package gate

import (
	"context"

	"claudeops/internal/guard"
	"claudeops/internal/ops"
)

// Open starts to answer the questions of a session, until Close.
func (g *Gate) Open(ctx context.Context, session ops.Session, facts guard.Facts) (*Session, error) {
	s, err := g.Reserve()
	if err != nil {
		return nil, err
	}
	s.Answer(ctx, session, facts)
	return s, nil
}
