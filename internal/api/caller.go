package api

import "context"

// Caller is who a request comes from.
type Caller struct {
	Name     string // what is recorded: token, read-only token, login, or the address of a peer that needs none
	ReadOnly bool
}

type callerKey struct{}

// WithCaller notes who a request comes from.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf tells who a request comes from.
func CallerOf(ctx context.Context) Caller {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		return Caller{Name: "api"}
	}
	return c
}

// who is the name under which a request is recorded.
func who(ctx context.Context) string { return CallerOf(ctx).Name }
