package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Login is a browser session that began with a token. The digest is made from a secret that only the browser has.
type Login struct {
	Digest    string
	ReadOnly  bool
	BornAt    time.Time // when the token was entered
	RenewedAt time.Time
	ExpiresAt time.Time
}

func scanLogin(r db.Row) (Login, error) {
	var l Login
	err := r.Scan(&l.Digest, &l.ReadOnly, db.ToTime(&l.BornAt), db.ToTime(&l.RenewedAt), db.ToTime(&l.ExpiresAt))
	return l, err
}

// AddLogin stores a login and deletes expired ones. A login that it replaces, if any, expires at until.
func (s *Store) AddLogin(ctx context.Context, l Login, replaces string, until time.Time) error {
	err := s.db.Write(ctx, "login", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM logins WHERE expires_at <= ?`, db.Time(l.RenewedAt))
		if err != nil {
			return err
		}
		if replaces != "" {
			ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE logins SET expires_at = ? WHERE digest = ? AND expires_at > ?`,
				db.Time(until), replaces, db.Time(until)))
			if err != nil || !ok {
				// Another request replaced it first, or it ended meanwhile: then nothing replaces it.
				return orConflict(err)
			}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO logins (digest, read_only, born_at, renewed_at, expires_at) VALUES (?, ?, ?, ?, ?)`,
			l.Digest, l.ReadOnly, db.Time(l.BornAt), db.Time(l.RenewedAt), db.Time(l.ExpiresAt))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep login: %w", err)
	}
	return nil
}

func orConflict(err error) error {
	if err == nil {
		return ops.ErrConflict
	}
	return err
}

// Login returns a login that has not expired.
func (s *Store) Login(ctx context.Context, digest string, now time.Time) (Login, error) {
	l, err := db.One(ctx, s.db.Reader(), scanLogin, `SELECT digest, read_only, born_at, renewed_at, expires_at FROM logins
		WHERE digest = ? AND expires_at > ?`, digest, db.Time(now))
	if err != nil {
		return Login{}, fmt.Errorf("read login: %w", err)
	}
	return l, nil
}

// EndLogin deletes a login.
func (s *Store) EndLogin(ctx context.Context, digest string) error {
	err := s.db.Write(ctx, "login", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM logins WHERE digest = ?`, digest)
		return err
	})
	if err != nil {
		return fmt.Errorf("end login: %w", err)
	}
	return nil
}
