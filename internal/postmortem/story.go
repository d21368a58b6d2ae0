package postmortem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// StepKind is what a step of a story is.
type StepKind string

// The kinds of steps.
const (
	StepDetected StepKind = "detected"
	StepLooked   StepKind = "looked"
	StepTried    StepKind = "tried"
	StepUndone   StepKind = "undone"
	StepRefused  StepKind = "refused"
	StepAsked    StepKind = "asked"
	StepRepaired StepKind = "repaired"
	StepVerified StepKind = "verified"
)

const (
	mostSteps    = 8
	longestStep  = 140
	longestCause = 60
)

// Step is one step of a story. Its text may hold words from outside.
type Step struct {
	Kind     StepKind  `json:"kind" enum:"detected,looked,tried,undone,refused,asked,repaired,verified"`
	At       time.Time `json:"at"`
	Seconds  int       `json:"seconds" doc:"Since the first step."`
	Text     string    `json:"text"`
	Bad      bool      `json:"bad" doc:"It made things worse, or did not help."`
	Evidence []Entry   `json:"-"` // what is on record about it, oldest first
}

// After is the time since the first step, as people say it.
func (s Step) After() string { return "+" + Span(time.Duration(s.Seconds)*time.Second) }

// Story is what happened in a line and in at most eight steps.
type Story struct {
	Headline string `json:"headline"`
	Steps    []Step `json:"steps"`
}

// Tell makes the story of an incident, or of a cycle without one, from its rows.
func Tell(s ops.IncidentStory, now time.Time) Story {
	t := teller{story: s, now: now, told: ToldBy(s.Notices)}
	for i, c := range s.Cycles {
		t.cycle(c, i == 0)
	}
	t.people()
	slices.SortStableFunc(t.steps, func(a, b Step) int { return a.At.Compare(b.At) })
	entries := timeline(s)
	t.shorten()
	for i := range t.steps {
		step := &t.steps[i]
		step.Text = ops.Cut(ops.Spoken(ops.Prose(step.Text)), longestStep)
		step.Seconds = max(0, int(step.At.Sub(t.steps[0].At).Round(time.Second).Seconds()))
		for len(entries) > 0 && (i+1 == len(t.steps) || entries[0].At.Before(t.steps[i+1].At)) {
			step.Evidence, entries = append(step.Evidence, entries[0]), entries[1:]
		}
	}
	return Story{Headline: t.headline(), Steps: t.steps}
}

type teller struct {
	story ops.IncidentStory
	now   time.Time
	told  Told
	steps []Step

	// What the headline is made of.
	since         *time.Time // the first check that failed
	until         *time.Time // the first that was healthy after it for good
	worst         ops.Health
	cause, repair string
	verified      string
}

func (t *teller) add(kind StepKind, at time.Time, bad bool, format string, args ...any) {
	t.steps = append(t.steps, Step{Kind: kind, At: at, Bad: bad, Text: fmt.Sprintf(format, args...)})
}

func (t *teller) cycle(c ops.CycleStory, first bool) {
	if first {
		t.detected(c)
	}
	t.until, t.repair, t.verified = nil, "", "" // only the last repair counts
	resolved := c.Cycle.Status == ops.CycleResolved && c.Cycle.RefutedAt == nil
	for _, s := range c.Journal.Sessions {
		if s.Works() && s.StartedAt != nil {
			t.session(c, s)
		}
	}
	t.actions(c.Journal.Runs, resolved)
	for _, d := range c.Journal.Decisions {
		switch d.Verdict {
		case ops.VerdictRefused, ops.VerdictBlocked, ops.VerdictSuppressed:
			t.add(StepRefused, d.At, false, "%s: %s", verdictWords(d), d.Reason)
		case ops.VerdictEscalate, ops.VerdictApproval, ops.VerdictNeedsHuman:
		}
	}
	for _, a := range c.Journal.Approvals {
		t.asked(a)
	}
	t.checked(c)
	if at := c.Cycle.RefutedAt; at != nil {
		t.add(StepVerified, *at, true, "The repair did not hold: the same check failed again")
		t.until = nil
	}
}

func (t *teller) detected(c ops.CycleStory) {
	at, what := c.Cycle.CreatedAt, ""
	for _, k := range c.Journal.Checks {
		if k.Status == ops.Healthy || k.Purpose == ops.ProbeVerify || k.Purpose == ops.ProbeRunning || !t.about(k.Service) {
			continue
		}
		if !k.At.IsZero() && k.At.Before(at) {
			at = k.At
		}
		t.since, t.worst = &at, k.Status
		t.cause = with(k.Service, k.Error)
		what = with(fmt.Sprintf("%s is %s", k.Service, k.Status), k.Error)
		break
	}
	switch {
	case what != "":
		t.add(StepDetected, at, true, "%s (%s)", what, strings.ToLower(strings.TrimPrefix(detectedBy(c.Cycle), "Detected ")))
	case t.story.Incident.ID != 0:
		t.since, t.worst, t.cause = &t.story.Incident.OpenedAt, ops.Down, t.story.Incident.Title
		t.add(StepDetected, at, true, "%s (%s)", t.story.Incident.Title, strings.ToLower(strings.TrimPrefix(detectedBy(c.Cycle), "Detected ")))
	case len(c.Journal.Checks) > 0:
		t.add(StepLooked, at, false, "Our own probes find everything healthy")
	}
}

// about reports whether a service belongs to the story.
func (t *teller) about(service string) bool {
	return t.story.Incident.Service == "" || service == t.story.Incident.Service
}

// session is a look, or a repair by the agent's own hands; what it asked the supervisor to do are steps of their own.
func (t *teller) session(c ops.CycleStory, s ops.Session) {
	said := sentence(Result(s))
	if h := handed(s); h.InvestigationFindings != "" && t.since != nil {
		t.cause = h.InvestigationFindings
	}
	effects := c.Journal.Effects[s.ID]
	asked, helped := false, false // whether it asked the supervisor for actions, and one was done
	for _, r := range c.Journal.Runs {
		if r.SessionID != nil && *r.SessionID == s.ID {
			asked, helped = true, helped || r.Status == ops.ActionDone
		}
	}
	failed := s.Status != ops.SessionCompleted && s.Status.Ended()
	kind, at := StepLooked, *s.StartedAt
	stands := c.Journal.Last().ID == s.ID && (c.Cycle.EndedAt == nil || c.Cycle.Status == ops.CycleResolved) // else it was not repaired
	switch {
	case s.Outcome == ops.OutcomeResolved && s.Tier > ops.Tier1 && !helped && !failed && s.EndedAt != nil && stands:
		kind, at, t.repair = StepRepaired, *s.EndedAt, said
	case effects.Mutating && !asked:
		kind = StepTried
	}
	text := s.Tier.String()
	switch {
	case !s.Status.Ended():
		text += " is at work"
	case failed:
		text += " " + words(string(s.Status))
	case s.Outcome == ops.OutcomeResolved && !stands:
		text += " claims, and nothing confirms"
	}
	if !asked || failed || kind == StepRepaired || !s.Status.Ended() { // else its actions say it
		t.add(kind, at, failed, "%s", with(text, said))
	}
	if n := max(len(effects.Denied), c.Refused[s.ID]); n > 0 {
		at, what := cmp.Or(s.EndedAt, s.StartedAt), ""
		if len(effects.Denied) > 0 {
			at, what = &effects.Denied[0].At, effects.Denied[0].Reason
		}
		t.add(StepRefused, *at, false, "%s", with(fmt.Sprintf("The guard refused %s of %s", plural(n, "call", "calls"), s.Tier), what))
	}
}

func (t *teller) actions(runs []ops.ActionRun, resolved bool) {
	last := -1
	for i, r := range runs {
		if resolved && r.UndoOf == 0 && r.Status == ops.ActionDone && len(ops.Worse(r.Before, r.After)) == 0 {
			last = i
		}
	}
	undone := map[int64]ops.ActionRun{}
	for i, r := range runs {
		undone[r.ID] = r
		at := r.RequestedAt
		if r.StartedAt != nil {
			at = *r.StartedAt
		}
		what := r.Action + " of " + r.Service
		if r.SessionID != nil {
			what = r.Tier.String() + ": " + what
		}
		turned := turns(r.Before, r.After)
		switch {
		case r.UndoOf != 0:
			first := undone[r.UndoOf]
			undid := "Undid " + cmp.Or(first.Action, r.Action) + " of " + r.Service
			t.add(StepUndone, at, r.Status != ops.ActionDone, "%s", with(undid, cmp.Or(r.Error, turned)))
		case r.Status == ops.ActionRefused:
			t.add(StepRefused, at, false, "%s", with(what, r.Error))
		case i == last:
			t.repair = r.Action + " of " + r.Service
			if r.Why != "" {
				t.cause = r.Why
			}
			t.add(StepRepaired, at, false, "%s", with(what, turned))
		default:
			t.add(StepTried, at, r.Status != ops.ActionDone || len(ops.Worse(r.Before, r.After)) > 0, "%s", with(what, cmp.Or(turned, r.Error)))
		}
	}
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

func (t *teller) asked(a ops.Approval) {
	text := strings.TrimPrefix(ofApproval(a)[0].Text, fmt.Sprintf("Approval %d asked: ", a.ID))
	text, _, _ = strings.Cut(text, "? ")
	text = strings.TrimSuffix(text, "?") + "?"
	if a.AnsweredAt != nil {
		text += " " + string(a.Status)
		if a.AnsweredBy != "" && a.Status != ops.ApprovalExpired {
			text += " by " + name(a.AnsweredBy)
		}
		text += " after " + Span(a.AnsweredAt.Sub(a.RequestedAt))
	}
	t.add(StepAsked, a.RequestedAt, a.Status == ops.ApprovalExpired, "%s", text)
}

// checked adds what the probes found after a repair, once for each time that they were asked.
func (t *teller) checked(c ops.CycleStory) {
	type look struct {
		at       time.Time
		bad      []string
		services []string
	}
	looks := map[string]*look{}
	var order []string
	for _, k := range c.Journal.Checks {
		switch k.Purpose {
		case ops.ProbeObserve, ops.ProbeWatch, ops.ProbeAlert:
			continue
		case ops.ProbeVerify, ops.ProbeRecheck, ops.ProbePlan, ops.ProbeReflex, ops.ProbeRunning:
		}
		if !t.about(k.Service) {
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
			t.add(StepVerified, l.at, true, "Our own probes still find it wrong: %s", strings.Join(l.bad, "; "))
			continue
		}
		t.until, t.verified = &l.at, "verified"
		t.add(StepVerified, l.at, false, "Our own probes find %s healthy", ops.Listed(slices.Compact(l.services)))
	}
	if c.Cycle.Status == ops.CycleResolved && c.Cycle.EndedAt != nil && t.verified == "" {
		switch c.Cycle.VerifiedBy {
		case ops.ProofJudge, ops.ProofHuman:
			t.verified = "verified"
			t.add(StepVerified, *c.Cycle.EndedAt, false, "Confirmed by a %s", c.Cycle.VerifiedBy)
		case ops.ProofProbe, ops.ProofPlan, ops.ProofReflex:
			t.verified = "verified"
		case ops.ProofNone, ops.ProofReport, "":
			t.verified = "not verified"
		}
		t.until = c.Cycle.EndedAt
	}
}

// people adds that a human is needed, and the end that a person gave.
func (t *teller) people() {
	i := t.story.Incident
	if i.CalledAt != nil {
		t.add(StepAsked, *i.CalledAt, t.told.Nobody != "", "%s", with("A human is needed", t.told.Nobody))
	}
	if i.ResolvedAt == nil {
		return
	}
	if t.until == nil || i.ResolvedBy != ops.Supervisor {
		t.until = i.ResolvedAt
	}
	if i.ResolvedBy != ops.Supervisor {
		t.verified = "closed by " + i.ResolvedBy
		t.add(StepVerified, *i.ResolvedAt, false, "%s", with("Closed by "+i.ResolvedBy, i.Resolution))
	}
}

// shorten brings the steps to what a person reads: equal neighbours become one, and then the least telling go. Nothing is lost: what is
// on record about them is evidence of the step before.
func (t *teller) shorten() {
	for len(t.steps) > mostSteps {
		at := -1
		for i := 1; i < len(t.steps); i++ {
			if t.steps[i].Kind == t.steps[i-1].Kind && t.steps[i].Bad == t.steps[i-1].Bad {
				at = i - 1
			}
		}
		for _, kind := range []StepKind{StepRefused, StepLooked, StepAsked, StepTried, StepVerified, StepUndone, StepRepaired} {
			for i := 1; at < 0 && i < len(t.steps)-1; i++ {
				if t.steps[i].Kind == kind {
					at = i
				}
			}
		}
		at = max(at, 1)
		t.steps = slices.Delete(t.steps, at, at+1)
	}
}

// headline says how long, what was wrong, what was done and how sure that is.
func (t *teller) headline() string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	i := t.story.Incident
	open := i.ID != 0 && i.ResolvedAt == nil
	if t.since != nil {
		end := t.now
		if t.until != nil && !open {
			end = *t.until
		}
		state := map[ops.Health]string{ops.Down: "Down", ops.Degraded: "Degraded"}[t.worst]
		add(cmp.Or(state, "Wrong") + " " + Span(end.Sub(*t.since)))
		add(ops.Cut(sentence(ops.Spoken(ops.Prose(t.cause))), longestCause))
	}
	add(ops.Cut(sentence(ops.Spoken(ops.Prose(t.repair))), longestCause))
	add(t.ending(open))
	return strings.Join(parts, " · ")
}

func (t *teller) ending(open bool) string {
	var last ops.Cycle
	if n := len(t.story.Cycles); n > 0 {
		last = t.story.Cycles[n-1].Cycle
	}
	switch {
	case t.verified != "" && !open:
		return t.verified
	case last.Status == ops.CycleRunning || last.Status == ops.CycleQueued:
		return "at work"
	case last.Status == ops.CycleWaitingHuman:
		return "waits for an answer"
	case open && t.story.Incident.Status == ops.IncidentUnverified:
		return "not verified"
	case open && t.told.Nobody != "":
		return "needs a person; nobody was told"
	case open:
		return "needs a person"
	case t.story.Incident.ResolvedAt != nil:
		return "over"
	case last.Status == ops.CycleHealthy && t.since == nil:
		return "Everything is healthy"
	}
	return words(string(last.Status))
}

// sentence is the first sentence of a text, without its end.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if first, _, found := strings.Cut(text, ". "); found {
		text = first
	}
	return strings.TrimRight(text, ".")
}

// Span is a duration as people say it.
func Span(d time.Duration) string {
	d = max(0, d.Round(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60), " 0 s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60), " 0 min")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Text is the story as plain text.
func (s Story) Text() string {
	var b strings.Builder
	b.WriteString(s.Headline)
	for _, step := range s.Steps {
		fmt.Fprintf(&b, "\n%s %s: %s", step.After(), step.Kind, step.Text)
	}
	return b.String()
}

// Told is what became of the notices about something. Told means delivered: a notice that is only on record has told nobody.
type Told struct {
	Deliveries []ops.Delivery
	// Nobody says that the newest notice that should have reached somebody reached nobody, and why; empty otherwise.
	Nobody string
	// NoTarget is true if that is because no target is configured.
	NoTarget bool
}

// ToldBy reads notices, oldest first.
func ToldBy(notices []ops.Notice) Told {
	var t Told
	var muted, waiting string
	for _, n := range notices {
		t.Deliveries = append(t.Deliveries, n.Deliveries...)
		switch {
		case n.Status == ops.NoticeSent || len(n.Deliveries) > 0:
			t.Nobody, t.NoTarget, muted, waiting = "", false, "", ""
		case n.Error == ops.SkippedMuted:
			muted = "Nobody was told: the route of the notice has no target"
		case n.Status == ops.NoticeSkipped:
			t.Nobody, t.NoTarget = "Nobody was told: no notification target", true
		case n.Status == ops.NoticeDead:
			t.Nobody, t.NoTarget = "Nobody was told: the notice could not be delivered: "+ops.Cut(ops.Prose(n.Error), longest), false
		case n.Error != "":
			waiting = "Nobody was told yet: the notice could not be delivered and is tried again: " + ops.Cut(ops.Prose(n.Error), longest)
		}
	}
	for _, why := range []string{waiting, muted} {
		if t.Nobody == "" && len(t.Deliveries) == 0 {
			t.Nobody = why
		}
	}
	return t
}

// ByRoute says by which route a notice went.
func ByRoute(d ops.Delivery) string {
	switch {
	case d.Route == "" || d.Route == "first":
		return "the default route"
	case d.Route == "second":
		return "the second contact"
	case strings.HasPrefix(d.Route, "route "):
		return d.Route
	}
	return "the " + d.Route
}

// Words are one sentence about the people who were told; empty if there is nothing to say.
func (t Told) Words() string {
	if t.Nobody != "" || len(t.Deliveries) == 0 {
		return t.Nobody
	}
	last := t.Deliveries[len(t.Deliveries)-1]
	words := fmt.Sprintf("Told: %s, by %s, at %s UTC", last.To, ByRoute(last), clock(last.At))
	if n := len(t.Deliveries); n > 1 {
		words += fmt.Sprintf(" (%d deliveries)", n)
	}
	return words
}
