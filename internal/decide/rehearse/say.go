package rehearse

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

// said is a step in words that leave out what is only wording: what is done, on which all that follows depends, and what people see.
type said struct{ does, tells string }

func say(s ops.Step, t decide.Taken) said {
	does := []string{action(s, t)}
	if s.Decision != nil {
		does = append(does, ruling(*s.Decision))
	}
	if s.Recovery != nil {
		does = append(does, fmt.Sprintf("recovery level %d for %s by %s", s.Recovery.Level, s.Recovery.ErrorType, s.Recovery.Handler))
	}
	if s.Skipped != "" {
		does = append(does, "skips the rest of the plan")
	}
	for _, x := range s.Reduced {
		does = append(does, "trusts "+x.Service+" less")
	}
	for range s.ReflexOff {
		does = append(does, "switches a reflex off")
	}
	var tells []string
	for _, n := range s.Notices {
		tells = append(tells, fmt.Sprintf("tells %s (%s)", n.Kind, n.Level))
	}
	for _, i := range []*ops.IncidentReport{s.Incident, s.Left} {
		if i != nil {
			tells = append(tells, fmt.Sprintf("incident of %s (%s, %s)", strings.Join(slices.Concat(i.Services, i.Unlisted), ", "), i.Level,
				map[bool]string{true: "nobody is called", false: "a human is called"}[i.Handled]))
		}
	}
	if n := len(s.Recovered); n > 0 {
		tells = append(tells, "ends "+count(n, "incident"))
	}
	if len(tells) == 0 {
		tells = []string{"tells nobody"}
	}
	return said{strings.Join(does, "; "), strings.Join(tells, "; ")}
}

// action is what the worker does.
func action(s ops.Step, t decide.Taken) string {
	words := []string{string(s.Kind)}
	switch {
	case s.Kind == ops.StepQueue && s.Session != nil:
		h := s.Session.Handler
		return spaced("starts", string(s.Session.Role), h.ID, fmt.Sprintf("(%s, %s)", spaced(h.Agent, h.Model), s.Session.ContextMode))
	case s.Kind == ops.StepProbe:
		words = []string{"probes to", string(s.Purpose), strings.Join(s.Services, ", ")}
	case s.Kind == ops.StepAwait && s.Approval != nil:
		words = []string{"asks a human about", string(s.Approval.Kind), s.Approval.Handler}
	case s.Kind == ops.StepAct && s.Act != nil && s.Act.Reflex != nil:
		words = []string{"does step", fmt.Sprint(s.Act.Step), "of the reflex", strings.Join(s.Act.Reflex.Do, ", "), "of", s.Act.Reflex.Service}
	case s.Kind == ops.StepAct && s.Act != nil:
		words = []string{"does step", fmt.Sprint(s.Act.Step), "of the plan"}
	case s.Kind == ops.StepFinish:
		words = []string{"ends", string(s.Status), string(s.ConfirmedBy)}
	}
	if !s.Until.IsZero() {
		words = append(words, "for", s.Until.Sub(t.At).Round(time.Second).String())
	}
	return spaced(words...)
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

func spaced(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
