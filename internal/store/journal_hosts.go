package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// RegisterHost begins a new term of the only host of a database. From now on, writes with an older term are refused.
func (s *Journal) RegisterHost(ctx context.Context, host string) (ops.Owner, error) {
	return s.Enlist(ctx, ops.Host{Name: host}, 0)
}

// Enlist begins a new term of a host, with a lease of the given length; zero means none. A name that a live host on another
// machine uses is ops.ErrConflict; after a restart on the same machine the host continues at once. Its cycles in environments
// that it no longer works for go back to the queue.
func (s *Journal) Enlist(ctx context.Context, h ops.Host, lease time.Duration) (ops.Owner, error) {
	if h.Name == "" {
		return ops.Owner{}, errors.New("register host: no name given")
	}
	owner := ops.Owner{Host: h.Name}
	err := s.db.Write(ctx, "register_host", func(tx db.Querier) error {
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := requireFreeName(ctx, tx, h, now); err != nil {
			return err
		}
		if lease != 0 {
			left := func(c ops.Cycle) bool { return !slices.Contains(h.Environments, c.Environment) }
			if _, err := s.requeueCycles(ctx, tx, h.Name, now, left); err != nil {
				return err
			}
			// The jobs of the other ones died with the last term.
			_, err := tx.ExecContext(ctx, `UPDATE cycles SET wake_seq = wake_seq + 1 WHERE status = 'running' AND owner = ?`, h.Name)
			if err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, `INSERT INTO hosts (host, term, registered_at, identity, version, labels, environments, draining,
			seen_at, expires_at) VALUES (?, 1, ?, ?, ?, ?, ?, FALSE, ?, ?)
			ON CONFLICT (host) DO UPDATE SET term = hosts.term + 1, registered_at = excluded.registered_at, identity = excluded.identity,
				version = excluded.version, labels = excluded.labels, environments = excluded.environments, draining = FALSE,
				seen_at = excluded.seen_at, expires_at = excluded.expires_at
			RETURNING term`, h.Name, db.Time(now), h.Identity, h.Version, db.JSON(db.OrEmpty(h.Labels)),
			db.JSON(db.OrEmpty(h.Environments)), db.Time(now), leaseEnd(now, lease)).Scan(&owner.Term)
	})
	return ops.Returning(owner, err, "register host %s", h.Name)
}

// WorkFor notes for which environments a host works from now on. Its term goes on.
func (s *Journal) WorkFor(ctx context.Context, owner ops.Owner, environments []string) error {
	err := s.db.Write(ctx, "work_for", func(tx db.Querier) error {
		return db.Exec(ctx, tx, `UPDATE hosts SET environments = ? WHERE host = ? AND term = ?`,
			db.JSON(db.OrEmpty(environments)), owner.Host, owner.Term)
	})
	return ops.Wrapped(err, "note environments of host %s", owner.Host)
}

// requireFreeName refuses a name that another machine uses.
func requireFreeName(ctx context.Context, tx db.Querier, h ops.Host, now time.Time) error {
	var identity string
	var expires *time.Time
	err := tx.QueryRowContext(ctx, `SELECT identity, expires_at FROM hosts WHERE host = ?`, h.Name).Scan(&identity, db.ToOptTime(&expires))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case expires != nil && expires.After(now) && identity != h.Identity:
		return ops.NewConflict(ops.ConflictTaken, "another machine uses this name; give each host its own name (CLAUDEOPS_HOST)")
	}
	return nil
}

func leaseEnd(now time.Time, length time.Duration) any {
	if length == 0 {
		return nil
	}
	return db.Time(now.Add(length))
}

// Renew extends a host's lease and duties by the length from now. It reports whether the host was asked to take no new work. A
// host whose work was given to others gets ops.ErrFenced.
func (s *Journal) Renew(ctx context.Context, owner ops.Owner, length time.Duration) (draining bool, err error) {
	err = s.db.WriteUrgent(ctx, "renew", func(tx db.Querier) error {
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		until := leaseEnd(now, length)
		ahead, _ := s.db.Skew()
		err = tx.QueryRowContext(ctx, `UPDATE hosts SET seen_at = ?, expires_at = ?, clock_ahead_ms = ? WHERE host = ? AND term = ?
			RETURNING draining`, db.Time(now), until, ahead.Milliseconds(), owner.Host, owner.Term).Scan(&draining)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("term %d of host %q is over: %w", owner.Term, owner.Host, ops.ErrFenced)
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE duties SET expires_at = ? WHERE host = ? AND term = ?`, until, owner.Host, owner.Term)
		return err
	})
	return ops.Returning(draining, err, "renew lease")
}

// Retire ends the lease and the duties of a host that stops.
func (s *Journal) Retire(ctx context.Context, owner ops.Owner) error {
	err := s.db.Write(ctx, "retire", func(tx db.Querier) error {
		if _, err := tx.ExecContext(ctx, `UPDATE hosts SET expires_at = NULL WHERE host = ? AND term = ?`, owner.Host, owner.Term); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM duties WHERE host = ? AND term = ?`, owner.Host, owner.Term)
		return err
	})
	return ops.Wrapped(err, "give up lease")
}

// Reap ends the terms of hosts whose lease is over and puts their cycles back into the queue. Sessions that ran there are marked
// as interrupted: they may have taken effect, so they are not simply repeated.
func (s *Journal) Reap(ctx context.Context, owner ops.Owner) ([]ops.Reaped, error) {
	var due int64
	err := s.db.Read(ctx, func(tx db.Querier) error {
		now, err := s.db.Now(ctx, tx)
		if err == nil {
			due, err = db.One(ctx, tx, db.ScanInt, `SELECT COUNT(*) FROM hosts WHERE expires_at < ? AND host <> ?`, db.Time(now), owner.Host)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for dead hosts: %w", err)
	}
	if due == 0 {
		return nil, nil
	}
	var out []ops.Reaped
	err = s.db.Write(ctx, "reap", func(tx db.Querier) error {
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := fenceTerm(ctx, tx, owner); err != nil {
			return err
		}
		// One statement: a host that renews its lease at the same moment either comes first and keeps its term, or is refused.
		dead, err := db.List(ctx, tx, db.ScanString, `UPDATE hosts SET term = term + 1, expires_at = NULL WHERE expires_at < ? AND host <> ?
			RETURNING host`, db.Time(now), owner.Host)
		if err != nil {
			return err
		}
		slices.Sort(dead)
		for _, host := range dead {
			cycles, err := s.takeOver(ctx, tx, host, now)
			if err != nil {
				return fmt.Errorf("take over from %s: %w", host, err)
			}
			out = append(out, ops.Reaped{Host: host, Cycles: cycles})
		}
		return nil
	})
	return ops.Returning(out, err, "take over from dead hosts")
}

// takeOver ends the duties of a host whose term has ended and puts its cycles back into the queue.
func (s *Journal) takeOver(ctx context.Context, tx db.Querier, host string, now time.Time) ([]ops.CycleID, error) {
	if _, err := tx.ExecContext(ctx, `DELETE FROM duties WHERE host = ?`, host); err != nil {
		return nil, err
	}
	return s.requeueCycles(ctx, tx, host, now, func(ops.Cycle) bool { return true })
}

// requeueCycles puts a host's running cycles back into the queue. Sessions that ran there are marked as interrupted.
func (s *Journal) requeueCycles(ctx context.Context, tx db.Querier, host string, now time.Time,
	which func(ops.Cycle) bool,
) (requeued []ops.CycleID, err error) {
	held, err := db.List(ctx, tx, scanCycle, selectCycles+` WHERE c.status = 'running' AND c.owner = ? ORDER BY c.id`, host)
	if err != nil {
		return nil, err
	}
	for _, c := range held {
		if !which(c) {
			continue
		}
		requeued = append(requeued, c.ID)
		ended, err := db.List(ctx, tx, db.ScanInt, `UPDATE sessions SET status = ?, stop_cause = ?, failure = ?, error = ?,
			ended_at = `+db.NotBefore(`started_at`)+`
			WHERE cycle_id = ? AND status = 'running' RETURNING id`,
			ops.SessionInterrupted, ops.StopLease, "interrupted", "host "+host+" gave no sign of life while this session was running",
			db.Time(now), db.Time(now), c.ID)
		if err != nil {
			return nil, err
		}
		for _, id := range ended {
			if err := countSession(ctx, tx, ops.SessionID(id)); err != nil {
				return nil, fmt.Errorf("count costs: %w", err)
			}
		}
		_, err = tx.ExecContext(ctx, `UPDATE cycles SET status = ?, owner = NULL, term = 0, wake_seq = wake_seq + 1 WHERE id = ?`,
			ops.CycleQueued, c.ID)
		if err != nil {
			return nil, err
		}
		err = s.insertEvent(ctx, tx, ops.Event{
			CycleID: &c.ID, Environment: c.Environment, Level: ops.LevelWarning, Verb: ops.VerbHostLost,
			Subject: ops.Subject{Kind: ops.SubjectHost, ID: host},
		}, now)
		if err != nil {
			return nil, err
		}
		if err := s.offer(ctx, tx, c.Environment, now); err != nil {
			return nil, err
		}
	}
	return requeued, nil
}

// TakeDuty gives a duty to the owner, or reports that another host has it.
func (s *Journal) TakeDuty(ctx context.Context, owner ops.Owner, name string, length time.Duration) (bool, error) {
	var taken bool
	err := s.db.WriteUrgent(ctx, "duty", func(tx db.Querier) error {
		if err := fenceTerm(ctx, tx, owner); err != nil {
			return err
		}
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		taken, err = db.Changed(tx.ExecContext(ctx, `INSERT INTO duties (name, host, term, expires_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET host = excluded.host, term = excluded.term, expires_at = excluded.expires_at
			WHERE duties.host = excluded.host OR duties.expires_at < ?`,
			name, owner.Host, owner.Term, leaseEnd(now, length), db.Time(now)))
		return err
	})
	return ops.Returning(taken, err, "take over %s", name)
}

// Drain asks a host to take no new work, or to work again.
func (s *Journal) Drain(ctx context.Context, host string, draining bool) error {
	err := s.db.Write(ctx, "drain", func(tx db.Querier) error {
		found, err := db.Changed(tx.ExecContext(ctx, `UPDATE hosts SET draining = ? WHERE host = ?`, draining, host))
		if err == nil && !found {
			err = ops.ErrNotFound
		}
		return err
	})
	return ops.Wrapped(err, "drain host %s", host)
}

// Hosts returns all hosts that ever used the database, by name.
func (s *Journal) Hosts(ctx context.Context) ([]ops.Host, error) {
	var out []ops.Host
	err := s.db.Read(ctx, func(tx db.Querier) error {
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		out, err = db.List(ctx, tx, scanHost, `SELECT h.host, h.identity, h.version, h.labels, h.environments, h.draining, h.term,
			h.registered_at, h.seen_at, h.clock_ahead_ms,
			h.expires_at, (SELECT COUNT(*) FROM cycles c WHERE c.status = 'running' AND c.owner = h.host) FROM hosts h ORDER BY h.host`)
		for i := range out {
			out[i].Alive = out[i].ExpiresAt != nil && out[i].ExpiresAt.After(now)
		}
		return err
	})
	return ops.Returning(out, err, "list hosts")
}

func scanHost(r db.Row, h *ops.Host) error {
	var ahead int64
	err := r.Scan(&h.Name, &h.Identity, &h.Version, db.ToJSON(&h.Labels), db.ToJSON(&h.Environments), &h.Draining, &h.Term,
		db.ToTime(&h.RegisteredAt),
		db.ToOptTime(&h.SeenAt), &ahead, db.ToOptTime(&h.ExpiresAt), &h.Running)
	h.ClockAhead = time.Duration(ahead) * time.Millisecond
	return err
}
