package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// The sources of a memory.
const (
	sourceAgent     = "agent"
	sourceForceDone = "force-done"
	sourceOperator  = "operator"
)

// How sure a memory is. An observation is never certain.
const (
	firstConfidence  = 0.5
	raisedConfidence = 0.1 // for each time that it is observed again
	maxConfidence    = 0.95
)

// memoryLife is how long a lesson of an agent or of the supervisor is kept.
const memoryLife = 90 * 24 * time.Hour

const selectMemories = `SELECT m.id, m.environment, m.category, m.service, m.observation, m.confidence, m.source,
	m.session_id, m.created_at, m.updated_at, m.expires_at FROM memories m`

func scanMemory(r db.Row, m *ops.Memory) error {
	return r.Scan(&m.ID, &m.Environment, &m.Category, &m.Service, &m.Observation, &m.Confidence, &m.Source,
		&m.SessionID, db.ToTime(&m.CreatedAt), db.ToTime(&m.UpdatedAt), db.ToOptTime(&m.ExpiresAt))
}

// MemoryFilter chooses memories; the zero value means all that have not expired.
type MemoryFilter struct {
	Environment string
	Service     string
	Category    string
	All         bool  // expired ones too
	Before      int64 // only older ones: the last id of the page before
	Limit       int
}

// Memories returns a page of memories, newest first.
func (s *People) Memories(ctx context.Context, f MemoryFilter) ([]ops.Memory, error) {
	var w db.Filter
	w.Given(`m.environment = ?`, f.Environment)
	w.Given(`m.service = ?`, f.Service)
	w.Given(`m.category = ?`, f.Category)
	if !f.All {
		w.Add(`(m.expires_at IS NULL OR m.expires_at > ?)`, db.Time(s.clock()))
	}
	w.Given(`m.id < ?`, f.Before)
	out, err := db.List(ctx, s.db.Reader(), scanMemory, selectMemories+w.Where()+` ORDER BY m.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	return ops.Returning(out, err, "list memories")
}

// Recall returns what is known about services of an environment, highest confidence and then newest first. Memories without a
// service or without an environment apply to all; without services it is everything about the environment.
func (s *People) Recall(ctx context.Context, environment string, services []string, now time.Time, limit int) ([]ops.Memory, error) {
	var w db.Filter
	w.Add(`m.environment IN (?, '')`, environment)
	w.Add(`(m.expires_at IS NULL OR m.expires_at > ?)`, db.Time(now))
	if len(services) > 0 {
		args := ops.Map(services, func(service string) any { return service })
		w.Add(`m.service IN (''`+strings.Repeat(", ?", len(args))+`)`, args...)
	}
	out, err := db.List(ctx, s.db.Reader(), scanMemory, selectMemories+w.Where()+` ORDER BY m.updated_at DESC, m.id DESC`, w.Args...)
	if err != nil {
		return nil, fmt.Errorf("recall memories of %s: %w", environment, err)
	}
	slices.SortStableFunc(out, func(a, b ops.Memory) int { return cmp.Compare(strength(b, now), strength(a, now)) })
	return out[:min(len(out), db.PageSize(limit))], nil
}

// confidenceHalves is how long it takes until the confidence in an observation that nobody repeats is worth half.
const confidenceHalves = 45 * 24 * time.Hour

// strength is the confidence in a memory now. What an operator said does not fade.
func strength(m ops.Memory, now time.Time) float64 {
	if m.Source == sourceOperator {
		return m.Confidence
	}
	age := max(0, now.Sub(m.UpdatedAt))
	return m.Confidence * math.Exp2(-float64(age)/float64(confidenceHalves))
}

// AddMemory stores an observation and returns its id. If it exists already, its confidence rises instead, and it takes the source
// and the expiry of the new one.
func (s *People) AddMemory(ctx context.Context, m ops.Memory) (int64, error) {
	m.Source = cmp.Or(m.Source, sourceOperator)
	var id int64
	err := s.db.Write(ctx, "memory", func(tx db.Querier) error {
		known, err := sameMemory(ctx, tx, m)
		switch {
		case errors.Is(err, ops.ErrNotFound):
			id, err = insertMemory(ctx, tx, m, s.clock())
		case err == nil:
			id = known.ID
			m.Confidence = max(m.Confidence, raise(known.Confidence))
			err = updateMemory(ctx, tx, id, m, s.clock())
		}
		if err != nil || m.By == "" {
			return err
		}
		m.ID = id
		return s.recordMemory(ctx, tx, m, m.By, false, s.orNow(m.CreatedAt))
	})
	return ops.Returning(id, err, "add memory")
}

// RemoveMemory deletes an observation.
func (s *People) RemoveMemory(ctx context.Context, id int64, by string, at time.Time) error {
	err := s.db.Write(ctx, "memory", func(tx db.Querier) error {
		m, err := db.One(ctx, tx, scanMemory, selectMemories+` WHERE m.id = ?`, id)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM memories WHERE id = ?`, id); err != nil {
			return err
		}
		return s.recordMemory(ctx, tx, m, by, true, s.orNow(at))
	})
	return ops.Wrapped(err, "remove memory %d", id)
}

// shownMemory is how much of an observation its event tells.
const shownMemory = 200

// recordMemory records what a person did with a memory.
func (s *kernel) recordMemory(ctx context.Context, tx db.Querier, m ops.Memory, by string, removed bool, at time.Time) error {
	line, _, _ := strings.Cut(m.Observation, "\n")
	if all := []rune(line); len(all) > shownMemory {
		line = string(all[:shownMemory]) + "…"
	}
	return s.insertEvent(ctx, tx, ops.Event{
		Environment: m.Environment, Level: ops.LevelInfo, Verb: ops.VerbMemoryChanged, Actor: ops.Person(by),
		Subject: ops.About(ops.SubjectMemory, m.ID), Service: m.Service,
		Detail: ops.MemoryDetail{Observation: line, Removed: removed},
	}, at)
}

// learn stores a lesson of a session or of the supervisor. An operator's memory of the same keeps its source, and one without an
// expiry keeps none.
func learn(ctx context.Context, tx db.Querier, cycle held, source string, session *ops.SessionID, l ops.Lesson, at time.Time) error {
	m := ops.Memory{
		Environment: cycle.environment, Category: l.Category, Service: l.Service, Observation: l.Observation, Source: source,
		SessionID: session, ExpiresAt: ops.Ptr(at.Add(memoryLife)),
	}
	known, err := sameMemory(ctx, tx, m)
	switch {
	case errors.Is(err, ops.ErrNotFound):
		if _, err := insertMemory(ctx, tx, m, at); err != nil {
			return err
		}
		return forgetWeakest(ctx, tx, m, at)
	case err != nil:
		return err
	}
	m.Confidence = raise(strength(known, at))
	if known.Source == sourceOperator {
		m.Source, m.SessionID = known.Source, known.SessionID
	}
	if known.ExpiresAt == nil || known.ExpiresAt.After(*m.ExpiresAt) {
		m.ExpiresAt = known.ExpiresAt
	}
	return updateMemory(ctx, tx, known.ID, m, at)
}

// raise is the confidence in an observation that was made again; a higher one stays.
func raise(confidence float64) float64 {
	return max(confidence, min(maxConfidence, confidence+raisedConfidence))
}

// sameMemory finds the memory that says the same: the words count, not their case, punctuation, times or ids.
func sameMemory(ctx context.Context, tx db.Querier, m ops.Memory) (ops.Memory, error) {
	all, err := db.List(ctx, tx, scanMemory, selectMemories+` WHERE m.environment = ? AND m.service = ? AND m.category = ?
		ORDER BY m.id DESC`, m.Environment, m.Service, m.Category)
	if err != nil {
		return ops.Memory{}, err
	}
	words := wordsOf(m.Observation)
	for _, known := range all {
		if known.Observation == m.Observation || wordsOf(known.Observation) == words {
			return known, nil
		}
	}
	return ops.Memory{}, ops.ErrNotFound
}

// aTime is a date or a time of day, which makes two equal observations look different.
var aTime = ops.Pattern(`\b(\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?(\.\d+)?Z?)?|\d{1,2}:\d{2}(:\d{2})?)\b`)

// shortestID is the length from which a word with a digit is an id. Shorter ones are ports, versions and sizes, which matter.
const shortestID = 10

// wordsOf is a text as it is compared: lower case, single blanks, no punctuation, # for a time or an id.
func wordsOf(text string) string {
	var b strings.Builder
	text = strings.ToLower(aTime().ReplaceAllString(text, " "))
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(word) >= shortestID && strings.ContainsFunc(word, unicode.IsDigit) {
			word = "#"
		}
		b.WriteString(word + " ")
	}
	return b.String()
}

// maxMemories is how much is kept about one service.
const maxMemories = 40

// forgetWeakest keeps the memory of a service bounded. What an operator said stays.
func forgetWeakest(ctx context.Context, tx db.Querier, m ops.Memory, at time.Time) error {
	all, err := db.List(ctx, tx, scanMemory, selectMemories+` WHERE m.environment = ? AND m.service = ? AND m.source <> ?
		ORDER BY m.id DESC`, m.Environment, m.Service, sourceOperator)
	if err != nil || len(all) <= maxMemories {
		return err
	}
	slices.SortStableFunc(all, func(a, b ops.Memory) int { return cmp.Compare(strength(b, at), strength(a, at)) })
	for _, weak := range all[maxMemories:] {
		if _, err := tx.ExecContext(ctx, `DELETE FROM memories WHERE id = ?`, weak.ID); err != nil {
			return err
		}
	}
	return nil
}

func insertMemory(ctx context.Context, tx db.Querier, m ops.Memory, at time.Time) (id int64, err error) {
	if m.CreatedAt.IsZero() {
		m.CreatedAt = at
	}
	if m.UpdatedAt.IsZero() {
		m.UpdatedAt = m.CreatedAt
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO memories (environment, category, service, observation, confidence, source, session_id,
		created_at, updated_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		m.Environment, m.Category, m.Service, m.Observation, cmp.Or(m.Confidence, firstConfidence), m.Source, db.OptID(m.SessionID),
		db.Time(m.CreatedAt), db.Time(m.UpdatedAt), db.OptTime(m.ExpiresAt)).Scan(&id)
	return id, err
}

func updateMemory(ctx context.Context, tx db.Querier, id int64, m ops.Memory, at time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE memories SET confidence = ?, source = ?, session_id = COALESCE(?, session_id),
		updated_at = ?, expires_at = ? WHERE id = ?`,
		m.Confidence, m.Source, db.OptID(m.SessionID), db.Time(at), db.OptTime(m.ExpiresAt), id)
	return err
}
