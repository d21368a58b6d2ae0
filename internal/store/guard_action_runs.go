package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const actionColumns = `r.id, r.environment, r.service, r.action, r.kind, r.tier, r.cycle_id, r.session_id, r.person, r.why,
	COALESCE(r.approval_id, 0), r.step, COALESCE(r.undo_of, 0), r.automatic, r.status, r.does, r.digest, r.branch, r.commit_id, r.version,
	r.states_before, r.states_after, r.output, r.error, r.owner, r.term, r.requested_at, r.started_at, r.ended_at, r.reflex,
	COALESCE((SELECT MAX(u.id) FROM action_runs u WHERE u.undo_of = r.id AND u.status = 'done'), 0)`

const selectActions = `SELECT ` + actionColumns + ` FROM action_runs r`

func scanAction(row db.Row, r *ops.ActionRun) error {
	return row.Scan(&r.ID, &r.Environment, &r.Service, &r.Action, &r.Kind, &r.Tier, &r.CycleID, &r.SessionID, &r.Person, &r.Why,
		&r.ApprovalID, &r.Step, &r.UndoOf, &r.Automatic, &r.Status, &r.Does, &r.Digest, &r.Branch, &r.Commit, &r.Version,
		db.ToJSON(&r.Before), db.ToJSON(&r.After), db.ToText(&r.Output), &r.Error, &r.Owner, &r.Term,
		db.ToTime(&r.RequestedAt), db.ToOptTime(&r.StartedAt), db.ToOptTime(&r.EndedAt), &r.Reflex, &r.UndoneBy)
}

// ActionFilter chooses runs of actions; the zero value means all.
type ActionFilter struct {
	Environment string
	Service     string
	Status      ops.ActionStatus
	CycleID     *ops.CycleID
	SessionID   *ops.SessionID
	Before      int64 // only older ones: the last id of the page before
	Limit       int
}

// ActionRuns returns a page of runs, newest first.
func (s *Acts) ActionRuns(ctx context.Context, f ActionFilter) ([]ops.ActionRun, error) {
	var w db.Filter
	w.Given(`r.environment = ?`, f.Environment)
	w.Given(`r.service = ?`, f.Service)
	w.Given(`r.status = ?`, f.Status)
	w.Given(`r.cycle_id = ?`, f.CycleID)
	w.Given(`r.session_id = ?`, f.SessionID)
	w.Given(`r.id < ?`, f.Before)
	out, err := db.List(ctx, s.db.Reader(), scanAction, selectActions+w.Where()+` ORDER BY r.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	return ops.Returning(out, err, "list actions")
}

// ActionRun returns one run.
func (s *Acts) ActionRun(ctx context.Context, id int64) (ops.ActionRun, error) {
	r, err := actionByID(ctx, s.db.Reader(), id)
	return ops.Returning(r, err, "read action %d", id)
}

func actionByID(ctx context.Context, q db.Querier, id int64) (ops.ActionRun, error) {
	return db.One(ctx, q, scanAction, selectActions+` WHERE r.id = ?`, id)
}

// LastVersion returns the newest image that a container of the service had before an action and that is not the current one.
func (s *Acts) LastVersion(ctx context.Context, environment, service, current string) (string, error) {
	v, err := db.One(ctx, s.db.Reader(), db.ScanString, `SELECT version FROM action_runs
		WHERE environment = ? AND service = ? AND version <> '' AND version <> ? ORDER BY id DESC LIMIT 1`, environment, service, current)
	if err != nil && !errors.Is(err, ops.ErrNotFound) {
		return "", fmt.Errorf("read earlier version of %s: %w", service, err)
	}
	return v, nil
}

// RequestAction records that a person wants an action to be done, or a run to be undone. The daemon takes it from there.
func (s *Acts) RequestAction(ctx context.Context, r ops.ActionRun, at time.Time) (ops.ActionRun, error) {
	at = s.orNow(at)
	err := s.db.Write(ctx, "request_action", func(tx db.Querier) error {
		r.Status, r.RequestedAt = ops.ActionRequested, at
		var err error
		if r.ID, err = insertAction(ctx, tx, r); err != nil {
			return err
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Environment: r.Environment, CycleID: r.CycleID, Level: ops.LevelInfo, Verb: ops.VerbActionAsked, Actor: ops.Person(r.Person),
			Subject: ops.About(ops.SubjectAction, r.ID), Reason: r.Why, Service: r.Service,
			Detail: ops.ActionDetail{Action: r.Action, UndoOf: r.UndoOf},
		}, at)
	})
	return ops.Returning(r, err, "request action %s of %s", r.Action, r.Service)
}

// RequestedActions returns what people have asked for in these environments, oldest first.
func (s *Acts) RequestedActions(ctx context.Context, environments []string) ([]ops.ActionRun, error) {
	all, err := db.List(ctx, s.db.Reader(), scanAction, selectActions+` WHERE r.status = ? ORDER BY r.id`, ops.ActionRequested)
	if err != nil {
		return nil, fmt.Errorf("list requested actions: %w", err)
	}
	return slices.DeleteFunc(all, func(r ops.ActionRun) bool { return !slices.Contains(environments, r.Environment) }), nil
}

// RefuseAction ends a request that is not carried out. One that was taken meanwhile is ops.ErrConflict.
func (s *Acts) RefuseAction(ctx context.Context, id int64, reason string, at time.Time) error {
	at = s.orNow(at)
	err := s.db.Write(ctx, "refuse_action", func(tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE action_runs SET status = ?, error = ?, ended_at = ? WHERE id = ? AND status = ?`,
			ops.ActionRefused, reason, db.Time(at), id, ops.ActionRequested))
		if err == nil && !ok {
			err = ops.NewConflict(ops.ConflictTaken, "it was taken or withdrawn")
		}
		return err
	})
	return ops.Wrapped(err, "refuse action %d", id)
}

// The origins of a commit.
const (
	originOperator = "operator"
	originAgent    = "agent"
	originApproved = "approved"
)

// NoteCommit records a commit that is checked out in a repository of this host, or that a session made. What is known of it stays; one of
// the operator's that is checked out again is the newest.
func (s *Acts) NoteCommit(ctx context.Context, host, repo, commit string, agent bool, at time.Time) error {
	at = s.orNow(at)
	origin := originOperator
	if agent {
		origin = originAgent
	}
	err := s.db.Write(ctx, "note_commit", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO repo_commits (host, repo, commit_id, origin, at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (host, repo, commit_id) DO UPDATE SET at = CASE WHEN excluded.origin = ? AND repo_commits.origin <> ?
				THEN excluded.at ELSE repo_commits.at END`, host, repo, commit, origin, db.Time(at), originOperator, originAgent)
		return err
	})
	return ops.Wrapped(err, "record commit of %s", repo)
}

// CommitOrigin says who made a commit; empty if it is not known.
func (s *Acts) CommitOrigin(ctx context.Context, host, repo, commit string) (string, error) {
	origin, err := db.One(ctx, s.db.Reader(), db.ScanString, `SELECT origin FROM repo_commits WHERE host = ? AND repo = ? AND commit_id = ?`,
		host, repo, commit)
	if err != nil && !errors.Is(err, ops.ErrNotFound) {
		return "", fmt.Errorf("read who made a commit of %s: %w", repo, err)
	}
	return origin, nil
}

// TrustedCommit returns the newest commit of a repository that no agent made or that a person approved.
func (s *Acts) TrustedCommit(ctx context.Context, host, repo string) (string, error) {
	c, err := db.One(ctx, s.db.Reader(), db.ScanString, `SELECT commit_id FROM repo_commits WHERE host = ? AND repo = ? AND origin <> ?
		ORDER BY at DESC, id DESC LIMIT 1`, host, repo, originAgent)
	return ops.Returning(c, err, "read trusted commit of %s", repo)
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
		return s.insertEvent(ctx, tx, ops.Event{
			Level: ops.LevelWarning, Verb: ops.VerbCommitApproved, Actor: ops.Person(by),
			Detail: ops.CommitDetail{Repo: repo, Commit: commit},
		}, at)
	})
	return ops.Wrapped(err, "approve commit of %s", repo)
}

// searchedDecisions is how many decisions one page searches, because no index supports the filters.
const searchedDecisions = 20_000

// GuardFilter chooses decisions of the guard; the zero value means all.
type GuardFilter struct {
	Verdict string // allow or deny
	Tier    ops.Tier
	Rule    string // the whole name, or its beginning
	Service string // named in the command or in the reason
	Before  int64  // only older ones: the last id of the page before
	Limit   int
}

// GuardPage is a page of decisions, newest first.
type GuardPage struct {
	Records []ops.GuardRecord
	Next    int64 // where the following page begins; 0 when there is none
}

// GuardList returns a page of the guard's decisions in all sessions.
func (s *Acts) GuardList(ctx context.Context, f GuardFilter) (GuardPage, error) {
	var out GuardPage
	var w db.Filter
	w.Given(`g.verdict = ?`, f.Verdict)
	w.Given(`g.tier = ?`, f.Tier)
	if f.Rule != "" {
		w.Add(`LOWER(g.rule) LIKE ? ESCAPE '\'`, db.Contains(f.Rule)[1:])
	}
	if f.Service != "" {
		w.Add(`(LOWER(g.input) LIKE ? ESCAPE '\' OR LOWER(g.reason) LIKE ? ESCAPE '\')`, db.Contains(f.Service), db.Contains(f.Service))
	}
	limit := db.PageSize(f.Limit)
	err := s.db.Read(ctx, func(tx db.Querier) error {
		before := f.Before
		if before == 0 {
			newest, err := db.One(ctx, tx, db.ScanInt, `SELECT COALESCE(MAX(id), 0) FROM guard_decisions`)
			if err != nil {
				return err
			}
			before = newest + 1
		}
		lowest := max(1, before-searchedDecisions)
		w.Add(`g.id < ? AND g.id >= ?`, before, lowest)
		var err error
		out.Records, err = db.List(ctx, tx, scanGuard, selectGuard+w.Where()+` ORDER BY g.id DESC LIMIT ?`, append(w.Args, limit+1)...)
		if err != nil {
			return err
		}
		if len(out.Records) > limit {
			out.Records = out.Records[:limit]
			out.Next = out.Records[limit-1].ID
			return nil
		}
		older, err := db.One(ctx, tx, db.ScanInt, `SELECT COALESCE(MAX(id), 0) FROM guard_decisions WHERE id < ?`, lowest)
		if older > 0 {
			out.Next = lowest
		}
		return err
	})
	return ops.Returning(out, err, "list decisions of the guard")
}
