package apitest

import (
	"claudeops/internal/ops"
)

// Say adds lines to the output of a running session.
func (j *Journal) Say(id ops.SessionID, texts ...string) {
	j.t.Helper()
	count, err := j.Store.Journal.TranscriptCount(j.t.Context(), id)
	j.must(err)
	lines := make([]ops.Line, 0, len(texts))
	for i, text := range texts {
		lines = append(lines, ops.Line{Seq: count + int64(i) + 1, At: j.Now, Text: text})
	}
	j.must(j.Store.Journal.AppendTranscript(j.t.Context(), j.owner, id, lines))
}

// End ends a running session and its cycle.
func (j *Journal) End(id ops.SessionID, outcome ops.OutcomeKind, status ops.CycleStatus, reason string) {
	j.t.Helper()
	session, err := j.Store.Journal.Session(j.t.Context(), id)
	j.must(err)
	session.Status, session.Outcome, session.EndedAt = ops.SessionCompleted, outcome, ops.Ptr(j.Now)
	j.commit(session.CycleID, ops.Result{Session: &session}, ops.Step{Kind: ops.StepFinish, Status: status, Reason: reason})
}

// Step writes what a running cycle decided, without doing it.
func (j *Journal) Step(id ops.CycleID, step ops.Step) {
	j.t.Helper()
	j.commit(id, ops.Result{}, step)
}
