package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const (
	// answerKey names the key with which the tokens of answers are signed.
	answerKey = "answer_key"
	// replyMark begins the names of how far the messages of a channel were read.
	replyMark = "reply_mark/"
	// answerKeySize is the length of the key in bytes.
	answerKeySize = 32
	// usedFor is how long after its end a token is remembered as used.
	usedFor = 24 * time.Hour
)

// AnswerKey returns the key with which the tokens of answers are signed. The first call makes it.
func (s *People) AnswerKey(ctx context.Context) ([]byte, error) {
	text, err := stateOf(ctx, s.db.Reader(), answerKey)
	if errors.Is(err, ops.ErrNotFound) {
		text, err = makeAnswerKey(ctx, s.db)
	}
	if err != nil {
		return nil, fmt.Errorf("read key of answers: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != answerKeySize {
		return nil, errors.New("read key of answers: it is damaged")
	}
	return key, nil
}

// makeAnswerKey stores a new key, unless another process was faster, and returns the one that is stored.
func makeAnswerKey(ctx context.Context, to *db.DB) (text string, err error) {
	fresh := make([]byte, answerKeySize)
	if _, err := rand.Read(fresh); err != nil {
		return "", err
	}
	err = to.Write(ctx, "answer_key", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO store_state (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`,
			answerKey, base64.StdEncoding.EncodeToString(fresh))
		if err != nil {
			return err
		}
		text, err = stateOf(ctx, tx, answerKey)
		return err
	})
	return text, err
}

func stateOf(ctx context.Context, q db.Querier, name string) (string, error) {
	return db.One(ctx, q, db.ScanString, `SELECT value FROM store_state WHERE name = ?`, name)
}

// KeepAnswerCodes stores tokens under their short names, which code says, until they expire.
func (s *People) KeepAnswerCodes(ctx context.Context, tokens []string, code func(token string) string, expires time.Time) error {
	err := s.db.Write(ctx, "answer_code", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM answer_codes WHERE expires_at <= ?`, db.Time(s.clock().Add(-usedFor)))
		if err != nil {
			return err
		}
		for _, token := range tokens {
			_, err := tx.ExecContext(ctx, `INSERT INTO answer_codes (code, token, expires_at) VALUES (?, ?, ?) ON CONFLICT (code) DO NOTHING`,
				code(token), token, db.Time(expires))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return ops.Wrapped(err, "keep codes of answers")
}

// AnswerToken returns the token with a short name. An unknown one is ops.ErrNotFound.
func (s *People) AnswerToken(ctx context.Context, code string) (string, error) {
	token, err := db.One(ctx, s.db.Reader(), db.ScanString, `SELECT token FROM answer_codes WHERE code = ?`, code)
	return ops.Returning(token, err, "read code of an answer")
}

// ReplyMark returns how far the messages of a channel were read; empty if none were.
func (s *People) ReplyMark(ctx context.Context, channel string) (string, error) {
	mark, err := stateOf(ctx, s.db.Reader(), replyMark+channel)
	if errors.Is(err, ops.ErrNotFound) {
		return "", nil
	}
	return ops.Returning(mark, err, "read mark of replies")
}

// NoticeSubject returns what a person can still answer about a notice.
func (s *People) NoticeSubject(ctx context.Context, n ops.Notice) (ops.NoticeSubject, error) {
	var out ops.NoticeSubject
	if n.CycleID == nil {
		return out, nil
	}
	err := s.db.Read(ctx, func(tx db.Querier) error {
		pending, err := db.One(ctx, tx, scanApproval, selectApprovals+` WHERE a.cycle_id = ? AND a.status = ?`, *n.CycleID, ops.ApprovalPending)
		switch {
		case err == nil:
			out.Approval = &pending
		case !errors.Is(err, ops.ErrNotFound):
			return err
		}
		earned, err := db.List(ctx, tx, scanEarned, selectEarned+` WHERE 'earned ' || f.id = ? AND f.state = ?`, n.Key, ops.ReflexAsked)
		if err != nil {
			return err
		}
		if len(earned) > 0 {
			out.Reflex = &earned[0]
		}
		out.Incidents, err = db.List(ctx, tx, scanIncident, selectIncidents+` WHERE (i.id = ? OR (? = 0 AND i.last_cycle_id = ?))
			AND i.resolved_at IS NULL AND i.called_at IS NOT NULL ORDER BY i.id`, n.Incident, n.Incident, *n.CycleID)
		return err
	})
	return ops.Returning(out, err, "read subject of notice %d", n.ID)
}

// NoticeThread is what all notices of one problem share: the first cycle of its incident, or without an incident their own; 0: none.
func (s *People) NoticeThread(ctx context.Context, n ops.Notice) (first ops.CycleID, err error) {
	if n.CycleID != nil {
		first = *n.CycleID
	}
	var found *int64
	of, args := `SELECT incident_id FROM incident_cycles WHERE cycle_id = ? ORDER BY incident_id LIMIT 1`, []any{first}
	if n.Incident != 0 {
		of, args = `?`, []any{n.Incident}
	}
	err = s.db.Reader().QueryRowContext(ctx, `SELECT MIN(cycle_id) FROM incident_cycles WHERE incident_id = (`+of+`)`, args...).Scan(&found)
	if err != nil {
		return 0, fmt.Errorf("read thread of notice %d: %w", n.ID, err)
	}
	if found != nil {
		first = ops.CycleID(*found)
	}
	return first, nil
}

// Reply is what is recorded of an answer that a person gave outside of the pages and the API.
type Reply struct {
	Code    string    // identifies the token, which is used up
	Expires time.Time // when the token does
	Source  string    // identifies the message that brought it
	By      string
	Refused string // why it was not carried out; empty: it was
	// Mark and Read say how far the messages of a channel were read. Mark may be empty.
	Mark, Read string
	Silent     bool // leaves it out of the events
	At         time.Time
	Detail     ops.ReplyDetail
}

// Using returns the same with a reply: the answer that is given with it uses up its token, and records that and how far its channel was
// read in the same transaction. A token that was used is an *ops.Conflict; ops.ConflictRepeated means by the same message.
func (s *People) Using(r Reply) *People { return &People{s.kernel, &r} }

// answer writes the answer of a person in one transaction, with the reply that brought it if there is one. What writes it says where.
func (s *People) answer(ctx context.Context, op string, write func(tx db.Querier) (ops.CycleID, string, error)) error {
	return s.db.Write(ctx, op, func(tx db.Querier) (err error) {
		if s.reply != nil {
			err = use(ctx, tx, *s.reply)
		}
		if err != nil {
			return err
		}
		cycle, environment, err := write(tx)
		if err != nil || s.reply == nil {
			return err
		}
		return s.recordReply(ctx, tx, *s.reply, cycle, environment)
	})
}

// RefuseReply records a reply that was not carried out, and that it was read. One that was carried out before has no reason and no record.
func (s *People) RefuseReply(ctx context.Context, r Reply) error {
	r.Silent = r.Silent || r.Refused == ""
	err := s.db.Write(ctx, "reply", func(tx db.Querier) error { return s.recordReply(ctx, tx, r, 0, "") })
	return ops.Wrapped(err, "refuse reply")
}

// use takes the token of a reply.
func use(ctx context.Context, tx db.Querier, r Reply) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM used_answers WHERE expires_at <= ?`, db.Time(r.At))
	if err != nil {
		return err
	}
	ok, err := db.Changed(tx.ExecContext(ctx, `INSERT INTO used_answers (code, source, at, answered_by, expires_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (code) DO NOTHING`, r.Code, r.Source, db.Time(r.At), r.By, db.Time(r.Expires.Add(usedFor))))
	if err != nil || ok {
		return err
	}
	var source, by string
	var at time.Time
	err = tx.QueryRowContext(ctx, `SELECT source, answered_by, at FROM used_answers WHERE code = ?`, r.Code).
		Scan(&source, &by, db.ToTime(&at))
	switch {
	case err != nil:
		return err
	case source == r.Source:
		return ops.NewConflict(ops.ConflictRepeated, "it was taken before")
	}
	return ops.Answered(by, "used this button", at)
}

// recordReply records who replied, by which channel and for which plan, and how far the channel was read.
func (s *kernel) recordReply(ctx context.Context, tx db.Querier, r Reply, cycle ops.CycleID, environment string) error {
	if r.Mark != "" {
		_, err := tx.ExecContext(ctx, `INSERT INTO store_state (name, value) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, replyMark+r.Mark, r.Read)
		if err != nil {
			return err
		}
	}
	if r.Silent {
		return nil
	}
	event := ops.Event{
		CycleID: idOrNil(cycle), Environment: environment, Level: ops.LevelInfo, Verb: ops.VerbReplyTaken, Actor: ops.Person(r.By),
		Reason: r.Refused, Detail: r.Detail,
	}
	if r.Refused != "" {
		event.Level = ops.LevelWarning
	}
	return s.insertEvent(ctx, tx, event, r.At)
}
