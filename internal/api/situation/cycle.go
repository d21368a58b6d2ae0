package situation

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// cycleOf is the cycle that works on a service, or nil: it has the service in its charge, or the one that the service depends on; a look
// has what it was found in, or has opened an incident for.
func (f Facts) cycleOf(s Service) *store.CycleSummary {
	for n := range f.Open {
		c := &f.Open[n]
		if c.Environment != s.Environment {
			continue
		}
		if slices.Contains(c.Charge.Services, s.Name) {
			return c
		}
		for _, cause := range f.Causes {
			ours := func(name string) bool { return c.Charge.Open || slices.Contains(c.Charge.Services, name) }
			about := slices.Contains(cause.Affected, s.Name) || slices.Contains(cause.Services, s.Name) && ours(s.Name)
			if cause.Cycle == c.ID && about && slices.ContainsFunc(cause.Services, ours) {
				return c
			}
		}
		for _, i := range f.Incidents {
			asks := i.Waiting != nil && *i.Waiting == c.ID
			if i.Environment == s.Environment && i.Service == s.Name && (asks || c.Charge.Open && i.LastCycle == c.ID) {
				return c
			}
		}
	}
	return nil
}

func (f Facts) byCycle(s Service) (state, bool) {
	c := f.cycleOf(s)
	if c == nil {
		return state{}, false
	}
	d := f.work(*c)
	d.key = fmt.Sprint("cycle ", c.ID)
	return d, true
}

// aboutCycle is the sentence about a cycle that is not about a bad service.
func (f Facts) aboutCycle(c store.CycleSummary) Line {
	d := f.work(c)
	title := c.Title()
	if title != c.Trigger.Title() || c.Problem != "" {
		title = strings.TrimSuffix(ops.Cut(title, longTitle), ".")
	}
	parts := d.parts
	if d.alone != nil {
		parts = d.alone
	}
	return Line{
		Environment: c.Environment, Tone: d.tone, Cycle: c.ID, Session: d.session, Approval: d.approval,
		Parts: append([]Part{text("C-%d %s: ", c.ID, title)}, parts...),
	}
}

// longTitle limits the title of a cycle in a sentence.
const longTitle = 80

// work says what happens in a cycle that has not ended.
func (f Facts) work(c store.CycleSummary) state {
	d := state{tone: ToneRun, cycle: c.ID}
	var last *ops.Session
	if n := len(c.Sessions); n > 0 {
		last = &c.Sessions[n-1]
		d.session = last.ID
	}
	switch {
	case c.Status == ops.CycleWaitingHuman:
		f.waiting(c, &d)
	case c.Status == ops.CycleQueued && c.StartedAt == nil:
		d.tone, d.parts = ToneCalm, []Part{text("C-%d is queued for ", c.ID), lasting(c.CreatedAt)}
	case c.WakeAt != nil && c.WakeAt.After(f.Now):
		d.tone, d.parts = ToneCalm, []Part{text("next attempt at "), at(*c.WakeAt), text("%s", after(c.Sessions))}
	case last != nil && last.Status == ops.SessionRunning && last.StartedAt != nil:
		about := func(object string) []Part {
			return []Part{text("%s, ", does(*last, c.Policy.DryRun || c.Options.DryRun, object)), lasting(*last.StartedAt)}
		}
		d.parts, d.manyOf, d.alone = about("it"), about("them"), about("")
	case last != nil && last.Status.Ended():
		d.parts = []Part{text("%s has ended, the supervisor checks its result", last.Tier)}
	case last != nil:
		d.parts = []Part{text("%s starts", last.Tier)}
	default:
		d.parts = []Part{text("the supervisor runs its probes")}
	}
	return d
}

// does says what a running session does, and to what: "it", "them", or nothing.
func does(s ops.Session, dryRun bool, object string) string {
	looking, repairing := "looking at "+object, "repairing "+object
	if object == "" {
		looking, repairing = "looking", "working"
	}
	switch {
	case s.Role == ops.RoleManager:
		return "a manager chooses who continues"
	case s.Role == ops.RolePlanner:
		return "a planner looks for the cause"
	case s.Role == ops.RoleJudge:
		return "a judge checks the repair"
	case dryRun:
		return fmt.Sprintf("%s is %s (dry run)", s.Tier, looking)
	case s.Tier <= ops.Tier1:
		return fmt.Sprintf("%s is %s", s.Tier, looking)
	case s.RecoveryLevel > 0 || s.Attempt > 1:
		return fmt.Sprintf("%s is %s, attempt %d", s.Tier, repairing, max(2, s.Attempt))
	}
	return fmt.Sprintf("%s is %s", s.Tier, repairing)
}

// after says why there is a next attempt.
func after(sessions []ops.Session) string {
	for _, s := range slices.Backward(sessions) {
		if !s.Status.Ended() || s.Status == ops.SessionCompleted {
			continue
		}
		switch {
		case s.Failure == ops.FailureAPI && s.APIStatus != nil && *s.APIStatus == http.StatusTooManyRequests:
			return " after a rate limit"
		case s.Failure == ops.FailureAPI:
			return " after an error of the model's API"
		case s.Status == ops.SessionTimedOut:
			return " after a timeout"
		case s.Status == ops.SessionInterrupted:
			return " after an interruption"
		}
		return " after a failed session"
	}
	return ""
}

// waiting says who must answer before a cycle continues.
func (f Facts) waiting(c store.CycleSummary, d *state) {
	d.tone = ToneHand
	i := slices.IndexFunc(f.Approvals, func(a ops.Approval) bool { return a.CycleID == c.ID })
	if i < 0 {
		d.parts = []Part{text("handed to a person; it ends when the incident is resolved")}
		if n := slices.IndexFunc(f.Incidents, func(x ops.Incident) bool { return x.Waiting != nil && *x.Waiting == c.ID }); n >= 0 {
			d.incident = f.Incidents[n].ID
		}
		return
	}
	a := f.Approvals[i]
	d.approval = a.ID
	whose, what := "your approval", " of "+a.Tier.String()
	if a.Kind == ops.ApprovalReview {
		whose, what = "your review", " of the repair"
	}
	if a.Kind == ops.ApprovalReflex {
		what = " of " + a.Handler
	}
	if f.ReadOnly {
		whose = strings.Replace(whose, "your", "an operator's", 1)
	}
	d.parts = []Part{text("waiting for %s%s for ", whose, what), lasting(a.RequestedAt)}
}
