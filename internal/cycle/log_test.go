package cycle

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// A step whose event says the same is one line, with the level of the event.
func TestAStepIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	a := &Advancer{Parts{Logger: slog.New(slog.NewTextHandler(&out, nil))}}
	reason := "Session 1: no agent could be started. Falling back."
	a.log(t.Context(), 1, ops.Result{Session: &ops.Session{ID: 1, Status: ops.SessionFailed}}, ops.Step{
		Kind: ops.StepQueue, Reason: reason, Events: []ops.Event{{Level: ops.LevelWarning, Verb: ops.VerbRecoveryBegun, Reason: reason}},
	})
	if said := out.String(); strings.Count(said, reason) != 1 || strings.Count(said, "\n") != 1 || !strings.Contains(said, "level=WARN") ||
		!strings.Contains(said, "verb=recovery.begun severity=warning") {
		t.Errorf("logged\n%s", said)
	}
	out.Reset()
	a.log(t.Context(), 1, ops.Result{Events: []ops.Event{{Level: ops.LevelCritical, Verb: ops.VerbAgentReported, Reason: "another thing"}}},
		ops.Step{Kind: ops.StepQueue, Reason: "the cycle goes on"})
	if said := out.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, `level=INFO msg="next step" reason="the cycle goes on"`) {
		t.Errorf("logged\n%s", said)
	}
}

func TestTheLastLineSaysWhatToDo(t *testing.T) {
	missing := &ops.Session{Failure: ops.FailureNotFound, Error: "claude was not found: install it"}
	if got := Advice(missing, nil); got != missing.Error {
		t.Errorf("a missing program: %q", got)
	}
	if got := Advice(&ops.Session{Failure: ops.FailureAPI, Error: "401"}, []byte("no JSON")); got != "" {
		t.Errorf("a result that cannot be read: %q", got)
	}
	for agent, key := range map[string]string{"claude": "Set ANTHROPIC_API_KEY or", "codex": "Set OPENAI_API_KEY to"} {
		refused := &ops.Session{Agent: agent, Status: ops.SessionFailed, Failure: ops.FailureAPI, Error: "the API answered 401: no"}
		if got := Advice(refused, nil); !strings.Contains(got, key) || !strings.Contains(got, "in the environment of claudeops") {
			t.Errorf("a wrong key: %q", got)
		}
	}
	var out bytes.Buffer
	a := &Advancer{Parts{Logger: slog.New(slog.NewTextHandler(&out, nil))}}
	a.log(t.Context(), 1, ops.Result{Session: missing}, ops.Step{Kind: ops.StepFinish, Reason: "no fallback is left"})
	if !strings.Contains(out.String(), `to_do="claude was not found: install it"`) {
		t.Errorf("logged\n%s", out.String())
	}
}
