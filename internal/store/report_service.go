package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// TimesBucket is how fast a service answered within a period. Failed checks are not counted: how long they took says how long the
// probe waited.
type TimesBucket struct {
	From   time.Time
	Until  time.Time
	Checks int64
	P50    time.Duration
	P95    time.Duration
}

// ResponseTimes returns the response times of one service of the filter, in buckets without a gap, oldest first.
func (s *Reports) ResponseTimes(ctx context.Context, environment, service string, f HealthFilter) ([]TimesBucket, error) {
	if f.Bucket <= 0 || f.Bucket%time.Hour != 0 {
		return nil, fmt.Errorf("read response times: a bucket of %s is not of whole hours", f.Bucket)
	}
	begin, end := f.Since.UTC().Truncate(f.Bucket), f.Until.UTC()
	var out []TimesBucket
	for at := begin; at.Before(end); at = at.Add(f.Bucket) {
		out = append(out, TimesBucket{From: at, Until: at.Add(f.Bucket)})
	}
	if len(out) == 0 {
		return nil, nil
	}
	type hour struct {
		at    time.Time
		times times
	}
	rows, err := db.List(ctx, s.db.Reader(), func(r db.Row, h *hour) error {
		var at string
		into, read := scanTimes()
		if err := r.Scan(append([]any{&at}, into...)...); err != nil {
			return err
		}
		parsed, err := time.Parse(hourLayout, at)
		*h = hour{parsed, read()}
		return err
	}, `SELECT at, `+timeColumns()+` FROM check_hours WHERE service = ? AND environment = ? AND at >= ? AND at < ? AND status <> ?`,
		service, environment, begin.Format(hourLayout), out[len(out)-1].Until.Format(hourLayout), ops.Down)
	if err != nil {
		return nil, fmt.Errorf("read response times of %s: %w", service, err)
	}
	sums := make([]times, len(out))
	for i := range sums {
		sums[i] = noTimes()
	}
	for _, r := range rows {
		sums[int(r.at.Sub(begin)/f.Bucket)].add(r.times)
	}
	for i, t := range sums {
		if out[i].Checks = t.number(); out[i].Checks > 0 {
			out[i].P50, out[i].P95 = t.percentile(0.5), t.percentile(0.95)
		}
	}
	return out, nil
}

// maxErrors is how many bad results are read to explain the history of services.
const maxErrors = 2000

// BadChecks returns the newest results of services that were not healthy, newest first: those since a time that are kept.
func (s *Reports) BadChecks(ctx context.Context, environment string, services []string, since time.Time) ([]ops.Check, error) {
	if len(services) == 0 {
		return nil, nil
	}
	args := []any{environment}
	for _, name := range services {
		args = append(args, name)
	}
	out, err := db.List(ctx, s.db.Reader(), scanCheck, selectChecks+` WHERE k.status IN ('degraded', 'down') AND k.environment = ?
		AND k.service IN (`+db.Placeholders(len(services))+`) AND k.at >= ? ORDER BY k.id DESC LIMIT ?`,
		append(args, db.Time(since), maxErrors)...)
	return ops.Returning(out, err, "list bad checks")
}

// LastChecks returns the newest results of one probe that are on record, oldest first.
func (s *Reports) LastChecks(ctx context.Context, environment, service, probe string, limit int) ([]ops.Check, error) {
	out, err := db.List(ctx, s.db.Reader(), scanCheck, selectChecks+` WHERE k.environment = ? AND k.service = ? AND k.probe = ?
		ORDER BY k.environment, k.service, k.probe, k.id DESC LIMIT ?`, environment, service, probe, limit)
	if err != nil {
		return nil, fmt.Errorf("list last checks of %s: %w", service, err)
	}
	slices.Reverse(out)
	return out, nil
}

// StatesOf returns the states of the checks of one service.
func (s *Reports) StatesOf(ctx context.Context, environment, service string) ([]ops.CheckState, error) {
	out, err := db.List(ctx, s.db.Reader(), scanState, `SELECT state FROM probe_states WHERE environment = ? AND service = ? ORDER BY probe`,
		environment, service)
	return ops.Returning(out, err, "list states of %s", service)
}

// The numbers of newest rows in which the cycles of a service are searched.
const (
	searchedEvents      = 1000
	searchedEscalations = 2000
)

// CyclesOf returns the newest cycles that concerned a service: its incidents, its events, its actions, and what was handed on.
func (s *Reports) CyclesOf(ctx context.Context, environment, service string, limit int) ([]ops.Cycle, error) {
	var out []ops.Cycle
	err := s.db.Read(ctx, func(tx db.Querier) error {
		ids, err := db.List(ctx, tx, db.ScanInt, `SELECT v.cycle_id FROM (SELECT cycle_id, environment FROM events WHERE service = ?
				ORDER BY id DESC LIMIT ?) v WHERE v.cycle_id IS NOT NULL AND v.environment = ?
			UNION SELECT r.cycle_id FROM (SELECT cycle_id FROM action_runs WHERE environment = ? AND service = ? ORDER BY id DESC LIMIT ?) r
				WHERE r.cycle_id IS NOT NULL
			UNION SELECT x.cycle_id FROM incident_cycles x WHERE x.incident_id IN (SELECT i.id FROM incidents i WHERE i.environment = ?
				AND i.service = ? ORDER BY i.id DESC LIMIT 100)
			UNION SELECT d.cycle_id FROM (SELECT cycle_id, services FROM escalations ORDER BY id DESC LIMIT ?) d
				WHERE LOWER(d.services) LIKE ? ESCAPE '\'`,
			service, searchedEvents, environment, environment, service, searchedEvents, environment, service,
			searchedEscalations, db.Contains(`"`+service+`"`))
		if err != nil || len(ids) == 0 {
			return err
		}
		slices.Sort(ids)
		slices.Reverse(ids)
		// Cycles of other environments can be among them.
		args := []any{environment}
		for _, id := range ids[:min(len(ids), 5*limit)] {
			args = append(args, id)
		}
		out, err = db.List(ctx, tx, scanCycle, selectCycles+` WHERE c.environment = ? AND c.id IN (`+db.Placeholders(len(args)-1)+`)
			ORDER BY c.id DESC LIMIT ?`, append(args, limit)...)
		return err
	})
	return ops.Returning(out, err, "list cycles of %s", service)
}

// HealthFilter chooses a period and its buckets. Bucket must be whole hours or whole days; the period is widened to whole
// buckets.
type HealthFilter struct {
	Environment string
	Services    []string // nil: all; a few, by name
	Since       time.Time
	Until       time.Time
	Bucket      time.Duration
}

// HealthBucket counts the results of the checks of a service within a period.
type HealthBucket struct {
	From     time.Time
	Until    time.Time
	Healthy  int
	Degraded int
	Down     int
}

// Checks is how many checks there were.
func (b HealthBucket) Checks() int { return b.Healthy + b.Degraded + b.Down }

// Worst is the worst result, or "" without checks.
func (b HealthBucket) Worst() ops.Health {
	switch {
	case b.Down > 0:
		return ops.Down
	case b.Degraded > 0:
		return ops.Degraded
	case b.Healthy > 0:
		return ops.Healthy
	}
	return ""
}

// ServiceHealth is the health of a service over time.
type ServiceHealth struct {
	Environment string
	Service     string
	Buckets     []HealthBucket // without a gap, the oldest first
}

// Uptime is the share of checks that found the service up, degraded or not. It is not known without checks.
func (h ServiceHealth) Uptime() (share float64, known bool) {
	all, down := 0, 0
	for _, b := range h.Buckets {
		all += b.Checks()
		down += b.Down
	}
	if all == 0 {
		return 0, false
	}
	return float64(all-down) / float64(all), true
}

type healthRow struct {
	environment, service string
	at                   time.Time
	status               ops.Health
	checks               int
}

// Health returns the health, in buckets, of every service that was checked within the period; by environment and name.
func (s *Reports) Health(ctx context.Context, f HealthFilter) ([]ServiceHealth, error) {
	if f.Bucket <= 0 || f.Bucket%time.Hour != 0 || (f.Bucket > day && f.Bucket%day != 0) {
		return nil, fmt.Errorf("read health: a bucket of %s is not of whole hours or whole days", f.Bucket)
	}
	begin := f.Since.UTC().Truncate(f.Bucket)
	end := f.Until.UTC().Truncate(f.Bucket)
	if end.Before(f.Until) {
		end = end.Add(f.Bucket)
	}
	table, layout := `check_hours`, hourLayout
	if f.Bucket%day == 0 {
		table, layout = `check_days`, dayLayout
	}
	w := db.Filter{}
	w.Add(`at >= ? AND at < ?`, begin.Format(layout), end.Format(layout))
	w.Given(`environment = ?`, f.Environment)
	if f.Services != nil {
		if len(f.Services) == 0 {
			return nil, nil
		}
		names := ops.Map(f.Services, func(name string) any { return name })
		w.Add(`service IN (`+db.Placeholders(len(names))+`)`, names...)
	}
	rows, err := db.List(ctx, s.db.Reader(), func(r db.Row, h *healthRow) error {
		var at string
		err := r.Scan(&h.environment, &h.service, &at, &h.status, &h.checks)
		if err == nil {
			h.at, err = time.Parse(layout, at)
		}
		return err
	}, `SELECT environment, service, at, status, checks FROM `+table+w.Where(), w.Args...)
	if err != nil {
		return nil, fmt.Errorf("read health: %w", err)
	}
	return foldHealth(rows, begin, end, f.Bucket), nil
}

func foldHealth(rows []healthRow, begin, end time.Time, bucket time.Duration) []ServiceHealth {
	type key struct{ environment, service string }
	found := map[key]*ServiceHealth{}
	for _, r := range rows {
		k := key{r.environment, r.service}
		h := found[k]
		if h == nil {
			h = &ServiceHealth{Environment: r.environment, Service: r.service}
			for at := begin; at.Before(end); at = at.Add(bucket) {
				h.Buckets = append(h.Buckets, HealthBucket{From: at, Until: at.Add(bucket)})
			}
			found[k] = h
		}
		b := &h.Buckets[int(r.at.Sub(begin)/bucket)]
		switch r.status {
		case ops.Healthy:
			b.Healthy += r.checks
		case ops.Degraded:
			b.Degraded += r.checks
		case ops.Down:
			b.Down += r.checks
		case ops.Unknown: // nothing was found out
		}
	}
	out := make([]ServiceHealth, 0, len(found))
	for _, h := range found {
		out = append(out, *h)
	}
	slices.SortFunc(out, func(a, b ServiceHealth) int {
		return cmp.Or(cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Service, b.Service))
	})
	return out
}
