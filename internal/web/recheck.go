package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"claudeops/internal/ops"
)

// recheckEvery is how often the access of an open stream is checked: a revoked token ends it after this time at the latest.
const recheckEvery = 30 * time.Second

// recheckKey is the context key of the check of a caller's access.
type recheckKey struct{}

// rechecked gives a stream the means to find out whether its caller still has access.
func (s *server) rechecked(r *http.Request, lasts func(context.Context) bool) *http.Request {
	if !isStream(r.URL.Path) {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), recheckKey{}, lasts))
}

// admission returns the check of a stream's caller, nil without one.
func admission(ctx context.Context) func(context.Context) bool {
	lasts, _ := ctx.Value(recheckKey{}).(func(context.Context) bool)
	return lasts
}

// tokenLasts reports whether a token still works. While the database does not answer, a stream stays open: it shows nothing new then.
func (s *server) tokenLasts(ctx context.Context, h holder) bool {
	if h.token == 0 {
		return true
	}
	works, err := s.Store.TokenWorks(ctx, h.token, s.Clock())
	return works || err != nil
}

// loginLasts reports whether a login still works. One that was renewed ends the stream too; the browser connects again with the new one.
func (s *server) loginLasts(ctx context.Context, digest string) bool {
	_, err := s.Store.Login(ctx, digest, s.Clock())
	return !errors.Is(err, ops.ErrNotFound)
}
