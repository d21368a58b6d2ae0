package recovery

import (
	"cmp"
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// reason is the move in one sentence, stored, shown and notified unchanged.
func (w *walk) reason(level ops.RecoveryLevel) string {
	text := fmt.Sprintf("%s. %s", w.what(), w.doing(level))
	if why := cmp.Or(w.because(), w.class.Why); why != "" {
		text += ": " + why
	}
	return text
}

// what says which session failed, and how.
func (w *walk) what() string {
	if w.class.ErrorType == TypeFormat && len(w.failure.OutcomeProblems) > 0 {
		return fmt.Sprintf("Session %d's report was invalid (%s)", w.failure.Session, ops.Cut(w.failure.OutcomeProblems[0], 161))
	}
	if w.class.ErrorType == TypeUnavailable {
		return fmt.Sprintf("Session %d: no agent could be started", w.failure.Session)
	}
	return fmt.Sprintf("Session %d failed (%s)", w.failure.Session, ops.Spaced(w.class.ErrorType))
}

// because is why no lower level was taken; empty when the failure entered right here.
func (w *walk) because() string {
	if w.left == "" && len(w.move.Passed) > 0 {
		return w.move.Passed[len(w.move.Passed)-1].Reason
	}
	return w.left
}

func (w *walk) doing(level ops.RecoveryLevel) string {
	if w.move.Outage {
		return fmt.Sprintf("Waiting %s for the provider, then trying again", ops.Span(w.move.Wait))
	}
	switch level {
	case ops.RecoveryRetry:
		return fmt.Sprintf("Retrying in %s, attempt %d of %d", ops.Span(w.move.Wait), w.count(ops.RecoveryRetry)+1, mostRetries)
	case ops.RecoveryNudge:
		return fmt.Sprintf("Asking again in the same conversation, attempt %d of %d", w.move.Variant, mostNudges)
	case ops.RecoveryReplan:
		if w.move.Planner != "" {
			return fmt.Sprintf("Starting a fresh session with a new plan of %s", w.move.Planner)
		}
		return "Starting a fresh session with a new plan"
	case ops.RecoveryFallback:
		return "Falling back to " + w.move.Handler
	case ops.RecoveryForceDone:
		return "Ending the cycle with a partial result"
	case ops.RecoveryNone:
	}
	return "Nothing to do"
}

// recommendation says what a human should do to finish.
func (in Facts) recommendation() string {
	parts := []string{in.advice()}
	if len(in.Failure.Started) > 0 || in.Failure.OpenTool != "" {
		parts = append(parts, "Check first what was started and may have taken effect: "+strings.Join(in.started(), "; ")+".")
	}
	if len(in.Down) > 0 {
		parts = append(parts, "Still down: "+strings.Join(in.Down, ", ")+".")
	}
	return strings.Join(parts, " ")
}

func (in Facts) started() []string {
	out := append([]string{}, in.Failure.Started...)
	if in.Failure.OpenTool != "" {
		out = append(out, in.Failure.OpenTool+" (was still running)")
	}
	return out
}

// advice is specific to the class of the failure.
func (in Facts) advice() string {
	f := in.Failure
	who := cmp.Or(f.Handler, "the handler")
	switch in.Class.ErrorType {
	case TypeCredentials:
		return in.credentials()
	case TypeBudget:
		b := in.Budget
		return fmt.Sprintf("%s; %s. %s.", ops.Capital(b.Words()), b.Frees(), ops.Capital(b.Todo(nil)))
	case TypeRateLimit:
		return fmt.Sprintf("Wait for the rate limit of %s to pass (the provider did not say when), "+
			"or configure a fallback handler of another provider.", cmp.Or(f.Family, who))
	case TypeServer, TypeNetwork, TypeIdle:
		return fmt.Sprintf("Check that the model API of %s can be reached from this host and is up, then run the cycle again; "+
			"a fallback handler of another provider would bridge such an outage.", who)
	case TypeUnavailable:
		return "Install or update the agent CLI: claudeops doctor says how, and what the daemon finds."
	case TypeCapability:
		return fmt.Sprintf("Configure a model that exists and accepts this task for %s (now %s), or add a fallback handler.",
			who, cmp.Or(f.Model, "not known"))
	case TypeLayer:
		return "Repair the sandbox of this host: claudeops doctor names the layer that could not be set up. No agent runs without it."
	case TypeInvariant:
		return fmt.Sprintf("Read the transcript of session %d and find out how a tool ran that no gate had allowed, "+
			"before the next cycle starts.",
			f.Session)
	case TypeJournal:
		return "Free disk space or repair the database in the state folder, then run the cycle again."
	case TypeContext, TypeOutputLimit:
		return fmt.Sprintf("Split the work, raise the turn limit or give %s a model with a larger context window; then run the cycle again.", who)
	case TypePermission:
		return fmt.Sprintf("Decide on the refused call (%s): do it by hand, or allow it in the guard's rules if the tier should have it.",
			in.refused())
	case TypeLoop:
		return fmt.Sprintf("Look at the repeated call (%s) in the transcript of session %d and do by hand what it waits for or cannot reach.",
			in.repeated(), f.Session)
	case TypeProbe, TypeGoal, TypeEvidence, TypeJudge:
		return fmt.Sprintf("Look at %s yourself: a repair was claimed but is not confirmed. The transcript of session %d tells what was done.",
			in.services(), f.Session)
	case TypeFormat, TypeInconclusive:
		return fmt.Sprintf("Read the transcript of session %d: the work may be done although its report is not usable. "+
			"Check the services, then run the cycle again.", f.Session)
	case TypeTimeout, TypeLevelTimeout:
		return fmt.Sprintf("Read in the transcript of session %d what takes so long; raise the limit if it is right, or do that step by hand.",
			f.Session)
	case TypeKilled:
		return fmt.Sprintf("Find out what ended the process of session %d (exit code %s), "+
			"such as the system running out of memory, then run the cycle again.",
			f.Session, in.exit())
	case TypeInterrupted:
		return "Check the state of the services, then run the cycle again: the supervisor ended while an agent was working."
	case TypeUnknown, TypeCancelled, TypeResume, TypeConditional:
	}
	return fmt.Sprintf("Read the end of session %d (exit code %s): the failure is not known. The next scheduled cycle starts afresh.",
		f.Session, in.exit())
}

func (in Facts) credentials() string {
	family := strings.ToLower(in.Failure.Family)
	names := "the credentials of " + cmp.Or(in.Failure.Family, in.Failure.Handler, "the agent CLI")
	switch {
	case family == "" || strings.Contains(family, "claude") || strings.Contains(family, "anthropic"):
		names = "ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"
	case strings.Contains(family, "openai") || strings.Contains(family, "codex") || strings.Contains(family, "gpt"):
		names = "OPENAI_API_KEY"
	case strings.Contains(family, "gemini") || strings.Contains(family, "google"):
		names = "GEMINI_API_KEY"
	}
	text := strings.ToLower(in.Failure.Error)
	if strings.Contains(text, "credit") || strings.Contains(text, "billing") {
		return fmt.Sprintf("Add credit to the account behind %s, then run the cycle again.", names)
	}
	return fmt.Sprintf("Set %s to valid credentials (the API refused those in use, or there were none), "+
		"check with claudeops doctor, then run the cycle again.",
		names)
}

func (in Facts) refused() string {
	if len(in.Failure.Denials) == 0 {
		return "see the guard log"
	}
	d := in.Failure.Denials[0]
	return d.Tool + ", " + d.Reason
}

func (in Facts) repeated() string {
	if in.Failure.Loop.Call == "" {
		return "see the events of the session"
	}
	return in.Failure.Loop.Call
}

func (in Facts) services() string {
	if len(in.Failure.ProbeRed) == 0 {
		return "the affected services"
	}
	return strings.Join(in.Failure.ProbeRed, ", ")
}

func (in Facts) exit() string {
	if in.Failure.ExitCode == nil {
		return "none"
	}
	return fmt.Sprint(*in.Failure.ExitCode)
}
