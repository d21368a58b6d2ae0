package situation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/health"
)

// Ahead says what is about to happen, the most urgent first.
func Ahead(f Facts) []Line {
	var lines []Line
	for _, a := range f.Approvals {
		if l, ok := f.expiring(a); ok {
			lines = append(lines, l)
		}
	}
	for _, s := range f.Services {
		if l, ok := f.soon(s); ok {
			lines = append(lines, l)
		}
	}
	return append(lines, f.scheduled()...)
}

// expiring says what happens to a question that nobody answers.
func (f Facts) expiring(a ops.Approval) (Line, bool) {
	if a.ExpiresAt == nil || !a.ExpiresAt.After(f.Now) {
		return Line{}, false
	}
	i := slices.IndexFunc(f.Open, func(c store.CycleSummary) bool { return c.ID == a.CycleID })
	if i < 0 {
		return Line{}, false
	}
	c := f.Open[i]
	what := fmt.Sprintf("%s for C-%d", a.Tier, a.CycleID)
	if a.Kind == ops.ApprovalReview {
		what = fmt.Sprintf("the repair of C-%d", a.CycleID)
	}
	then := "C-%d ends and still needs a person"
	switch c.Policy.Approval.OnExpiry {
	case ops.OnExpiryDeny:
		then = "it counts as denied, and C-%d ends"
	case ops.OnExpiryApprove:
		then = "C-%d continues without an answer"
	}
	return Line{
		Environment: a.Environment, Tone: ToneHand, Cycle: a.CycleID, Approval: a.ID,
		Parts: []Part{text("The question about %s expires at ", what), at(*a.ExpiresAt), text("; then "+then, a.CycleID)},
	}, true
}

// soon says what the next checks of a bad service lead to.
func (f Facts) soon(s Service) (Line, bool) {
	l := Line{Environment: s.Environment, Tone: ToneWarn, Services: []string{s.Name}}
	if f.stale(s) {
		return l, false
	}
	h := f.heldService(s)
	if h == nil {
		return l, false
	}
	switch h.Why {
	case ops.HoldUnsettled:
		v := f.unsettled(s)
		if v == nil {
			return l, false
		}
		l.Parts = []Part{text("%s: %s", s.Name, strings.Replace(health.Explain(v.State), ";", ",", 1))}
		if next := v.Last.At.Add(f.Every(s.Environment, s.Name)); next.After(f.Now) {
			l.Parts = append(l.Parts, text(" (in about %s)", Span(next.Sub(f.Now).Round(time.Second))))
		}
	case ops.HoldWaiting:
		l.Parts = []Part{text("%s is %s: a cycle starts in a moment, unless others fail with it", s.Name, s.Status)}
	case ops.HoldSilenced, ops.HoldMaintenance, ops.HoldFlapping:
		if h.Until.IsZero() || h.Until.Sub(f.Now) > time.Hour || f.heldByPerson(s) {
			return l, false
		}
		l.Tone, l.Silences = ToneCalm, h.Why == ops.HoldSilenced
		l.Parts = []Part{text("A cycle can start for %s after ", s.Name), at(h.Until), text(", if it is still %s", s.Status)}
	case ops.HoldPerson, ops.HoldCovered, ops.HoldDependency, ops.HoldRecent:
		return l, false
	}
	return l, len(l.Parts) > 0
}

// coming reports whether the next checks of a bad service lead to something.
func (f Facts) coming(s Service) bool {
	_, ok := f.soon(s)
	return ok
}

func (f Facts) heldByPerson(s Service) bool {
	_, held := f.byPerson(s)
	return held
}

// unsettled is the check of a service that is nearest to failing, if none has failed often enough.
func (f Facts) unsettled(s Service) *store.ProbeState {
	if h := f.heldService(s); h == nil || h.Why != ops.HoldUnsettled || f.stale(s) {
		return nil
	}
	var worst *store.ProbeState
	for i := range f.States {
		v := &f.States[i]
		if v.Environment == s.Environment && v.Service == s.Name && v.Unsettled() && (worst == nil || v.Bad > worst.Bad) {
			worst = v
		}
	}
	return worst
}

// scheduled is the next scheduled check of every environment; of many, the first.
func (f Facts) scheduled() []Line {
	var first *Line
	var when time.Time
	for environment, t := range f.NextChecks {
		if t.IsZero() || first != nil && !t.Before(when) {
			continue
		}
		l := Line{Environment: environment, Tone: ToneCalm, Parts: []Part{text("The next scheduled check starts at "), at(t)}}
		if !t.After(f.Now) {
			l.Parts = []Part{text("The next scheduled check is due now")}
		}
		if f.Several {
			l.Parts = append(l.Parts, text(" in %s", environment))
		}
		first, when = &l, t
	}
	if first == nil {
		return nil
	}
	return []Line{*first}
}
