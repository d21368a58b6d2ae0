package api

import (
	"context"

	"claudeops/internal/access"
	"claudeops/internal/desk"
)

// Caller is the sender of a request.
type Caller struct {
	// Name is the recorded name: the kind of token or login, with its own name if it has one, or the user of a command on this machine.
	Name string
	// Role is what the caller may do. Without one, only what is open to everybody.
	Role access.Role
	// Bearer is true for a caller that sent a token with the request, Login for one with the cookie of a login.
	Bearer, Login bool
	// Via is the program through which the caller sent the request, such as mcp; empty for any other.
	Via string
	// Local is true for a command on this machine, which came through the control socket.
	Local bool
	// KnowsToken is true if the caller has proved to know the token that the operator set, or to be somebody whom no agent can imitate.
	KnowsToken bool
}

// May reports whether the caller may do an operation.
func (c Caller) May(o access.Operation) bool { return c.Role.May(o) }

type callerKey struct{}

// WithCaller stores the caller of a request in its context.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request.
func CallerOf(ctx context.Context) Caller {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		return Caller{Name: "api", Role: access.RoleAdmin}
	}
	return c
}

// Recorded is the name under which a request is recorded.
func (c Caller) Recorded() string { return desk.Person{Name: c.Name, Via: c.Via}.String() }

// who is the name under which a request is recorded.
func who(ctx context.Context) string { return CallerOf(ctx).Recorded() }

// by is the person of a request.
func by(ctx context.Context) desk.Person {
	c := CallerOf(ctx)
	p := desk.Person{Name: c.Name, Via: c.Via, Door: desk.API}
	if c.Local {
		p.Door = desk.Command
	}
	return p
}
