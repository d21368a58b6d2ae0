package rehearse

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

// Kind is what a difference is about.
type Kind string

// The kinds of difference.
const (
	KindStep        Kind = "step"        // a step of a cycle
	KindDecision    Kind = "decision"    // a decision about an escalation, of a cycle without stored steps
	KindToolCall    Kind = "tool_call"   // the guard's answer to a tool call
	KindEnvironment Kind = "environment" // the configuration does not have the environment
)

// Difference is one change that happens Count times. Cycle, Step and At are those of the newest. If it is CutShort, what followed in
// these cycles cannot be rehearsed, because the recorded facts hold no longer.
type Difference struct {
	Kind        Kind        `json:"kind"`
	Environment string      `json:"environment"`
	Before      string      `json:"before"`
	After       string      `json:"after"`
	Setting     string      `json:"setting,omitempty"` // the one that makes the difference; empty: none does by itself
	Command     string      `json:"command,omitempty"` // of a tool call
	Tier        ops.Tier    `json:"tier,omitempty"`    // of a tool call
	Count       int         `json:"count"`
	Cycle       ops.CycleID `json:"cycle"`
	Step        int         `json:"step,omitempty"`
	At          time.Time   `json:"at"`
	CutShort    bool        `json:"cut_short,omitempty"`
}

// Counts say how much was rehearsed.
type Counts struct {
	Cycles       int `json:"cycles"`
	Steps        int `json:"steps"`
	DecisionOnly int `json:"decision_only"` // cycles without stored steps
	CutShort     int `json:"cut_short"`     // cycles rehearsed up to a difference
	Departed     int `json:"departed"`      // cycles rehearsed up to where the configuration before already does otherwise than was recorded
	Unreadable   int `json:"unreadable"`    // cycles whose stored steps this version cannot read
	Decisions    int `json:"decisions"`
	ToolCalls    int `json:"tool_calls"` // judged again
	NotJudged    int `json:"not_judged"` // redacted, shortened, or refused for something other than their text
}

// Report is what a rehearsal found.
type Report struct {
	Equal  bool   `json:"equal"`
	Counts Counts `json:"rehearsed"`
	// Differences are grouped, those with the newest example first. Others counts what did not fit in.
	Differences []Difference `json:"differences"`
	Others      int          `json:"others,omitempty"`
	Stopped     string       `json:"stopped,omitempty"` // why older rows were left out; empty: none were
	Notes       []string     `json:"notes"`
}

// maxGroups is how many different differences a report holds.
const maxGroups = 200

// note counts a difference. Rows come newest first, so the first one of a group stands for it, and only its setting is looked for.
func (r *Rehearsal) note(d Difference, setting func() string) {
	key := fmt.Sprintf("%s %s %q %q %q %d", d.Kind, d.Environment, d.Before, d.After, d.Command, d.Tier)
	i, known := r.groups[key]
	switch {
	case known:
		r.report.Differences[i].Count++
	case len(r.groups) == maxGroups:
		r.report.Others++
	default:
		d.Count, d.Setting, r.groups[key] = 1, setting(), len(r.groups)
		r.report.Differences = append(r.report.Differences, d)
	}
}

// Report is what was found so far.
func (r *Rehearsal) Report() Report {
	out := r.report
	out.Equal = len(out.Differences) == 0
	out.Differences, out.Notes = append([]Difference{}, out.Differences...), append([]string{}, out.Notes...)
	slices.SortStableFunc(out.Differences, func(a, b Difference) int { return b.At.Compare(a.At) })
	return out
}

// Summary is the report in one sentence.
func (r Report) Summary() string {
	c, found := r.Counts, "no difference"
	if r.Equal && c == (Counts{}) && r.Stopped == "" {
		return found + ": nothing is on record yet to compare with"
	}
	if !r.Equal {
		found = fmt.Sprintf("%d different", len(r.Differences)+r.Others)
	}
	parts := []string{fmt.Sprintf("%s: %s (%s), %s and %s rehearsed", found, count(c.Cycles-c.DecisionOnly, "cycle"), count(c.Steps, "step"),
		count(c.Decisions, "decision"), count(c.ToolCalls, "tool call"))}
	add := func(n int, what, rest string) {
		if n > 0 {
			parts = append(parts, count(n, what)+" "+rest)
		}
	}
	add(c.DecisionOnly, "older cycle", "decision only")
	add(c.CutShort, "cycle", "only up to the difference")
	add(c.Departed, "cycle", "only up to where the configuration before departs from the record")
	add(c.Unreadable, "cycle", "of which this version cannot read the steps")
	add(c.NotJudged, "tool call", "cannot be judged")
	if r.Stopped != "" {
		parts = append(parts, r.Stopped)
	}
	return strings.Join(parts, "; ")
}

func count(n int, what string) string { return ops.Plural(n, what, what+"s") }

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

// because names the setting that makes a difference by itself: with it alone changed, the result is the new one. It is empty where
// no setting does.
func because(before, after ops.Policy, same func(ops.Policy) bool) string {
	from := reflect.ValueOf(after)
	for i := range from.NumField() {
		p := before
		to := reflect.ValueOf(&p).Elem().Field(i)
		was, err := decide.Sparse(to.Interface())
		is, err2 := decide.Sparse(from.Field(i).Interface())
		if err != nil || err2 != nil || bytes.Equal(was, is) {
			continue
		}
		if to.Set(from.Field(i)); same(p) {
			name, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("json"), ",")
			return setting(name)
		}
	}
	return ""
}

// setting is the key of a part of the policy in the configuration.
func setting(name string) string {
	key, other := map[string]string{
		"context_threshold": "escalation.resume_context_threshold", "windows": "prices", "inventory": "services",
		"tell_escalated": "notify.routes", "process": "escalation.manager", "cooldowns": "cooldown",
	}[name]
	switch {
	case other:
		return key
	case strings.HasPrefix(name, "budget_"):
		return strings.Replace(name, "_", ".", 1)
	case slices.Contains(strings.Fields("max_depth mode routes approval_tier approval independence manager planner judge entry"), name):
		return "escalation." + name
	}
	return name
}
