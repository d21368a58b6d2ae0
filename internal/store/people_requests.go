package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const (
	// requestLife is how long the answer to a request is repeated.
	requestLife = 24 * time.Hour
	// requestTimeout is how long a request may take; one that takes longer was interrupted by a crash.
	requestTimeout = 2 * time.Minute
)

// Request is an API request with an idempotency key: it can be repeated without doing anything twice.
type Request struct {
	Caller string
	Key    string
	Digest string // of what was asked
	At     time.Time
}

// Answer is the response to a request.
type Answer struct {
	Status   int
	Location string
	Type     string
	Body     []byte
}

type knownRequest struct {
	digest string
	at     time.Time
	status *int
	answer Answer
}

func scanRequest(r db.Row) (knownRequest, error) {
	var k knownRequest
	err := r.Scan(&k.digest, db.ToTime(&k.at), &k.status, &k.answer.Location, &k.answer.Type, &k.answer.Body)
	if k.status != nil {
		k.answer.Status = *k.status
	}
	return k, err
}

// BeginRequest records that a request is being handled. For one that was answered before it returns that answer. Another request
// with the same key, or one that is still being handled, is an ops.ErrConflict.
func (s *People) BeginRequest(ctx context.Context, r Request) (before *Answer, err error) {
	err = s.db.Write(ctx, "api_request", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM api_requests WHERE at < ?`, db.Time(r.At.Add(-requestLife)))
		if err != nil {
			return err
		}
		known, err := db.One(ctx, tx, scanRequest, `SELECT digest, at, status, location, type, body FROM api_requests
			WHERE caller = ? AND key = ?`, r.Caller, r.Key)
		switch {
		case errors.Is(err, ops.ErrNotFound):
		case err != nil:
			return err
		case known.digest != r.Digest:
			return fmt.Errorf("the key was used for another request: %w", ops.ErrConflict)
		case known.status != nil:
			before = &known.answer
			return nil
		case r.At.Sub(known.at) < requestTimeout:
			return fmt.Errorf("the same request is being worked on: %w", ops.ErrConflict)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO api_requests (caller, key, digest, at) VALUES (?, ?, ?, ?)
			ON CONFLICT (caller, key) DO UPDATE SET at = excluded.at`, r.Caller, r.Key, r.Digest, db.Time(r.At))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("note request: %w", err)
	}
	return before, nil
}

// EndRequest stores the answer to a request. One that failed through our own fault is deleted, so that it can be tried again.
func (s *People) EndRequest(ctx context.Context, r Request, a Answer) error {
	err := s.db.Write(ctx, "api_request", func(tx db.Querier) error {
		if a.Status >= 500 {
			_, err := tx.ExecContext(ctx, `DELETE FROM api_requests WHERE caller = ? AND key = ?`, r.Caller, r.Key)
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE api_requests SET status = ?, location = ?, type = ?, body = ?
			WHERE caller = ? AND key = ?`, a.Status, a.Location, a.Type, string(a.Body), r.Caller, r.Key)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep answer: %w", err)
	}
	return nil
}
