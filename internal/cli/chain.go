package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// printChain draws the sessions of a cycle as a tree with what each cost, and the total.
func printChain(w io.Writer, c store.CycleSummary) {
	fmt.Fprintf(w, "Escalation Chain for Cycle #%d\n", c.ID)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i, s := range c.Sessions {
		branch := "├──"
		if i == len(c.Sessions)-1 {
			branch = "└──"
		}
		end := string(s.Status)
		if s.Outcome != "" {
			end += " · " + string(s.Outcome)
		}
		if s.StopCause != "" {
			end += " · stopped: " + string(s.StopCause)
		}
		switch {
		case !s.Works():
			end = string(s.Role) + " · " + string(s.Status)
		case s.RecoveryLevel > 0:
			end += fmt.Sprintf(" · %s after #%d", s.RecoveryLevel.Action(), *s.RetryOf)
		case s.RetryOf != nil:
			end += fmt.Sprintf(" · again after #%d", *s.RetryOf)
		}
		fmt.Fprintln(t, tabbed(
			fmt.Sprintf("%s Session #%d", branch, s.ID), s.Tier.String(), s.Model, money(s.CostUSD), span(s.DurationMS),
			count(s.NumTurns, "turn", "turns"), mark(s.Status)+" "+end))
	}
	_ = t.Flush() // w is a buffer or stdout; a broken pipe shows in the next write
	total := totalOf(c.Sessions)
	if len(c.Sessions) == 0 {
		fmt.Fprintln(w, "    no session has run")
	}
	fmt.Fprintf(w, "Total: %s  %s  %s\n", money(total.cost), duration(total.time), count(total.turns, "turn", "turns"))
	fmt.Fprintf(w, "Result: %s", c.Status)
	if c.Reason != "" {
		fmt.Fprintf(w, " (%s)", clean(c.Reason))
	}
	fmt.Fprintln(w)
}

type sums struct {
	cost  *float64
	turns *int64
	time  time.Duration
}

// totalOf adds up what is known; what no session reported stays unknown.
func totalOf(sessions []ops.Session) sums {
	var t sums
	for _, s := range sessions {
		if s.CostUSD != nil {
			t.cost = ops.Ptr(value(t.cost) + *s.CostUSD)
		}
		if s.NumTurns != nil {
			t.turns = ops.Ptr(value(t.turns) + *s.NumTurns)
		}
		if s.DurationMS != nil {
			t.time += time.Duration(*s.DurationMS) * time.Millisecond
		}
	}
	return t
}

func value[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// printDecisions shows the report of every route.
func printDecisions(w io.Writer, decisions []ops.Decision) {
	for _, d := range decisions {
		fmt.Fprintf(w, "\nDecision after session #%d: %s\n", d.SessionID, d.Verdict)
		for _, line := range [][2]string{
			{"source_handler", d.SourceHandler},
			{"target_handler", or(d.TargetHandler, "none")},
			{"escalation_reason", or(clean(d.Proposed), "none given")},
			{"decision_reason", clean(d.Reason)},
			{"escalation_depth", fmt.Sprint(d.Depth)},
			{"max_depth", fmt.Sprint(d.MaxDepth)},
			{"target_validated", fmt.Sprint(d.TargetValidated)},
			{"self_escalation_rejected", fmt.Sprint(d.SelfEscalationRejected)},
			{"process_mode", string(d.ProcessMode)},
			{"manager_present", fmt.Sprint(d.ManagerPresent)},
			{"path", "[" + strings.Join(d.Path, ", ") + "]"},
		} {
			fmt.Fprintf(w, "  %s: %s\n", line[0], line[1])
		}
	}
}

// printLadder shows how the supervisor got to a usable outcome, or what it ended with.
func printLadder(w io.Writer, recoveries []ops.Recovery, verified []ops.Verification, result []byte) {
	if len(recoveries) > 0 {
		fmt.Fprintln(w, "\nRecovery")
	}
	for _, r := range recoveries {
		fmt.Fprintf(w, "  %s  level %d %-10s after session #%d (%s), before: %v: %s\n",
			r.EnteredAt.Local().Format("15:04:05"), r.Level, r.Action, r.SessionID, r.ErrorType, r.PreviousLevels, clean(r.Reason))
	}
	for _, v := range verified {
		fmt.Fprintf(w, "\nVerification of session #%d by session #%d: %s, %d of 100: %s\n", v.SessionID, v.JudgeSessionID, v.Verdict, v.TotalScore, clean(v.Reasoning))
	}
	if len(result) > 0 {
		fmt.Fprintf(w, "\nPartial result\n%s\n", result)
	}
}

// printApprovals shows what people were asked and what they said.
func printApprovals(w io.Writer, approvals []ops.Approval) {
	for _, a := range approvals {
		fmt.Fprintf(w, "\nApproval #%d (%s): %s", a.ID, a.Handler, a.Status)
		if a.AnsweredBy != "" {
			fmt.Fprintf(w, " by %s at %s %s", a.AnsweredBy, stamp(a.AnsweredAt), clean(a.Answer))
		}
		fmt.Fprintln(w)
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
