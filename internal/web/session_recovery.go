package web

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// recoveryView is one attempt that the recovery ladder started.
type recoveryView struct {
	At      stamp
	Level   int
	Action  string
	Session ops.SessionID // the one that failed
	Own     bool          // it is the session of this page
	Error   string
	Reason  string
	Facts   []fact
}

// verdictView is the verdict of a judge on a claimed repair.
type verdictView struct {
	At      stamp
	Badge   badge
	Judge   ops.SessionID
	Session ops.SessionID
	Score   string
	Reason  string
	Scores  []fact
	Failed  []string
	Advice  []string
}

// addRecovery adds the recovery attempts of the cycle and the verdicts on its repairs.
func (s *server) addRecovery(ctx context.Context, m moment, view *sessionView) error {
	recoveries, err := s.Store.Recoveries(ctx, view.Cycle)
	if err != nil {
		return fmt.Errorf("read recoveries: %w", err)
	}
	for _, r := range recoveries {
		view.Recoveries = append(view.Recoveries, m.recovery(r, view.ID))
	}
	verdicts, err := s.Store.Verifications(ctx, view.Cycle)
	if err != nil {
		return fmt.Errorf("read verdicts: %w", err)
	}
	for _, v := range verdicts {
		view.Verdicts = append(view.Verdicts, m.verdict(v))
	}
	return nil
}

func (m moment) recovery(r ops.Recovery, current ops.SessionID) recoveryView {
	view := recoveryView{
		At: m.stamp(r.EnteredAt), Level: int(r.Level), Action: plain(string(r.Action)), Session: r.SessionID, Own: r.SessionID == current,
		Error: plain(string(r.ErrorType)), Reason: plain(r.Reason),
	}
	if len(r.PreviousLevels) > 0 {
		levels := make([]string, 0, len(r.PreviousLevels))
		for _, l := range r.PreviousLevels {
			levels = append(levels, fmt.Sprintf("%d %s", int(l), l.Action()))
		}
		view.Facts = append(view.Facts, fact{Name: "Earlier levels", Value: strings.Join(levels, " → ")})
	}
	if r.Handler != "" {
		view.Facts = append(view.Facts, fact{Name: "Handler", Value: plain(r.Handler), Code: true})
	}
	if r.NotBefore != nil {
		view.Facts = append(view.Facts, fact{Name: "Not before", At: m.maybe(r.NotBefore)})
	}
	if r.Deadline != nil {
		view.Facts = append(view.Facts, fact{Name: "Deadline", At: m.maybe(r.Deadline)})
	}
	return view
}

func (m moment) verdict(v ops.Verification) verdictView {
	view := verdictView{
		At: m.stamp(v.At), Badge: judgeBadge(v.Verdict), Judge: v.JudgeSessionID, Session: v.SessionID,
		Score:  fmt.Sprintf("%s, confidence %.0f %%", plural(v.TotalScore, "point", "points"), 100*v.Confidence),
		Reason: plain(v.Reasoning),
	}
	for _, name := range slices.Sorted(maps.Keys(v.Dimensions)) {
		view.Scores = append(view.Scores, fact{Name: plain(name), Value: fmt.Sprint(v.Dimensions[name])})
	}
	for _, text := range v.FailureReasons {
		view.Failed = append(view.Failed, plain(text))
	}
	for _, text := range v.Recommendations {
		view.Advice = append(view.Advice, plain(text))
	}
	return view
}

func judgeBadge(verdict string) badge {
	switch strings.ToLower(verdict) {
	case "pass", "passed", "accept", "accepted":
		return badge{"ok", "circle-check", "Passed"}
	case "fail", "failed", "reject", "rejected":
		return badge{"bad", "octagon-x", "Failed"}
	case "conditional":
		return badge{"hand", "hand", "Conditional"}
	}
	return badge{"warn", "gavel", plain(verdict)}
}
