package cycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"claudeops/internal/cycle"
	"claudeops/internal/ops"
)

// A session without structured output that meant to hand over and left no file has not found that all is well.
func TestAHandoffThatIsNotThereIsAskedForAtItsPlace(t *testing.T) {
	elsewhere := []ops.GuardRecord{{Tool: "Write", Allowed: true, Input: `{"file_path":"/tmp/handoff.json","content":"{}"}`}}
	for name, tt := range map[string]struct {
		calls  []ops.GuardRecord
		err    error
		denied []ops.Denial
		says   string // empty: nothing is asked
	}{
		"nothing is recorded":       {},
		"it lies elsewhere":         {calls: elsewhere, says: "not where the supervisor looks for it"},
		"its own program denied it": {denied: []ops.Denial{{Tool: "Write", Input: json.RawMessage(`{"file_path":"handoff.json"}`)}}, says: "was refused (by its own program)"},
		"the record is not read":    {err: errors.New("the disk is gone"), says: "the disk is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			first := func(ops.SessionSpec) ops.RunResult {
				r := success()
				r.CLISessionID, r.Denials = "conversation", tt.denied
				return r
			}
			var s *stage
			agent, specs := acts(first, func(ops.SessionSpec) ops.RunResult {
				s.file.raw = handoffJSON(2)
				return success()
			}, func(ops.SessionSpec) ops.RunResult { return success() })
			s = newStage(t, policy(recovering), agent, func(p *cycle.Parts) {
				p.Gates = &gates{}
				p.Record = firstCalls{p.Record, tt.calls, tt.err}
			})
			s.advance(t)
			told := s.journal.journal.Sessions[0]
			if tt.says == "" {
				if s.journal.cycle.Status != ops.CycleHealthy || told.Outcome != ops.OutcomeHealthy || len(*specs) != 1 {
					t.Errorf("the cycle is %s after %d sessions: %s", s.journal.cycle.Status, len(*specs), s.journal.cycle.Reason)
				}
				return
			}
			if told.Outcome != ops.OutcomeInconclusive || told.Failure != ops.FailureOutcome || !strings.Contains(told.Error, tt.says) {
				t.Errorf("the session is %s (%s): %s", told.Outcome, told.Failure, told.Error)
			}
			if s.journal.cycle.Status != ops.CycleResolved || len(*specs) != 3 {
				t.Fatalf("the cycle is %s after %d sessions: %s", s.journal.cycle.Status, len(*specs), s.journal.cycle.Reason)
			}
			nudge := (*specs)[1]
			if nudge.Resume != "conversation" || (tt.err == nil && !strings.Contains(nudge.Prompt, s.Environments["default"].HandoffPath())) {
				t.Errorf("the nudge continues %q with: %s", nudge.Resume, nudge.Prompt)
			}
		})
	}
}

// firstCalls are those of the first session.
type firstCalls struct {
	cycle.Record

	calls []ops.GuardRecord
	err   error
}

func (c firstCalls) HandoffCalls(_ context.Context, id ops.SessionID) ([]ops.GuardRecord, error) {
	if id != 1 {
		return nil, nil
	}
	return c.calls, c.err
}
