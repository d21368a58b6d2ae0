// Package access says who may do what: the roles, the operations, the one table that joins them, and which operation a request is.
// It is pure; the pages, the API and everything else that accepts a person's wish ask it.
package access

import (
	"net/url"
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
	StopAll     Operation = "stop_all"    // stop everything
	Drain       Operation = "drain"       // take a host out of work, or put it back
	Administer  Operation = "administer"  // tokens, and everything that no rule names
)

// allowed is the table: the weakest role that may do an operation.
func allowed(o Operation) Role {
	switch o {
	case Look, Personal:
		return RoleRead
	case Acknowledge, Snooze, Deny, StopAll:
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
		return "This access is read-only. The role " + string(allowed(o)) + " is needed to make this change."
	}
	return "The role " + string(r) + " may not do this. The role " + string(allowed(o)) + " is needed."
}

// route is a request that changes something, and the operation it is. A word in braces matches any one part of a path.
type route struct {
	method, path string
	operation    Operation
}

// apiPrefix is where the API is served. Its paths are those of the pages where both exist.
const apiPrefix = "/api/v1"

// routes are the requests that change something. A request that is not listed here needs the strongest role.
func routes() []route {
	const post, remove = "POST", "DELETE"
	return []route{
		{post, "/theme", Personal},
		{post, "/login", Personal},
		{post, "/logout", Personal},

		{post, "/answer/{token}", Personal}, // the token of the link says what it may do

		{post, "/incidents/{id}/ack", Acknowledge},
		{post, "/incidents/{id}/snooze", Snooze},
		{post, "/incidents/{id}/resolve", Resolve},
		{post, "/incidents/{id}/run", Run},
		{post, "/approvals/{id}/deny", Deny},
		{post, "/approvals/{id}/approve", Approve},
		{post, "/services/trust", Approve},
		{post, apiPrefix + "/services/{name}/heartbeat", Run},
		{post, apiPrefix + "/trust", Approve},
		{post, "/reflexes/{id}/enable", Approve},
		{post, "/reflexes/{id}/disable", Approve},

		{post, "/run", Run},
		{post, apiPrefix + "/cycles", Run},
		{post, "/cycles/{id}/run", Run},
		{post, "/actions", Run},
		{post, "/actions/{id}/undo", Run},
		{post, apiPrefix + "/actions/runs", Run},
		{post, apiPrefix + "/actions/runs/{id}/undo", Run},
		{post, apiPrefix + "/actions/runs/{id}/withdraw", Run},
		{post, "/services/update", Run},
		{post, apiPrefix + "/updates/runs", Run},

		{post, "/cycles/{id}/stop", Stop},
		{post, apiPrefix + "/cycles/{id}/cancel", Stop},
		{post, "/sessions/{id}/stop", Stop},

		{post, "/silences", Silence},
		{post, "/silences/{id}/end", Silence},
		{post, "/services/cooldown", Clear},
		{post, apiPrefix + "/cooldowns/clear", Clear},
		{post, "/memory", Remember},
		{post, "/memory/{id}/remove", Remember},
		{post, apiPrefix + "/memories", Remember},
		{remove, apiPrefix + "/memories/{id}", Remember},
		{post, "/notifications/test", Resend},
		{post, "/notifications/{id}/retry", Resend},
		{post, "/hosts/{change}", Drain},
		{post, "/stop", StopAll},
		{post, "/resume", Approve},
		{remove, apiPrefix + "/stop", Approve},

		{remove, apiPrefix + "/services/{name}", Administer},
		{post, apiPrefix + "/config/reload", Administer},
		{post, "/settings/services/new", Administer},
		{post, "/settings/services/{name}/probes/new", Administer},
		{post, "/settings/services/{name}/probes/{number}", Administer},
		{post, "/settings/services/{name}/probes/{number}/remove", Administer},
		{post, "/settings/services/{name}/remove", Administer},
		{post, "/settings/notifications/{id}/remove", Administer},
		{post, "/settings/notifications/new", Administer},
		{post, "/settings/trust", Administer},
		{post, "/config/tokens", Administer},
		{post, "/config/tokens/{name}/revoke", Administer},
	}
}

// OperationOf is the operation of a request, given by its method and its escaped path. A method that changes nothing looks; a change
// that no rule names needs an administrator.
func OperationOf(method, path string) Operation {
	o, _ := Find(method, path)
	return o
}

// Find is OperationOf, and reports whether a rule names the request.
func Find(method, path string) (o Operation, named bool) {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return Look, true
	}
	for _, r := range routes() {
		if r.method == method && (matches(r.path, path) || matches(apiPrefix+r.path, path)) {
			return r.operation, true
		}
	}
	return Administer, false
}

// matches reports whether a path has the form of a pattern. The path is compared part by part, as the router does it, so that an
// encoded slash does not make another path of it.
func matches(pattern, path string) bool {
	wanted, given := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(wanted) != len(given) {
		return false
	}
	for i, part := range given {
		part, err := url.PathUnescape(part)
		wild := strings.HasPrefix(wanted[i], "{") && part != ""
		if err != nil || !wild && wanted[i] != part {
			return false
		}
	}
	return true
}
