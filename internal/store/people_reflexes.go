package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// selectEarned counts a cycle as helped if the reflex resolved it and nothing has refuted that since.
const selectEarned = `SELECT f.id, f.service, f.probe, f.type, f.status, f.class, f.actions, f.digests, f.environment, f.state, f.cycles,
	f.person, f.why, f.asked_at, f.changed_at,
	(SELECT COUNT(DISTINCT r.cycle_id) FROM action_runs r WHERE r.reflex = 'earned ' || f.id AND r.status <> 'refused'),
	(SELECT COUNT(DISTINCT r.cycle_id) FROM action_runs r JOIN cycles c ON c.id = r.cycle_id
		WHERE r.reflex = 'earned ' || f.id AND c.verified_by = 'reflex' AND c.refuted_at IS NULL) FROM reflexes f`

func scanEarned(row db.Row, e *ops.Earned) error {
	return scanReflex(longerRow{row, []any{
		&e.Environment, &e.State, db.ToJSON(&e.Cycles), &e.Person, &e.Why, db.ToTime(&e.AskedAt), db.ToTime(&e.ChangedAt), &e.Done, &e.Helped,
	}}, &e.Reflex)
}

// Reflexes returns the earned reflexes of an environment, in the order in which they were earned.
func (s *People) Reflexes(ctx context.Context, environment string) ([]ops.Earned, error) {
	out, err := db.List(ctx, s.db.Reader(), scanEarned, selectEarned+` WHERE f.environment = ? ORDER BY f.id`, environment)
	return ops.Returning(out, err, "list reflexes of %s", environment)
}

// Reflex returns one earned reflex.
func (s *People) Reflex(ctx context.Context, id int64) (ops.Earned, error) {
	out, err := db.One(ctx, s.db.Reader(), scanEarned, selectEarned+` WHERE f.id = ?`, id)
	return ops.Returning(out, err, "read reflex %d", id)
}

// SwitchReflex records that a person switched an earned reflex on or off. Its actions are run exactly as they are configured then. Who
// answers the question about it comes too late if it is answered, or if the supervisor has withdrawn it.
func (s *People) SwitchReflex(ctx context.Context, e ops.Earned) error {
	at := s.orNow(e.ChangedAt)
	err := s.answer(ctx, "switch_reflex", func(tx db.Querier) (ops.CycleID, string, error) {
		now, err := db.One(ctx, tx, scanEarned, selectEarned+` WHERE f.id = ?`, e.ID)
		if err == nil && (now.State == e.State || s.reply != nil && now.State != ops.ReflexAsked) {
			err = ops.Answered(now.Person, "switched it "+string(now.State), now.ChangedAt)
		}
		if err == nil {
			err = s.switchReflex(ctx, tx, e, at)
		}
		return 0, e.Environment, err
	})
	return ops.Wrapped(err, "switch reflex %d", e.ID)
}

func (s *kernel) switchReflex(ctx context.Context, tx db.Querier, e ops.Earned, at time.Time) error {
	err := db.Exec(ctx, tx, `UPDATE reflexes SET state = ?, digests = ?, person = ?, why = ?, changed_at = ? WHERE id = ?`,
		e.State, db.JSON(db.OrEmpty(e.Digests)), e.Person, e.Why, db.Time(at), e.ID)
	if err != nil {
		return err
	}
	return s.insertEvent(ctx, tx, ops.Event{
		Environment: e.Environment, Level: ops.LevelInfo, Verb: ops.VerbReflexSwitched, Actor: ops.Person(e.Person),
		Subject: ops.About(ops.SubjectReflex, e.ID), Reason: e.Why, Service: e.Service, Detail: ops.ReflexDetail{Does: e.Words(), State: e.State},
	}, at)
}

// earn records a repair by actions of the supervisor.
func earn(ctx context.Context, tx db.Querier, cycle held, r ops.Repair, at time.Time) error {
	return db.Exec(ctx, tx, `INSERT INTO repairs (environment, service, probe, type, status, class, actions, cycle_id, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		cycle.environment, r.Service, r.Probe, r.Type, r.Status, r.Class, db.JSON(r.Actions), cycle.id, db.Time(at))
}

// fromRepairs are the repairs that count: those that have held on probation and of which nothing was undone.
const fromRepairs = ` FROM repairs p JOIN cycles c ON c.id = p.cycle_id WHERE p.at <= ? AND c.refuted_at IS NULL
	AND NOT EXISTS (SELECT 1 FROM action_runs r WHERE r.cycle_id = p.cycle_id AND r.status = ?)`

// AskForReflexes asks people, once, whether what repaired the same failure by the same actions often enough becomes a reflex. It
// reports whether it asked.
func (s *People) AskForReflexes(ctx context.Context, at time.Time) (asked bool, err error) {
	held := db.Time(at.Add(-ops.Probation))
	const failure = `p.environment, p.service, p.probe, p.type, p.status, p.class, p.actions`
	all, err := db.List(ctx, s.db.Reader(), scanEarner, `SELECT `+failure+fromRepairs+`
		AND NOT EXISTS (SELECT 1 FROM reflexes f WHERE f.environment = p.environment AND f.service = p.service AND f.probe = p.probe
			AND f.class = p.class AND f.actions = p.actions)
		GROUP BY `+failure+` HAVING COUNT(*) >= ?`,
		held, ops.ActionUndone, ops.Earnings)
	for n := 0; err == nil && n < len(all); n++ {
		err = s.db.WriteIn(ctx, "ask_for_reflex", db.InEnvironment(all[n].environment), func(tx db.Querier) error {
			done, err := s.askFor(ctx, tx, all[n], held, at)
			asked = asked || done
			return err
		})
	}
	return ops.Returning(asked, err, "ask for reflexes")
}

// earner is a failure with what repaired it, as it is stored.
type earner struct{ environment, service, probe, kind, status, class, actions string }

func scanEarner(r db.Row, e *earner) error {
	return r.Scan(&e.environment, &e.service, &e.probe, &e.kind, &e.status, &e.class, &e.actions)
}

// askFor makes the reflex and asks about it, unless people were asked before.
func (s *kernel) askFor(ctx context.Context, tx db.Querier, e earner, held string, at time.Time) (bool, error) {
	ids, err := db.List(ctx, tx, db.ScanInt, `SELECT p.cycle_id`+fromRepairs+` AND p.environment = ? AND p.service = ? AND p.probe = ?
		AND p.class = ? AND p.status = ? AND p.actions = ? ORDER BY p.id DESC LIMIT ?`,
		held, ops.ActionUndone, e.environment, e.service, e.probe, e.class, e.status, e.actions, ops.Earnings)
	if err != nil || len(ids) < ops.Earnings {
		return false, err
	}
	slices.Sort(ids)
	var id int64
	err = tx.QueryRowContext(ctx, `INSERT INTO reflexes (environment, service, probe, type, status, class, actions, digests, state, cycles,
		asked_at, changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, '[]', ?, ?, ?, ?)
		ON CONFLICT (environment, service, probe, class, actions) DO NOTHING RETURNING id`,
		e.environment, e.service, e.probe, e.kind, e.status, e.class, e.actions, ops.ReflexAsked, db.JSON(ids), db.Time(at), db.Time(at)).
		Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	earned, err := db.One(ctx, tx, scanEarned, selectEarned+` WHERE f.id = ?`, id)
	if err != nil {
		return false, err
	}
	text, last := s.words.ReflexEarned(earned), earned.Cycles[len(earned.Cycles)-1]
	err = queueNotice(ctx, tx, ops.Notice{
		CycleID: &last, Kind: ops.NoticeTrust, Level: ops.LevelInfo, Title: text.Title, Body: text.Body, Key: earned.Key(),
		Environment: e.environment, Service: e.service,
	}, at)
	if err != nil {
		return false, err
	}
	return true, s.insertEvent(ctx, tx, ops.Event{
		CycleID: &last, Environment: e.environment, Level: ops.LevelInfo, Verb: ops.VerbReflexAsked, Service: e.service,
		Subject: ops.About(ops.SubjectReflex, earned.ID), Detail: ops.ReflexDetail{Does: earned.Words(), State: earned.State},
	}, at)
}

// doubtReflexes switches the earned reflexes of a service off that a cycle speaks against: it is one of their origins, or they were done
// in it.
func (s *kernel) doubtReflexes(ctx context.Context, tx db.Querier, cycle ops.CycleID, service, why string, at time.Time) error {
	all, err := db.List(ctx, tx, scanEarned, selectEarned+` WHERE f.service = ? AND f.state <> ? AND f.environment =
		(SELECT environment FROM cycles WHERE id = ?)`, service, ops.ReflexIsOff, cycle)
	if err != nil || len(all) == 0 {
		return err
	}
	done, err := db.List(ctx, tx, db.ScanString, `SELECT reflex FROM action_runs WHERE cycle_id = ? AND reflex <> ''`, cycle)
	if err != nil {
		return err
	}
	for _, e := range all {
		if !slices.Contains(e.Cycles, cycle) && !slices.Contains(done, e.Key()) {
			continue
		}
		if err := switchOff(ctx, tx, []ops.ReflexOff{{ID: e.ID, Why: why}}, at); err != nil {
			return err
		}
		err := s.insertEvent(ctx, tx, ops.Event{
			CycleID: &cycle, Environment: e.Environment, Level: ops.LevelWarning, Verb: ops.VerbReflexFailed,
			Subject: ops.About(ops.SubjectReflex, e.ID), Service: service,
			Reason: why, Detail: ops.ReflexDetail{Does: e.Words(), State: ops.ReflexIsOff},
		}, at)
		if err != nil {
			return err
		}
	}
	return nil
}

// reflexParts asks for what the reflexes of a cycle need to know.
func reflexParts(j *ops.Journal, environment string, at time.Time) []db.Part {
	return []db.Part{
		db.Into(&j.Reflexes, scanReflex, selectReflexes+` WHERE f.environment = ? AND f.state = ? ORDER BY f.id`, environment, ops.ReflexOn),
		db.Into(&j.Reflexed, scanReflexed, `SELECT reflex, cycle_id, step, requested_at FROM action_runs
			WHERE environment = ? AND requested_at > ? AND reflex <> '' AND undo_of IS NULL AND status <> ? ORDER BY id`,
			environment, db.Time(at.Add(-ops.ReflexLongest)), ops.ActionRefused),
	}
}

// failingFor reads since when which checks fail, where a reflex may ask.
func failingFor(ctx context.Context, q db.Querier, c ops.Claimed) ([]ops.Failing, error) {
	has := func(s ops.Service) bool { return len(s.Reflexes) > 0 }
	if len(c.Journal.Reflexes) == 0 && !slices.ContainsFunc(c.Cycle.Policy.Inventory.Services, has) {
		return nil, nil
	}
	states, err := db.List(ctx, q, scanState, `SELECT state FROM probe_states WHERE environment = ?`, c.Cycle.Environment)
	return failing(states), err
}

func failing(states []ops.CheckState) []ops.Failing {
	var out []ops.Failing
	for _, s := range states {
		if !s.Began.IsZero() {
			out = append(out, ops.Failing{Service: s.Service, Probe: s.Probe, Since: s.Began})
		}
	}
	return out
}

func scanReflexed(r db.Row, t *ops.Reflexed) error {
	return r.Scan(&t.Reflex, &t.Cycle, &t.Step, db.ToTime(&t.At))
}

const selectReflexes = `SELECT f.id, f.service, f.probe, f.type, f.status, f.class, f.actions, f.digests FROM reflexes f`

func scanReflex(row db.Row, r *ops.Reflex) error {
	*r = ops.Reflex{Tries: ops.ReflexTries, Per: ops.ReflexPer}
	var probe string
	err := row.Scan(&r.ID, &r.Service, &probe, &r.On, &r.Status, &r.Class, db.ToJSON(&r.Do), db.ToJSON(&r.Digests))
	r.Probes = []string{probe}
	return err
}

// switchOff switches earned reflexes off, also those about which nobody has answered. Only a person switches one on.
func switchOff(ctx context.Context, tx db.Querier, off []ops.ReflexOff, at time.Time) error {
	for _, o := range off {
		_, err := tx.ExecContext(ctx, `UPDATE reflexes SET state = ?, person = ?, why = ?, changed_at = ? WHERE id = ? AND state <> ?`,
			ops.ReflexIsOff, ops.Supervisor, o.Why, db.Time(at), o.ID, ops.ReflexIsOff)
		if err != nil {
			return err
		}
	}
	return nil
}

// creditReflex adds to the text of a notice about the end of a problem that a reflex was done for it, if no agent was started. That it
// repaired it is said only once the probes of its cycle have.
func (s *kernel) creditReflex(ctx context.Context, tx db.Querier, cycle ops.CycleID, text string) (string, error) {
	proven := false
	done, err := db.List(ctx, tx, func(r db.Row, what *string) error {
		return r.Scan(what, &proven)
	}, `SELECT r.action || ' of ' || r.service, COALESCE(c.verified_by, '') = ? FROM action_runs r JOIN cycles c ON c.id = r.cycle_id
		WHERE r.cycle_id = ? AND r.reflex <> '' AND r.undo_of IS NULL AND r.status = ?
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.cycle_id = r.cycle_id) ORDER BY r.id`,
		ops.ProofReflex, cycle, ops.ActionDone)
	if err != nil || len(done) == 0 {
		return text, err
	}
	return s.words.ByReflex(done, proven) + "\n\n" + text, nil
}
