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

// RegisterHost begins a new term of a host that shares its database with nobody. Every writer that carries an older one is
// refused from now on.
func (s *Store) RegisterHost(ctx context.Context, host string) (ops.Owner, error) {
	return s.Enlist(ctx, ops.Host{Name: host}, 0)
}

// Enlist begins a new term of a host, with a lease of the given length; zero means none. A name that a living host on
// another machine has is ops.ErrConflict; its own earlier life is followed at once. What that held of environments that the host
// no longer works for is left to others.
func (s *Store) Enlist(ctx context.Context, h ops.Host, lease time.Duration) (ops.Owner, error) {
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
		labels, err := db.JSON(db.OrEmpty(h.Labels))
		if err != nil {
			return err
		}
		environments, err := db.JSON(db.OrEmpty(h.Environments))
		if err != nil {
			return err
		}
		if lease != 0 {
			if _, err := s.requeueCycles(ctx, tx, h.Name, now, func(c ops.Cycle) bool { return !slices.Contains(h.Environments, c.Environment) }); err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, `INSERT INTO hosts (host, term, registered_at, identity, version, labels, environments, draining, seen_at, expires_at)
			VALUES (?, 1, ?, ?, ?, ?, ?, FALSE, ?, ?)
			ON CONFLICT (host) DO UPDATE SET term = hosts.term + 1, registered_at = excluded.registered_at, identity = excluded.identity,
				version = excluded.version, labels = excluded.labels, environments = excluded.environments, draining = FALSE,
				seen_at = excluded.seen_at, expires_at = excluded.expires_at
			RETURNING term`, h.Name, db.Time(now), h.Identity, h.Version, labels, environments, db.Time(now), leaseEnd(now, lease)).Scan(&owner.Term)
	})
	if err != nil {
		return ops.Owner{}, fmt.Errorf("register host %s: %w", h.Name, err)
	}
	return owner, nil
}

// free refuses a name that somebody else uses.
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
		return fmt.Errorf("another machine works under this name; give each host a name of its own (CLAUDEOPS_HOST): %w", ops.ErrConflict)
	}
	return nil
}

func leaseEnd(now time.Time, length time.Duration) any {
	if length == 0 {
		return nil
	}
	return db.Time(now.Add(length))
}

// Renew is a host's sign of life: its lease and its duties last for the length from now on. It tells whether the host was asked
// to take no new work. A host whose work was given to others is refused with ops.ErrFenced.
func (s *Store) Renew(ctx context.Context, owner ops.Owner, length time.Duration) (draining bool, err error) {
	err = s.db.WriteUrgent(ctx, "renew", func(tx db.Querier) error {
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		until := leaseEnd(now, length)
		err = tx.QueryRowContext(ctx, `UPDATE hosts SET seen_at = ?, expires_at = ? WHERE host = ? AND term = ? RETURNING draining`,
			db.Time(now), until, owner.Host, owner.Term).Scan(&draining)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("term %d of host %q is over: %w", owner.Term, owner.Host, ops.ErrFenced)
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE duties SET expires_at = ? WHERE host = ? AND term = ?`, until, owner.Host, owner.Term)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("renew lease: %w", err)
	}
	return draining, nil
}

// Retire gives up a host's lease and its duties, because it stops in good order.
func (s *Store) Retire(ctx context.Context, owner ops.Owner) error {
	err := s.db.Write(ctx, "retire", func(tx db.Querier) error {
		if _, err := tx.ExecContext(ctx, `UPDATE hosts SET expires_at = NULL WHERE host = ? AND term = ?`, owner.Host, owner.Term); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM duties WHERE host = ? AND term = ?`, owner.Host, owner.Term)
		return err
	})
	if err != nil {
		return fmt.Errorf("give up lease: %w", err)
	}
	return nil
}

// Reap ends the terms of hosts whose lease is over and puts their cycles back into the queue. What ran there is marked as
// interrupted: it may have taken effect, and is never repeated without that knowledge.
func (s *Store) Reap(ctx context.Context, owner ops.Owner) ([]ops.Reaped, error) {
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
		// One statement: a host that renews its lease at this very moment either comes before it, and keeps its term, or is refused.
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
	if err != nil {
		return nil, fmt.Errorf("take over from dead hosts: %w", err)
	}
	return out, nil
}

// takeFrom returns what a host whose term has ended held: its duties, and its cycles to the queue.
func (s *Store) takeOver(ctx context.Context, tx db.Querier, host string, now time.Time) ([]ops.CycleID, error) {
	if _, err := tx.ExecContext(ctx, `DELETE FROM duties WHERE host = ?`, host); err != nil {
		return nil, err
	}
	return s.requeueCycles(ctx, tx, host, now, func(ops.Cycle) bool { return true })
}

// giveAway returns what a host held to the queue. What ran there is marked as interrupted.
func (s *Store) requeueCycles(ctx context.Context, tx db.Querier, host string, now time.Time, which func(ops.Cycle) bool) ([]ops.CycleID, error) {
	held, err := db.List(ctx, tx, scanCycle, selectCycles+` WHERE c.status = 'running' AND c.owner = ? ORDER BY c.id`, host)
	if err != nil {
		return nil, err
	}
	var out []ops.CycleID
	for _, c := range held {
		if !which(c) {
			continue
		}
		out = append(out, c.ID)
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET status = ?, stop_cause = ?, failure = ?, error = ?, ended_at = ?
			WHERE cycle_id = ? AND status = 'running'`,
			ops.SessionInterrupted, ops.StopLease, "interrupted", "host "+host+" gave no sign of life while this session was running", db.Time(now), c.ID)
		if err != nil {
			return nil, err
		}
		_, err = tx.ExecContext(ctx, `UPDATE cycles SET status = ?, owner = NULL, term = 0, wake_seq = wake_seq + 1 WHERE id = ?`, ops.CycleQueued, c.ID)
		if err != nil {
			return nil, err
		}
		_, err = insertEvent(ctx, tx, ops.Event{
			CycleID: &c.ID, Environment: c.Environment, Level: ops.LevelWarning, Kind: "host",
			Message: "host " + host + " gave no sign of life; another one continues its cycle",
		}, now)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// TakeDuty makes the owner the one that looks after something, or says that another host does.
func (s *Store) TakeDuty(ctx context.Context, owner ops.Owner, name string, length time.Duration) (bool, error) {
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
	if err != nil {
		return false, fmt.Errorf("take over %s: %w", name, err)
	}
	return taken, nil
}

// Drain asks a host to take no new work, or to work again.
func (s *Store) Drain(ctx context.Context, host string, draining bool) error {
	err := s.db.Write(ctx, "drain", func(tx db.Querier) error {
		found, err := db.Changed(tx.ExecContext(ctx, `UPDATE hosts SET draining = ? WHERE host = ?`, draining, host))
		if err == nil && !found {
			err = ops.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("drain host %s: %w", host, err)
	}
	return nil
}

// Hosts returns all hosts that ever worked on the database, by name.
func (s *Store) Hosts(ctx context.Context) ([]ops.Host, error) {
	var out []ops.Host
	err := s.db.Read(ctx, func(tx db.Querier) error {
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		out, err = db.List(ctx, tx, scanHost, `SELECT h.host, h.identity, h.version, h.labels, h.environments, h.draining, h.term, h.registered_at, h.seen_at,
			h.expires_at, (SELECT COUNT(*) FROM cycles c WHERE c.status = 'running' AND c.owner = h.host) FROM hosts h ORDER BY h.host`)
		for i := range out {
			out[i].Alive = out[i].ExpiresAt != nil && out[i].ExpiresAt.After(now)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return out, nil
}

func scanHost(r db.Row) (ops.Host, error) {
	var h ops.Host
	err := r.Scan(&h.Name, &h.Identity, &h.Version, db.ToJSON(&h.Labels), db.ToJSON(&h.Environments), &h.Draining, &h.Term, db.ToTime(&h.RegisteredAt),
		db.ToOptTime(&h.SeenAt), db.ToOptTime(&h.ExpiresAt), &h.Running)
	return h, err
}
