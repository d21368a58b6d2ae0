package web

import (
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
