package cycle

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/failpoint"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// collect takes what a completed session says into its row: the structured outcome where there is one, else the handoff
// file. The file itself is deleted after the row is written.
func (a *Advancer) collect(ctx context.Context, env ops.Environment, now ops.Claimed, r *ops.Result, denied []ops.Denial) {
	s := r.Session
	failpoint.Hit("handoff.read.before")
	raw, present, err := a.Handoffs.Read(env.StateDir)
	failpoint.Hit("handoff.read.after")
	if a.structured(r) {
		if present {
			r.Events = append(r.Events, a.warn(*s, ops.VerbHandoffWarned, notice.HandoffTwice, nil))
		}
		return
	}
	switch {
	case err != nil:
		s.HandoffError = err.Error()
	case present && len(raw) == 0:
		s.HandoffError = "handoff.json is empty"
	case present:
		s.HandoffJSON = []byte(a.Redact(string(raw)))
	}
	report.Read(s)
	s.Outcome = decide.Conclude(*s)
	problem := ""
	switch {
	case s.Proposed():
	case s.Structured:
		// A program that is known to answer, and did not, has said nothing: silence is not health.
		problem = "it ended without a structured outcome and without a handoff file"
	default:
		problem = a.misplaced(ctx, env, now, r, denied)
	}
	if problem != "" {
		s.Outcome, s.Failure, s.Error = ops.OutcomeInconclusive, ops.FailureOutcome, problem
	}
}

// misplaced looks into the record of a session's calls for a handoff that is not where it belongs, and says so.
func (a *Advancer) misplaced(ctx context.Context, env ops.Environment, now ops.Claimed, r *ops.Result, denied []ops.Denial) string {
	s := *r.Session
	var calls []ops.GuardRecord
	if a.Gates.Judge() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		var err error
		if calls, err = a.Record.HandoffCalls(ctx, s.ID); err != nil {
			return fmt.Sprintf("it left no handoff file, and whether it tried to could not be read: %v", err)
		}
	}
	for _, d := range denied {
		calls = append(calls, ops.GuardRecord{Tool: d.Tool, Input: string(d.Input), Reason: "by its own program"})
	}
	var before *ops.Session
	if s.RetryOf != nil {
		before = now.Journal.Session(*s.RetryOf)
	}
	return decide.Misplaced(s, before, calls, env.HandoffPath())
}

// problem names what the session found. The agent wrote the texts, so they are redacted before they are cut.
func (a *Advancer) problem(s ops.Session) string {
	found := decide.Troubles(s)
	for i := range found {
		found[i].Service, found[i].Error = a.Redact(found[i].Service), a.Redact(found[i].Error)
	}
	return ops.ProblemOf(found)
}

// structured takes the structured outcome of a session and reports whether there was one that counts.
func (a *Advancer) structured(r *ops.Result) bool {
	s := r.Session
	if len(s.OutcomeJSON) == 0 {
		return false
	}
	o, found := report.Outcome(s.OutcomeJSON, s.Tier)
	for _, w := range found.Warnings {
		r.Events = append(r.Events, a.warn(*s, ops.VerbOutcomeWarned, w, nil))
	}
	if !found.OK() {
		problem := "the structured outcome is not valid: " + strings.Join(report.Sentences(found.Errors), "; ")
		if !s.Structured {
			r.Events = append(r.Events, a.warn(*s, ops.VerbOutcomeWarned, problem, nil)) // nobody asked for it
			return false
		}
		s.Outcome, s.Failure, s.Error = ops.OutcomeInconclusive, ops.FailureOutcome, problem
		if s.Tier == ops.LastTier && asksForHelp(s.OutcomeJSON) {
			s.HandoffError = problem // however badly it asks, nobody but a human comes after the last tier
		}
		report.Read(s)
		return true
	}
	s.Outcome, s.Report = o.Kind, &o
	if o.Handoff != nil {
		raw, err := json.Marshal(o.Handoff)
		if err != nil { // it was just parsed
			s.Outcome, s.Failure, s.Error = ops.OutcomeInconclusive, ops.FailureOutcome, fmt.Sprintf("keep handoff: %v", err)
			return true
		}
		s.HandoffJSON, s.Proposal = raw, &ops.Proposal{Handoff: o.Handoff}
	}
	for _, e := range o.Events {
		event := a.warn(*s, ops.VerbAgentReported, e.Message, nil)
		event.Actor.Kind = ops.ActorAgent
		event.Level, event.Service = e.Level, e.Service
		r.Events = append(r.Events, event)
	}
	for _, l := range o.Memories {
		r.Lessons = append(r.Lessons, decide.CleanLesson(l))
	}
	return true
}

// asksForHelp looks into an outcome that is not valid for what it wanted.
func asksForHelp(raw json.RawMessage) bool {
	var o struct {
		Kind    ops.OutcomeKind `json:"outcome"`
		Handoff json.RawMessage `json:"handoff"`
	}
	// A field of another type says nothing either.
	_ = json.Unmarshal(raw, &o)
	return o.Kind == ops.OutcomeEscalate || len(o.Handoff) > 0
}
