package decide

import (
	"slices"

	"claudeops/internal/decide/loop"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

func (v view) failure() recovery.Failure { return v.failureOf(*v.last) }

// failureOf is what is known of a session's failure, from the agent's side alone. It is the same when the next attempt
// is told of it as it was when the attempt was ordered.
func (v view) failureOf(s ops.Session) recovery.Failure {
	effects, known := v.journal.Effects[s.ID]
	f := recovery.Failure{
		SchemaVersion: 1, Cycle: int64(v.cycle.ID), Session: int64(s.ID), Tier: int(s.Tier), Handler: s.Handler, Family: s.Family, Model: s.Model,
		Status: s.Status, ExitCode: s.ExitCode, StopCause: s.StopCause, Class: s.Failure, APIStatus: s.APIStatus, Error: s.Error,
		OpenTool: s.OpenTool, Interrupted: s.Status == ops.SessionInterrupted,
		// Without a record of what it was allowed, a tier that may repair may have repaired.
		Mutating: effects.Mutating || (!known && s.May() > ops.Tier1 && (s.ExitCode != nil || s.Status == ops.SessionInterrupted)),
	}
	for _, g := range effects.Done {
		f.Started = append(f.Started, ops.Prose(g.Input))
	}
	for _, g := range effects.Denied {
		f.Denials = append(f.Denials, recovery.Denial{Tool: g.Tool, Rule: g.Rule, Reason: g.Reason})
	}
	if s.RetryAfter > 0 {
		f.RetryAfter = ops.Ptr(int64(s.RetryAfter.Seconds()))
	}
	if s.StopCause == ops.StopLoop {
		f.Loop = &recovery.Loop{Count: s.LoopCount, Level: ops.RecoveryLevel(loop.Defaults().Level(s.LoopCount)), Call: s.LoopCall}
	}
	for _, c := range v.badAfter(s) {
		if !slices.Contains(f.ProbeRed, c.Service) {
			f.ProbeRed = append(f.ProbeRed, c.Service)
		}
	}
	v.problems(s, &f)
	if r, ok := v.verdictOn(s); ok {
		f.Judge = judgeFailure(r)
	}
	return f
}

// problems adds what was wrong with what the session said.
func (v view) problems(s ops.Session, f *recovery.Failure) {
	if s.Outcome == ops.OutcomeInconclusive {
		f.Outcome = recovery.OutcomeMissing
		if len(s.OutcomeJSON) > 0 || s.Proposed() {
			f.Outcome = recovery.OutcomeInvalid
			f.OutcomeProblems = append(f.OutcomeProblems, recovery.Problem{Message: s.Error})
		}
	}
	for _, d := range v.journal.Decisions {
		if d.SessionID == s.ID && d.Verdict == ops.VerdictRefused {
			f.Outcome = recovery.OutcomeInvalid
			f.OutcomeProblems = append(f.OutcomeProblems, recovery.Problem{Message: d.Reason})
		}
	}
}
