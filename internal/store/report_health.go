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
	if f.Environment != "" {
		w.Add(`environment = ?`, f.Environment)
	}
	if f.Services != nil {
		if len(f.Services) == 0 {
			return nil, nil
		}
		names := make([]any, len(f.Services))
		for i, name := range f.Services {
			names[i] = name
		}
		w.Add(`service IN (`+db.Placeholders(len(names))+`)`, names...)
	}
	rows, err := db.List(ctx, s.db.Reader(), func(r db.Row) (healthRow, error) {
		var h healthRow
		var at string
		err := r.Scan(&h.environment, &h.service, &at, &h.status, &h.checks)
		if err == nil {
			h.at, err = time.Parse(layout, at)
		}
		return h, err
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
