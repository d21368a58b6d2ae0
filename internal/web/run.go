package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// run submits a manual cycle. If another one is running, the new one waits for it.
func (s *server) run(w http.ResponseWriter, r *http.Request) {
	names := environmentNames(s.Environments)
	environment := r.PostFormValue("environment")
	if environment == "" {
		environment = names[0]
	}
	if !slices.Contains(names, environment) {
		s.errorPage(w, r, http.StatusUnprocessableEntity, fmt.Sprintf("No such environment: %q.", environment))
		return
	}
	options, ok := runOptions(r)
	if !ok {
		s.errorPage(w, r, http.StatusUnprocessableEntity, "The highest tier must be 1, 2 or 3.")
		return
	}
	prompt := strings.TrimSpace(r.PostFormValue("prompt"))
	if len(prompt) > maxPrompt {
		s.errorPage(w, r, http.StatusUnprocessableEntity, fmt.Sprintf("The prompt can have at most %d characters.", maxPrompt))
		return
	}
	id, err := s.Control.Submit(r.Context(), ops.NewCycle{
		Environment: environment, Trigger: ops.TriggerManual, Prompt: prompt, Options: options, At: s.Clock(),
	})
	if err != nil {
		s.fail(w, r, "cycle", err)
		return
	}
	http.Redirect(w, r, fmt.Sprintf("/?queued=%d", id), http.StatusSeeOther)
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

// maxPrompt limits the prompt in the dialog.
const maxPrompt = 4000

// runOptions reads the limits of a manual cycle.
func runOptions(r *http.Request) (ops.CycleOptions, bool) {
	options := ops.CycleOptions{DryRun: r.PostFormValue("dry_run") != ""}
	given := r.PostFormValue("max_tier")
	if given == "" {
		return options, true
	}
	tier, err := strconv.Atoi(given)
	options.MaxTier = ops.Tier(tier)
	return options, err == nil && options.MaxTier.Known()
}

// stop ends the cycle of a running session.
func (s *server) stop(w http.ResponseWriter, r *http.Request) {
	id, ok := sessionID(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such session.")
		return
	}
	session, err := s.Store.Session(r.Context(), id)
	if err != nil {
		s.fail(w, r, "session", err)
		return
	}
	if session.Status.Ended() {
		s.errorPage(w, r, http.StatusConflict, fmt.Sprintf("Session #%d has already ended.", id))
		return
	}
	if err := s.Control.Cancel(r.Context(), session.CycleID, fmt.Sprintf("session %d was stopped from its page", id)); err != nil {
		s.fail(w, r, "cycle", err)
		return
	}
	http.Redirect(w, r, fmt.Sprintf("/sessions/%d?stopping=1", id), http.StatusSeeOther)
}

func sessionID(r *http.Request) (ops.SessionID, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return ops.SessionID(id), err == nil && id > 0
}
