package cycle

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"claudeops/internal/decide/loop"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// watch looks at a session while it runs: whether it repeats itself, spends too much, or takes longer than its rung of
// the ladder has.
type watch struct {
	session  ops.Session
	loops    *loop.Detector // nil: loops are not stopped
	calls    map[string]ops.Activity
	count    int
	called   bool // it used a tool
	changed  bool // it changed a file with a tool that no gate judges
	estimate func(ops.Activity) float64
	budget   float64
	turns    map[string]bool
	maxTurns int
}

// patchTool is how Codex tells that it changed files itself. It asks no gate about that.
const patchTool = "file_change"

// maxTurns bounds a session that only answers a question.
const maxTurns = 20

func (a *Advancer) watch(ctx context.Context, now ops.Claimed, s ops.Session, runner Runner, spec ops.SessionSpec) *watch {
	w := &watch{
		session: s, calls: map[string]ops.Activity{}, turns: map[string]bool{}, budget: spec.BudgetUSD, estimate: NewEstimate(a.Prices).Add,
	}
	if !s.Works() {
		w.maxTurns = maxTurns
		return w
	}
	if now.Cycle.Policy.Recovery.Enabled {
		w.loops = &loop.Detector{}
		w.remember(ctx, a, now.Journal, runner)
	}
	return w
}

// remember feeds what earlier attempts at the same tier did: a fresh attempt that repeats the same call goes on counting.
func (w *watch) remember(ctx context.Context, a *Advancer, j ops.Journal, runner Runner) {
	for _, s := range j.Sessions {
		if s.ID == w.session.ID || !s.Works() || s.Tier != w.session.Tier || s.Agent != w.session.Agent {
			continue
		}
		lines, err := a.Knowledge.Transcript(ctx, s.ID)
		if err != nil {
			a.Logger.WarnContext(ctx, "earlier output could not be read; loops are counted from here", "session", s.ID, "error", err)
			continue
		}
		w.loops.NewAttempt()
		for _, line := range lines {
			for _, act := range runner.Activities(line.Text) {
				act.At = line.At
				w.action(act)
			}
		}
	}
	w.loops.NewAttempt()
}

// saw is told what the session does, and says when it has to stop.
func (w *watch) saw(a ops.Activity) *ops.Halt {
	w.called = w.called || a.Kind == ops.ActivityCall
	w.changed = w.changed || a.Tool == patchTool
	if h := w.looping(a); h != nil {
		return h
	}
	if h := w.spending(a); h != nil {
		return h
	}
	return nil
}

func (w *watch) looping(a ops.Activity) *ops.Halt {
	found, ok := w.action(a)
	// What it does until it is gone is not held against it: that depends on the machine.
	if !ok || found.Level == ops.RecoveryNone || w.count > 0 {
		return nil
	}
	w.count = found.Count
	return &ops.Halt{
		Cause: ops.StopLoop,
		Call:  found.Call,
		Why:   fmt.Sprintf("it repeated itself %d times without progress: %s", found.Count, found.Call),
	}
}

// action pairs a call with its result and asks the detector.
func (w *watch) action(a ops.Activity) (loop.Finding, bool) {
	if w.loops == nil {
		return loop.Finding{}, false
	}
	switch a.Kind {
	case ops.ActivityCall:
		w.calls[a.UseID] = a
	case ops.ActivityResult:
		call, ok := w.calls[a.UseID]
		if !ok {
			return loop.Finding{}, false
		}
		delete(w.calls, a.UseID)
		if call.Tool == ops.ToolOutcome {
			return loop.Finding{}, false // an answer that does not fit the form is a matter of the nudge
		}
		return w.loops.Saw(loop.Action{Tool: call.Tool, Args: call.Input, OutputHash: loop.HashOutput(a.Output)})
	case ops.ActivityUsage:
	}
	return loop.Finding{}, false
}

func (w *watch) spending(a ops.Activity) *ops.Halt {
	if a.Kind != ops.ActivityUsage {
		return nil
	}
	if w.turns[a.Message] = true; w.maxTurns > 0 && len(w.turns) > w.maxTurns {
		return &ops.Halt{Cause: ops.StopBudget, Why: fmt.Sprintf("it used more than %d turns for one answer", w.maxTurns)}
	}
	if spent := w.estimate(a); w.budget > 0 && spent >= w.budget {
		return &ops.Halt{
			Cause: ops.StopBudget, Boundary: true,
			Why: fmt.Sprintf("its budget of %s is spent (about %s by the usage it reported)", ops.Dollars(&w.budget), ops.Dollars(&spent)),
		}
	}
	return nil
}

// log writes one line per step. An event that says the same as the step is that line, with the level of the event.
func (a *Advancer) log(ctx context.Context, id ops.CycleID, done ops.Result, step ops.Step) {
	attrs := []any{"cycle", id, "step", step.Kind, "row", step.Row}
	if done.Session != nil {
		attrs = append(attrs, "session", done.Session.ID, "status", done.Session.Status)
	} else if step.Target != 0 {
		attrs = append(attrs, "session", step.Target)
	}
	level := slog.LevelInfo
	var severity []any
	for _, e := range append(append([]ops.Event{}, done.Events...), step.Events...) {
		switch {
		case e.Level == ops.LevelInfo:
			continue
		case e.Reason == step.Reason:
			level, severity = slog.LevelWarn, []any{"verb", e.Verb, "severity", e.Level}
			continue // the line of the step says it
		}
		a.Logger.WarnContext(ctx, "event", append([]any{"message", notice.Words(e), "verb", e.Verb, "severity", e.Level}, attrs...)...)
	}
	if step.Kind == ops.StepFinish {
		if todo := Advice(done.Session, step.Result); todo != "" {
			attrs = append(attrs, "to_do", ops.Spoken(todo))
		}
	}
	a.Logger.Log(ctx, level, "next step", append(append([]any{"reason", ops.Spoken(step.Reason)}, severity...), attrs...)...)
}

// Advice is what a person should do after a cycle that ended without success, in one sentence, or nothing. An agent program that is
// missing, too old or does not start says itself what is wrong.
func Advice(last *ops.Session, result []byte) string {
	switch {
	case last == nil:
	case slices.Contains([]ops.FailureClass{ops.FailureNotFound, ops.FailureTooOld, ops.FailureStart}, last.Failure) && last.Error != "":
		return last.Error
	case refused(*last):
		return fmt.Sprintf("Set %s to a valid key in the environment of claudeops, and check it with 'claudeops doctor' and 'claudeops once'.",
			keysOf(last.Agent))
	}
	if len(result) == 0 {
		return ""
	}
	ending, report := recovery.ParseForceDone(result)
	if !report.OK() {
		return ""
	}
	return ending.Recommendation
}

// refused reports whether the model's API did not accept the key of a session, or there was none.
func refused(s ops.Session) bool {
	if s.Status == ops.SessionCompleted || s.Failure == ops.FailureNone {
		return false
	}
	said := strings.ToLower(s.Error)
	return slices.ContainsFunc([]string{
		"api answered 401", "invalid api key", "invalid x-api-key", "please run /login", "authentication_failed", "authentication_error",
	}, func(words string) bool { return strings.Contains(said, words) })
}

// keysOf names the variables that hold the key of an agent.
func keysOf(agent string) string {
	if agent == "codex" {
		return "OPENAI_API_KEY"
	}
	return "ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"
}
