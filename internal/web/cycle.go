package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/postmortem"
	"claudeops/internal/store"
)

// cycleView is the page of one cycle.
type cycleView struct {
	ID          ops.CycleID
	Title       string
	Badge       badge
	Environment string
	Trigger     string
	Why         string
	Facts       []fact
	Pending     []api.Approval
	Incidents   []ops.Incident
	Stop        *question
	Again       string // where "Run again" is posted to
	Chain       chainView
	Steps       []happened
	Own         ops.SessionID // none: the page is about all sessions
	Recoveries  []ops.Recovery
	Verdicts    []ops.Verification
	Actions     []runRow
	Approvals   []api.Approval // answered
	Plans       []api.Approval // those with a plan
	journal     ops.Journal
	Prompt      string
	Events      []api.Event
	Several     bool
	Told        postmortem.Told
}

// cyclePath is the URL of the page of a cycle.
func cyclePath(id ops.CycleID) string { return "/cycles/" + strconv.FormatInt(int64(id), 10) }

func (s *server) cycle(w http.ResponseWriter, r *http.Request) {
	id := rowID(r)
	view, err := s.cycleView(r.Context(), moment{s.Clock()}, ops.CycleID(id))
	if err != nil {
		s.fail(w, r, "cycle", err)
		return
	}
	p := page{Title: fmt.Sprintf("C-%d %s", id, view.Title), Nav: navCycles, Body: view}
	query := r.URL.Query()
	switch {
	case view.Stop != nil && query.Get("stopping") != "":
		p.Flash = fmt.Sprintf("Stopping C-%d. Its processes have a moment to exit on their own.", id)
	case query.Get("queued") != "":
		p.Flash = s.queuedText(r.Context(), ops.CycleID(id))
	}
	s.render(w, r, http.StatusOK, "cycle", p)
}

// cycleView reads everything about a cycle.
func (s *server) cycleView(ctx context.Context, m moment, id ops.CycleID) (cycleView, error) {
	loaded, err := s.Store.Load(ctx, id)
	if err != nil {
		return cycleView{}, fmt.Errorf("read cycle: %w", err)
	}
	verdicts, err := s.Store.Verifications(ctx, id)
	if err != nil {
		return cycleView{}, fmt.Errorf("read verdicts: %w", err)
	}
	calls, err := s.Store.CycleCalls(ctx, id)
	if err != nil {
		return cycleView{}, fmt.Errorf("read tool calls: %w", err)
	}
	incidents, err := s.Store.CycleIncidents(ctx, id)
	if err != nil {
		return cycleView{}, fmt.Errorf("read incidents: %w", err)
	}
	events, err := s.Store.Events(ctx, store.EventFilter{CycleID: &id, Limit: sessionEvents})
	if err != nil {
		return cycleView{}, fmt.Errorf("read events: %w", err)
	}
	c, j := loaded.Cycle, loaded.Journal
	view := cycleView{
		ID: c.ID, Title: cycleTitle(c), Badge: badgeOf(c), Environment: plain(c.Environment), Trigger: c.Trigger.Title(), Why: plain(c.Reason),
		Chain: m.chain(j.Sessions, 0), Steps: m.steps(c, j, verdicts), Actions: api.Rows(j.Runs, s.runRow), Prompt: plain(c.Prompt),
		Again: fmt.Sprintf("/cycles/%d/run", c.ID), Several: len(s.Environments) > 1, Incidents: incidents, Recoveries: j.Recoveries,
		Verdicts: verdicts, journal: j,
	}
	m.addWaterfall(&view.Chain, j.Sessions, m.waits(j.Approvals), calls)
	view.Facts = m.cycleFacts(c, view.Chain)
	if s.Trace != nil {
		view.Facts = append(view.Facts, fact{Name: "Trace ID", Value: s.Trace(c), Code: true, Broad: true, Copy: true})
	}
	if !c.Status.Ended() {
		view.Stop = stopCycleQuestion(c.ID)
	}
	for _, a := range api.CycleReportRow(loaded, verdicts).Approvals {
		if a.Status == ops.ApprovalPending {
			view.Pending = append(view.Pending, a)
		} else {
			view.Approvals = append(view.Approvals, a)
		}
		if len(a.Plan) > 0 {
			view.Plans = append(view.Plans, a)
		}
	}
	view.Events = eventsOfCycle(events)
	notices, err := s.Store.NoticeList(ctx, store.NoticeFilter{Cycle: id})
	if err != nil {
		return cycleView{}, err
	}
	slices.Reverse(notices)
	view.Told = postmortem.ToldBy(notices)
	return view, nil
}

func (m moment) cycleFacts(c ops.Cycle, chain chainView) []fact {
	cost := figureFact("Est. cost", chain.Cost)
	if c.Policy.BudgetChainUSD > 0 {
		cost.Value += " of " + dollars(&c.Policy.BudgetChainUSD).Text
	}
	facts := []fact{cost, figureFact("Turns", chain.Turns)}
	facts = append(facts, figureFact("Duration", m.lasted(c)),
		fact{Name: "Trigger", Value: c.Trigger.Title()}, fact{Name: "Environment", Value: plain(c.Environment)})
	if c.StartedAt != nil {
		facts = append(facts, fact{Name: "Started", At: m.maybe(c.StartedAt)})
	} else {
		facts = append(facts, fact{Name: "Queued", At: m.maybe(&c.CreatedAt)})
	}
	if c.EndedAt != nil {
		facts = append(facts, fact{Name: "Ended", At: m.maybe(c.EndedAt)})
	}
	switch {
	case c.RefutedAt != nil:
		facts = append(facts, fact{Name: "Did not hold", At: m.maybe(c.RefutedAt)})
	case c.ProbationUntil != nil && m.now.Before(*c.ProbationUntil):
		facts = append(facts, fact{Name: "On probation until", At: m.maybe(c.ProbationUntil)})
	}
	if c.Options.DryRun {
		facts = append(facts, fact{Name: "Dry run", Value: "Yes, nothing is changed"})
	}
	return facts
}

// Question is the title of an approval of the cycle.
func (v cycleView) Question(a api.Approval) string {
	return questionTitle(a, affectedServices(v.journal, ops.SessionID(a.SessionID)))
}

func stopCycleQuestion(id ops.CycleID) *question {
	return &question{
		ID: "stop", Button: "Stop", Icon: "square", Title: fmt.Sprintf("Stop C-%d?", id),
		Text:   "Work in progress may be left half done. The cycle ends.",
		Action: fmt.Sprintf("/cycles/%d/stop", id), Yes: "Stop cycle", No: "Keep running", Danger: true,
	}
}

// stopCycle ends a cycle that has not ended.
func (s *server) stopCycle(w http.ResponseWriter, r *http.Request) {
	id := rowID(r)
	err := s.desk.Cancel(r.Context(), by(r), ops.CycleID(id), "")
	switch {
	case errors.Is(err, ops.ErrConflict):
		s.errorPage(w, r, http.StatusConflict, fmt.Sprintf("Cycle C-%d has already ended.", id))
	case err != nil:
		s.fail(w, r, "cycle", err)
	default:
		http.Redirect(w, r, cyclePath(ops.CycleID(id))+"?stopping=1", http.StatusSeeOther)
	}
}

// runAgain submits a cycle with the same prompt, limits and environment.
func (s *server) runAgain(w http.ResponseWriter, r *http.Request) {
	id := rowID(r)
	again, err := s.desk.Repeat(r.Context(), by(r), ops.CycleID(id))
	if err != nil {
		s.fail(w, r, "cycle", err)
		return
	}
	http.Redirect(w, r, cyclePath(again)+"?queued=1", http.StatusSeeOther)
}

// happened is one step of a cycle in plain words, with its reason. The steps are read from the rows that the decisions left.
type happened struct {
	At      stamp
	Badge   badge
	Text    string
	Reason  string
	Session ops.SessionID // 0 for none
	Link    string        // of an approval or an action; empty for none

	at time.Time
}

// steps tells how a cycle went: what the supervisor did, in order, and why.
func (m moment) steps(c ops.Cycle, j ops.Journal, verdicts []ops.Verification) []happened {
	l := stepList{moment: m}
	l.add(c.CreatedAt, happened{Badge: badge{"unknown", "play", "Started"}, Text: startText(c)})
	l.addChecks(j.Checks)
	l.addSessions(j)
	for _, d := range j.Decisions {
		l.add(d.At, happened{Badge: stateOf("", d.Verdict), Text: decisionText(d), Reason: plain(d.Reason), Session: d.SessionID})
	}
	for _, r := range j.Recoveries {
		l.add(r.EnteredAt, happened{
			Badge: badge{"warn", "rotate-ccw", "Recovery"}, Text: recoveryText(r), Reason: plain(r.Reason), Session: r.SessionID,
		})
	}
	for _, v := range verdicts {
		shown := judgeBadge(v)
		l.add(v.At, happened{
			Badge: shown, Text: "The judge scored the repair: " + shown.Word, Reason: firstLine(v.Reasoning, 300), Session: v.SessionID,
		})
	}
	l.addApprovals(j.Approvals)
	for _, r := range j.Runs {
		if r.ApprovalID != 0 {
			l.add(r.RequestedAt, happened{
				Badge: stateOf(kindAction, r.Status), Text: fmt.Sprintf("Ran step %d of the plan: %s of %s", r.Step, plain(r.Action), plain(r.Service)),
				Link: fmt.Sprintf("/actions/%d", r.ID),
			})
		}
	}
	if c.CancelRequestedAt != nil {
		l.add(*c.CancelRequestedAt, happened{Badge: badge{"unknown", "ban", "Stopped"}, Text: "Asked to stop", Reason: plain(c.CancelReason)})
	}
	if c.RefutedAt != nil {
		l.add(*c.RefutedAt, happened{
			Badge: badge{"bad", "octagon-x", "Did not hold"}, Text: "The repair did not hold: the same check failed again on probation",
		})
	}
	if c.EndedAt != nil {
		shown := stateOf("", c.Status)
		if c.RefutedAt == nil {
			shown = badgeOf(c)
		}
		l.add(*c.EndedAt, happened{Badge: shown, Text: "Ended: " + shown.Word, Reason: plain(c.Reason)})
	}
	slices.SortStableFunc(l.all, func(a, b happened) int { return a.at.Compare(b.at) })
	return l.all
}

type stepList struct {
	moment
	all []happened
}

func (l *stepList) add(at time.Time, h happened) {
	h.at, h.At = at, l.precise(at)
	l.all = append(l.all, h)
}

func startText(c ops.Cycle) string {
	return cmp.Or(map[ops.Trigger]string{
		ops.TriggerScheduled: "The schedule started the cycle", ops.TriggerManual: "A person started the cycle",
		ops.TriggerAPI: "An API request started the cycle", ops.TriggerAlert: "An alert started the cycle",
		ops.TriggerProbe: "A failed probe started the cycle",
	}[c.Trigger], "The cycle was started")
}

// addChecks adds one step per run of the probes.
func (l *stepList) addChecks(checks []ops.Check) {
	type group struct {
		purpose ops.ProbePurpose
		after   ops.SessionID
	}
	found := map[group][]ops.Check{}
	var order []group
	for _, c := range checks {
		g := group{purpose: c.Purpose}
		if c.AfterSession != nil {
			g.after = *c.AfterSession
		}
		if found[g] == nil {
			order = append(order, g)
		}
		found[g] = append(found[g], c)
	}
	for _, g := range order {
		last := slices.MaxFunc(found[g], func(a, b ops.Check) int { return a.At.Compare(b.At) })
		shown, text := checksText(g.purpose, found[g])
		l.add(last.At, happened{Badge: shown, Text: text, Session: g.after})
	}
}

func checksText(purpose ops.ProbePurpose, checks []ops.Check) (badge, string) {
	bad := map[string]ops.Health{}
	services := map[string]bool{}
	for _, c := range checks {
		services[c.Service] = true
		if c.Status != ops.Healthy && (bad[c.Service] == "" || c.Status == ops.Down) {
			bad[c.Service] = c.Status
		}
	}
	what := "Probed " + plural(len(services), "service", "services")
	switch purpose {
	case ops.ProbeVerify:
		what += " to verify the repair"
	case ops.ProbeRecheck:
		what += " again after the wait"
	case ops.ProbePlan:
		what += " after the plan"
	case ops.ProbeReflex:
		what += " after the reflex"
	case ops.ProbeAlert:
		what = "Received alerts about " + plural(len(services), "service", "services")
	case ops.ProbeRunning:
		return runningText(checks)
	case ops.ProbeObserve, ops.ProbeWatch:
	}
	if len(bad) == 0 {
		return healthBadge(ops.Healthy), what + ": all healthy"
	}
	names := make([]string, 0, len(bad))
	worst := ops.Degraded
	for name, status := range bad {
		names = append(names, firstLine(name, 60))
		if status == ops.Down {
			worst = ops.Down
		}
	}
	slices.Sort(names)
	if more := len(names) - 3; more > 0 {
		names = append(names[:3], fmt.Sprintf("%d more", more))
	}
	return healthBadge(worst), fmt.Sprintf("%s: %s not healthy", what, strings.Join(names, ", "))
}

// runningText says whether what the repaired services run in is up.
func runningText(checks []ops.Check) (badge, string) {
	var idle []string
	for _, c := range checks {
		if c.Status != ops.Healthy {
			idle = append(idle, firstLine(c.Error, 100))
		}
	}
	if len(idle) == 0 {
		return healthBadge(ops.Healthy), plural(len(checks), "container or unit", "containers and units") + " of what was repaired: running"
	}
	return healthBadge(ops.Down), "After the repair: " + strings.Join(idle, "; ")
}

// addSessions adds the start and the end of each session.
func (l *stepList) addSessions(j ops.Journal) {
	for _, s := range j.Sessions {
		started := s.CreatedAt
		if s.StartedAt != nil {
			started = *s.StartedAt
		}
		l.add(started, happened{Badge: badge{"run", "play", "Session"}, Text: sessionStartText(s), Session: s.ID})
		if s.EndedAt != nil && s.Status.Ended() {
			shown := sessionBadge(s, childOf(s, j.Sessions) != nil)
			l.add(*s.EndedAt, happened{
				Badge: shown, Text: fmt.Sprintf("%s ended: %s", sessionName(s), shown.Word), Reason: strings.Join(whyStopped(s), " "), Session: s.ID,
			})
		}
	}
}

func sessionName(s ops.Session) string {
	return cmp.Or(roleText(s.Role), s.Tier.String())
}

func sessionStartText(s ops.Session) string {
	name, model := sessionName(s), plain(s.Model)
	text := name + " started"
	switch {
	case s.Status == ops.SessionQueued:
		text = name + " is queued"
	case s.Role == ops.RoleJudge:
		text = "The judge was asked about the repair"
	case s.Role == ops.RoleManager:
		text = "The manager was asked who takes over"
	case s.Role == ops.RolePlanner:
		text = "The planner was asked for a new plan"
	case s.RetryOf != nil:
		text = fmt.Sprintf("%s started again, attempt %d", name, s.Attempt)
	}
	if model != "" {
		text += " (" + model + ")"
	}
	return text
}

func decisionText(d ops.Decision) string {
	target := plain(d.TargetHandler)
	switch d.Verdict {
	case ops.VerdictEscalate:
		return "Escalated to " + cmp.Or(target, "the next tier")
	case ops.VerdictApproval:
		return "A person must approve " + cmp.Or(target, "the next tier")
	case ops.VerdictRefused:
		return "The escalation was refused"
	case ops.VerdictSuppressed:
		return "The escalation was suppressed (dry run)"
	case ops.VerdictBlocked:
		return "The escalation was blocked"
	case ops.VerdictNeedsHuman:
		return "A person is needed"
	}
	return plain(string(d.Verdict))
}

func recoveryText(r ops.Recovery) string {
	return fmt.Sprintf("Recovery level %d: %s", int(r.Level), plain(string(r.Action)))
}

// addApprovals adds the questions to people and their answers.
func (l *stepList) addApprovals(approvals []ops.Approval) {
	for _, a := range approvals {
		link := fmt.Sprintf("/approvals/%d", a.ID)
		l.add(a.RequestedAt, happened{
			Badge: badge{"hand", "hand", "Question"}, Text: questionTitle(api.ApprovalRow(a), nil), Reason: plain(a.Reason),
			Session: a.SessionID, Link: link,
		})
		if a.AnsweredAt != nil {
			shown := stateOf(kindApproval, a.Status)
			text := shown.Word
			if a.AnsweredBy != "" {
				text += " by " + plain(a.AnsweredBy)
			}
			l.add(*a.AnsweredAt, happened{Badge: shown, Text: text, Reason: firstLine(a.Answer, 300), Link: link})
		}
	}
}
