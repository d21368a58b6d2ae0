package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

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
	Story       postmortem.Story
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

func (s *server) cycle(r *http.Request) (page, error) {
	id := ops.CycleID(rowID(r))
	view, err := s.cycleView(r.Context(), moment{s.Clock()}, id)
	p := page{Title: fmt.Sprintf("C-%d %s", id, view.Title), Nav: navCycles, Body: view}
	query := r.URL.Query()
	switch {
	case view.Stop != nil && query.Get("stopping") != "":
		p.Flash = fmt.Sprintf("Stopping C-%d. Its processes have a moment to exit on their own.", id)
	case query.Get("queued") != "":
		p.Flash = s.queuedText(r.Context(), id)
	case query.Get("done") != "":
		p.Flash = doneText(queried(r, "done"), queried(r, "id"))
	}
	return p, err
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
		ID: c.ID, Title: cycleTitle(c), Badge: badgeOf(c), Environment: plain(c.Environment), Trigger: c.Trigger.Title(), Why: spoken(c.Why()),
		Chain: m.chain(j.Sessions, j.Approvals, calls, 0), Actions: api.Rows(j.Runs, s.runRow), Prompt: plain(c.Prompt),
		Again: fmt.Sprintf("/cycles/%d/run", c.ID), Several: len(s.Environments) > 1, Incidents: incidents, Recoveries: j.Recoveries,
		Verdicts: verdicts, journal: j,
	}
	view.Facts = m.cycleFacts(c, view.Chain)
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
	whole := ops.IncidentStory{Cycles: []ops.CycleStory{{Cycle: c, Journal: j}}, Notices: notices}
	view.Story = postmortem.Tell(whole, m.now)
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
func (s *server) stopCycle(r *http.Request) (string, error) {
	id := ops.CycleID(rowID(r))
	err := s.desk.Cancel(r.Context(), by(r), id, "")
	if errors.Is(err, ops.ErrConflict) {
		err = refusal{http.StatusConflict, fmt.Sprintf("Cycle C-%d has already ended.", id)}
	}
	return cyclePath(id) + "?stopping=1", err
}

// runAgain submits a cycle with the same prompt, limits and environment.
func (s *server) runAgain(r *http.Request) (string, error) {
	again, err := s.desk.Repeat(r.Context(), by(r), ops.CycleID(rowID(r)))
	return cyclePath(again) + "?queued=1", err
}
