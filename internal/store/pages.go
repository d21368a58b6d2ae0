package store

import (
	"context"
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// FindLines returns the lines of a session that contain a text, whatever its case.
func (s *Store) FindLines(ctx context.Context, id ops.SessionID, text string, limit int) ([]ops.Line, error) {
	out, err := list(ctx, s.reader, scanLine, `SELECT seq, at, line FROM transcript WHERE session_id = ? AND LOWER(line) LIKE ? ESCAPE '\'
		ORDER BY seq LIMIT ?`, id, contains(text), pageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("search transcript of session %d: %w", id, err)
	}
	return out, nil
}

// contains is the pattern of a text within another.
func contains(text string) string {
	return `%` + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(text)) + `%`
}

// maxDenials bounds how many refusals a page has to hold.
const maxDenials = 500

// GuardDenials returns the newest refusals of the guard in a session, oldest first.
func (s *Store) GuardDenials(ctx context.Context, session ops.SessionID) ([]ops.GuardRecord, error) {
	return s.guardPage(ctx, session, verdictDeny, maxDenials)
}

// GuardSummary are the judgements of a session as far as a page shows them.
type GuardSummary struct {
	Allowed, Denied int
	Records         []ops.GuardRecord // refusals and the newest permissions, oldest first
}

// guardPage returns the newest judgements of one kind, oldest first.
func (s *Store) guardPage(ctx context.Context, session ops.SessionID, verdict string, limit int) ([]ops.GuardRecord, error) {
	out, err := list(ctx, s.reader, scanGuard, `SELECT * FROM (`+selectGuard+` WHERE g.session_id = ? AND g.verdict = ?
		ORDER BY g.id DESC LIMIT ?) newest ORDER BY 1`, session, verdict, limit)
	if err != nil {
		return nil, fmt.Errorf("list judgements of session %d: %w", session, err)
	}
	return out, nil
}

// GuardSummary returns the refusals and the newest permissions of a session, at most so many of each.
func (s *Store) GuardSummary(ctx context.Context, session ops.SessionID, limit int) (GuardSummary, error) {
	var out GuardSummary
	err := s.reader.QueryRowContext(ctx, `SELECT COALESCE(SUM(CASE WHEN verdict = ? THEN 1 ELSE 0 END), 0), COUNT(*)
		FROM guard_decisions WHERE session_id = ?`, verdictAllow, session).Scan(&out.Allowed, &out.Denied)
	if err != nil {
		return out, fmt.Errorf("count judgements of session %d: %w", session, err)
	}
	out.Denied -= out.Allowed
	for _, verdict := range []string{verdictDeny, verdictAllow} {
		records, err := s.guardPage(ctx, session, verdict, limit)
		if err != nil {
			return out, err
		}
		out.Records = append(out.Records, records...)
	}
	return out, nil
}
