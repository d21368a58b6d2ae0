// Package desk is what people do: each verb has its rule here, once. Pages, the API, the tools of the operator's agent, answers by phone
// and commands call it. It checks what is asked, lets the store write it with its record, and wakes whatever waits for it.
package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Door is how a person came in.
type Door string

// The doors.
const (
	Page    Door = "page"
	API     Door = "API"
	Command Door = "command"
)

// Person is who does something.
type Person struct {
	Name string
	Via  string // the program that speaks for the person, such as mcp; empty for none
	Door Door

	reply *answer.Reply // the button or link with which the person answers; nil for none
}

// String is the name under which the person is recorded.
func (p Person) String() string {
	name := cmp.Or(strings.TrimSpace(p.Name), "somebody")
	if p.Via == "" {
		return name
	}
	return p.Via + " (" + name + ")"
}

// from says by which door something was done.
func (p Person) from() string {
	switch p.Door {
	case Page:
		return "from its page"
	case Command:
		return "from the command line"
	case API:
	}
	return "through the API"
}

// Control is what the desk asks of the supervisor.
type Control interface {
	Submit(ctx context.Context, n ops.NewCycle) (ops.CycleID, error)
	Cancel(ctx context.Context, id ops.CycleID, why string) error
	// Wake says that something the cycle waits for has changed.
	Wake(id ops.CycleID)
}

// Desk does what people ask for. A request that cannot be right is a *Wrong, one that came too late is ops.ErrConflict.
type Desk struct {
	Store        *store.Store
	Control      Control
	Clock        ops.Clock
	Environments []ops.Environment // the first one is used where none is named
	Changed      func()            // after rows were written that others read; nil if nobody waits
	Settings     Settings          // the configuration file; nil if nobody can change it from here

	saving sync.Mutex // of the configuration file
}

func (d *Desk) changed() {
	if d.Changed != nil {
		d.Changed()
	}
}

// Wrong is what is wrong with a request, in a sentence that begins with a small letter and has no full stop.
type Wrong struct {
	text  string
	field string // of the form; empty: all of it
}

func (w *Wrong) Error() string { return w.text }

func wrong(format string, args ...any) error { return &Wrong{text: fmt.Sprintf(format, args...)} }

// Problem is what is wrong with a request; false if the request is not what is wrong.
func Problem(err error) (string, bool) {
	var w *Wrong
	if !errors.As(err, &w) {
		return "", false
	}
	return w.text, true
}

// WrongField is a request with one field that cannot be right.
func WrongField(field, text string) error { return &Wrong{text, field} }

// Field is the field of the form that a problem is about; empty if it is about all of it.
func Field(err error) string {
	var w *Wrong
	if !errors.As(err, &w) {
		return ""
	}
	return w.field
}

// The longest texts, in characters.
const (
	MaxReason      = 500
	MaxName        = 200 // of services, groups, probes, labels and branches
	MaxPrompt      = 20_000
	MaxObservation = 2000
	MaxCategory    = 50
)

// text trims a text and refuses one that is too long.
func text(name string, value *string, most int) error {
	*value = strings.TrimSpace(*value)
	if n := utf8.RuneCountInString(*value); n > most {
		return wrong("%s has %d characters: use at most %d", name, n, most)
	}
	return nil
}

// needed is a text that must not be empty; missing says what to do about it.
func needed(name string, value *string, most int, missing string) error {
	if err := text(name, value, most); err != nil || *value != "" {
		return err
	}
	return wrong("%s is missing: %s", name, missing)
}

// named is a name that somebody gave.
type named struct {
	what  string
	value *string
}

// names refuses names that are too long.
func names(all ...named) error {
	for _, n := range all {
		if err := text(n.what, n.value, MaxName); err != nil {
			return err
		}
	}
	return nil
}

const sayWhy = "say why, for the record"

// Environment returns the named environment, or the first one.
func (d *Desk) Environment(name string) (ops.Environment, error) {
	if name == "" {
		return d.Environments[0], nil
	}
	var known []string
	for _, e := range d.Environments {
		if e.Name == name {
			return e, nil
		}
		known = append(known, e.Name)
	}
	return ops.Environment{}, wrong("no environment is called %q; configured: %s", name, strings.Join(known, ", "))
}

// Span reads how long something lasts: a duration, or seconds.
func Span(given string) (time.Duration, error) {
	unit := given
	if _, err := strconv.Atoi(given); err == nil {
		unit += "s"
	}
	d, err := time.ParseDuration(unit)
	if err != nil || d < 0 {
		return 0, wrong("for is %q: give a duration such as 2h, or seconds", given)
	}
	return d, nil
}

// End is when something ends: at a time, or after a while.
type End struct {
	Until time.Time
	For   time.Duration
}

// after is the end of what begins at a time.
func (e End) after(from, now time.Time) (time.Time, error) {
	if e.Until.IsZero() == (e.For == 0) {
		return time.Time{}, wrong("the end is missing: give either until or for")
	}
	end := e.Until
	if end.IsZero() {
		end = from.Add(e.For)
	}
	if !end.After(from) || !end.After(now) {
		return time.Time{}, wrong("the end is in the past or before the start: give a later end")
	}
	return end, nil
}

// Changes lists what changed for a service and what it needs, the newest first, and what could not be seen. Without a service it is about
// the whole environment.
func (d *Desk) Changes(ctx context.Context, environment, service string, f store.ChangeFilter) (
	changes []ops.Change, unseen []string, err error,
) {
	e, err := d.Environment(environment)
	if err != nil {
		return nil, nil, err
	}
	if service != "" {
		if _, service, err = d.service(e.Name, service); err != nil {
			return nil, nil, err
		}
		f.Services = e.Policy.Inventory.Needs(service)
	}
	f.Environment = e.Name
	if changes, err = d.Store.Watch.Changes(ctx, f); err != nil {
		return nil, nil, err
	}
	unseen, err = d.Store.Watch.Unseen(ctx, e.Name)
	return changes, unseen, err
}

// WhatChanged says what changed before an incident since its service was last healthy.
func (d *Desk) WhatChanged(ctx context.Context, i ops.Incident) (ops.WhatChanged, error) {
	var services, needs []string
	if i.Service != "" {
		services = []string{i.Service}
		if e, err := d.Environment(i.Environment); err == nil { // one that is no longer configured needs nothing
			needs = e.Policy.Inventory.Needs(i.Service)
		}
	}
	return d.Store.Watch.WhatChanged(ctx, i.Environment, services, needs, i.Check, began(i))
}

// began is when the outage that an incident is about was found.
func began(i ops.Incident) time.Time {
	if i.ReopenedAt != nil {
		return *i.ReopenedAt
	}
	return i.OpenedAt
}

// Story returns everything on record about an incident, beginning with what changed before it.
func (d *Desk) Story(ctx context.Context, id int64) (ops.IncidentStory, error) {
	story, err := d.Store.Reports.IncidentStory(ctx, id)
	if err != nil {
		return story, err
	}
	story.Changed, err = d.WhatChanged(ctx, story.Incident)
	return story, err
}
