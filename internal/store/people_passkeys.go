package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Passkey is a key on a device of a person, with which the person signs in and approves.
type Passkey struct {
	ID           int64
	Name         string
	Role         access.Role
	CredentialID string
	Credential   []byte // what the browser registered, as JSON; nothing in it is secret
	CreatedAt    time.Time
	CreatedBy    string
	LastUsedAt   *time.Time
}

const selectPasskeys = `SELECT p.id, p.name, p.role, p.credential_id, p.credential, p.created_at, p.created_by, p.last_used_at
	FROM passkeys p`

func scanPasskey(r db.Row) (Passkey, error) {
	var p Passkey
	var credential string
	err := r.Scan(&p.ID, &p.Name, &p.Role, &p.CredentialID, &credential, db.ToTime(&p.CreatedAt), &p.CreatedBy, db.ToOptTime(&p.LastUsedAt))
	p.Credential = []byte(credential)
	return p, err
}

// AddPasskey stores a passkey. A name or a key that is there already is an ops.ErrConflict.
func (s *People) AddPasskey(ctx context.Context, p Passkey) (Passkey, error) {
	p.CreatedAt = s.orNow(p.CreatedAt)
	err := s.db.Write(ctx, "passkey", func(tx db.Querier) error {
		if !tokenName().MatchString(p.Name) || !p.Role.Known() {
			return errors.New("a passkey needs a name of letters, digits, dots, dashes and underscores, at most 63, and a role")
		}
		if err := requireName(p.CreatedBy); err != nil {
			return err
		}
		var err error
		p.ID, err = db.One(ctx, tx, db.ScanInt, `INSERT INTO passkeys (name, role, credential_id, credential, created_at, created_by)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
			p.Name, p.Role, p.CredentialID, string(p.Credential), db.Time(p.CreatedAt), p.CreatedBy)
		if errors.Is(err, ops.ErrNotFound) {
			return fmt.Errorf("a passkey with this name, or the same key, exists: %w", ops.ErrConflict)
		}
		if err != nil {
			return err
		}
		_, err = insertAudit(ctx, tx, ops.Event{
			Level: ops.LevelWarning, Message: fmt.Sprintf("%s added the passkey %s with the role %s", p.CreatedBy, p.Name, p.Role),
		}, p.CreatedAt)
		return err
	})
	if err != nil {
		return Passkey{}, fmt.Errorf("add passkey %s: %w", p.Name, err)
	}
	return p, nil
}

// Passkeys lists the passkeys by name.
func (s *People) Passkeys(ctx context.Context) ([]Passkey, error) {
	out, err := db.List(ctx, s.db.Reader(), scanPasskey, selectPasskeys+` ORDER BY p.name`)
	if err != nil {
		return nil, fmt.Errorf("list passkeys: %w", err)
	}
	return out, nil
}

// Passkey returns a passkey by the id that the device gave it.
func (s *People) Passkey(ctx context.Context, credentialID string) (Passkey, error) {
	p, err := db.One(ctx, s.db.Reader(), scanPasskey, selectPasskeys+` WHERE p.credential_id = ?`, credentialID)
	if err != nil {
		return Passkey{}, fmt.Errorf("read passkey: %w", err)
	}
	return p, nil
}

// UsePasskey stores a passkey after a sign-in: its counter has changed.
func (s *People) UsePasskey(ctx context.Context, id int64, credential []byte, at time.Time) error {
	err := s.db.WriteUnordered(ctx, "passkey_used", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `UPDATE passkeys SET credential = ?, last_used_at = ? WHERE id = ?`, string(credential), db.Time(at), id)
		return err
	})
	if err != nil {
		return fmt.Errorf("note use of passkey: %w", err)
	}
	return nil
}

// RemovePasskey deletes a passkey. Logins with it end.
func (s *People) RemovePasskey(ctx context.Context, id int64, by string, at time.Time) error {
	at = s.orNow(at)
	err := s.db.Write(ctx, "passkey", func(tx db.Querier) error {
		if err := requireName(by); err != nil {
			return err
		}
		name, err := db.One(ctx, tx, db.ScanString, `DELETE FROM passkeys WHERE id = ? RETURNING name`, id)
		if err != nil {
			return err
		}
		_, err = insertAudit(ctx, tx, ops.Event{Level: ops.LevelWarning, Message: fmt.Sprintf("%s removed the passkey %s", by, name)}, at)
		return err
	})
	if err != nil {
		return fmt.Errorf("remove passkey: %w", err)
	}
	return nil
}
