package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectHeartbeats = `SELECT environment, service, probe, since, digest IS NOT NULL, started_at, ended_at, failed, exit_code, output,
	seq FROM heartbeats WHERE environment = ? AND `

func scanHeartbeat(r db.Row, h *ops.Heartbeat) error {
	return r.Scan(&h.Environment, &h.Service, &h.Probe, db.ToTime(&h.Since), &h.Addressed, db.ToOptTime(&h.StartedAt),
		db.ToOptTime(&h.EndedAt), &h.Failed, &h.Exit, &h.Output, &h.Seq)
}

// nextHeartbeat is the number of a change. Changes of one environment are written one after the other, so whoever has read up to a number
// misses none.
const nextHeartbeat = `(SELECT COALESCE(MAX(seq), 0) + 1 FROM heartbeats WHERE environment = ?)`

// Heartbeats returns those of an environment that changed after a number, in the order of their changes.
func (s *Watch) Heartbeats(ctx context.Context, environment string, after int64) ([]ops.Heartbeat, error) {
	out, err := db.List(ctx, s.db.Reader(), scanHeartbeat, selectHeartbeats+`seq > ? ORDER BY seq`, environment, after)
	return ops.Returning(out, err, "read heartbeats of %s", environment)
}

// HeartbeatsOf returns those of a service.
func (s *Watch) HeartbeatsOf(ctx context.Context, environment, service string) ([]ops.Heartbeat, error) {
	out, err := db.List(ctx, s.db.Reader(), scanHeartbeat, selectHeartbeats+`service = ? ORDER BY probe`, environment, service)
	return ops.Returning(out, err, "read heartbeats of %s", service)
}

// AddHeartbeats records when heartbeats of an environment were first configured. Those that are known stay as they are.
func (s *Watch) AddHeartbeats(ctx context.Context, environment string, added []ops.Heartbeat) error {
	if len(added) == 0 {
		return nil
	}
	err := s.db.WriteIn(ctx, "heartbeat", db.InEnvironment(environment), func(tx db.Querier) error {
		seq, err := db.One(ctx, tx, db.ScanInt, `SELECT COALESCE(MAX(seq), 0) FROM heartbeats WHERE environment = ?`, environment)
		if err != nil {
			return err
		}
		rows := make([][]any, len(added))
		for i, h := range added {
			rows[i] = []any{environment, h.Service, h.Probe, db.Time(s.orNow(h.Since)), seq + int64(i) + 1}
		}
		return db.WriteRows(ctx, tx, `INSERT INTO heartbeats (environment, service, probe, since, seq) VALUES `, ` ON CONFLICT DO NOTHING`, rows)
	})
	return ops.Wrapped(err, "record heartbeats of %s", environment)
}

// heartbeatRhythms begins the names of how often the jobs of an environment call.
const heartbeatRhythms = "heartbeats/"

// KeepRhythms records when the jobs of an environment call, by service and probe. A job for which that has changed counts from now: its
// last call was for another rhythm.
func (s *Watch) KeepRhythms(ctx context.Context, environment string, rhythms map[string]map[string]string, at time.Time) error {
	text, err := db.JSONText(rhythms)
	if err != nil {
		return fmt.Errorf("keep rhythms of %s: %w", environment, err)
	}
	before, err := stateOf(ctx, s.db.Reader(), heartbeatRhythms+environment)
	known := map[string]map[string]string{}
	switch {
	case err == nil && before == text:
		return nil
	case errors.Is(err, ops.ErrNotFound):
	case err != nil:
		return fmt.Errorf("read rhythms of %s: %w", environment, err)
	default:
		if err := json.Unmarshal([]byte(before), &known); err != nil {
			return fmt.Errorf("read rhythms of %s: %w", environment, err)
		}
	}
	err = s.db.WriteIn(ctx, "heartbeat", db.InEnvironment(environment), func(tx db.Querier) error {
		for service, probes := range rhythms {
			for probe, rhythm := range probes {
				if was, ok := known[service][probe]; !ok || was == rhythm {
					continue
				}
				err := db.Exec(ctx, tx, `UPDATE heartbeats SET since = ?, seq = `+nextHeartbeat+` WHERE environment = ? AND service = ? AND probe = ?`,
					db.Time(s.orNow(at)), environment, environment, service, probe)
				if err != nil {
					return err
				}
			}
		}
		return db.Exec(ctx, tx, `INSERT INTO store_state (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
			heartbeatRhythms+environment, text)
	})
	return ops.Wrapped(err, "keep rhythms of %s", environment)
}

// AddressHeartbeat makes the token of a heartbeat's address, which is not stored. A former one no longer works, and the job has its whole
// time again.
func (s *Watch) AddressHeartbeat(ctx context.Context, h ops.Heartbeat, by string, at time.Time) (token string, err error) {
	at, token = s.orNow(at), TokenPrefix+rand.Text() // the prefix hides it from transcripts
	err = s.db.WriteIn(ctx, "heartbeat", db.InEnvironment(h.Environment), func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO heartbeats (environment, service, probe, digest, since, seq)
			VALUES (?, ?, ?, ?, ?, `+nextHeartbeat+`) ON CONFLICT (environment, service, probe)
			DO UPDATE SET digest = excluded.digest, since = excluded.since, seq = excluded.seq`,
			h.Environment, h.Service, h.Probe, tokenDigest(token), db.Time(at), h.Environment)
		if err != nil {
			return err
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Environment: h.Environment, Level: ops.LevelWarning, Verb: ops.VerbHeartbeatRenewed, Actor: ops.Person(by), Service: h.Service,
			Detail: ops.ProbeDetail{Probe: h.Probe},
		}, at)
	})
	return ops.Returning(token, err, "make the address of %s", h.Service)
}

// Heartbeat finds the heartbeat of a token. Tokens are found by their digest, so how long it takes says nothing about them.
func (s *Watch) Heartbeat(ctx context.Context, token string) (ops.Heartbeat, error) {
	h, err := db.One(ctx, s.db.Reader(), func(r db.Row, h *ops.Heartbeat) error {
		return r.Scan(&h.Environment, &h.Service, &h.Probe)
	}, `SELECT environment, service, probe FROM heartbeats WHERE digest = ?`, tokenDigest(token))
	return ops.Returning(h, err, "find heartbeat")
}

// Ping records a call of a job.
func (s *Watch) Ping(ctx context.Context, h ops.Heartbeat, p ops.Ping) error {
	at := db.Time(s.orNow(p.At))
	set, args := `started_at = ?`, []any{at}
	if !p.Start {
		set = `started_at = NULL, ended_at = ?, failed = ?, exit_code = ?, output = ?`
		args = append(args, p.Failed, p.Exit, storable(p.Output))
	}
	err := s.db.WriteIn(ctx, "ping", db.InEnvironment(h.Environment), func(tx db.Querier) error {
		return db.Exec(ctx, tx, `UPDATE heartbeats SET `+set+`, seq = `+nextHeartbeat+` WHERE environment = ? AND service = ? AND probe = ?`,
			append(args, h.Environment, h.Environment, h.Service, h.Probe)...)
	})
	return ops.Wrapped(err, "record a call of %s", h.Service)
}
