package situation

import (
	"cmp"
	"context"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Facts are what the sentences are made of.
type Facts struct {
	Now time.Time
	// ReadOnly is true if the reader cannot answer questions.
	ReadOnly bool
	// Several is true if there is more than one environment.
	Several bool
	// Services are the services whose last check was bad, worst first.
	Services []Service
	// More is how many more there are.
	More int
	store.Situation
	// NextChecks are the times of the next scheduled checks by environment; empty if this process does not know them.
	NextChecks map[string]time.Time
	// Spent holds the environments whose daily budget is spent.
	Spent map[string]bool
	// Every returns how often the probes of a service run.
	Every func(environment, service string) time.Duration
}

// Service is a service whose last check was bad.
type Service struct {
	Environment string
	Name        string
	Status      ops.Health
}

// MostServices is how many bad services the sentences are about.
const MostServices = 50

// Read reads the rows behind the sentences.
func Read(ctx context.Context, s *store.Store, environments []ops.Environment, bad []Service, now time.Time) (Facts, error) {
	f := Facts{
		Now: now, Several: len(environments) > 1, Services: bad[:min(len(bad), MostServices)], More: max(0, len(bad)-MostServices),
		Spent: map[string]bool{},
	}
	names := map[string][]string{}
	for _, b := range f.Services {
		names[b.Environment] = append(names[b.Environment], b.Name)
	}
	var err error
	if f.Situation, err = s.Situation(ctx, names); err != nil {
		return f, err
	}
	for _, e := range environments {
		limit := e.Policy.BudgetDayUSD
		if limit <= 0 {
			continue
		}
		spent, known, err := s.CostSince(ctx, e.Name, now.UTC().Truncate(24*time.Hour))
		if err != nil {
			return f, err
		}
		f.Spent[e.Name] = known && spent >= limit
	}
	f.Every = intervals(environments)
	return f, nil
}

// usualInterval is how often a probe runs that has no interval of its own.
const usualInterval = 30 * time.Second

func intervals(environments []ops.Environment) func(environment, service string) time.Duration {
	return func(environment, service string) time.Duration {
		longest := time.Duration(0)
		for _, e := range environments {
			if e.Name != environment {
				continue
			}
			for _, p := range e.Probes {
				if p.Service == service {
					longest = max(longest, cmp.Or(p.Interval, usualInterval))
				}
			}
		}
		return cmp.Or(longest, usualInterval)
	}
}
