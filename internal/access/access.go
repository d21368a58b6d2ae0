// Package access says who may do what: the roles, the operations, the one table that joins them, and which operation a request is.
// It is pure; the pages, the API and everything else that accepts a person's wish ask it.
package access

import (
	"slices"
	"strings"
)

// Role is what a caller may do.
type Role string

// The roles, from the weakest to the strongest. The empty role may do nothing.
const (
	RoleNone      Role = ""
	RoleRead      Role = "read"      // look only
	RoleResponder Role = "responder" // look, acknowledge, snooze and deny: answers that start nothing
	RoleAdmin     Role = "admin"     // everything
)

// Roles lists the roles that a token or a person can have, from the weakest to the strongest.
func Roles() []Role { return []Role{RoleRead, RoleResponder, RoleAdmin} }

// Known reports whether r is one of the roles.
func (r Role) Known() bool { return slices.Contains(Roles(), r) }

// Title names the role for people.
func (r Role) Title() string {
	switch r {
	case RoleNone:
		return "No access"
	case RoleRead:
		return "Read-only"
	case RoleResponder:
		return "Responder"
	case RoleAdmin:
		return "Admin"
	}
	return string(r)
}

// Operation is what a request wants.
type Operation string

// The operations.
const (
	Look        Operation = "look"        // read pages and rows
	Personal    Operation = "personal"    // change the visitor's own settings: theme, login
	Acknowledge Operation = "acknowledge" // say that somebody takes care of an incident
	Snooze      Operation = "snooze"      // postpone the reminders of an incident
	Deny        Operation = "deny"        // refuse a question of a cycle
	Approve     Operation = "approve"     // let a cycle go on with what it asked for
	Resolve     Operation = "resolve"     // close an incident
	Run         Operation = "run"         // start a cycle, an action, or the undo of one
	Stop        Operation = "stop"        // stop a session or cancel a cycle
	Silence     Operation = "silence"     // add or end a silence
	Clear       Operation = "clear"       // reset a cooldown
	Remember    Operation = "remember"    // add or remove a memory
	Resend      Operation = "resend"      // send a notification again
	Drain       Operation = "drain"       // take a host out of work, or put it back
	Administer  Operation = "administer"  // tokens and passkeys, and everything that no rule names
)

// allowed is the table: the weakest role that may do an operation.
func allowed(o Operation) Role {
	switch o {
	case Look, Personal:
		return RoleRead
	case Acknowledge, Snooze, Deny:
		return RoleResponder
	case Approve, Resolve, Run, Stop, Silence, Clear, Remember, Resend, Drain, Administer:
		return RoleAdmin
	}
	return RoleAdmin
}

// May reports whether the role may do the operation.
func (r Role) May(o Operation) bool {
	have := slices.Index(Roles(), r)
	return have >= 0 && have >= slices.Index(Roles(), allowed(o))
}

// Refusal says in a sentence that a role may not do an operation, and which one may.
func Refusal(r Role, o Operation) string {
	if r == RoleRead {
		return "This access is read-only. " + capital(needed(o)) + " is needed to make this change."
	}
	return "The role " + string(r) + " may not " + verb(o) + ". " + capital(needed(o)) + " is needed."
}

func needed(o Operation) string { return "the role " + string(allowed(o)) }

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func verb(o Operation) string {
	switch o {
	case Clear:
		return "clear cooldowns"
	case Remember:
		return "change memories"
	case Resend:
		return "send notifications"
	case Administer:
		return "administer"
	case Drain:
		return "drain hosts"
	case Look, Personal, Acknowledge, Snooze, Deny, Approve, Resolve, Run, Stop, Silence:
		return string(o)
	}
	return string(o)
}
