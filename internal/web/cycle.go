package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
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
	Pending     []pendingView
	Incidents   []cycleIncident
	Stop        *question
	Again       string // where "Run again" is posted to
	Chain       chainView
	Steps       []happened
	Recoveries  []recoveryView
	Verdicts    []verdictView
	Actions     []runRow
	Plans       []planView
	Approvals   []answeredView
	Prompt      string
	Events      []api.Event
	Several     bool
}

// pendingView is an approval that the cycle waits for.
type pendingView struct {
	ID      int64
	Title   string
	Reason  string
	Asked   stamp
	Expires *stamp
}

// cycleIncident links to an incident of the cycle.
type cycleIncident struct {
	ID    int64
	Title string
	Badge badge
}

// planView is a plan that an agent proposed, with what became of each step.
type planView struct {
	Approval int64
	Badge    badge
	Note     string
	Steps    []planStepView
}

type planStepView struct {
	ops.ApprovedStep
	Badge badge
	Note  string // why it failed, was refused or was skipped
	Run   int64  // its action run; 0 if there is none
}

// cyclePath is the URL of the page of a cycle.
func cyclePath(id ops.CycleID) string { return "/cycles/" + strconv.FormatInt(int64(id), 10) }

func (s *server) cycle(w http.ResponseWriter, r *http.Request) {
	id, ok := rowID(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such cycle.")
		return
	}
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
		Again: fmt.Sprintf("/cycles/%d/run", c.ID), Several: len(s.Environments) > 1,
	}
	m.addWaterfall(&view.Chain, j.Sessions, m.waits(j.Approvals), calls)
	view.Facts = m.cycleFacts(c, view.Chain)
	if s.Trace != nil {
		view.Facts = append(view.Facts, fact{Name: "Trace ID", Value: s.Trace(c), Code: true, Broad: true, Copy: true})
	}
	if !c.Status.Ended() {
		view.Stop = stopCycleQuestion(c.ID)
	}
	for _, r := range j.Recoveries {
		view.Recoveries = append(view.Recoveries, m.recovery(r, 0))
	}
	for _, v := range verdicts {
		view.Verdicts = append(view.Verdicts, m.verdict(v))
	}
	view.addPeople(m, s, j, incidents)
	view.Events = eventsOfCycle(events)
	return view, nil
}

func (m moment) cycleFacts(c ops.Cycle, chain chainView) []fact {
	cost := figureFact("Est. cost", chain.Cost)
	if c.Policy.BudgetChainUSD > 0 {
		cost.Value += " of " + dollars(&c.Policy.BudgetChainUSD).Text
	}
	facts := []fact{cost, figureFact("Turns", chain.Turns)}
	took, since := m.cycleDuration(c)
	lasts := figureFact("Duration", took)
	lasts.Since = since
	facts = append(facts, lasts, fact{Name: "Trigger", Value: c.Trigger.Title()}, fact{Name: "Environment", Value: plain(c.Environment)})
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

// addPeople adds what people were asked and answered, the plans, and the incidents.
func (v *cycleView) addPeople(m moment, s *server, j ops.Journal, incidents []ops.Incident) {
	for _, a := range j.Approvals {
		title := questionTitle(a, s.affectedServices(j, a.SessionID))
		if a.Status == ops.ApprovalPending {
			asked := pendingView{ID: a.ID, Title: title, Reason: plain(a.Reason), Asked: m.stamp(a.RequestedAt)}
			if a.ExpiresAt != nil {
				at := m.stamp(*a.ExpiresAt)
				asked.Expires = &at
			}
			v.Pending = append(v.Pending, asked)
		} else {
			v.Approvals = append(v.Approvals, answeredView{
				ID: a.ID, Title: title, Badge: approvalBadge(a.Status), Note: m.answerNote(a), Asked: m.stamp(a.RequestedAt),
				Reason: firstLine(a.Answer, 300),
			})
		}
		if len(a.Plan) > 0 {
			v.Plans = append(v.Plans, m.plan(a, j.Runs))
		}
	}
	for _, i := range incidents {
		v.Incidents = append(v.Incidents, cycleIncident{ID: i.ID, Title: firstLine(i.Title, 120), Badge: incidentBadge(i, m.now)})
	}
}

func (m moment) plan(a ops.Approval, runs []ops.ActionRun) planView {
	return planView{Approval: a.ID, Badge: approvalBadge(a.Status), Note: m.answerNote(a), Steps: planSteps(a, runs)}
}

// planSteps are the steps of a plan with what became of them, without characters that could hide something.
func planSteps(a ops.Approval, runs []ops.ActionRun) []planStepView {
	states := a.Progress(runs)
	out := make([]planStepView, 0, len(a.Plan))
	for i, p := range a.Plan {
		p.Service, p.Action, p.Branch, p.Reason = plain(p.Service), plain(p.Action), plain(p.Branch), plain(p.Reason)
		p.Effect, p.Back, p.Does, p.WayBack = plain(p.Effect), plain(p.Back), plain(p.Does), plain(p.WayBack)
		out = append(out, planStepView{
			ApprovedStep: p, Badge: planStepBadge(states[i].State), Note: firstLine(states[i].Why, desk.MaxReason), Run: states[i].Run,
		})
	}
	return out
}

func planStepBadge(state ops.PlanState) badge {
	switch state {
	case ops.PlanPending:
		return badge{"hand", "hand", "Needs approval"}
	case ops.PlanApproved:
		return badge{"unknown", "clock", "Approved"}
	case ops.PlanNotApproved:
		return badge{"unknown", "ban", "Not approved"}
	case ops.PlanRunning:
		return actionBadge(ops.ActionStarted)
	case ops.PlanDone:
		return actionBadge(ops.ActionDone)
	case ops.PlanFailed:
		return actionBadge(ops.ActionFailed)
	case ops.PlanRefused:
		return actionBadge(ops.ActionRefused)
	case ops.PlanSkipped:
		return badge{"unknown", "ban", "Skipped"}
	}
	return badge{"unknown", "circle-question-mark", plain(string(state))}
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
	id, _ := rowID(r) // there is none with the id 0
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
	id, _ := rowID(r)
	again, err := s.desk.Repeat(r.Context(), by(r), ops.CycleID(id))
	if err != nil {
		s.fail(w, r, "cycle", err)
		return
	}
	http.Redirect(w, r, cyclePath(again)+"?queued=1", http.StatusSeeOther)
}
