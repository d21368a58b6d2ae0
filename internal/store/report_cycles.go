package store

import (
	"context"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// CycleFilter chooses cycles; the zero value means all.
type CycleFilter struct {
	Status      ops.CycleStatus
	Environment string
	Before      ops.CycleID // only older ones: the last id of the page before
	Since       time.Time   // submitted since then
	Limit       int
}

// CycleSummary is a cycle with its sessions.
type CycleSummary struct {
	ops.Cycle
	Sessions []ops.Session
}

// Cycles returns a page of cycles with their sessions, newest first.
func (s *Reports) Cycles(ctx context.Context, f CycleFilter) ([]CycleSummary, error) {
	var w db.Filter
	w.Given(`c.status = ?`, f.Status)
	w.Given(`c.environment = ?`, f.Environment)
	w.Given(`c.id < ?`, f.Before)
	w.Given(`c.created_at >= ?`, f.Since)
	var out []CycleSummary
	err := s.db.Read(ctx, func(tx db.Querier) error {
		cycles, err := db.List(ctx, tx, scanCycle, selectCycles+w.Where()+` ORDER BY c.id DESC LIMIT ?`,
			append(w.Args, db.PageSize(f.Limit))...)
		if err != nil || len(cycles) == 0 {
			return err
		}
		out, err = withSessions(ctx, tx, cycles)
		return err
	})
	return ops.Returning(out, err, "list cycles")
}

// withSessions reads the sessions of a page of cycles in one query.
func withSessions(ctx context.Context, q db.Querier, cycles []ops.Cycle) ([]CycleSummary, error) {
	if len(cycles) == 0 {
		return nil, nil
	}
	out := make([]CycleSummary, len(cycles))
	at := make(map[ops.CycleID]int, len(cycles))
	ids := make([]any, len(cycles))
	for i, c := range cycles {
		out[i].Cycle = c
		at[c.ID] = i
		ids[i] = c.ID
	}
	marks := strings.Repeat(", ?", len(ids))[2:]
	sessions, err := db.List(ctx, q, scanSession, selectSessions+` WHERE s.cycle_id IN (`+marks+`) ORDER BY s.id`, ids...)
	if err != nil {
		return nil, err
	}
	for _, session := range sessions {
		c := &out[at[session.CycleID]]
		c.Sessions = append(c.Sessions, session)
	}
	return out, nil
}

// SessionFilter chooses sessions; the zero value means all.
type SessionFilter struct {
	Status      ops.SessionStatus
	Tier        ops.Tier
	Environment string
	Before      ops.SessionID // only older ones: the last id of the page before
	Since       time.Time     // queued since then
	At          time.Time     // running then
	Limit       int
}

// Sessions returns a page of sessions, newest first.
func (s *Reports) Sessions(ctx context.Context, f SessionFilter) ([]ops.Session, error) {
	var w db.Filter
	w.Given(`s.status = ?`, f.Status)
	w.Given(`s.tier = ?`, f.Tier)
	w.Given(`s.environment = ?`, f.Environment)
	w.Given(`s.id < ?`, f.Before)
	w.Given(`s.created_at >= ?`, f.Since)
	if !f.At.IsZero() {
		w.Add(`s.started_at <= ?`, db.Time(f.At))
		w.Add(`(s.ended_at IS NULL OR s.ended_at >= ?)`, db.Time(f.At))
	}
	out, err := db.List(ctx, s.db.Reader(), scanSession, selectSessions+w.Where()+` ORDER BY s.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	return ops.Returning(out, err, "list sessions")
}

// searchedCycles is how many cycles one page searches when no index helps. So a rare match does not make a page slow: the page
// says how far it searched, and the next one continues there.
const searchedCycles = 5000

// ChainFilter chooses cycles for a list; the zero value means all.
type ChainFilter struct {
	Status      ops.CycleStatus
	Environment string
	Trigger     ops.Trigger
	Tier        ops.Tier  // that the cycle reached
	Service     string    // that the cycle was about
	Text        string    // in its problem, its prompt or its reason
	Since       time.Time // submitted since then
	Before      ops.CycleID
	Limit       int
}

// ChainPage is a page of cycles with their sessions, newest first.
type ChainPage struct {
	Chains []CycleSummary
	// Next is where the following page begins; 0 when there is none.
	Next ops.CycleID
	// Searched is the oldest cycle that was looked at when that, and not the number of matches, ended the page.
	Searched ops.CycleID
}

// searched reports whether the filter has a condition that no index supports.
func (f ChainFilter) searched() bool {
	return f.Trigger != "" || f.Tier > 0 || f.Service != "" || f.Text != "" || !f.Since.IsZero()
}

func (f ChainFilter) where() db.Filter {
	var w db.Filter
	w.Given(`c.status = ?`, f.Status)
	w.Given(`c.environment = ?`, f.Environment)
	w.Given(`c.trigger = ?`, f.Trigger)
	w.Given(`c.created_at >= ?`, f.Since)
	w.Given(`EXISTS (SELECT 1 FROM sessions t WHERE t.cycle_id = c.id AND t.tier = ?)`, f.Tier)
	if f.Service != "" {
		w.Add(`(EXISTS (SELECT 1 FROM escalations d WHERE d.cycle_id = c.id AND LOWER(d.services) LIKE ? ESCAPE '\')
			OR EXISTS (SELECT 1 FROM events v WHERE v.cycle_id = c.id AND v.service = ?))`, db.Contains(`"`+f.Service+`"`), f.Service)
	}
	if f.Text != "" {
		text := db.Contains(f.Text)
		w.Add(`(LOWER(c.problem) LIKE ? ESCAPE '\' OR LOWER(c.prompt) LIKE ? ESCAPE '\' OR LOWER(c.reason) LIKE ? ESCAPE '\')`, text, text, text)
	}
	return w
}

// Chains returns a page of cycles with their sessions, newest first.
func (s *Reports) Chains(ctx context.Context, f ChainFilter) (ChainPage, error) {
	var out ChainPage
	limit := db.PageSize(f.Limit)
	w := f.where()
	err := s.db.Read(ctx, func(tx db.Querier) error {
		before := f.Before
		if before == 0 {
			newest, err := db.One(ctx, tx, db.ScanInt, `SELECT COALESCE(MAX(id), 0) FROM cycles`)
			if err != nil {
				return err
			}
			before = ops.CycleID(newest + 1)
		}
		w.Add(`c.id < ?`, before)
		lowest := ops.CycleID(1)
		if f.searched() {
			lowest = max(1, before-searchedCycles)
			w.Add(`c.id >= ?`, lowest)
		}
		cycles, err := db.List(ctx, tx, scanCycle, selectCycles+w.Where()+` ORDER BY c.id DESC LIMIT ?`, append(w.Args, limit+1)...)
		if err != nil {
			return err
		}
		switch {
		case len(cycles) > limit:
			cycles = cycles[:limit]
			out.Next = cycles[limit-1].ID
		case lowest > 1:
			if err := f.setNext(ctx, tx, lowest, &out); err != nil {
				return err
			}
		}
		if len(cycles) > 0 {
			out.Chains, err = withSessions(ctx, tx, cycles)
		}
		return err
	})
	return ops.Returning(out, err, "list chains")
}

// setNext sets where the next page continues, unless all older cycles are before Since.
func (f ChainFilter) setNext(ctx context.Context, q db.Querier, lowest ops.CycleID, out *ChainPage) error {
	if !f.Since.IsZero() {
		created, err := db.One(ctx, q, db.ScanString, `SELECT COALESCE(MAX(created_at), '') FROM cycles WHERE id = ?`, lowest)
		if err != nil || created < db.Time(f.Since) {
			return err
		}
	}
	out.Next, out.Searched = lowest, lowest
	return nil
}

// maxCycleIncidents bounds the incidents that the page of a cycle lists.
const maxCycleIncidents = 20

// CycleIncidents returns the incidents that a cycle worked on or waited for, newest first.
func (s *Reports) CycleIncidents(ctx context.Context, id ops.CycleID) ([]ops.Incident, error) {
	out, err := db.List(ctx, s.db.Reader(), scanIncident, selectIncidents+` WHERE i.id IN (
		SELECT incident_id FROM incident_cycles WHERE cycle_id = ?
			UNION SELECT incident_id FROM incident_waits WHERE cycle_id = ?) ORDER BY i.id DESC LIMIT ?`, id, id, maxCycleIncidents)
	return ops.Returning(out, err, "list incidents of cycle %d", id)
}

// CycleApprovals returns the questions to people in a cycle, oldest first.
func (s *Reports) CycleApprovals(ctx context.Context, id ops.CycleID) ([]ops.Approval, error) {
	out, err := db.List(ctx, s.db.Reader(), scanApproval, selectApprovals+` WHERE a.cycle_id = ? ORDER BY a.id`, id)
	return ops.Returning(out, err, "list approvals of cycle %d", id)
}

// RecordFilter says which part of the record is read, and where the last page ended.
type RecordFilter struct {
	Cycle  ops.CycleID // only this one; 0: all
	Before int64       // rows with a lower id; 0: from the newest
	Limit  int
}

// page is the end of a query for rows with that id, which the other condition finds by their cycle.
func (f RecordFilter) page(id, ofCycle string, more ...string) (query string, args []any) {
	var w db.Filter
	if f.Before > 0 {
		w.Add(id+` < ?`, f.Before)
	}
	if f.Cycle > 0 {
		w.Add(ofCycle, f.Cycle)
	}
	for _, cond := range more {
		w.Add(cond)
	}
	return w.Where() + ` ORDER BY ` + id + ` DESC LIMIT ?`, append(w.Args, f.Limit)
}

// Recorded returns cycles in which something was decided, the newest first, with their stored steps and decisions.
func (s *Reports) Recorded(ctx context.Context, f RecordFilter) (out []ops.Recorded, err error) {
	err = s.db.Read(ctx, func(tx db.Querier) error {
		out, err = recorded(ctx, tx, f)
		return err
	})
	return ops.Returning(out, err, "list recorded cycles")
}

func recorded(ctx context.Context, q db.Querier, f RecordFilter) ([]ops.Recorded, error) {
	page, args := f.page(`c.id`, `c.id = ?`,
		`c.started_at IS NOT NULL AND (c.ended_at IS NOT NULL OR EXISTS (SELECT 1 FROM steps WHERE cycle_id = c.id))`)
	out, err := db.List(ctx, q, func(r db.Row, c *ops.Recorded) error {
		return r.Scan(&c.ID, &c.Environment, db.ToJSON(&c.Options), db.ToTime(&c.At))
	}, `SELECT c.id, c.environment, c.options, c.created_at FROM cycles c`+page, args...)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	of := make(map[ops.CycleID]*ops.Recorded, len(out))
	for i := range out {
		of[out[i].ID] = &out[i]
	}
	first, last := out[len(out)-1].ID, out[0].ID
	_, err = db.List(ctx, q, func(r db.Row, id *ops.CycleID) error {
		var s ops.RecordedStep
		err := r.Scan(id, &s.N, &s.Facts)
		if err == nil && of[*id] != nil {
			of[*id].Steps = append(of[*id].Steps, s)
		}
		return err
	}, `SELECT cycle_id, n, facts FROM steps WHERE cycle_id BETWEEN ? AND ? ORDER BY cycle_id, n`, first, last)
	if err != nil {
		return nil, err
	}
	_, err = db.List(ctx, q, func(r db.Row, d *ops.RecordedDecision) error {
		err := scanDecision(longerRow{r, []any{&d.Family}}, &d.Decision)
		if err == nil && of[d.CycleID] != nil {
			of[d.CycleID].Decisions = append(of[d.CycleID].Decisions, *d)
		}
		return err
	}, decisionColumns+`, COALESCE(s.family, '') FROM escalations e LEFT JOIN sessions s ON s.id = e.session_id
		WHERE e.cycle_id BETWEEN ? AND ? ORDER BY e.id`, first, last)
	return out, err
}

// JudgedCall is a judgement of the guard with the environment of its cycle.
type JudgedCall struct {
	ops.GuardRecord
	Environment string
}

// JudgedCalls returns judgements of the guard, the newest first.
func (s *Reports) JudgedCalls(ctx context.Context, f RecordFilter) ([]JudgedCall, error) {
	page, args := f.page(`g.id`, `g.session_id IN (SELECT id FROM sessions WHERE cycle_id = ?)`)
	out, err := db.List(ctx, s.db.Reader(), func(r db.Row, x *JudgedCall) error {
		return scanGuard(longerRow{r, []any{&x.Environment}}, &x.GuardRecord)
	}, guardColumns+`, c.environment FROM guard_decisions g JOIN cycles c ON c.id = g.cycle_id`+page, args...)
	return ops.Returning(out, err, "list judged calls")
}
