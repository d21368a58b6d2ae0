package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// The origins of a commit.
const (
	originOperator = "operator"
	originAgent    = "agent"
	originApproved = "approved"
)

// SeeHead records the commit that is checked out in a repository of this host. Agents says whether agents can change it from now
// on. A commit that appeared while they could is theirs, and stays theirs until a person approves it.
func (s *Acts) SeeHead(ctx context.Context, host, repo, head string, agents bool, at time.Time) error {
	at = s.orNow(at)
	err := s.db.Write(ctx, "see_head", func(tx db.Querier) error {
		var before string
		var could bool
		_, err := db.One(ctx, tx, func(r db.Row) (bool, error) { return true, r.Scan(&before, &could) },
			`SELECT commit_id, agents FROM repo_heads WHERE host = ? AND repo = ?`, host, repo)
		known := err == nil
		if err != nil && !errors.Is(err, ops.ErrNotFound) {
			return err
		}
		if !known || before != head {
			origin := originOperator
			if known && could {
				origin = originAgent
			}
			if err := s.noteCommit(ctx, tx, host, repo, head, origin, at); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO repo_heads (host, repo, commit_id, agents) VALUES (?, ?, ?, ?)
			ON CONFLICT (host, repo) DO UPDATE SET commit_id = excluded.commit_id, agents = excluded.agents`, host, repo, head, agents)
		return err
	})
	if err != nil {
		return fmt.Errorf("record commit of %s: %w", repo, err)
	}
	return nil
}

// noteCommit records who made a commit. What is known of it stays; one of the operator's that is checked out again is the newest.
func (s *Acts) noteCommit(ctx context.Context, tx db.Querier, host, repo, commit, origin string, at time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO repo_commits (host, repo, commit_id, origin, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (host, repo, commit_id) DO UPDATE SET at = CASE WHEN excluded.origin = ? AND repo_commits.origin <> ?
			THEN excluded.at ELSE repo_commits.at END`, host, repo, commit, origin, db.Time(at), originOperator, originAgent)
	return err
}

// TrustedCommit returns the newest commit of a repository that no agent made or that a person approved.
func (s *Acts) TrustedCommit(ctx context.Context, host, repo string) (string, error) {
	c, err := db.One(ctx, s.db.Reader(), db.ScanString, `SELECT commit_id FROM repo_commits WHERE host = ? AND repo = ? AND origin <> ?
		ORDER BY at DESC, id DESC LIMIT 1`, host, repo, originAgent)
	if err != nil {
		return "", fmt.Errorf("read trusted commit of %s: %w", repo, err)
	}
	return c, nil
}

// TrustCommit records that a person approves a commit. From now on actions use it.
func (s *Acts) TrustCommit(ctx context.Context, host, repo, commit, by string, at time.Time) error {
	at = s.orNow(at)
	err := s.db.Write(ctx, "trust_commit", func(tx db.Querier) error {
		if err := requireName(by); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO repo_commits (host, repo, commit_id, origin, person, at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (host, repo, commit_id) DO UPDATE SET origin = excluded.origin, person = excluded.person, at = excluded.at`,
			host, repo, commit, originApproved, by, db.Time(at))
		if err != nil {
			return err
		}
		err = insertEvent(ctx, tx, ops.Event{
			Level: ops.LevelWarning, Kind: ops.EventAudit, Message: fmt.Sprintf("%s approved commit %s of %s for actions", by, commit, repo),
		}, at)
		return err
	})
	if err != nil {
		return fmt.Errorf("approve commit of %s: %w", repo, err)
	}
	return nil
}
