package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// The verdicts as they are stored.
const (
	verdictAllow = "allow"
	verdictDeny  = "deny"
)

// The rules of the refusals that the database decides.
const (
	ruleCooldown   = "cooldown"
	ruleUnreserved = "cooldown.unreserved"
)

const guardColumns = `SELECT g.id, g.at, g.cycle_id, g.session_id, g.tier, g.gate, g.tool_use_id, g.tool, g.input, g.digest,
	g.verdict, g.rule, g.reason, g.mutating, g.took_us`

const selectGuard = guardColumns + ` FROM guard_decisions g`

func scanGuard(r db.Row, g *ops.GuardRecord) error {
	var verdict string
	var took int64
	err := r.Scan(&g.ID, db.ToTime(&g.At), &g.CycleID, &g.SessionID, &g.Tier, &g.Gate, &g.ToolUseID, &g.Tool, &g.Input, &g.Digest,
		&verdict, &g.Rule, &g.Reason, &g.Mutating, &took)
	g.Allowed, g.Took = verdict == verdictAllow, time.Duration(took)*time.Microsecond
	return err
}

// RecordGuard records a judgement and, where it allows something, reserves the wanted actions in the same transaction. The
// returned record is the answer to give: if a limit is reached it is a refusal, and nothing is reserved. A connection that is cut is
// replaced and the question asked again until ctx ends. With an error the caller must refuse.
func (s *Acts) RecordGuard(ctx context.Context, owner ops.Owner, r ops.GuardRecord, want []ops.Reservation,
	limits []ops.CooldownLimit,
) (ops.GuardRecord, error) {
	now := s.moment(r.At)
	r.At, r.Took = now.at, r.Took.Truncate(time.Microsecond)
	for again := false; ; again = true {
		saved, err := s.recordGuard(ctx, owner, r, want, limits, now, again)
		if err == nil {
			return saved, nil
		}
		if !db.ConnectionLost(err) || !ops.Pause(ctx, retryGuard) {
			return ops.GuardRecord{}, fmt.Errorf("record guard decision of %s in session %d: %w", r.Tool, r.SessionID, err)
		}
	}
}

// retryGuard is the time between two attempts to record a judgement.
const retryGuard = 100 * time.Millisecond

// recordGuard is one attempt. A later one first looks whether an earlier one was written although its answer was lost.
func (s *Acts) recordGuard(ctx context.Context, owner ops.Owner, r ops.GuardRecord, want []ops.Reservation, limits []ops.CooldownLimit,
	now moment, again bool,
) (ops.GuardRecord, error) {
	err := s.db.WriteIn(ctx, "record_guard", db.OfSession(r.SessionID), func(tx db.Querier) error {
		db.Reaches(tx, ops.ReachPages)
		cycle, err := fenceRunning(ctx, tx, owner, r.SessionID)
		if err != nil {
			return err
		}
		r.CycleID = cycle.id
		if again {
			written, err := db.One(ctx, tx, scanGuard, selectGuard+` WHERE g.session_id = ? AND g.at = ? AND g.gate = ? AND g.tool_use_id = ?
				AND g.digest = ? ORDER BY g.id LIMIT 1`, r.SessionID, db.Time(r.At), r.Gate, r.ToolUseID, r.Digest)
			if !errors.Is(err, ops.ErrNotFound) {
				r = written
				return err
			}
		}
		if r.Allowed && len(want) > 0 {
			pass := reserving{tx: tx, environment: cycle.environment, record: r, limits: limits, now: now, taken: map[int64]bool{}}
			reason, err := pass.all(ctx, want)
			if err != nil {
				return fmt.Errorf("reserve: %w", err)
			}
			if reason != "" {
				r.Allowed, r.Rule, r.Reason = false, pass.rule(), reason
			}
		}
		if !r.Allowed && r.Gate == ops.GateShell && r.ToolUseID != "" {
			if err := releaseActions(ctx, tx, r); err != nil {
				return err
			}
		}
		if err := db.OrderFeed(ctx, tx, db.FeedGuard); err != nil {
			return err
		}
		r.ID, err = insertGuard(ctx, tx, r)
		return err
	})
	return r, err
}

// fenceRunning is fenceSession for a write that needs a running session.
func fenceRunning(ctx context.Context, tx db.Querier, owner ops.Owner, id ops.SessionID) (held, error) {
	cycle, err := fenceSession(ctx, tx, owner, id)
	if err == nil {
		err = cycle.running()
	}
	if err == nil && cycle.session != ops.SessionRunning {
		err = ops.NewConflict(ops.ConflictState, "the session is %s", cycle.session)
	}
	return cycle, err
}

func insertGuard(ctx context.Context, tx db.Querier, r ops.GuardRecord) (int64, error) {
	verdict := verdictDeny
	if r.Allowed {
		verdict = verdictAllow
	}
	var id int64
	err := tx.QueryRowContext(ctx, `INSERT INTO guard_decisions (at, cycle_id, session_id, tier, gate, tool_use_id, tool, digest,
		verdict, rule, mutating, took_us, reason, input) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		db.Time(r.At), r.CycleID, r.SessionID, r.Tier, r.Gate, r.ToolUseID, r.Tool, r.Digest,
		verdict, r.Rule, r.Mutating, r.Took.Microseconds(), r.Reason, r.Input).Scan(&id)
	return id, err
}

// GuardDecisions returns the judgements of a session, oldest first.
func (s *Acts) GuardDecisions(ctx context.Context, session ops.SessionID) ([]ops.GuardRecord, error) {
	out, err := db.List(ctx, s.db.Reader(), scanGuard, selectGuard+` WHERE g.session_id = ? ORDER BY g.id`, session)
	return ops.Returning(out, err, "list judgements of session %d", session)
}

// HandoffCalls returns the judgements of the calls of a session that name a handoff file, oldest first.
func (s *Acts) HandoffCalls(ctx context.Context, session ops.SessionID) ([]ops.GuardRecord, error) {
	out, err := db.List(ctx, s.db.Reader(), scanGuard, selectGuard+` WHERE g.session_id = ? AND g.input LIKE '%handoff.json%'
		ORDER BY g.id`, session)
	return ops.Returning(out, err, "list handoff calls of session %d", session)
}

// maxDenials bounds how many refusals a page has to hold.
const maxDenials = 500

// Refusals returns the newest calls of a session that did not run: what the guard refused, and then what the agent's own program did.
func (s *Acts) Refusals(ctx context.Context, session ops.SessionID) (ops.Refusals, error) {
	out, err := s.guardPage(ctx, session, verdictDeny, maxDenials)
	if err != nil {
		return nil, err
	}
	own, err := db.List(ctx, s.db.Reader(), func(r db.Row, g *ops.GuardRecord) error {
		*g = ops.GuardRecord{SessionID: session, Rule: "cli", Reason: "The agent's own program refused it."}
		var detail []byte
		if err := r.Scan(db.ToTime(&g.At), &detail); err != nil {
			return err
		}
		read, err := ops.VerbPermissionWarned.Read(detail)
		if d, ok := read.(ops.WallDetail); ok {
			g.Tool, g.Input, g.ToolUseID = d.What, d.Input, d.Call
		}
		return err
	}, `SELECT at, detail FROM events WHERE session_id = ? AND verb = ? ORDER BY id LIMIT ?`, session, ops.VerbPermissionWarned, maxDenials)
	if err != nil {
		return nil, fmt.Errorf("list what the program of session %d refused: %w", session, err)
	}
	return append(out, own...), nil
}

// GuardSummary are the judgements of a session as far as a page shows them.
type GuardSummary struct {
	Allowed, Denied int
	Records         []ops.GuardRecord // refusals and the newest permissions, oldest first
}

// guardPage returns the newest judgements of one kind, oldest first.
func (s *Acts) guardPage(ctx context.Context, session ops.SessionID, verdict string, limit int) ([]ops.GuardRecord, error) {
	out, err := db.List(ctx, s.db.Reader(), scanGuard, `SELECT * FROM (`+selectGuard+` WHERE g.session_id = ? AND g.verdict = ?
		ORDER BY g.id DESC LIMIT ?) newest ORDER BY 1`, session, verdict, limit)
	return ops.Returning(out, err, "list judgements of session %d", session)
}

// GuardSummary returns the refusals and the newest permissions of a session, at most limit of each.
func (s *Acts) GuardSummary(ctx context.Context, session ops.SessionID, limit int) (GuardSummary, error) {
	var out GuardSummary
	err := s.db.Reader().QueryRowContext(ctx, `SELECT COALESCE(SUM(CASE WHEN verdict = ? THEN 1 ELSE 0 END), 0), COUNT(*)
		FROM guard_decisions WHERE session_id = ?`, verdictAllow, session).Scan(&out.Allowed, &out.Denied)
	if err != nil {
		return out, fmt.Errorf("count judgements of session %d: %w", session, err)
	}
	out.Denied -= out.Allowed
	for _, verdict := range []string{verdictDeny, verdictAllow} {
		records, err := s.guardPage(ctx, session, verdict, limit)
		if err != nil {
			return out, err
		}
		out.Records = append(out.Records, records...)
	}
	return out, nil
}

// CallCounts are the tool calls of a session that the guard saw, and those it refused.
type CallCounts struct {
	Calls, Refusals int64
}

// CycleCalls counts what the guard saw of each session of a cycle. A session of which it saw nothing is missing.
func (s *Acts) CycleCalls(ctx context.Context, cycle ops.CycleID) (map[ops.SessionID]CallCounts, error) {
	type counted struct {
		session              ops.SessionID
		hooked, all, refused int64
	}
	counts, err := db.List(ctx, s.db.Reader(), func(r db.Row, c *counted) error {
		return r.Scan(&c.session, &c.hooked, &c.all, &c.refused)
	}, `SELECT g.session_id, COALESCE(SUM(CASE WHEN g.gate = ? THEN 1 ELSE 0 END), 0), COUNT(*),
		COALESCE(SUM(CASE WHEN g.verdict = ? THEN 1 ELSE 0 END), 0)
		FROM guard_decisions g WHERE g.session_id IN (SELECT id FROM sessions WHERE cycle_id = ?) GROUP BY g.session_id`,
		ops.GateHook, verdictDeny, cycle)
	if err != nil {
		return nil, fmt.Errorf("count calls of cycle %d: %w", cycle, err)
	}
	out := map[ops.SessionID]CallCounts{}
	for _, c := range counts {
		if c.hooked == 0 {
			c.hooked = c.all // an agent without the hook is seen by the shell alone
		}
		out[c.session] = CallCounts{Calls: c.hooked, Refusals: c.refused}
	}
	return out, nil
}

// maxEffects is how many judgements of a kind the next attempt is given.
const maxEffects = 20

// judgements are what the gates said of the sessions of a cycle.
type judgements struct {
	asked  []int64 // the sessions that asked them
	judged []ops.GuardRecord
}

func (j *judgements) ofCycle(cycle ops.CycleID) []db.Part {
	return []db.Part{
		db.Into(&j.asked, db.ScanInt, `SELECT DISTINCT session_id FROM guard_decisions
			WHERE session_id IN (SELECT id FROM sessions WHERE cycle_id = ?)`, cycle),
		db.Into(&j.judged, scanGuard, selectGuard+` WHERE g.session_id IN (SELECT id FROM sessions WHERE cycle_id = ?)
			AND (g.verdict = ? OR g.mutating) ORDER BY g.id`, cycle, verdictDeny),
	}
}

// effects are what the gates let sessions change, and what they refused. A tool call that passed both gates is listed once, as the first
// gate saw it; one that the second refused changed nothing.
func (j *judgements) effects() map[ops.SessionID]ops.Effects {
	if len(j.asked) == 0 {
		return nil
	}
	type call struct {
		session ops.SessionID
		use     string
	}
	notified := map[call]bool{}
	out := map[ops.SessionID]ops.Effects{}
	for _, id := range j.asked {
		out[ops.SessionID(id)] = ops.Effects{}
	}
	for _, g := range j.judged {
		e := out[g.SessionID]
		key := call{g.SessionID, g.ToolUseID}
		switch {
		case !g.Allowed:
			e.Denied = append(e.Denied, g)
			if g.Rule == ops.RuleAttack && e.Attack == nil {
				e.Attack = &g
			}
		case g.ToolUseID != "" && notified[key]:
		default:
			notified[key] = true
			e.Done = append(e.Done, g)
		}
		out[g.SessionID] = e
	}
	for id, e := range out {
		e.Done = ops.Refusals(e.Denied).Ran(e.Done)
		e.Mutating, e.Done, e.Denied = len(e.Done) > 0, latest(e.Done), latest(e.Denied)
		out[id] = e
	}
	return out
}

func latest(records []ops.GuardRecord) []ops.GuardRecord {
	return records[max(0, len(records)-maxEffects):]
}

// Effects reads what the gates let one session change, and what they refused.
func (s *Acts) Effects(ctx context.Context, id ops.SessionID) (ops.Effects, error) {
	session, err := db.One(ctx, s.db.Reader(), scanSession, selectSessions+` WHERE s.id = ?`, id)
	if err != nil {
		return ops.Effects{}, ops.Wrapped(err, "read session %d", id)
	}
	var found judgements
	if err := db.Together(ctx, s.db.Reader(), found.ofCycle(session.CycleID)...); err != nil {
		return ops.Effects{}, fmt.Errorf("read effects of session %d: %w", id, err)
	}
	return found.effects()[id], nil
}

// Trial is what the last trial of an agent program of a host found; ErrNotFound where there was none.
func (s *Acts) Trial(ctx context.Context, host, agent string) (ops.Trial, error) {
	t, err := db.One(ctx, s.db.Reader(), func(r db.Row, t *ops.Trial) error {
		t.Agent = agent
		return r.Scan(&t.Identity, &t.Program, &t.Version, &t.Held, &t.Command, &t.File, db.ToTime(&t.At))
	}, `SELECT identity, program, version, held, command, file, at FROM agent_trials WHERE host = ? AND agent = ?`, host, agent)
	return ops.Returning(t, err, "read trial of %s", agent)
}

// SetTrial records what a trial found, in the place of the one before.
func (s *Acts) SetTrial(ctx context.Context, host string, t ops.Trial) error {
	err := s.db.Write(ctx, "set_trial", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO agent_trials (host, agent, identity, program, version, held, command, file, at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (host, agent) DO UPDATE SET identity = excluded.identity, program = excluded.program,
			version = excluded.version, held = excluded.held, command = excluded.command, file = excluded.file, at = excluded.at`,
			host, t.Agent, t.Identity, t.Program, t.Version, t.Held, t.Command, t.File, db.Time(t.At))
		return err
	})
	return ops.Wrapped(err, "record trial of %s", t.Agent)
}
