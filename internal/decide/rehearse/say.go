package rehearse

import (
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

// said is a step in words, without what is only wording: what is done, and what people see of it.
type said struct{ does, tells []string }

func (s said) equal(o said) bool {
	return slices.Equal(s.does, o.does) && slices.Equal(s.tells, o.tells)
}

// against names two different steps, and reports whether what follows depends on the difference.
func (s said) against(o said) (before, after string, cut bool) {
	if cut = !slices.Equal(s.does, o.does); cut {
		return strings.Join(s.does, "; "), strings.Join(o.does, "; "), true
	}
	return orNothing(s.tells), orNothing(o.tells), false
}

func orNothing(words []string) string {
	if len(words) == 0 {
		return "tells nobody"
	}
	return strings.Join(words, "; ")
}

// say puts a step into words.
func say(s ops.Step, t decide.Taken) said {
	out := said{does: []string{action(s, t)}}
	do := func(is bool, format string, args ...any) {
		if is {
			out.does = append(out.does, fmt.Sprintf(format, args...))
		}
	}
	if s.Decision != nil {
		do(true, "%s", ruling(*s.Decision))
	}
	if s.Recovery != nil {
		do(true, "recovery level %d for %s by %s", s.Recovery.Level, s.Recovery.ErrorType, s.Recovery.Handler)
	}
	do(s.Skipped != "", "skips the rest of the plan")
	for _, x := range s.Reduced {
		do(true, "trusts %s less", x.Service)
	}
	do(len(s.ReflexOff) > 0, "switches off %d reflexes", len(s.ReflexOff))
	for _, n := range s.Notices {
		out.tells = append(out.tells, fmt.Sprintf("tells %s (%s)", n.Kind, n.Level))
	}
	for _, i := range []*ops.IncidentReport{s.Incident, s.Left} {
		if i == nil {
			continue
		}
		text := fmt.Sprintf("incident of %s (%s)", strings.Join(slices.Concat(i.Services, i.Unlisted), ", "), i.Level)
		if i.Handled {
			text += ", nobody is called"
		}
		out.tells = append(out.tells, text)
	}
	if n := len(s.Recovered); n > 0 {
		out.tells = append(out.tells, fmt.Sprintf("ends %s", count(n, "incident")))
	}
	return out
}

// action is what the worker does.
func action(s ops.Step, t decide.Taken) string {
	after := ""
	if !s.Until.IsZero() {
		after = " for " + s.Until.Sub(t.At).Round(1e9).String()
	}
	switch {
	case s.Kind == ops.StepQueue && s.Session != nil:
		h := s.Session.Handler
		model := strings.TrimSpace(h.Agent + " " + h.Model)
		return fmt.Sprintf("starts %s (%s, %s)", strings.TrimSpace(string(s.Session.Role)+" "+h.ID), model, s.Session.ContextMode)
	case s.Kind == ops.StepProbe:
		return strings.TrimSpace(fmt.Sprintf("probes to %s %s", s.Purpose, strings.Join(s.Services, ", ")))
	case s.Kind == ops.StepAwait && s.Approval != nil:
		return fmt.Sprintf("asks a human about %s%s", strings.TrimSpace(string(s.Approval.Kind)+" "+s.Approval.Handler), after)
	case s.Kind == ops.StepAwait:
		return "waits for a human" + after
	case s.Kind == ops.StepAct && s.Act != nil && s.Act.Reflex != nil:
		return fmt.Sprintf("does step %d of the reflex %s of %s", s.Act.Step, strings.Join(s.Act.Reflex.Do, ", "), s.Act.Reflex.Service)
	case s.Kind == ops.StepAct && s.Act != nil && s.Act.Interrupt == 0:
		return fmt.Sprintf("does step %d of the plan", s.Act.Step)
	case s.Kind == ops.StepFinish:
		return strings.TrimSpace(fmt.Sprintf("ends %s %s", s.Status, s.ConfirmedBy))
	}
	return string(s.Kind) + after
}

// ruling is a decision about an escalation in words.
func ruling(d ops.Decision) string {
	text := string(d.Verdict)
	if d.Check != ops.ObjectionNone && d.Check != "" {
		text += " by " + string(d.Check)
	}
	if d.TargetHandler != "" {
		text += ", to " + d.TargetHandler
	}
	if len(d.Services) > 0 {
		text += " for " + strings.Join(d.Services, ", ")
	}
	return text
}
