package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
	"claudeops/internal/watch/health"
)

const (
	// lastStarts is how many of a service's last starts say how long it takes.
	lastStarts = 5
	// longestStart is how long after a start results still belong to it.
	longestStart = time.Hour
)

// ChecksSince returns the results of the probes of one service since a time, the oldest first.
func (s *Watch) ChecksSince(ctx context.Context, environment, service string, since time.Time) ([]ops.Check, error) {
	out, err := db.List(ctx, s.db.Reader(), scanCheck, selectChecks+` WHERE k.environment = ? AND k.service = ? AND k.at >= ?
		AND k.purpose NOT IN (?, ?) ORDER BY k.at, k.id`, environment, service, db.Time(since), ops.ProbeAlert, ops.ProbeRunning)
	if err != nil {
		return nil, fmt.Errorf("list results of %s: %w", service, err)
	}
	return out, nil
}

// StartsSince returns when services were last started, or changed by an action, by the supervisor or an agent since a time.
func (s *Watch) StartsSince(ctx context.Context, environment string, since time.Time) (map[string]time.Time, error) {
	type start struct {
		service string
		at      time.Time
	}
	found, err := db.List(ctx, s.db.Reader(), func(r db.Row) (start, error) {
		var v start
		err := r.Scan(&v.service, db.ToTime(&v.at))
		return v, err
	}, `SELECT service, MAX(at) FROM (
		SELECT service, COALESCE(used_at, reserved_at) AS at FROM cooldown_actions WHERE environment = ? AND status <> ? AND half <> ?
		UNION ALL SELECT service, started_at FROM action_runs WHERE environment = ? AND started_at IS NOT NULL
		) AS a WHERE at >= ? GROUP BY service`, environment, actionReleased, ops.HalfOpen, environment, db.Time(since))
	if err != nil {
		return nil, fmt.Errorf("list what was started: %w", err)
	}
	out := make(map[string]time.Time, len(found))
	for _, v := range found {
		out[v.service] = v.at
	}
	return out, nil
}

// StartTimes returns how long a service took to work after its last starts by agents, the newest first. Starts that no probe saw are
// left out.
func (s *Watch) StartTimes(ctx context.Context, environment, service string) ([]time.Duration, error) {
	starts, err := db.List(ctx, s.db.Reader(), func(r db.Row) (time.Time, error) {
		var at time.Time
		err := r.Scan(db.ToTime(&at))
		return at, err
	}, `SELECT COALESCE(used_at, reserved_at) FROM cooldown_actions WHERE environment = ? AND service = ? AND status <> ? AND half <> ?
		ORDER BY id DESC LIMIT ?`, environment, service, actionReleased, ops.HalfOpen, lastStarts)
	if err != nil {
		return nil, fmt.Errorf("list starts of %s: %w", service, err)
	}
	var out []time.Duration
	for _, at := range starts {
		results, err := db.List(ctx, s.db.Reader(), scanCheck, selectChecks+` WHERE k.environment = ? AND k.service = ? AND k.at >= ? AND k.at < ?
			AND k.purpose NOT IN (?, ?) ORDER BY k.at, k.id`,
			environment, service, db.Time(at), db.Time(at.Add(longestStart)), ops.ProbeAlert, ops.ProbeRunning)
		if err != nil {
			return nil, fmt.Errorf("list results after a start of %s: %w", service, err)
		}
		if took, known := health.StartTime(at, results); known {
			out = append(out, took)
		}
	}
	return out, nil
}
