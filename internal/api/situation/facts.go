package situation

import (
	"cmp"
	"context"
	"fmt"
	"strings"
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
	store.Situation
	// NextChecks are the times of the next scheduled checks by environment; empty if this process does not know them.
	NextChecks map[string]time.Time
	// Spent holds the environments whose daily budget is spent.
	Spent map[string]bool
	// Trust is how far agents may go for a service.
	Trust func(Service) ops.Trust
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
		Now: now, Several: len(environments) > 1, Services: bad[:min(len(bad), MostServices)],
		Spent: map[string]bool{},
	}
	names := map[string][]string{}
	for _, b := range f.Services {
		names[b.Environment] = append(names[b.Environment], b.Name)
	}
	var err error
	if f.Situation, err = s.Reports.Situation(ctx, names); err != nil {
		return f, err
	}
	for _, e := range environments {
		limit := e.Policy.BudgetDayUSD
		if limit <= 0 {
			continue
		}
		spent, known, err := s.Reports.CostSince(ctx, e.Name, now.UTC().Truncate(24*time.Hour))
		if err != nil {
			return f, err
		}
		f.Spent[e.Name] = known && spent >= limit
	}
	f.Every = intervals(environments)
	f.Trust, err = trusts(ctx, s.People, environments)
	return f, err
}

// trusts reads what people lowered beside the configuration.
func trusts(ctx context.Context, people *store.People, environments []ops.Environment) (func(Service) ops.Trust, error) {
	policies, lowered := map[string]ops.Policy{}, map[string][]ops.Lowered{}
	for _, e := range environments {
		l, err := people.Lowered(ctx, e.Name)
		if err != nil {
			return nil, err
		}
		policies[e.Name], lowered[e.Name] = e.Policy, l
	}
	return func(v Service) ops.Trust { return policies[v.Environment].Trusts(v.Name, lowered[v.Environment]) }, nil
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

// Tone is the colour of a line.
type Tone string

// The tones.
const (
	ToneRun  Tone = "run"     // work is going on
	ToneHand Tone = "hand"    // a person is needed
	ToneWarn Tone = "warn"    // nothing is done about a problem
	ToneCalm Tone = "unknown" // nothing has to be done
)

// Part is a piece of a sentence: text, a time, or the time since which something lasts.
type Part struct {
	Text  string     `json:"text,omitempty"`
	At    *time.Time `json:"at,omitempty"`
	Since *time.Time `json:"since,omitempty"`
}

// Line is one sentence and what it is about.
type Line struct {
	Environment string        `json:"environment"`
	Tone        Tone          `json:"tone"`
	Parts       []Part        `json:"parts"`
	Services    []string      `json:"services,omitempty"`
	Cycle       ops.CycleID   `json:"cycle_id,omitempty"`
	Session     ops.SessionID `json:"session_id,omitempty"`
	Approval    int64         `json:"approval_id,omitempty"`
	Incident    int64         `json:"incident_id,omitempty"`
	// Silences is true if the sentence is about a silence.
	Silences bool `json:"silences,omitempty"`
}

func text(format string, args ...any) Part { return Part{Text: fmt.Sprintf(format, args...)} }

func at(t time.Time) Part { return Part{At: &t} }

func lasting(t time.Time) Part { return Part{Since: &t} }

// Sentence is the line at a time, in the zone of that time.
func (l Line) Sentence(now time.Time) string {
	var out strings.Builder
	for _, p := range l.Parts {
		switch {
		case p.At != nil:
			out.WriteString(Clock(*p.At, now))
		case p.Since != nil:
			out.WriteString(ops.Span(now.Sub(*p.Since)))
		default:
			out.WriteString(p.Text)
		}
	}
	return out.String()
}

// Clock is a time of day, with the date if it is another day.
func Clock(t, now time.Time) string {
	local := t.In(now.Location())
	if local.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return local.Format("2 Jan 15:04")
	}
	return local.Format("15:04")
}

// mostNamed is how many services a sentence names.
const mostNamed = 3

// named joins names for a sentence: "web", "web and db", "web, db and 5 more".
func named(names []string) string {
	switch n := len(names); {
	case n == 1:
		return names[0]
	case n == 2:
		return names[0] + " and " + names[1]
	case n <= mostNamed:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
}
