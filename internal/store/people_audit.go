package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// The rows of audit_chain.
const (
	chainHead   = "head"   // the newest record of the chain
	chainAnchor = "anchor" // the last record that was removed, or the last event before the chain began
)

// chainLink is a record of the chain of audit records.
type chainLink struct {
	id   int64
	hash string
}

// insertAudit records what a person did. Each record holds the hash of the one before, so a later change of any of them shows. Records
// are chained in the order of their ids, also when several hosts write at the same time.
func insertAudit(ctx context.Context, tx db.Querier, e ops.Event, at time.Time) (int64, error) {
	if err := db.OrderFeed(ctx, tx, db.FeedEvents); err != nil {
		return 0, err
	}
	before, err := newestAudit(ctx, tx)
	if err != nil {
		return 0, err
	}
	e.Kind, e.Message, e.Service = ops.EventAudit, storable(e.Message), storable(e.Service)
	values := eventValues(e, at)
	hash, err := auditHash(before.hash, values)
	if err != nil {
		return 0, err
	}
	id, err := db.One(ctx, tx, db.ScanInt, `INSERT INTO events
		(at, cycle_id, session_id, environment, level, kind, service, message, previous_hash, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, append(values, before.hash, hash)...)
	if err != nil {
		return 0, err
	}
	return id, setChainLink(ctx, tx, chainHead, chainLink{id, hash})
}

// storable is a text that both databases store as it is.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// auditHash is the hash of a record: of the one before, and of everything that the record says.
func auditHash(before string, values []any) (string, error) {
	text, err := json.Marshal(append([]any{before}, values...))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func scanChainLink(r db.Row) (chainLink, error) {
	var l chainLink
	err := r.Scan(&l.id, &l.hash)
	return l, err
}

// readChainLink reads a row of audit_chain; a missing one is the beginning of the chain.
func readChainLink(ctx context.Context, q db.Querier, name string) (chainLink, error) {
	l, err := db.One(ctx, q, scanChainLink, `SELECT event_id, hash FROM audit_chain WHERE name = ?`, name)
	if errors.Is(err, ops.ErrNotFound) {
		return chainLink{}, nil
	}
	return l, err
}

func setChainLink(ctx context.Context, tx db.Querier, name string, l chainLink) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO audit_chain (name, event_id, hash) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET event_id = excluded.event_id, hash = excluded.hash`, name, l.id, l.hash)
	return err
}

// newestAudit is what the next record follows.
func newestAudit(ctx context.Context, q db.Querier) (chainLink, error) {
	head, err := readChainLink(ctx, q, chainHead)
	if err != nil || head.id != 0 {
		return head, err
	}
	return readChainLink(ctx, q, chainAnchor)
}

// audit removes the oldest audit records up to the first that must stay, and remembers the last removed one.
func (r removal) audit(ctx context.Context) (int64, error) {
	first, err := r.firstKept(ctx, `events`, r.keep.Events)
	if err != nil || first <= 0 {
		return 0, err
	}
	type record struct {
		chainLink
		kept bool
	}
	old, err := db.List(ctx, r.tx, func(row db.Row) (x record, err error) {
		return x, row.Scan(&x.id, &x.hash, &x.kept)
	}, `SELECT id, hash, cycle_id IS NOT NULL AND cycle_id IN `+protectedCycles+` FROM events
		WHERE hash IS NOT NULL AND id < ? ORDER BY id LIMIT ?`, first, r.pace.Of(removedRows))
	if err != nil {
		return 0, err
	}
	var last chainLink
	for _, x := range old {
		if x.kept {
			break
		}
		last = x.chainLink
	}
	if last.id == 0 {
		return 0, nil
	}
	if err := setChainLink(ctx, r.tx, chainAnchor, last); err != nil {
		return 0, err
	}
	return db.Affected(ctx, r.tx, `DELETE FROM events WHERE hash IS NOT NULL AND id <= ?`, last.id)
}

// AuditReport is the result of checking the chain of audit records.
type AuditReport struct {
	Records int64  `json:"records"`  // that were checked
	FirstID int64  `json:"first_id"` // the oldest of them; 0 without one
	LastID  int64  `json:"last_id"`
	Hash    string `json:"hash"` // of the newest record
	// BrokenID is the first record that was changed, or that follows a removed one; 0 if the chain is whole.
	BrokenID int64      `json:"broken_id"`
	BrokenAt *time.Time `json:"broken_at"`
	Problem  string     `json:"problem"`
}

// auditBatch is how many records are read at once.
const auditBatch = 1000

// auditRow is a record as it is checked.
type auditRow struct {
	id             int64
	at             string
	values         []any
	previous, hash *string
}

func scanAuditRow(r db.Row) (auditRow, error) {
	var x auditRow
	var cycle, session *int64
	var environment, level, kind, service, message string
	err := r.Scan(&x.id, &x.at, &cycle, &session, &environment, &level, &kind, &service, &message, &x.previous, &x.hash)
	x.values = []any{x.at, optional(cycle), optional(session), environment, level, kind, service, message}
	return x, err
}

func optional(id *int64) any {
	if id == nil {
		return nil
	}
	return *id
}

// AuditMark is a record of the chain that somebody noted elsewhere; the zero value is none.
type AuditMark struct {
	Hash string
	ID   int64 // 0: not noted
}

// meets reports whether a record is the noted one, and what is wrong if it should be.
func (m AuditMark) meets(l chainLink) (found bool, problem string) {
	if m.ID > 0 && l.id == m.ID && l.hash != m.Hash {
		return false, "it is not the record that was noted: the chain was written again"
	}
	return l.hash == m.Hash && (m.ID == 0 || l.id == m.ID), ""
}

// VerifyAudit checks the chain of audit records from the oldest to the newest and stops at the first record that does not fit. The noted
// record must be in it.
func (s *People) VerifyAudit(ctx context.Context, noted AuditMark) (AuditReport, error) {
	var out AuditReport
	err := s.db.ReadLong(ctx, func(tx db.Querier) error {
		before, err := readChainLink(ctx, tx, chainAnchor)
		if err != nil {
			return err
		}
		head, err := readChainLink(ctx, tx, chainHead)
		if err != nil {
			return err
		}
		oldest := before
		found, wrong := noted.meets(before)
		if out.Problem, out.BrokenID = wrong, before.id; wrong != "" {
			return nil
		}
		out.BrokenID = 0
		for {
			rows, err := db.List(ctx, tx, scanAuditRow, `SELECT id, at, cycle_id, session_id, environment, level, kind, service, message,
				previous_hash, hash FROM events WHERE id > ? AND (kind = ? OR hash IS NOT NULL) ORDER BY id LIMIT ?`,
				before.id, ops.EventAudit, auditBatch)
			if err != nil {
				return err
			}
			for _, row := range rows {
				if err := out.check(row, &before); err != nil || out.Problem != "" {
					return err
				}
				is, wrong := noted.meets(before)
				if found = found || is; wrong != "" {
					out.Problem, out.BrokenID = wrong, before.id
					return nil
				}
			}
			if len(rows) < auditBatch {
				break
			}
		}
		out.Hash = before.hash
		switch {
		case head == (chainLink{}) && out.Records > 0:
			out.BrokenID, out.Problem = before.id, "nothing on record says that it is the newest: the end of the chain was removed"
		case head != (chainLink{}) && before != head:
			out.BrokenID = head.id
			out.Problem = fmt.Sprintf("the newest records are missing: the chain ends with record %d and should end with record %d",
				before.id, head.id)
		case noted.Hash != "" && !found:
			out.BrokenID, out.Problem = noted.ID, noted.missing(oldest)
		}
		return nil
	})
	if err != nil {
		return AuditReport{}, fmt.Errorf("check audit records: %w", err)
	}
	return out, nil
}

// missing says why the noted record is not in a chain that is whole.
func (m AuditMark) missing(oldest chainLink) string {
	if m.ID > 0 && m.ID < oldest.id {
		return fmt.Sprintf("it was removed by retention: note the hash of a record after %d", oldest.id)
	}
	return "no record of the chain has the hash that was noted: it was written again or removed, or retention removed the record"
}

// check compares one record with the one before it.
func (a *AuditReport) check(row auditRow, before *chainLink) error {
	hash, err := auditHash(before.hash, row.values)
	if err != nil {
		return err
	}
	switch {
	case row.hash == nil || row.previous == nil:
		a.Problem = "it is not part of the chain: it was added without a hash"
	case *row.previous != before.hash:
		a.Problem = fmt.Sprintf("the record before it is missing or was changed: it does not follow record %d", before.id)
	case *row.hash != hash:
		a.Problem = "it was changed after it was written"
	}
	if a.Problem != "" {
		a.BrokenID = row.id
		var at time.Time
		if db.ToTime(&at).Scan(row.at) == nil {
			a.BrokenAt = &at
		}
		return nil
	}
	a.Records++
	if a.FirstID == 0 {
		a.FirstID = row.id
	}
	a.LastID = row.id
	*before = chainLink{row.id, hash}
	return nil
}
