package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// The answers to an approval, as in URLs.
const (
	answerApprove = "approve"
	answerDeny    = "deny"
)

// approvalView is one approval with everything needed to answer it.
type approvalView struct {
	api.Approval
	Title      string
	Unanswered string // what happens when nobody answers
	Who        string // the handler and its model
	May        []string
	Tools      string
	Findings   string
	Tried      string
	Done       []string // changes that the gates allowed in this cycle
	Checks     []ops.CheckResult
	Services   []string
	Cost       figure
	Budget     string
	Cooldowns  []cooldownView

	Ask       string // approve or deny: the answer to confirm; empty offers both
	Conflict  string // why the answer was not accepted
	FormError string // what is wrong with the form
}

// pending returns the open approvals, the one that expires first on top.
func (s *approvals) pending(ctx context.Context, m moment) ([]approvalView, error) {
	found, err := s.Store.People.Approvals(ctx, store.ApprovalFilter{Status: ops.ApprovalPending, Limit: 200})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b ops.Approval) int {
		switch {
		case a.ExpiresAt != nil && b.ExpiresAt != nil:
			return a.ExpiresAt.Compare(*b.ExpiresAt)
		case a.ExpiresAt != nil:
			return -1
		case b.ExpiresAt != nil:
			return 1
		}
		return cmp.Compare(a.ID, b.ID)
	})
	var out []approvalView
	for _, a := range found {
		view, err := s.approvalView(ctx, m, a)
		if err != nil {
			return nil, err
		}
		out = append(out, view)
	}
	return out, nil
}

func (s *approvals) approvalView(ctx context.Context, m moment, a ops.Approval) (approvalView, error) {
	loaded, err := s.Store.Journal.Load(ctx, a.CycleID)
	if err != nil {
		return approvalView{}, fmt.Errorf("read cycle %d: %w", a.CycleID, err)
	}
	policy := loaded.Cycle.Policy
	a.States = a.Progress(loaded.Journal.Runs)
	view := approvalView{
		Approval: api.ApprovalRow(a), Cost: totalCost(loaded.Journal.Sessions), Services: affectedServices(loaded.Journal, a.SessionID),
	}
	if a.ExpiresAt != nil {
		view.Unanswered = "If nobody answers, the cycle ends when it expires and needs a person."
		if a.Kind == ops.ApprovalReflex {
			view.Unanswered = "Tier 1 looks without it"
		}
	}
	view.Title = questionTitle(view.Approval, view.Services)
	view.addFindings(loaded.Journal, a.SessionID)
	for _, session := range loaded.Journal.Sessions {
		for _, done := range loaded.Journal.Effects[session.ID].Done {
			view.Done = append(view.Done, firstLine(fmt.Sprintf("#%d %s %s", session.ID, done.Tool, done.Input), 200))
		}
	}
	handler, _ := policy.Handler(a.Handler)
	view.Who = plain(cmp.Or(strings.TrimSpace(a.Handler+" "+handler.Model), a.Handler))
	tier := a.Tier
	if handler.ID != "" {
		tier = handler.May()
	}
	view.May, view.Tools = permissions(tier), s.tools(a.Environment, tier)
	if lacks := handler.Lacks(); lacks != "" {
		view.May = append(view.May, "All of this without a wall that it needs: "+lacks)
	}
	if policy.BudgetChainUSD > 0 {
		view.Budget = dollars(&policy.BudgetChainUSD).Text
	}
	for _, service := range view.Services {
		view.Cooldowns = append(view.Cooldowns, m.cooldownsOf(a.Environment, service, policy.Cooldowns, loaded.Journal.Cooldowns)...)
	}
	return view, nil
}

// affectedServices returns the services that the approval is about.
func affectedServices(j ops.Journal, session ops.SessionID) []string {
	var names []string
	for _, d := range j.Decisions {
		if d.SessionID == session && len(d.Services) > 0 {
			names = d.Services
		}
	}
	if from := j.Session(session); from != nil && names == nil {
		names = proposedHandoff(*from).ServicesAffected
	}
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, firstLine(name, 80))
	}
	return out
}

// proposedHandoff returns the handoff a session proposed, or an empty one if it cannot be parsed.
func proposedHandoff(s ops.Session) ops.Handoff {
	var h ops.Handoff
	if json.Unmarshal(s.HandoffJSON, &h) == nil && len(s.HandoffJSON) > 0 {
		return h
	}
	var o ops.Outcome
	if json.Unmarshal(s.OutcomeJSON, &o) == nil && o.Handoff != nil {
		return *o.Handoff
	}
	return ops.Handoff{}
}

// addFindings adds what the session found and tried.
func (v *approvalView) addFindings(j ops.Journal, session ops.SessionID) {
	from := j.Session(session)
	if from == nil {
		return
	}
	h := proposedHandoff(*from)
	v.Findings, v.Tried, v.Checks = plain(h.InvestigationFindings), plain(h.RemediationAttempted), h.CheckResults
	var o ops.Outcome
	if json.Unmarshal(from.OutcomeJSON, &o) != nil {
		return
	}
	v.Findings = cmp.Or(v.Findings, plain(o.Summary))
	if v.Tried == "" {
		var tried []string
		for _, a := range o.Actions {
			word := "failed"
			if a.Success {
				word = "done"
			}
			tried = append(tried, fmt.Sprintf("%s %s: %s. %s", a.Action, a.Service, word, a.Detail))
		}
		v.Tried = plain(strings.Join(tried, "\n"))
	}
	if v.Checks == nil {
		v.Checks = o.CheckResults
	}
}

func questionTitle(a api.Approval, services []string) string {
	about := ""
	switch len(services) {
	case 0:
	case 1, 2:
		about = " for " + strings.Join(services, " and ")
	default:
		about = fmt.Sprintf(" for %d services", len(services))
	}
	if a.Kind == string(ops.ApprovalReview) {
		return fmt.Sprintf("Review the repair by %s%s", a.Tier, about)
	}
	if a.Kind == string(ops.ApprovalReflex) {
		return "Approve: " + a.Handler + ", without an agent"
	}
	return fmt.Sprintf("Approve: start %s%s", a.Tier, about)
}

// permissions describes the permissions of a tier.
func permissions(t ops.Tier) []string {
	switch t {
	case ops.Tier1:
		return []string{"Probe services, read logs and configuration", "Change nothing"}
	case ops.Tier2:
		return []string{
			"Everything Tier 1 may do", "Restart services and make small, safe repairs, within their cooldowns",
			"No redeployment, no Ansible, no Helm upgrade, no stop",
		}
	case ops.Tier3:
		return []string{
			"Everything Tier 2 may do", "Redeploy services, stop containers, run Ansible and Helm, within their cooldowns",
			"Never: delete volumes or data, force-push, change inventory files",
		}
	default:
		return []string{"No agent starts: a person does the work"}
	}
}

func (s *approvals) tools(environment string, t ops.Tier) string {
	return strings.Join(s.environment(environment).Tools[t].Tools, ", ")
}

// answerNote returns the person and the time of the answer.
func (m moment) answerNote(a api.Approval) string {
	if a.AnsweredAt == nil {
		return ""
	}
	note := fmt.Sprintf("by %s at %s", plain(words(a.AnsweredBy)), m.text(*a.AnsweredAt))
	if a.DeniedUntil != nil {
		note += ", until " + m.text(*a.DeniedUntil)
	}
	return note
}

// alreadyText says who was faster.
func (m moment) alreadyText(a api.Approval) string {
	return fmt.Sprintf("Already %s %s.", strings.ToLower(stateOf(kindApproval, a.Status).Word), m.answerNote(a))
}

// approval shows one approval. A link in a notification may name the answer, but only the form sends it.
func (s *approvals) approval(r *http.Request) (page, error) {
	ask := r.PathValue("answer")
	if ask != "" && ask != answerApprove && ask != answerDeny {
		return page{}, noPage()
	}
	return s.showApproval(r, ask, "")
}

func (s *approvals) showApproval(r *http.Request, ask, problem string) (page, error) {
	a, err := s.Store.People.Approval(r.Context(), rowID(r))
	if err != nil {
		return page{}, err
	}
	m := moment{s.Clock()}
	view, err := s.approvalView(r.Context(), m, a)
	view.Ask, view.FormError = ask, problem
	if a.Status != ops.ApprovalPending {
		view.Conflict = m.alreadyText(view.Approval)
		if a.Answer != "" {
			view.Conflict += " Reason: " + firstLine(a.Answer, desk.MaxReason)
		}
	}
	return page{Title: view.Title, Nav: "incidents", Body: view, Static: true}, err
}

// unanswered shows an approval whose answer was not accepted.
func (s *approvals) unanswered(r *http.Request, problem string) (page, error) {
	return s.showApproval(r, "", problem)
}

// answer records the answer to an approval. Only the first answer counts; a later one gets a conflict that names the first.
func (s *approvals) answer(r *http.Request) (string, error) {
	id, word := rowID(r), r.PathValue("answer")
	next := fmt.Sprintf("/incidents?done=%s&id=%d", word, id)
	var err error
	switch word {
	case answerApprove:
		var steps desk.Steps
		if steps, err = chosenSteps(r); err == nil {
			var a ops.Approval
			a, err = s.desk.Approve(r.Context(), by(r), id, steps, reason(r))
			next = fmt.Sprintf("%s?done=%s&id=%d", cyclePath(a.CycleID), word, id) // where the work can be watched
		}
	case answerDeny:
		_, err = s.desk.Deny(r.Context(), by(r), id, denyFor(r), reason(r))
	default:
		err = noPage()
	}
	if c, ok := errors.AsType[*ops.Conflict](err); ok && c.Kind == ops.ConflictAnswered {
		err = wrong{http.StatusConflict, ""} // the page says who was first
	} else if ok {
		err = wrong{http.StatusConflict, "Nothing was changed: " + plain(c.Text) + "."}
	}
	return next, err
}

// denyFor is how long a no lasts, or nil if the form does not say.
func denyFor(r *http.Request) *time.Duration {
	d, err := time.ParseDuration(r.PostFormValue("for"))
	if err != nil || d < 0 {
		return nil
	}
	return &d
}

// chosenSteps are the steps of a plan that were ticked on the page that showed it; without any, no step runs, and the tier starts.
func chosenSteps(r *http.Request) (out desk.Steps, err error) {
	for _, word := range r.PostForm["step"] {
		n, err := strconv.Atoi(word)
		if err != nil {
			return out, ops.NewConflict(ops.ConflictChanged, "the plan has no step %q", word)
		}
		out.Plan, out.Numbers = r.PostFormValue("plan_hash"), append(out.Numbers, n)
	}
	return out, nil
}

type approvalsView struct {
	Pending  []api.Approval
	Answered []api.Approval
	Several  bool
	Pager    pager
}

// approvals lists the questions to people: first those that wait for an answer, then the answered ones.
func (s *approvals) approvals(r *http.Request) (page, error) {
	before, ok := cursor(r)
	if !ok {
		return page{}, noSuch("No such page of approvals.")
	}
	view := approvalsView{Several: len(s.Environments) > 1}
	if before == 0 {
		pending, err := s.Store.People.Approvals(r.Context(), store.ApprovalFilter{Status: ops.ApprovalPending, Limit: 200})
		if err != nil {
			return page{}, err
		}
		view.Pending = api.Rows(pending, api.ApprovalRow)
	}
	found, err := s.Store.People.Approvals(r.Context(), store.ApprovalFilter{Before: before, Limit: listed + 1})
	found, view.Pager = paged(r, found, func(a ops.Approval) int64 { return a.ID })
	found = slices.DeleteFunc(found, func(a ops.Approval) bool { return a.Status == ops.ApprovalPending })
	view.Answered = api.Rows(found, api.ApprovalRow)
	return page{Title: "Approvals", Nav: "approvals", Body: view}, err
}
