package gate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/guard"
	"claudeops/internal/ops"
)

// maxRecorded is how much of an input is kept, and keptEnd how much of that is its end.
const (
	maxRecorded = 4 << 10
	keptEnd     = 512
)

// judge decides about a call and records the decision. What was not recorded is not allowed.
func (s *Session) judge(ctx context.Context, q question) guard.Decision {
	start := s.g.o.Clock()
	d := s.decide(ctx, q)
	d.Reason = s.g.o.Redact(d.Reason)
	record := ops.GuardRecord{
		At: start, CycleID: s.session.CycleID, SessionID: s.session.ID, Tier: s.session.May(),
		Gate: q.gate, ToolUseID: q.toolUseID, Tool: q.tool,
		Input: shorten(s.g.o.Redact(string(q.input))), Digest: ops.Digest(q.input),
		Allowed: d.Allowed(), Rule: d.Rule, Reason: d.Reason, Took: s.g.o.Clock().Sub(start),
	}
	var want []ops.Reservation
	if d.Allowed() {
		want = ops.Map(d.Effects, func(e guard.Effect) ops.Reservation {
			return ops.Reservation{Service: e.Service, Project: e.Project, Action: string(e.Kind), Phase: ops.Phase(e.Phase)}
		})
		record.Mutating = len(want) > 0 || d.From > ops.Tier1
		if err := s.g.o.May(); err != nil && record.Mutating {
			d = refused(ruleLease, fmt.Sprintf("This call is refused: %v. Report it for a human.", err))
			record.Allowed, record.Rule, record.Reason, want = false, d.Rule, d.Reason, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.g.limits.record)
	defer cancel()
	if len(want) > 0 {
		s.reserved.Store(true)
	}
	saved, err := s.g.o.Ledger.RecordGuard(ctx, s.g.o.Owner(), record, want, s.g.o.Limits)
	switch {
	case err != nil:
		s.g.o.Logger.ErrorContext(ctx, "a decision of the guard cannot be recorded, so it is a refusal", "session_id", s.session.ID,
			"tool", q.tool, "error", err)
		return refused(ruleRecord, "This call is refused because it could not be recorded: try again later, or report it for a human.")
	case d.Allowed() && !saved.Allowed:
		saved.Reason = cmp.Or(saved.Reason, "This call is refused by its record: report it for a human.")
		return refused(saved.Rule, saved.Reason)
	case saved.Rule == ops.RuleAttack:
		s.alarm(saved)
	}
	return d
}

// decide asks the judge, and makes sure that the answer is one.
func (s *Session) decide(ctx context.Context, q question) guard.Decision {
	if q.refused != nil {
		return *q.refused
	}
	d := s.check(ctx, q)
	switch {
	case !d.Allowed() && d.Reason == "":
		return refused(d.Rule, "This call is refused: report it for a human.")
	case !d.Allowed():
		d.Verdict = guard.Deny
	case q.gate == ops.GateShell && d.Script == "":
		return refused(ruleShape, "This command is refused because there is no plain form of it to run: write it in a simpler way.")
	}
	return d
}

// check runs the judge for a limited time.
func (s *Session) check(ctx context.Context, q question) guard.Decision {
	done := make(chan guard.Decision, 1)
	facts := s.facts
	facts.Cwd = q.cwd
	s.checks.Go(func() {
		d := refused(rulePanic, "The guard broke on this call, so it is refused: write it in a simpler way, or report it for a human.")
		defer func() {
			if p := recover(); p != nil {
				s.g.o.Logger.ErrorContext(ctx, "the guard broke on a call", "session_id", s.session.ID, "tool", q.tool, "panic", fmt.Sprint(p))
			}
			done <- d
		}()
		d = s.g.o.Judge.Check(s.session.May(), q.tool, q.input, facts)
	})
	timer := time.NewTimer(s.g.limits.check)
	defer timer.Stop()
	select {
	case d := <-done:
		return d
	case <-timer.C:
		return refused(ruleTimeout, "This call is refused because judging it took too long: write it in a simpler way.")
	}
}

func refused(rule, reason string) guard.Decision {
	return guard.Decision{Verdict: guard.Deny, Rule: rule, Reason: reason}
}

// shorten keeps the start of a text and some of its end: what a command writes to often stands there.
func shorten(s string) string {
	return strings.ToValidUTF8(ops.Ends(s, maxRecorded-keptEnd, keptEnd, "…"), "�")
}
