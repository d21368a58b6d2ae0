// Package ledger finds out what changes on this machine: it looks at containers, units, packages, clones, mounts and the start of
// the machine, compares them with the last look, and has what is different stored. It changes nothing.
package ledger

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"claudeops/internal/ops"
)

const (
	// Every is how often the supervisor looks.
	Every = 5 * time.Minute
	// lookTime bounds one collector: no session waits longer for it.
	lookTime = 3 * time.Second
	// saidEvery is how often it is written down that a kind is still looked at.
	saidEvery = time.Hour
	// The sizes of one look: resources of a kind, and characters of a text or a state.
	maxResources = 200
	maxText      = 240
	maxPart      = 300
)

// Collector looks at one kind of resources.
type Collector interface {
	Kind() ops.ChangeKind
	// Look says how they are now, and what has happened where they keep a record themselves. Before is how they were by their names. A
	// thing that could not be seen says why; an error means that none could.
	Look(ctx context.Context, env ops.Environment, before map[string]ops.Resource) (resources []ops.Resource, happened []ops.Change, err error)
}

// Store is where looks are stored.
type Store interface {
	Resources(ctx context.Context, environment, host string) ([]ops.Resource, error)
	RecordLook(ctx context.Context, environment, host string, l ops.Look, at time.Time) error
}

// Ledger looks at the environments of one host.
type Ledger struct {
	Store        Store
	Host         string
	Environments []ops.Environment
	Collectors   []Collector
	// Newest is the newest incident: a new one is a reason to look.
	Newest func(ctx context.Context) (int64, error)
	Redact func(string) string
	Clock  ops.Clock
	Logger *slog.Logger
	// Shared is what the ledgers of one process share; nil: this one is alone.
	Shared *Looks

	own Looks
}

// Looks remember when each environment was last looked at, one look at a time. The zero value is ready.
type Looks struct {
	mu     sync.Mutex
	looked map[string]time.Time
	stored map[string][]ops.Resource // what the last look found unchanged: nobody else writes it
}

// Run looks until ctx ends: at once, every five minutes, and when an incident is opened.
func (l *Ledger) Run(ctx context.Context, nudges <-chan struct{}) error {
	var known int64
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
			due.Reset(Every)
		case <-nudges:
			newest, err := l.Newest(ctx)
			if err != nil || newest <= known {
				continue // what cannot be read now is read at the next nudge
			}
			known = newest
		}
		for _, env := range l.Environments {
			l.Look(ctx, env)
		}
	}
}

// Look compares an environment with the last look and stores what is different. Whoever waited for a look that began after it had asked
// needs no other one: many sessions may start at once.
func (l *Ledger) Look(ctx context.Context, env ops.Environment) {
	asked, s := l.Clock(), cmp.Or(l.Shared, &l.own)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looked[env.Name].After(asked) {
		return
	}
	if err := l.look(ctx, env, s); err != nil && ctx.Err() == nil {
		l.Logger.WarnContext(ctx, "what changed could not be recorded", "environment", env.Name, "error", err)
	}
}

func (l *Ledger) look(ctx context.Context, env ops.Environment, s *Looks) error {
	stored, known := s.stored[env.Name]
	if !known {
		var err error
		if stored, err = l.Store.Resources(ctx, env.Name, l.Host); err != nil {
			return err
		}
	}
	before := map[ops.ChangeKind]map[string]ops.Resource{}
	for _, t := range stored {
		if before[t.Kind] == nil {
			before[t.Kind] = map[string]ops.Resource{}
		}
		before[t.Kind][t.Subject] = t
	}
	now := l.Clock()
	looks := make([]ops.Look, len(l.Collectors))
	var all sync.WaitGroup
	for i, c := range l.Collectors {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, lookTime)
			defer cancel()
			resources, happened, err := c.Look(ctx, env, before[c.Kind()])
			looks[i] = compare(c.Kind(), before[c.Kind()], resources, happened, err, span{s.looked[env.Name], now})
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil // half a look says nothing
	}
	var found ops.Look
	for _, one := range looks {
		found.Resources = append(found.Resources, one.Resources...)
		found.Gone = append(found.Gone, one.Gone...)
		found.Changes = append(found.Changes, one.Changes...)
	}
	for i := range found.Changes {
		c := &found.Changes[i]
		c.Subject, c.Text = l.plain(c.Subject), l.plain(c.Text)
	}
	for i := range found.Resources {
		found.Resources[i].Unseen = l.plain(found.Resources[i].Unseen)
	}
	if s.looked == nil {
		s.looked, s.stored = map[string]time.Time{}, map[string][]ops.Resource{}
	}
	s.stored[env.Name] = stored
	if len(found.Resources)+len(found.Gone)+len(found.Changes) > 0 {
		delete(s.stored, env.Name)
		if err := l.Store.RecordLook(ctx, env.Name, l.Host, found, now); err != nil {
			return err
		}
	}
	s.looked[env.Name] = now
	return nil
}

// plain makes one short line without secrets of a text from outside.
func (l *Ledger) plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return ops.Cut(l.Redact(text), maxText)
}

// span is the time between two looks. The first is zero after a start.
type span struct{ from, to time.Time }

// compare says what is different. What is seen for the first time is no change; nor is what was looked at for the first time.
func compare(
	kind ops.ChangeKind, before map[string]ops.Resource, resources []ops.Resource, happened []ops.Change, failed error, at span,
) ops.Look {
	whole := before[""]
	first := whole.Part("seen") == ""
	is := ops.Resource{Kind: kind, Parts: whole.Parts}
	if failed == nil || len(resources) > 0 {
		is.Parts = []ops.Part{{Name: "seen", Value: "yes"}}
	}
	switch {
	case failed != nil:
		is.Unseen = failed.Error()
	case len(resources) > maxResources:
		is.Unseen = fmt.Sprintf("only %d of %d were looked at", maxResources, len(resources))
		resources = resources[:maxResources]
	}
	out := ops.Look{Changes: happened}
	here := map[string]bool{}
	for _, t := range append(resources, is) {
		was, known := before[t.Subject]
		here[t.Subject], t.Kind = true, kind
		if t.Unseen != "" && t.Subject != "" {
			t.Parts, t.Service = was.Parts, was.Service
		}
		text := ""
		switch {
		case t.Subject == "" || t.Unseen != "" || known && len(was.Parts) == 0:
		case known:
			text = describe(was, t)
		case !first && appears(kind):
			text = "is new"
		}
		if text != "" {
			if !t.At.After(was.At) { // that is about an older change
				t.At = time.Time{}
			}
			out.Changes = append(out.Changes, ops.Change{Kind: kind, Subject: t.Subject, Service: t.Service, Text: text, At: t.At})
		}
		said := (t.Subject == "" || t.Unseen != "") && at.to.Sub(was.At) >= saidEvery
		if !known || said || t.Unseen != was.Unseen || t.Service != was.Service || !slices.Equal(t.Parts, was.Parts) {
			out.Resources = append(out.Resources, t)
		}
	}
	for subject, was := range before {
		if here[subject] || is.Unseen != "" {
			continue
		}
		out.Gone = append(out.Gone, was)
		if appears(kind) {
			out.Changes = append(out.Changes, ops.Change{Kind: kind, Subject: subject, Service: was.Service, Text: "is gone"})
		}
	}
	for i := range out.Changes {
		c := &out.Changes[i]
		if c.NotBefore = c.At; c.At.IsZero() || c.At.After(at.to) {
			c.At, c.NotBefore = at.to, at.from
			if at.from.IsZero() {
				c.NotBefore = whole.At
			}
		}
	}
	return out
}

// appears reports whether it is a change that a thing is there or not. Units are looked at because the configuration names them.
func appears(kind ops.ChangeKind) bool {
	switch kind {
	case ops.ChangeContainer, ops.ChangeRepository, ops.ChangeDisk:
		return true
	case ops.ChangeUnit, ops.ChangePackage, ops.ChangeBoot:
	}
	return false
}

// describe says in words what is different.
func describe(was, is ops.Resource) string {
	var out []string
	for _, p := range is.Parts {
		old := was.Part(p.Name)
		switch {
		case old == p.Value || p.Name == quiet:
		case p.Name == partID:
			out = append(out, "recreated")
		case p.Name == partStarted:
			out = append(out, "started again")
		case old == "":
			out = append(out, strings.TrimSpace(p.Name+" added "+shown(p.Value)))
		case strings.HasPrefix(p.Value, "#"):
			out = append(out, p.Name+" changed")
		default:
			out = append(out, fmt.Sprintf("%s %s → %s", p.Name, old, p.Value))
		}
	}
	for _, p := range was.Parts {
		if p.Name != quiet && !slices.ContainsFunc(is.Parts, func(q ops.Part) bool { return q.Name == p.Name }) {
			out = append(out, p.Name+" removed")
		}
	}
	return strings.Join(out, "; ")
}

// The parts with words of their own. One that is called quiet is kept for the collector and never told.
const (
	partID      = "id"
	partStarted = "started"
	quiet       = "kept"
)

func shown(value string) string {
	if strings.HasPrefix(value, "#") {
		return ""
	}
	return value
}
