package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Login is a browser session that began with a token or a passkey. The digest is made from a secret that only the browser has.
type Login struct {
	Digest    string
	Role      access.Role
	Name      string    // recorded name of the person; empty for the logins of the configured tokens
	TokenID   int64     // of the token with a name; the login ends with it
	PasskeyID int64     // of the passkey; the login ends with it
	BornAt    time.Time // when the token was entered
	RenewedAt time.Time
	ExpiresAt time.Time
}

func scanLogin(r db.Row) (Login, error) {
	var l Login
	var readOnly bool
	err := r.Scan(&l.Digest, &readOnly, &l.Role, &l.Name, &l.TokenID, &l.PasskeyID,
		db.ToTime(&l.BornAt), db.ToTime(&l.RenewedAt), db.ToTime(&l.ExpiresAt))
	if l.Role == access.RoleNone { // it began before there were roles
		l.Role = access.RoleAdmin
		if readOnly {
			l.Role = access.RoleRead
		}
	}
	return l, err
}

// AddLogin stores a login and deletes expired ones. A login that it replaces, if any, expires at until.
func (s *People) AddLogin(ctx context.Context, l Login, replaces string, until time.Time) error {
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
		_, err = tx.ExecContext(ctx, `INSERT INTO logins
			(digest, read_only, role, name, token_id, passkey_id, born_at, renewed_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			l.Digest, l.Role == access.RoleRead, l.Role, l.Name, l.TokenID, l.PasskeyID,
			db.Time(l.BornAt), db.Time(l.RenewedAt), db.Time(l.ExpiresAt))
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

// Login returns a login that has not expired, and whose token or passkey still works.
func (s *People) Login(ctx context.Context, digest string, now time.Time) (Login, error) {
	l, err := db.One(ctx, s.db.Reader(), scanLogin, `SELECT l.digest, l.read_only, l.role, l.name, l.token_id, l.passkey_id,
		l.born_at, l.renewed_at, l.expires_at FROM logins l WHERE l.digest = ? AND l.expires_at > ?
		AND (l.token_id = 0 OR EXISTS (SELECT 1 FROM access_tokens t WHERE t.id = l.token_id AND `+tokenWorks+`))
		AND (l.passkey_id = 0 OR EXISTS (SELECT 1 FROM passkeys p WHERE p.id = l.passkey_id))`,
		digest, db.Time(now), db.Time(now))
	if err != nil {
		return Login{}, fmt.Errorf("read login: %w", err)
	}
	return l, nil
}

// EndLogin deletes a login.
func (s *People) EndLogin(ctx context.Context, digest string) error {
	err := s.db.Write(ctx, "login", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM logins WHERE digest = ?`, digest)
		return err
	})
	if err != nil {
		return fmt.Errorf("end login: %w", err)
	}
	return nil
}
