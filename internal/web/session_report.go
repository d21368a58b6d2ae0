package web

import (
	"encoding/json"
	"html/template"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// maxReported bounds each list of a report on a page.
const maxReported = 100

// reportView is what a session reported, in readable form.
type reportView struct {
	Outcome  *badge
	Summary  template.HTML
	Affected []string
	Checks   []reportedCheck
	Findings template.HTML
	Tried    template.HTML
	Reason   string
	Target   string
	Plan     []ops.PlanStep
	Actions  []reportedAction
	Remarks  []reportedRemark
	Lessons  []ops.Lesson
}

type reportedCheck struct {
	Service  string
	Type     string
	Badge    badge
	Error    string
	Response string
}

type reportedAction struct {
	Title  string
	Badge  badge
	Detail string
}

type reportedRemark struct {
	Badge   badge
	Service string
	Message string
}

// outcomeReport renders a structured outcome, or returns nil if there is none that can be read.
func (s *server) outcomeReport(session ops.Session) *reportView {
	var o ops.Outcome
	if len(session.OutcomeJSON) == 0 || json.Unmarshal(session.OutcomeJSON, &o) != nil || o.Kind == "" {
		return nil
	}
	shown := outcomeBadge(o.Kind, false)
	view := &reportView{Outcome: &shown, Summary: s.prose(o.Summary), Checks: reportedChecks(o.CheckResults)}
	if o.Handoff != nil {
		view.addHandoff(s, *o.Handoff)
		if len(o.CheckResults) == 0 {
			view.Checks = reportedChecks(o.Handoff.CheckResults)
		}
	}
	for _, a := range o.Actions[:min(len(o.Actions), maxReported)] {
		done := badge{"bad", "octagon-x", "Failed"}
		if a.Success {
			done = badge{"ok", "circle-check", "Done"}
		}
		view.Actions = append(view.Actions, reportedAction{Title: firstLine(a.Action+" "+a.Service, 200), Badge: done, Detail: plain(a.Detail)})
	}
	for _, e := range o.Events[:min(len(o.Events), maxReported)] {
		view.Remarks = append(view.Remarks, reportedRemark{
			Badge: levelBadge(e.Level), Service: firstLine(e.Service, 80), Message: plain(e.Message),
		})
	}
	for _, l := range o.Memories[:min(len(o.Memories), maxReported)] {
		view.Lessons = append(view.Lessons, ops.Lesson{Category: plain(l.Category), Service: plain(l.Service), Observation: plain(l.Observation)})
	}
	return view
}

// handoffReport renders a handoff, or returns nil if there is none that can be read.
func (s *server) handoffReport(session ops.Session) *reportView {
	var h ops.Handoff
	if len(session.HandoffJSON) == 0 || json.Unmarshal(session.HandoffJSON, &h) != nil {
		return nil
	}
	view := &reportView{Checks: reportedChecks(h.CheckResults)}
	view.addHandoff(s, h)
	return view
}

func (v *reportView) addHandoff(s *server, h ops.Handoff) {
	for _, name := range h.ServicesAffected[:min(len(h.ServicesAffected), maxReported)] {
		v.Affected = append(v.Affected, firstLine(name, 80))
	}
	v.Reason, v.Target = plain(h.Reason), plain(h.Target)
	if v.Target == "" && h.RecommendedTier.Known() {
		v.Target = h.RecommendedTier.String()
	}
	v.Findings, v.Tried = s.prose(h.InvestigationFindings), s.prose(h.RemediationAttempted)
	for _, p := range h.Plan[:min(len(h.Plan), maxReported)] {
		v.Plan = append(v.Plan, ops.PlanStep{
			Service: plain(p.Service), Action: plain(p.Action), Reason: plain(p.Reason), Effect: plain(p.Effect),
		})
	}
}

// prose renders markdown that an agent wrote, shortened.
func (s *server) prose(text string) template.HTML {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return s.markdown.html(shorten(text))
}

func reportedChecks(all []ops.CheckResult) []reportedCheck {
	var out []reportedCheck
	for _, c := range all[:min(len(all), maxReported)] {
		view := reportedCheck{
			Service: firstLine(c.Service, 80), Type: firstLine(string(c.CheckType), 40), Badge: healthBadge(c.Status),
			Error: firstLine(c.Error, 300),
		}
		if c.ResponseTimeMS != nil {
			view.Response = span(time.Duration(*c.ResponseTimeMS) * time.Millisecond)
		}
		out = append(out, view)
	}
	return out
}

// isDocument reports whether a text is a JSON object, which people read under "Raw".
func isDocument(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{") && json.Valid([]byte(text))
}
