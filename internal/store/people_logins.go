package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Login is a browser session that began with a token, a link or an identity provider. The digest is made from a secret that only the
// browser has.
type Login struct {
	Digest    string
	Role      string    // by package access
	Name      string    // recorded name of the person; empty for the logins of the configured tokens
	TokenID   int64     // of the token with a name; the login ends with it
	BornAt    time.Time // when the token was entered
	RenewedAt time.Time
	ExpiresAt time.Time
}

func scanLogin(r db.Row, l *Login) error {
	return r.Scan(&l.Digest, &l.Role, &l.Name, &l.TokenID,
		db.ToTime(&l.BornAt), db.ToTime(&l.RenewedAt), db.ToTime(&l.ExpiresAt))
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
			(digest, role, name, token_id, born_at, renewed_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			l.Digest, l.Role, l.Name, l.TokenID,
			db.Time(l.BornAt), db.Time(l.RenewedAt), db.Time(l.ExpiresAt))
		return err
	})
	return ops.Wrapped(err, "keep login")
}

func orConflict(err error) error {
	if err == nil {
		return ops.NewConflict(ops.ConflictState, "it was changed meanwhile")
	}
	return err
}

// Login returns a login that has not expired, and whose token still works.
func (s *People) Login(ctx context.Context, digest string, now time.Time) (Login, error) {
	l, err := db.One(ctx, s.db.Reader(), scanLogin, `SELECT l.digest, l.role, l.name, l.token_id,
		l.born_at, l.renewed_at, l.expires_at FROM logins l WHERE l.digest = ? AND l.expires_at > ?
		AND (l.token_id = 0 OR EXISTS (SELECT 1 FROM access_tokens t WHERE t.id = l.token_id AND `+tokenWorks+`))`,
		digest, db.Time(now), db.Time(now))
	return ops.Returning(l, err, "read login")
}

// SignedIn reports that somebody has signed in.
func (s *People) SignedIn(ctx context.Context) (bool, error) {
	n, err := db.One(ctx, s.db.Reader(), db.ScanInt, `SELECT COUNT(*) FROM logins`)
	return ops.Returning(n > 0, err, "read logins")
}

// EndLogin deletes a login.
func (s *People) EndLogin(ctx context.Context, digest string) error {
	err := s.db.Write(ctx, "login", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM logins WHERE digest = ?`, digest)
		return err
	})
	return ops.Wrapped(err, "end login")
}

// Token is a token with a name. The token itself is known only to the one who got it when it was made.
type Token struct {
	ID         int64
	Name       string
	Role       string
	CreatedAt  time.Time
	CreatedBy  string
	ExpiresAt  *time.Time // nil: never
	LastUsedAt *time.Time // to the minute
	RevokedAt  *time.Time
	RevokedBy  string
}

// Works reports whether the token gives access at a time.
func (t Token) Works(now time.Time) bool {
	return t.RevokedAt == nil && (t.ExpiresAt == nil || now.Before(*t.ExpiresAt))
}

const (
	// TokenPrefix begins every token with a name, so that such a token is recognized, also in a log.
	TokenPrefix = "claudeops_"
	// lastUseEvery is how often the last use of a token is written.
	lastUseEvery = time.Minute

	selectTokens = `SELECT t.id, t.name, t.role, t.created_at, t.created_by, t.expires_at, t.last_used_at, t.revoked_at, t.revoked_by
	FROM access_tokens t`
	// tokenWorks is Token.Works as a condition with the time as its argument.
	tokenWorks = `t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > ?)`
)

func scanToken(r db.Row, t *Token) error {
	return r.Scan(&t.ID, &t.Name, &t.Role, db.ToTime(&t.CreatedAt), &t.CreatedBy, db.ToOptTime(&t.ExpiresAt), db.ToOptTime(&t.LastUsedAt),
		db.ToOptTime(&t.RevokedAt), &t.RevokedBy)
}

// tokenName is how the name of a token looks: it is part of audit records and commands.
var tokenName = ops.Pattern(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`)

// tokenDigest is what is stored of a token. The token is random and long, so a plain hash cannot be turned back.
func tokenDigest(secret string) string {
	sum := sha256.Sum256([]byte("claudeops token v1 " + secret))
	return hex.EncodeToString(sum[:])
}

// AddToken makes a token and returns it with its secret, which is not stored. A name that is in use is an ops.ErrConflict.
func (s *People) AddToken(ctx context.Context, t Token) (Token, string, error) {
	t.CreatedAt = s.orNow(t.CreatedAt)
	secret := TokenPrefix + rand.Text()
	err := s.db.Write(ctx, "token", func(tx db.Querier) error {
		if err := checkToken(t); err != nil {
			return err
		}
		// An expired token gives its name back.
		_, err := tx.ExecContext(ctx, `UPDATE access_tokens SET revoked_at = ?, revoked_by = ? WHERE name = ? AND revoked_at IS NULL
			AND expires_at <= ?`, db.Time(t.CreatedAt), ops.Supervisor, t.Name, db.Time(t.CreatedAt))
		if err != nil {
			return err
		}
		t.ID, err = db.One(ctx, tx, db.ScanInt, `INSERT INTO access_tokens (name, role, digest, created_at, created_by, expires_at)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
			t.Name, t.Role, tokenDigest(secret), db.Time(t.CreatedAt), t.CreatedBy, db.OptTime(t.ExpiresAt))
		if errors.Is(err, ops.ErrNotFound) {
			return ops.NewConflict(ops.ConflictTaken, "a token with this name exists: revoke it or choose another name")
		}
		if err != nil {
			return err
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Level: ops.LevelWarning, Verb: ops.VerbTokenMade, Actor: ops.Person(t.CreatedBy),
			Subject: ops.Subject{Kind: ops.SubjectToken, ID: t.Name}, Detail: ops.TokenDetail{Role: t.Role, Until: t.ExpiresAt},
		}, t.CreatedAt)
	})
	if err != nil {
		return Token{}, "", fmt.Errorf("make token %s: %w", t.Name, err)
	}
	return t, secret, nil
}

func checkToken(t Token) error {
	switch {
	case !tokenName().MatchString(t.Name):
		return errors.New("a name has letters, digits, dots, dashes, underscores and @, at most 63, and begins with a letter or digit")
	case t.Role == "":
		return errors.New("a token needs a role")
	case t.ExpiresAt != nil && !t.ExpiresAt.After(t.CreatedAt):
		return errors.New("the end is in the past: give a later one")
	}
	return requireName(t.CreatedBy)
}

// Tokens lists the tokens by name; all includes the revoked ones.
func (s *People) Tokens(ctx context.Context, all bool) ([]Token, error) {
	where := ` WHERE t.revoked_at IS NULL`
	if all {
		where = ``
	}
	out, err := db.List(ctx, s.db.Reader(), scanToken, selectTokens+where+` ORDER BY t.name, t.id`)
	return ops.Returning(out, err, "list tokens")
}

// RevokeToken ends a token by its name. A name without a working token is ops.ErrNotFound.
func (s *People) RevokeToken(ctx context.Context, name, by string, at time.Time) error {
	at = s.orNow(at)
	err := s.db.Write(ctx, "token", func(tx db.Querier) error {
		if err := requireName(by); err != nil {
			return err
		}
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE access_tokens SET revoked_at = ?, revoked_by = ?
			WHERE name = ? AND revoked_at IS NULL`, db.Time(at), by, name))
		if err != nil {
			return err
		}
		if !ok {
			return ops.ErrNotFound
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Level: ops.LevelWarning, Verb: ops.VerbTokenRevoked, Actor: ops.Person(by), Subject: ops.Subject{Kind: ops.SubjectToken, ID: name},
		}, at)
	})
	return ops.Wrapped(err, "revoke token %s", name)
}

// UseToken returns the token with this secret and notes its use. One that is unknown, revoked or expired is ops.ErrNotFound.
func (s *People) UseToken(ctx context.Context, secret string, now time.Time) (Token, error) {
	if !strings.HasPrefix(secret, TokenPrefix) {
		return Token{}, fmt.Errorf("read token: %w", ops.ErrNotFound)
	}
	t, err := db.One(ctx, s.db.Reader(), scanToken, selectTokens+` WHERE t.digest = ? AND `+tokenWorks, tokenDigest(secret), db.Time(now))
	if err != nil {
		return Token{}, fmt.Errorf("read token: %w", err)
	}
	if t.LastUsedAt != nil && now.Sub(*t.LastUsedAt) < lastUseEvery {
		return t, nil
	}
	err = s.db.WriteUnordered(ctx, "token_used", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `UPDATE access_tokens SET last_used_at = ? WHERE id = ? AND (last_used_at IS NULL OR last_used_at <= ?)`,
			db.Time(now), t.ID, db.Time(now.Add(-lastUseEvery)))
		return err
	})
	if err != nil {
		return t, fmt.Errorf("note use of token %s: %w", t.Name, err)
	}
	t.LastUsedAt = &now
	return t, nil
}

// TokenWorks reports whether a token still gives access.
func (s *People) TokenWorks(ctx context.Context, id int64, now time.Time) (bool, error) {
	n, err := db.One(ctx, s.db.Reader(), db.ScanInt, `SELECT COUNT(*) FROM access_tokens t WHERE t.id = ? AND `+tokenWorks, id, db.Time(now))
	return ops.Returning(n > 0, err, "read token")
}

// requireName refuses a change without a name.
func requireName(by string) error {
	if strings.TrimSpace(by) == "" {
		return errors.New("no name given: say who answers")
	}
	return nil
}

// codeDigest is what is stored of the code of a sign-in link.
func codeDigest(code string) string { return tokenDigest("sign-in link\n" + code) }

// AddCode keeps the code of a sign-in link until a time. Only its digest is stored.
func (s *People) AddCode(ctx context.Context, code, who string, now, end time.Time) error {
	err := s.db.Write(ctx, "code", func(tx db.Querier) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM door_codes WHERE expires_at <= ?`, db.Time(now)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO door_codes (digest, who, expires_at) VALUES (?, ?, ?)`,
			codeDigest(code), who, db.Time(end))
		return err
	})
	return ops.Wrapped(err, "keep code")
}

// UseCode takes a code away and returns whom it was made for. One that is unknown, used or too old is ops.ErrNotFound.
func (s *People) UseCode(ctx context.Context, code string, now time.Time) (who string, err error) {
	err = s.db.Write(ctx, "code", func(tx db.Querier) error {
		who, err = db.One(ctx, tx, db.ScanString, `DELETE FROM door_codes WHERE digest = ? AND expires_at > ? RETURNING who`,
			codeDigest(code), db.Time(now))
		return err
	})
	return ops.Returning(who, err, "use code")
}
