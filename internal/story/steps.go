package story

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

func (t *teller) add(kind Kind, at time.Time, bad bool, of ops.Subject, text string, calls ...Call) {
	t.steps = append(t.steps, Step{Kind: kind, At: at, Bad: bad, Subject: of, Text: text, Calls: calls})
}

func (t *teller) cycle(c ops.CycleStory, first bool) {
	of := ops.About(ops.SubjectCycle, c.Cycle.ID)
	if first {
		t.detected(c, of)
	}
	t.until, t.repair, t.verified = nil, "", "" // only the last repair counts
	tried := len(c.Journal.Runs) > 0
	for _, a := range c.Journal.Approvals {
		t.asked(a)
	}
	for _, s := range c.Journal.Sessions {
		tried = tried || s.Works() && s.Tier > ops.Tier1 && s.StartedAt != nil
		if s.Works() && s.StartedAt != nil {
			t.session(c, s)
		}
	}
	undone := t.actions(c)
	t.checked(c, of)
	t.verified = cmp.Or(undone, t.verified)
	for _, d := range c.Journal.Decisions {
		switch d.Verdict {
		case ops.VerdictRefused, ops.VerdictBlocked, ops.VerdictSuppressed:
			if tried || c.Cycle.EndedAt == nil {
				t.add(StepRefused, d.At, false, of, d.Reason)
			}
		case ops.VerdictEscalate, ops.VerdictApproval, ops.VerdictNeedsHuman:
		}
	}
	if end := c.Cycle; end.EndedAt != nil && end.Status != ops.CycleHealthy && end.Status != ops.CycleResolved {
		kind := StepNothingTried
		if tried {
			kind = StepAsked
		}
		if why := cmp.Or(end.Reason, ops.Spaced(end.Status)); kind == StepNothingTried || t.rows.Incident.ID == 0 {
			t.add(kind, *end.EndedAt, false, of, why)
		}
	}
	if at := c.Cycle.RefutedAt; at != nil {
		text := "The repair did not hold: the same check failed again"
		if i := slices.IndexFunc(t.rows.Events, func(e ops.Event) bool {
			return e.Verb == ops.VerbIncidentReopened && e.Reason != "" && !e.At.Before(*at)
		}); i >= 0 {
			text = ops.Capital(firstSentence(t.rows.Events[i].Reason))
		}
		t.add(StepStillWrong, *at, true, of, text)
		t.until = nil
	}
}

func (t *teller) detected(c ops.CycleStory, of ops.Subject) {
	at, what := c.Cycle.CreatedAt, ""
	for _, k := range c.Journal.Checks {
		if k.Status == ops.Healthy || !k.Known() || k.Purpose == ops.ProbeVerify || k.Purpose == ops.ProbeRunning || !t.about(k.Service) {
			continue
		}
		if !k.At.IsZero() && k.At.Before(at) {
			at = k.At
		}
		if c.Began != nil && c.Began.Before(at) { // failures are grouped before a cycle starts
			at = *c.Began
		}
		t.since, t.worst = &at, k.Status
		t.cause = with(k.Service, k.Error)
		what = with(fmt.Sprintf("%s is %s", k.Service, k.Status), k.Error)
		break
	}
	if what == "" && t.rows.Incident.ID != 0 {
		what = t.rows.Incident.Title
		t.since, t.worst, t.cause = &t.rows.Incident.OpenedAt, ops.Down, what
	}
	switch {
	case what != "":
		t.add(StepDetected, at, true, of, what+" ("+foundBy(c.Cycle.Trigger)+")")
	case len(c.Journal.Checks) > 0 && !slices.ContainsFunc(c.Journal.Checks, func(k ops.Check) bool { return !k.Known() }):
		t.add(StepLooked, at, false, of, "Our own probes find everything healthy")
	}
}

func foundBy(t ops.Trigger) string {
	const byPerson = "in a run that a person started"
	return cmp.Or(map[ops.Trigger]string{
		ops.TriggerProbe: "by a probe", ops.TriggerAlert: "by an alert", ops.TriggerScheduled: "by a scheduled check",
		ops.TriggerManual: byPerson, ops.TriggerAPI: byPerson,
	}[t], "by "+string(t))
}

// about reports whether a service belongs to the story.
func (t *teller) about(service string) bool {
	return t.rows.Incident.Service == "" || service == t.rows.Incident.Service
}

// session is a look, or a repair by the agent's own hands; what it asked the supervisor to do are steps of their own. What it says is its
// own word, with the calls it made below.
func (t *teller) session(c ops.CycleStory, s ops.Session) {
	said, byAgent := result(s)
	if h := handed(s); h.InvestigationFindings != "" && t.since != nil {
		t.cause = h.InvestigationFindings
	}
	asked, helped := false, false // whether it asked the supervisor for actions, and one was done
	for _, r := range c.Journal.Runs {
		if r.SessionID != nil && *r.SessionID == s.ID {
			asked, helped = true, helped || t.worked(r, c.Journal)
		}
	}
	failed := s.Status != ops.SessionCompleted && s.Status.Ended()
	kind, at := StepLooked, *s.StartedAt
	stands := c.Journal.Last().ID == s.ID && (c.Cycle.EndedAt == nil || c.Cycle.Status == ops.CycleResolved) // else it was not repaired
	switch {
	case s.Outcome == ops.OutcomeResolved && s.Tier > ops.Tier1 && !helped && !failed && s.EndedAt != nil && stands:
		kind, at = StepTried, *s.EndedAt
		if confirmed(c.Cycle) && c.Cycle.RefutedAt == nil {
			kind = StepRepaired
		}
		if said != decided(s.Outcome) {
			t.repair = said
		}
	case c.Journal.Effects[s.ID].Mutating && !asked:
		kind = StepTried
	}
	text := s.Tier.String()
	switch {
	case !s.Status.Ended():
		text += " is at work"
	case failed:
		text += " " + ops.Spaced(s.Status)
	case s.Outcome == ops.OutcomeResolved && !stands:
		text += " says, and nothing confirms it"
	case byAgent:
		text += " says"
	}
	if s.Failure.NeverRan() {
		return // it never ran: what became of the cycle says why
	}
	of := ops.About(ops.SubjectSession, s.ID)
	calls, refused := callsOf(c.Calls[s.ID])
	if !asked || failed || kind != StepLooked || !s.Status.Ended() { // else its actions say it
		t.add(kind, at, failed, of, with(text, said), calls...)
	}
	if n := len(refused); n > 0 {
		text := with(fmt.Sprintf("The guard refused %s of %s", ops.Plural(n, "call", "calls"), s.Tier), refused[0].Refused)
		t.add(StepRefused, refused[0].At, false, of, text, refused...)
	}
}

// callsOf are the calls of a session that were allowed, and those that were not.
func callsOf(records []ops.GuardRecord) (allowed, refused []Call) {
	var denied ops.Refusals
	call := func(g ops.GuardRecord) Call { return Call{At: g.At, Tool: g.Tool, Command: command(g.Input)} }
	for _, g := range records {
		if !g.Allowed {
			denied = append(denied, g)
			c := call(g)
			c.Refused = cmp.Or(g.Reason, "refused")
			refused = append(refused, c)
		}
	}
	for _, g := range denied.Ran(records) {
		if g.Allowed && g.Tool != ops.ToolOutcome { // that shows nothing: the step says it
			allowed = append(allowed, call(g))
		}
	}
	return allowed, refused
}

// command is what a tool was asked to run.
func command(input string) string {
	var in struct {
		Command string `json:"command"`
	}
	if unmarshal([]byte(input), &in) && in.Command != "" {
		return in.Command
	}
	return input
}

// actions returns who undid the repair of a cycle, if a person did.
func (t *teller) actions(c ops.CycleStory) (undoneBy string) {
	runs := c.Journal.Runs
	last := -1
	undone := map[int64]string{} // the name of what a run is the way back of
	for i, r := range runs {
		undone[r.ID] = r.Action
		resolved := c.Cycle.Status == ops.CycleResolved && c.Cycle.RefutedAt == nil
		if resolved && r.UndoOf == 0 && t.worked(r, c.Journal) && len(ops.Worse(r.Before, r.After)) == 0 {
			last = i
		}
	}
	for i, r := range runs {
		at, of := r.RequestedAt, ops.About(ops.SubjectAction, r.ID)
		if r.StartedAt != nil {
			at = *r.StartedAt
		}
		what := r.Action + " of " + r.Service
		switch {
		case r.SessionID != nil:
			what = r.Tier.String() + ": " + what
		case r.Person != "":
			what += ", by " + r.Person
		}
		does := []Call{{At: at, Tool: r.Action, Command: r.Does}}
		turned := turns(r.Before, r.After)
		switch {
		case r.UndoOf != 0:
			who, why := cmp.Or(r.Person, "The supervisor"), turned
			if r.Person != "" {
				why = r.Why
			}
			what = fmt.Sprintf("%s undid %s of %s", who, cmp.Or(undone[r.UndoOf], r.Action), r.Service)
			done := r.Status == ops.ActionDone
			t.add(StepUndone, at, !done, of, with(what, cmp.Or(r.Error, why)), does...)
			if r.Person != "" && done {
				undoneBy = "undone by " + r.Person
			}
		case r.Status == ops.ActionRefused:
			t.add(StepRefused, at, false, of, with(what, r.Error), does...)
		case i == last:
			if t.repair = r.Action + " of " + r.Service; r.SessionID != nil {
				t.cause = cmp.Or(r.Why, t.cause)
			}
			t.add(StepRepaired, at, false, of, with(what, turned), does...)
		default:
			worse := len(ops.Worse(r.Before, r.After)) > 0
			helped := r.Status == ops.ActionDone || r.Status == ops.ActionUndone && !worse
			t.add(StepTried, at, !helped || worse, of, with(what, cmp.Or(turned, r.Error)), does...)
		}
	}
	return undoneBy
}

// worked reports whether an action was done, no look after it found it wrong, and nobody undid it but a person, who may have wanted
// something else.
func (t *teller) worked(r ops.ActionRun, j ops.Journal) bool {
	byPerson := func(u ops.ActionRun) bool { return u.UndoOf == r.ID && u.Person != "" }
	stillWrong := func(k ops.Check) bool {
		return afterRepair(k) && t.about(k.Service) && k.Known() && k.Status != ops.Healthy && !k.At.Before(r.RequestedAt)
	}
	done := r.Status == ops.ActionDone || r.Status == ops.ActionUndone && slices.ContainsFunc(j.Runs, byPerson)
	return done && !slices.ContainsFunc(j.Checks, stillWrong)
}

// afterRepair reports whether a check was made to see what a repair did, or that a wait was enough.
func afterRepair(k ops.Check) bool {
	if k.Purpose == ops.ProbeRecheck {
		return k.Status == ops.Healthy
	}
	return k.Purpose != ops.ProbeObserve && k.Purpose != ops.ProbeWatch && k.Purpose != ops.ProbeAlert
}

// turns says what changed for whom.
func turns(before, after []ops.ServiceHealth) string {
	var out []string
	for _, a := range after {
		for _, b := range before {
			if b.Service == a.Service && b.Status != a.Status {
				out = append(out, fmt.Sprintf("%s %s → %s", a.Service, b.Status, a.Status))
			}
		}
	}
	return strings.Join(out, ", ")
}

// asked is a question, and its answer.
func (t *teller) asked(a ops.Approval) {
	question, about := fmt.Sprintf("May %s start?", a.Tier), a.Tier.String()
	switch a.Kind {
	case ops.ApprovalReview:
		question, about = "Is the repair good enough?", "the repair"
	case ops.ApprovalReflex:
		question, about = "May the supervisor do "+a.Handler+"?", a.Handler
	case ops.ApprovalTier:
	}
	of := ops.About(ops.SubjectApproval, a.ID)
	t.add(StepAsked, a.RequestedAt, false, of, with(question, ops.Capital(firstSentence(a.Reason))))
	if a.AnsweredAt == nil {
		return
	}
	after := ops.Span(a.AnsweredAt.Sub(a.RequestedAt))
	switch a.Status {
	case ops.ApprovalExpired:
		t.add(StepAnswered, *a.AnsweredAt, true, of, "Nobody answered about "+about+" within "+after)
	case ops.ApprovalWithdrawn:
		t.add(StepAnswered, *a.AnsweredAt, false, of, with("The question about "+about+" was withdrawn after "+after, a.Answer))
	case ops.ApprovalApproved, ops.ApprovalDenied, ops.ApprovalPending:
		text := fmt.Sprintf("%s %s %s after %s", name(a.AnsweredBy), a.Status, about, after)
		t.add(StepAnswered, *a.AnsweredAt, false, of, with(text, a.Answer))
	}
}

// checked adds what the probes found after a repair, once for each time that they were asked.
func (t *teller) checked(c ops.CycleStory, of ops.Subject) {
	type look struct {
		at       time.Time
		bad      []string
		services []string
	}
	looks := map[string]*look{}
	var order []string
	for _, k := range c.Journal.Checks {
		if !afterRepair(k) || !k.Known() || !t.about(k.Service) {
			continue
		}
		key := string(k.Purpose)
		if k.AfterSession != nil {
			key += fmt.Sprint(*k.AfterSession)
		}
		if looks[key] == nil {
			looks[key] = &look{}
			order = append(order, key)
		}
		l := looks[key]
		l.at = k.At
		l.services = append(l.services, k.Service)
		if what := with(fmt.Sprintf("%s is %s", k.Service, k.Status), k.Error); k.Status != ops.Healthy && !slices.Contains(l.bad, what) {
			l.bad = append(l.bad, what)
		}
	}
	for _, key := range order {
		l := looks[key]
		slices.Sort(l.services)
		if len(l.bad) > 0 {
			t.verified = ""
			t.add(StepStillWrong, l.at, true, of, "Our own look finds: "+strings.Join(l.bad, "; "))
			continue
		}
		t.until, t.verified = &l.at, "verified"
		t.add(StepVerified, l.at, false, of, "Our own probes find "+ops.Listed(slices.Compact(l.services))+" healthy")
	}
	if c.Cycle.Status != ops.CycleResolved || c.Cycle.EndedAt == nil {
		return
	}
	if t.verified == "" {
		t.until = c.Cycle.EndedAt
	}
	if confirmed(c.Cycle) {
		t.verified = "verified"
	} else if t.verified == "" || c.Cycle.VerifiedBy == ops.ProofNone { // green probes do not count while a service flaps
		t.verified = "not verified"
	}
	if by := c.Cycle.VerifiedBy; by == ops.ProofJudge || by == ops.ProofHuman {
		t.add(StepVerified, *c.Cycle.EndedAt, false, of, fmt.Sprintf("Confirmed by a %s", by))
	}
}

// people adds that a human is needed, who was told, what people did with the incident, and the end that a person gave.
func (t *teller) people() {
	i := t.rows.Incident
	of := ops.About(ops.SubjectIncident, i.ID)
	if i.CalledAt != nil {
		t.add(StepAsked, *i.CalledAt, false, of, "A human is needed")
		if t.told.Nobody != "" {
			t.add(StepTold, *i.CalledAt, true, of, t.told.Nobody)
		} else if d := slices.IndexFunc(t.told.Deliveries, func(d ops.Delivery) bool { return !d.At.Before(*i.CalledAt) }); d >= 0 {
			first := t.told.Deliveries[d]
			t.add(StepTold, first.At, false, of, fmt.Sprintf("%s, by %s", first.To, ByRoute(first)))
		}
	}
	for _, e := range t.rows.Events {
		did, known := map[ops.Verb]string{
			ops.VerbIncidentAcknowledged: "acknowledged it", ops.VerbIncidentSnoozed: "put it off", ops.VerbIncidentResolved: "closed it",
		}[e.Verb]
		if known && e.By().Kind == ops.ActorPerson {
			t.add(StepAnswered, e.At, false, of, with(name(e.Actor.Name)+" "+did, e.Reason))
		}
	}
	if i.ResolvedAt == nil {
		return
	}
	if t.until == nil || i.ResolvedBy != ops.Supervisor {
		t.until = i.ResolvedAt
	}
	if i.ResolvedBy != ops.Supervisor {
		t.verified = "closed by " + name(i.ResolvedBy)
	}
}

// result is what a session says about its work, or why the supervisor could use none of it.
func result(s ops.Session) (text string, byAgent bool) {
	var report ops.Outcome
	if unmarshal(s.OutcomeJSON, &report) && report.Summary != "" {
		return firstSentence(report.Summary), true
	}
	if s.Error != "" {
		return firstSentence(s.Error), false
	}
	h := handed(s)
	text = cmp.Or(h.Reason, h.InvestigationFindings, decided(s.Outcome))
	return firstSentence(cmp.Or(text, ops.Spaced(s.Outcome))), text != ""
}

// decided is what an outcome says where the session gives no words.
func decided(o ops.OutcomeKind) string {
	return map[ops.OutcomeKind]string{
		ops.OutcomeHealthy: "all is well", ops.OutcomeResolved: "it is repaired", ops.OutcomeEscalate: "it needs another tier",
		ops.OutcomeNeedsHuman: "it needs a human",
	}[o]
}

// confirmed reports whether somebody but the agent found a cycle's repair good.
func confirmed(c ops.Cycle) bool {
	switch c.VerifiedBy {
	case ops.ProofProbe, ops.ProofPlan, ops.ProofReflex, ops.ProofJudge, ops.ProofHuman:
		return true
	case ops.ProofNone, ops.ProofReport, "":
	}
	return c.Verified != nil && *c.Verified
}

func handed(s ops.Session) ops.Handoff {
	var h ops.Handoff
	if !unmarshal(s.HandoffJSON, &h) {
		return ops.Handoff{}
	}
	return h
}

// longest limits what is added to a sentence.
const longest = 300

func with(text, more string) string {
	more = ops.Cut(strings.Join(strings.Fields(more), " "), longest)
	switch {
	case more == "":
		return text
	case strings.HasSuffix(text, "?"):
		return text + " " + more
	}
	return text + ": " + more
}

func name(by string) string {
	if by == ops.Supervisor || by == "" {
		return "Claude Ops"
	}
	return by
}

func unmarshal(text []byte, into any) bool { return len(text) > 0 && json.Unmarshal(text, into) == nil }
