package situation

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// state is what is done about one service: the end of its sentence. Services with the same key share a sentence.
type state struct {
	Line   // its parts come after "web is down: "
	key    string
	manyOf []Part // the parts about several services; nil: as above
	alone  []Part // the parts about a cycle without a bad service; nil: as above
}

// Doing says for every problem what is being done about it, and for how long, and then which cycles run for other reasons.
func Doing(f Facts) []Line {
	var lines []Line
	var kept []state
	var groups [][]Service
	notified := map[ops.CycleID]bool{}
	for _, s := range f.Services {
		d, ok := f.about(s)
		if !ok {
			continue
		}
		notified[d.Cycle] = true
		if c := f.cycleOf(s); c != nil {
			notified[c.ID] = true
		}
		if i := slices.IndexFunc(kept, func(o state) bool { return o.key == d.key && o.key != "" }); i >= 0 {
			groups[i] = append(groups[i], s)
			continue
		}
		kept, groups = append(kept, d), append(groups, []Service{s})
	}
	for i, d := range kept {
		lines = append(lines, d.line(groups[i]))
	}
	for _, c := range f.Open {
		if !notified[c.ID] {
			lines = append(lines, f.aboutCycle(c))
		}
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(rank(a.Tone), rank(b.Tone)) })
	return lines
}

func rank(t Tone) int { return slices.Index([]Tone{ToneHand, ToneRun, ToneWarn, ToneCalm}, t) }

func (d state) line(services []Service) Line {
	l := d.Line
	l.Environment = services[0].Environment
	status := services[0].Status
	for _, s := range services {
		l.Services = append(l.Services, s.Name)
		if s.Status == ops.Down {
			status = ops.Down
		}
	}
	verb := "is"
	if len(services) > 1 {
		verb = "are"
		if d.manyOf != nil {
			l.Parts = d.manyOf
		}
	}
	l.Parts = append([]Part{text("%s %s %s: ", named(l.Services), verb, status)}, l.Parts...)
	return l
}

// about says what is done about a bad service. The first row that applies counts; it is false if nothing certain can be said.
func (f Facts) about(s Service) (state, bool) {
	for _, row := range []func(Service) (state, bool){f.byPerson, f.byCycle, f.denied, f.held, f.distrusted, f.afterCycle} {
		if d, ok := row(s); ok {
			return d, true
		}
	}
	// What comes next is said elsewhere, and a cycle that checks the environment has its own sentence.
	if f.coming(s) || slices.ContainsFunc(f.Open, func(c store.CycleSummary) bool { return c.Environment == s.Environment }) {
		return state{}, false
	}
	next, known := f.NextChecks[s.Environment]
	if known && next.After(f.Now) {
		return state{
			key: "next " + s.Environment, Line: Line{Tone: ToneWarn, Parts: []Part{text("no agent works on it; the next check is at "), at(next)}},
			manyOf: []Part{text("no agent works on them; the next check is at "), at(next)},
		}, true
	}
	return state{
		key: "nothing " + s.Environment, Line: Line{Tone: ToneWarn, Parts: []Part{text("no agent works on it")}},
		manyOf: []Part{text("no agent works on them")},
	}, true
}

// byPerson: somebody has taken the incident over, or put it off.
func (f Facts) byPerson(s Service) (state, bool) {
	for _, i := range f.Incidents {
		if i.Environment != s.Environment || i.Service != s.Name || !i.Holds(f.Now) {
			continue
		}
		d := state{key: fmt.Sprint("incident ", i.ID), Line: Line{Tone: ToneCalm, Incident: i.ID}}
		if i.Status == ops.IncidentSnoozed {
			d.Parts = []Part{text("snoozed until "), at(*i.SnoozedUntil), text(", agents stopped")}
		} else {
			d.Parts = []Part{text("acknowledged by %s, agents stopped", cmp.Or(i.AcknowledgedBy, "an operator"))}
		}
		return d, true
	}
	return state{}, false
}

// denied: somebody said no to agents.
func (f Facts) denied(s Service) (state, bool) {
	for _, i := range f.Incidents {
		if i.Environment == s.Environment && i.Service == s.Name && i.Denied(f.Now) {
			said := []Part{text("somebody said no, agents stopped until "), at(*i.DeniedUntil), text(" or until the facts change")}
			return state{key: fmt.Sprint("incident ", i.ID), Line: Line{Tone: ToneCalm, Incident: i.ID, Parts: said}}, true
		}
	}
	return state{}, false
}

// held says why the watch starts no cycle for a service. The watch may have ended: then its last words are not repeated.
func (f Facts) held(s Service) (state, bool) {
	h := f.heldService(s)
	if h == nil || f.stale(s) {
		return state{}, false
	}
	d := state{Line: Line{Tone: ToneCalm}}
	switch h.Why {
	case ops.HoldSilenced:
		d.key, d.Silences = "silenced "+s.Environment+h.Until.String(), true
		d.Parts = until("silenced", h.Until)
	case ops.HoldMaintenance:
		d.key = "maintenance " + s.Environment + h.Until.String()
		d.Parts = until("under maintenance", h.Until)
	case ops.HoldFlapping:
		d.Parts = until("it changes state too often; no agent starts", h.Until)
	case ops.HoldDependency:
		d.Parts = []Part{text("%s", rest(h.Reason))}
	case ops.HoldRecent:
		d.Parts = []Part{text("it failed again shortly after its last cycle; the next can start at "), at(h.Until)}
	case ops.HoldPerson:
		d.Parts = []Part{text("a person has it, agents stopped")}
	case ops.HoldWaiting, ops.HoldUnsettled, ops.HoldCovered:
		return state{}, false
	default:
		return state{}, false
	}
	return d, true
}

func until(what string, t time.Time) []Part {
	if t.IsZero() {
		return []Part{text("%s", what)}
	}
	return []Part{text("%s until ", what), at(t)}
}

// rest is a recorded reason without the state of the service, which the sentence begins with.
func rest(reason string) string {
	if _, after, found := strings.Cut(reason, "; "); found {
		reason = after
	}
	return strings.TrimSuffix(reason, ".")
}

func (f Facts) heldService(s Service) *store.HeldService {
	i := slices.IndexFunc(f.Held, func(h store.HeldService) bool { return h.Environment == s.Environment && h.Service == s.Name })
	if i < 0 {
		return nil
	}
	return &f.Held[i]
}

// missedChecks is after how many missed checks the watch counts as ended.
const missedChecks = 4

// stale reports whether a service was not checked for long: the rows of the watch are then out of date.
func (f Facts) stale(s Service) bool {
	newest := time.Time{}
	for _, v := range f.States {
		if v.Environment == s.Environment && v.Service == s.Name && v.Newest().At.After(newest) {
			newest = v.Newest().At
		}
	}
	if newest.IsZero() || f.Every == nil {
		return newest.IsZero()
	}
	// Unchanged results are written a little later.
	return f.Now.Sub(newest) > missedChecks*f.Every(s.Environment, s.Name)+time.Minute
}

// distrusted: nobody allowed an agent to look at it.
func (f Facts) distrusted(s Service) (state, bool) {
	if f.Trust == nil || f.Trust(s) != ops.TrustWatch {
		return state{}, false
	}
	said := []Part{text("%s; it needs you", ops.TrustWatch.Keeps())}
	d := state{key: "watch " + s.Environment, Line: Line{Tone: ToneHand, Parts: said}}
	d.manyOf = []Part{text("their trust is watch, so no agent looks at them; they need you")}
	if n, found := f.openIncident(s); found {
		d.key, d.Incident = fmt.Sprint("incident ", n.Incident), n.Incident
	}
	return d, true
}

// afterCycle says how the cycle of a service ended, while the service is still bad.
func (f Facts) afterCycle(s Service) (state, bool) {
	var cause *ops.Cause
	for n, c := range f.Causes {
		if c.Environment == s.Environment && (slices.Contains(c.Services, s.Name) || slices.Contains(c.Affected, s.Name)) {
			cause = &f.Causes[n]
			break
		}
	}
	if cause == nil {
		return f.openIncident(s)
	}
	of := func(c store.CycleSummary) bool { return c.ID == cause.Cycle }
	if n := slices.IndexFunc(f.Open, of); n >= 0 && len(f.Open[n].Charge.Services) > 0 {
		return state{
			key: fmt.Sprint("left by ", cause.Cycle), Line: Line{Tone: ToneWarn, Cycle: cause.Cycle, Parts: []Part{
				text("no agent works on it now; C-%d, which began with it, is about %s", cause.Cycle, named(f.Open[n].Charge.Services)),
			}},
		}, true
	}
	i := slices.IndexFunc(f.Ended, of)
	if i < 0 {
		return state{}, false
	}
	c := f.Ended[i]
	d := state{key: fmt.Sprint("cycle ", c.ID), Line: Line{Tone: ToneWarn, Cycle: c.ID}}
	if n, found := f.openIncident(s); found {
		d.Incident = n.Incident
	}
	switch c.Status {
	case ops.CycleBlocked:
		d.Parts = []Part{text("C-%d was stopped by a limit: %s", c.ID, strings.TrimSuffix(c.Reason, "."))}
		if f.Spent[s.Environment] {
			d.Parts = []Part{text("held: budget reached, agents start again after "), at(f.Now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour))}
		}
	case ops.CycleSuppressed:
		d.Parts = []Part{text("C-%d was held back and started no agent", c.ID)}
		if len(c.Sessions) > 0 {
			d.Parts = []Part{text("C-%d looked at it and was held back: %s", c.ID, strings.TrimSuffix(c.Reason, "."))}
		}
		if c.Policy.DryRun {
			d.Parts = []Part{text("dry run, C-%d changed nothing", c.ID)}
		}
	case ops.CycleNeedsHuman, ops.CyclePartial, ops.CycleFailed:
		what := "C-%d could not repair %s; %s"
		switch {
		case len(c.Sessions) == 0:
			what = "nothing was tried in C-%[1]d; %[3]s"
		case !slices.ContainsFunc(c.Sessions, func(s ops.Session) bool { return !s.Failure.NeverRan() }):
			what = "C-%d could not look at %s, because no agent could be started; %s"
		case !slices.ContainsFunc(c.Sessions, func(s ops.Session) bool { return s.May() > ops.Tier1 }):
			what = "C-%d looked at %s and repaired nothing; %s"
		}
		d.Tone, d.Parts = ToneHand, []Part{text(what, c.ID, "it", "it needs you")}
		d.manyOf = []Part{text(what, c.ID, "them", "they need you")}
	case ops.CycleHealthy, ops.CycleResolved:
		d.Parts = []Part{text("C-%d ended, and checks still fail", c.ID)}
		if f.onlyAlerts(s) {
			d.Parts = []Part{text("C-%d ended %s, and an alert still fires", c.ID, c.Status)}
			if d.Incident != 0 {
				d.Tone = ToneHand
			}
		}
	case ops.CycleCancelled:
		d.Parts = []Part{text("C-%d was cancelled; no agent works on it", c.ID)}
	case ops.CycleQueued, ops.CycleRunning, ops.CycleWaitingHuman:
		return state{}, false
	}
	return d, true
}

// onlyAlerts: no probe finds the service bad.
func (f Facts) onlyAlerts(s Service) bool {
	found := false
	for _, v := range f.States {
		if v.Environment != s.Environment || v.Service != s.Name || !v.Failing() {
			continue
		}
		if found = v.Last.Purpose == ops.ProbeAlert; !found {
			return false
		}
	}
	return found
}

// openIncident: nobody has taken the incident of a service yet.
func (f Facts) openIncident(s Service) (state, bool) {
	for _, i := range f.Incidents {
		if i.Environment == s.Environment && i.Service == s.Name && i.Status != ops.IncidentUnverified {
			d := state{key: fmt.Sprint("open ", i.LastCycle), Line: Line{Tone: ToneHand, Incident: i.ID}}
			d.Parts = []Part{text("its incident is open; it needs you")}
			d.manyOf = []Part{text("their incidents are open; they need you")}
			return d, true
		}
	}
	return state{}, false
}

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
	l := d.Line
	l.Environment = c.Environment
	if d.alone != nil {
		l.Parts = d.alone
	}
	l.Parts = append([]Part{text("C-%d %s: ", c.ID, title)}, l.Parts...)
	return l
}

// longTitle limits the title of a cycle in a sentence.
const longTitle = 80

// work says what happens in a cycle that has not ended.
func (f Facts) work(c store.CycleSummary) state {
	d := state{Line: Line{Tone: ToneRun, Cycle: c.ID}}
	var last *ops.Session
	if n := len(c.Sessions); n > 0 {
		last = &c.Sessions[n-1]
		d.Session = last.ID
	}
	switch {
	case c.Status == ops.CycleWaitingHuman:
		f.waiting(c, &d)
	case c.Status == ops.CycleQueued && c.StartedAt == nil:
		d.Tone, d.Parts = ToneCalm, []Part{text("C-%d is queued for ", c.ID), lasting(c.CreatedAt)}
	case c.WakeAt != nil && c.WakeAt.After(f.Now):
		d.Tone, d.Parts = ToneCalm, []Part{text("next attempt at "), at(*c.WakeAt), text("%s", after(c.Sessions))}
	case last != nil && last.Status == ops.SessionRunning && last.StartedAt != nil:
		about := func(object string) []Part {
			return []Part{text("%s, ", does(*last, c.Policy.DryRun || c.Options.DryRun, object)), lasting(*last.StartedAt)}
		}
		d.Parts, d.manyOf, d.alone = about("it"), about("them"), about("")
	case last != nil && last.Status.Ended():
		d.Parts = []Part{text("%s has ended, the supervisor checks its result", last.Tier)}
	case last != nil:
		d.Parts = []Part{text("%s starts", last.Tier)}
	default:
		d.Parts = []Part{text("the supervisor runs its probes")}
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
	d.Tone = ToneHand
	i := slices.IndexFunc(f.Approvals, func(a ops.Approval) bool { return a.CycleID == c.ID })
	if i < 0 {
		d.Parts = []Part{text("handed to a person; it ends when the incident is resolved")}
		if n := slices.IndexFunc(f.Incidents, func(x ops.Incident) bool { return x.Waiting != nil && *x.Waiting == c.ID }); n >= 0 {
			d.Incident = f.Incidents[n].ID
		}
		return
	}
	a := f.Approvals[i]
	d.Approval = a.ID
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
	d.Parts = []Part{text("waiting for %s%s for ", whose, what), lasting(a.RequestedAt)}
}
