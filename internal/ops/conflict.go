package ops

import (
	"cmp"
	"fmt"
	"time"
)

// ConflictKind is what stands in the way of a request.
type ConflictKind string

// The kinds of conflicts.
const (
	ConflictAnswered ConflictKind = "answered" // somebody was first
	ConflictRepeated ConflictKind = "repeated" // the same message was taken before
	ConflictState    ConflictKind = "state"    // it has ended, or is in another state than it must be in
	ConflictTaken    ConflictKind = "taken"    // another one has it: a host, a program, a name
	ConflictGone     ConflictKind = "gone"     // it was taken out of the configuration
	ConflictChanged  ConflictKind = "changed"  // it is not what was shown or approved
	ConflictStopped  ConflictKind = "stopped"  // somebody stopped everything
	ConflictRestart  ConflictKind = "restart"  // it needs a restart of the daemon
)

// Conflict is why a request cannot be met, although it is right. It is an ErrConflict, and perhaps an ErrStopped or an ErrRestart.
type Conflict struct {
	Kind ConflictKind
	Text string // for people; it begins with a small letter and has no full stop
}

func (c *Conflict) Error() string { return c.Text }

// Unwrap lets errors.Is find the kind of error.
func (c *Conflict) Unwrap() error {
	return cmp.Or(map[ConflictKind]error{ConflictStopped: ErrStopped, ConflictRestart: ErrRestart}[c.Kind], ErrConflict)
}

// NewConflict makes a conflict with nobody.
func NewConflict(kind ConflictKind, format string, args ...any) error {
	return &Conflict{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Answered is the conflict with somebody who was first, and what that one did.
func Answered(who, did string, at time.Time) error {
	return NewConflict(ConflictAnswered, "%s %s at %s", who, did, at.Format(time.RFC3339))
}

// Removed is the conflict with a configuration that has something no more.
func Removed(format string, args ...any) error {
	return NewConflict(ConflictGone, "%s is not configured any more", fmt.Sprintf(format, args...))
}

// PlanChanged is the conflict with a plan that is not the one that was shown.
func PlanChanged() error {
	return NewConflict(ConflictChanged, "the plan is not the one that was shown: look at it again")
}

// Standstill is that nothing starts on any host until somebody takes it back: no agent, no reflex, no step of a plan and no update. Probes,
// incidents and notices go on.
type Standstill struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Words say it in a sentence without a full stop.
func (h Standstill) Words() string {
	text := fmt.Sprintf("stopped by %s at %s", h.By, h.At.UTC().Format("2006-01-02 15:04 UTC"))
	if h.Reason != "" {
		text += ": " + Spoken(Prose(h.Reason))
	}
	return text
}

// Refuses is why something does not start while it stands. It is an ErrStopped.
func (h Standstill) Refuses() error {
	return NewConflict(ConflictStopped, "Claude Ops is %s; 'claudeops resume' lets it work again", h.Words())
}
