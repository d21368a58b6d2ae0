package ops

import (
	"fmt"
	"slices"
	"time"
)

// ChangeKind is what a change is about.
type ChangeKind string

// The kinds of changes.
const (
	ChangeContainer  ChangeKind = "container"
	ChangeUnit       ChangeKind = "unit"
	ChangePackage    ChangeKind = "packages"
	ChangeRepository ChangeKind = "repository"
	ChangeDisk       ChangeKind = "disk"
	ChangeBoot       ChangeKind = "machine"
)

const (
	// ChangeShows is how long a change may take to break something: what happened so long before a service was last healthy counts.
	ChangeShows = 10 * time.Minute
	// ChangeLines is how many changes a prompt, a page or a report begins with.
	ChangeLines = 10
)

// Part is one property of a thing. A value that begins with # is a digest: it is compared and not shown.
type Part struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// Resource is the state of something that is looked at for changes, as it was last seen.
type Resource struct {
	Kind    ChangeKind
	Subject string // empty: the kind as a whole
	Service string // whose it is; empty: it concerns every service of the environment
	Parts   []Part
	Unseen  string    // why it could not be seen at the last look
	At      time.Time // when it was written; of one just seen: when it became so, where it says that itself
}

// Part returns a value by its name.
func (t Resource) Part(name string) string {
	for _, p := range t.Parts {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Change is one difference between two looks. Its text is without secrets.
type Change struct {
	ID          int64
	Environment string
	Host        string
	Kind        ChangeKind
	Subject     string
	Service     string
	Text        string
	At          time.Time // when it happened; where nobody knows, when it was seen
	NotBefore   time.Time // the same, or the look before it
	SeenAt      time.Time
}

// Line is a change in one line.
func (c Change) Line() string {
	return fmt.Sprintf("%s, %s: %s %s: %s", c.At.UTC().Format("2006-01-02 15:04:05 UTC"), c.Host, c.Kind, c.Subject, c.Text)
}

// Look is what a look of one host at an environment found different.
type Look struct {
	Resources []Resource // that are new, different or not seen
	Gone      []Resource
	Changes   []Change
}

// WhatChanged is what changed since services were last healthy, the nearest first, and what could not be seen.
type WhatChanged struct {
	Since   time.Time
	Changes []Change
	More    bool // there are more than these
	Unseen  []string
}

// Lines says it in words, for prompts, pages and reports.
func (w WhatChanged) Lines() []string {
	out := Map(w.Changes, Change.Line)
	since := w.Since.UTC().Format("2006-01-02 15:04:05 UTC")
	switch {
	case len(w.Changes) == 0 && w.Since.IsZero(): // nobody has looked yet
	case len(w.Changes) == 0:
		out = append(out, "nothing that is looked at has changed since "+since)
	case w.More:
		out = append(out, "and older changes since "+since)
	}
	for _, u := range w.Unseen {
		out = append(out, "not seen: "+u)
	}
	return out
}

// Needs returns services and all that they depend on, without repetition.
func (v Inventory) Needs(names ...string) []string {
	out := slices.Clone(names)
	for i := 0; i < len(out); i++ {
		for _, need := range v.Service(out[i]).DependsOn {
			if own, _ := v.Canonical(need); !slices.Contains(out, own) {
				out = append(out, own)
			}
		}
	}
	return out
}
