package api

import "context"

// Caller is the sender of a request.
type Caller struct {
	Name     string // recorded name: token, read-only token, login, or the address of a peer without a token
	ReadOnly bool
}

type callerKey struct{}

// WithCaller stores the caller of a request in its context.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request.
func CallerOf(ctx context.Context) Caller {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		return Caller{Name: "api"}
	}
	return c
}

// who is the name under which a request is recorded.
func who(ctx context.Context) string { return CallerOf(ctx).Name }
