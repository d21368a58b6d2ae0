package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// run submits a manual cycle. If another one is running, the new one waits for it.
func (s *server) run(r *http.Request) (string, error) {
	tier, err := strconv.Atoi(cmp.Or(r.PostFormValue("max_tier"), "0"))
	if err != nil {
		tier = -1
	}
	id, err := s.desk.RunCycle(r.Context(), by(r), ops.NewCycle{
		Environment: r.PostFormValue("environment"), Prompt: r.PostFormValue("prompt"),
		Options: ops.CycleOptions{DryRun: r.PostFormValue("dry_run") != "", MaxTier: ops.Tier(tier)},
	})
	return fmt.Sprintf("/?queued=%d", id), err
}

// queuedText confirms that a cycle was queued, and says what agents leave alone in its environment.
func (s *server) queuedText(ctx context.Context, id ops.CycleID) string {
	text := fmt.Sprintf("Cycle C-%d is queued. It starts when its environment is free.", id)
	cycle, err := s.Store.Cycle(ctx, id)
	if err != nil {
		return text // the address names a cycle that is gone
	}
	return text + s.heldText(ctx, cycle.Environment)
}

// heldText says what agents leave alone in an environment; empty: nothing.
func (s *server) heldText(ctx context.Context, environment string) string {
	i := slices.IndexFunc(s.Environments, func(e ops.Environment) bool { return e.Name == environment })
	if i < 0 {
		return ""
	}
	held, err := s.Store.HeldBack(ctx, s.Environments[i], s.Clock())
	if err != nil || len(held) == 0 {
		return "" // the page itself fails if the database does
	}
	text := " Agents change nothing where this holds:"
	for _, h := range held {
		text += " " + strings.TrimSuffix(plain(h.Reason), ".") + "."
	}
	return text
}

// stop ends the cycle of a running session.
func (s *server) stop(r *http.Request) (string, error) {
	id := rowID(r)
	err := s.desk.Stop(r.Context(), by(r), ops.SessionID(id))
	if errors.Is(err, ops.ErrConflict) {
		err = refusal{http.StatusConflict, fmt.Sprintf("Session #%d has already ended.", id)}
	}
	return fmt.Sprintf("/sessions/%d?stopping=1", id), err
}

func sessionID(r *http.Request) (ops.SessionID, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return ops.SessionID(id), err == nil && id > 0
}

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
