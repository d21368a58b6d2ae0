package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/desk"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
)

// Incident is a problem that needs a human.
type Incident struct {
	ID             int64                 `json:"id"`
	Environment    string                `json:"environment"`
	Service        *string               `json:"service"`
	Check          *string               `json:"check"`
	Class          string                `json:"class"`
	Title          string                `json:"title"`
	Level          string                `json:"level"`
	Status         ops.IncidentStatus    `json:"status" enum:"open,acknowledged,snoozed,unverified,resolved"`
	Occurrences    int                   `json:"occurrences"`
	FirstCycleID   int64                 `json:"first_cycle_id"`
	LastCycleID    int64                 `json:"last_cycle_id"`
	WaitingCycleID *int64                `json:"waiting_cycle_id" doc:"The cycle that continues after the answer."`
	Report         Document              `json:"report" doc:"Services, checks, findings, attempts, cost, recommendation."`
	Findings       []ops.IncidentFinding `json:"findings" doc:"What a human is called for, piece by piece: it is over when every piece is."`
	OpenedAt       time.Time             `json:"opened_at"`
	UpdatedAt      time.Time             `json:"updated_at"`
	DeniedUntil    *time.Time            `json:"denied_until" doc:"Somebody said no: until then no agent works on it as it is."`
	CalledAt       *time.Time            `json:"called_at" doc:"Since when a human is needed; null while the supervisor works on it alone."`
	Handled        bool                  `json:"handled" doc:"A cycle works on it, and no human is needed yet."`
	ReopenedAt     *time.Time            `json:"reopened_at" doc:"When it was last opened again, because a repair did not hold."`
	ProbationUntil *time.Time            `json:"probation_until" doc:"Resolved by a cycle: until then the same check opens it again."`
	AcknowledgedAt *time.Time            `json:"acknowledged_at"`
	AcknowledgedBy *string               `json:"acknowledged_by"`
	SnoozedUntil   *time.Time            `json:"snoozed_until"`
	ResolvedAt     *time.Time            `json:"resolved_at"`
	ResolvedBy     *string               `json:"resolved_by"`
	Resolution     *string               `json:"resolution"`
	Reminders      int                   `json:"reminders"`
	Told           []ops.Delivery        `json:"told" doc:"Whom its notices reached, oldest first. Null in lists."`
	NobodyTold     *string               `json:"nobody_told" doc:"Why its notices reached nobody. Null in lists, and if somebody was told."`
	Story          *story.Story          `json:"story" doc:"What happened, in a line and at most eight steps. Null in lists."`
	Note           *string               `json:"note" doc:"In the answer to resolve: what is still wrong, and what happens next. Else null."`
	Changed        *Changed              `json:"changed" doc:"What changed before it; only in the answer to one incident."`
}

// Approval is a step of a cycle that waits for approval.
type Approval struct {
	ID          int64              `json:"id"`
	CycleID     int64              `json:"cycle_id"`
	SessionID   int64              `json:"session_id"`
	Environment string             `json:"environment"`
	Kind        string             `json:"kind" enum:"tier,review,reflex"`
	Tier        ops.Tier           `json:"tier"`
	Handler     string             `json:"handler"`
	Status      ops.ApprovalStatus `json:"status" enum:"pending,approved,denied,expired,withdrawn"`
	Reason      string             `json:"reason"`
	RequestedAt time.Time          `json:"requested_at"`
	ExpiresAt   *time.Time         `json:"expires_at"`
	AnsweredAt  *time.Time         `json:"answered_at"`
	AnsweredBy  *string            `json:"answered_by"`
	Answer      *string            `json:"answer"`
	Plan        []PlanStep         `json:"plan" doc:"What the supervisor does after the approval, before it starts the tier."`
	PlanHash    *string            `json:"plan_hash" doc:"Identifies the plan. Send it with the approval."`
	Steps       []int              `json:"steps" doc:"The approved steps of the plan, counted from 1."`
	Facts       []ops.Fact         `json:"facts" doc:"What was wrong when it was asked. A no lasts only as long as nothing else is wrong."`
	DeniedUntil *time.Time         `json:"denied_until" doc:"Until when a no lasts. Null if it answers this question only."`
	Effect      *string            `json:"effect" doc:"What follows from a no, in a sentence."`
}

// PlanStep is one action of a plan.
type PlanStep struct {
	Service        string  `json:"service"`
	Action         string  `json:"action"`
	Branch         *string `json:"branch"`
	Reason         string  `json:"reason"`
	ExpectedEffect string  `json:"expected_effect"`
	WayBack        string  `json:"way_back" doc:"In the words of the agent."`
	Does           string  `json:"does" doc:"What the supervisor runs."`
	Undo           string  `json:"undo" doc:"What the supervisor runs to undo it, or none."`

	State       ops.PlanState `json:"state" enum:"pending,approved,not_approved,running,done,failed,refused,skipped"`
	Why         *string       `json:"why" doc:"Why it failed, was refused or was skipped."`
	ActionRunID *int64        `json:"action_run_id" doc:"Its run."`
}

type approveInput struct {
	RowPath
	Body *struct {
		Reason   string `json:"reason,omitempty" doc:"Why, for the record. At most 500 characters."`
		PlanHash string `json:"plan_hash,omitempty" doc:"The plan that is approved. Without it no step of a plan runs, and the tier starts."`
		Steps    []int  `json:"steps,omitempty" doc:"The approved steps, counted from 1. Default: all."`
	}
}

type incidentsQuery struct {
	Paging
	Open        bool      `query:"open" doc:"Exclude resolved incidents."`
	NeedsYou    bool      `query:"needs_you" doc:"Only those that need a person, as /stats counts them."`
	Since       time.Time `query:"since" doc:"Opened since then."`
	Status      string    `query:"status" enum:"open,acknowledged,snoozed,unverified,resolved" doc:"Filter by status."`
	Environment string    `query:"environment" doc:"Filter by environment."`
	Service     string    `query:"service" doc:"Filter by service."`
}

type approvalsQuery struct {
	Paging
	Status      string `query:"status" enum:"pending,approved,denied,expired,withdrawn" doc:"Filter by status."`
	Environment string `query:"environment" doc:"Filter by environment."`
}

// RowPath is the id of a row.
type RowPath struct {
	ID int64 `path:"id" minimum:"1" doc:"The id."`
}

type answerInput struct {
	RowPath
	Body *struct {
		Reason string `json:"reason,omitempty" doc:"For the record. At most 500 characters."`
	}
}

type denyInput struct {
	RowPath
	Body *struct {
		Reason string `json:"reason,omitempty" doc:"For the record. At most 500 characters."`
		For    string `json:"for,omitempty" doc:"How long the no lasts: such as 24h (default), or seconds; 0: this question only."`
	}
}

type snoozeInput struct {
	RowPath
	Body struct {
		Until  *time.Time `json:"until,omitempty" doc:"A time in the future."`
		For    string     `json:"for,omitempty" doc:"A duration such as 2h, instead of until."`
		Reason string     `json:"reason,omitempty" doc:"For the record. At most 500 characters."`
	}
}

func (s *incidents) registerPeople(api huma.API) {
	huma.Register(api, look("list-incidents", "/incidents", "List incidents, newest first", "incidents",
		"One incident is one problem, however often it occurs while it is open."), s.listIncidents)
	huma.Register(api, look("get-incident", "/incidents/{id}", "Show an incident", "incidents",
		"With its report: checks, findings, attempts, cost.", http.StatusNotFound), s.getIncident)
	huma.Register(api, reportOperation(), s.reportIncident)
	huma.Register(api, start("run-incident", "/incidents/{id}/run", "Start another cycle for an incident", "incidents",
		"It starts at Tier 1 for the same environment and service. The answer has the id of the cycle.", http.StatusNotFound), s.runIncident)
	huma.Register(api, act("ack-incident", "/incidents/{id}/ack", "Acknowledge an incident", "incidents",
		"Nothing escalates for it, and reminders stop. An incident that is already acknowledged or resolved is a conflict.",
		http.StatusNotFound), s.ackIncident)
	huma.Register(api, act("snooze-incident", "/incidents/{id}/snooze", "Mute an incident until a time", "incidents",
		"Give either until or for.", http.StatusNotFound), s.snoozeIncident)
	huma.Register(api, act("resolve-incident", "/incidents/{id}/resolve", "Close an incident", "incidents",
		"A cycle that waits for it ends as resolved. If its service is still bad, note says so: it gets another cycle after the pause "+
			"between two cycles.", http.StatusNotFound), s.resolveIncident)
	huma.Register(api, look("list-approvals", "/approvals", "List approvals, newest first", "approvals",
		"The cycle waits for the answer."), s.listApprovals)
	huma.Register(api, look("get-approval", "/approvals/{id}", "Show an approval", "approvals",
		"With the answer, if there is one.", http.StatusNotFound), shown(s.server, "approval", s.Store.People.Approval, ApprovalRow))
	huma.Register(api, act("approve", "/approvals/{id}/approve", "Approve: the cycle continues with exactly that step", "approvals",
		"An approval that was answered or has expired is a conflict, and so is another plan than the one that was shown.",
		http.StatusNotFound), s.approve)
	huma.Register(api, act("deny", "/approvals/{id}/deny", "Deny: the cycle ends with the reason", "approvals",
		"The no lasts: until its time is over or something else is wrong, no agent starts for it. An approval that was answered or has expired "+
			"is a conflict, except that a denied one gets the time in for instead of its own.", http.StatusNotFound), s.deny)
}

func (s *incidents) listIncidents(ctx context.Context, q *incidentsQuery) (*body[list[Incident]], error) {
	return listed(s.server, "list incidents", q.Paging, func(before int64, limit int) ([]ops.Incident, error) {
		return s.Store.People.Incidents(ctx, store.IncidentFilter{
			Open: q.Open, NeedsYou: q.NeedsYou, Status: ops.IncidentStatus(q.Status), Environment: q.Environment, Service: q.Service,
			Since: q.Since, Before: before, Limit: limit,
		})
	}, func(i ops.Incident) int64 { return i.ID }, incidentRow)
}

func (s *incidents) getIncident(ctx context.Context, in *RowPath) (*body[Incident], error) {
	rows, err := s.desk.Story(ctx, in.ID)
	out, err := answer(s.server, fmt.Sprintf("incident %d", in.ID), rows.Incident, err, incidentRow)
	if err == nil {
		told := story.ToldBy(rows.Notices)
		out.Body.Told, out.Body.NobodyTold = told.Deliveries, text(told.Nobody)
		out.Body.Story = ops.Ptr(story.Tell(rows, s.Clock()))
		out.Body.Changed = changedRow(rows.Changed)
	}
	return out, err
}

// reportOperation describes the report, which is text and not JSON.
func reportOperation() huma.Operation {
	o := look("report-incident", "/incidents/{id}/report", "Report of an incident as Markdown", "incidents",
		"What happened, what was tried, what it cost and how it ended, from the records alone.", http.StatusNotFound)
	o.Responses = map[string]*huma.Response{"200": {
		Description: "The report.", Content: map[string]*huma.MediaType{"text/markdown": {Schema: &huma.Schema{Type: "string"}}},
	}}
	return o
}

type markdownOutput struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (s *incidents) reportIncident(ctx context.Context, in *RowPath) (*markdownOutput, error) {
	rows, err := s.desk.Story(ctx, in.ID)
	if err != nil {
		return nil, s.problem(fmt.Sprintf("incident %d", in.ID), err)
	}
	return &markdownOutput{"text/markdown; charset=utf-8", []byte(story.Markdown(rows, nil, s.Clock()))}, nil
}

func (s *incidents) runIncident(ctx context.Context, in *RowPath) (*created[queued], error) {
	id, i, err := s.desk.RunAgain(ctx, by(ctx), in.ID)
	if err != nil {
		return nil, s.problem(fmt.Sprintf("incident %d", in.ID), err)
	}
	return s.queued(ctx, id, i.Environment)
}

func (s *incidents) ackIncident(ctx context.Context, in *answerInput) (*body[Incident], error) {
	i, err := s.desk.Acknowledge(ctx, by(ctx), in.ID, value(in.Body).Reason)
	return answer(s.server, fmt.Sprintf("incident %d", in.ID), i, err, incidentRow)
}

func (s *incidents) resolveIncident(ctx context.Context, in *answerInput) (*body[Incident], error) {
	i, err := s.desk.Resolve(ctx, by(ctx), in.ID, value(in.Body).Reason)
	return answer(s.server, fmt.Sprintf("incident %d", in.ID), i, err, incidentRow)
}

func (s *incidents) snoozeIncident(ctx context.Context, in *snoozeInput) (*body[Incident], error) {
	until, err := end(in.Body.Until, in.Body.For)
	if err != nil {
		return nil, s.problem("snooze", err)
	}
	i, err := s.desk.Snooze(ctx, by(ctx), in.ID, until, in.Body.Reason)
	return answer(s.server, fmt.Sprintf("incident %d", in.ID), i, err, incidentRow)
}

func (s *incidents) listApprovals(ctx context.Context, q *approvalsQuery) (*body[list[Approval]], error) {
	return listed(s.server, "list approvals", q.Paging, func(before int64, limit int) ([]ops.Approval, error) {
		return s.Store.People.Approvals(ctx, store.ApprovalFilter{
			Status: ops.ApprovalStatus(q.Status), Environment: q.Environment, Before: before, Limit: limit,
		})
	}, func(a ops.Approval) int64 { return a.ID }, ApprovalRow)
}

func (s *incidents) deny(ctx context.Context, in *denyInput) (*body[Approval], error) {
	asked := value(in.Body)
	var lasts *time.Duration
	if asked.For != "" {
		d, err := desk.Span(asked.For)
		if err != nil {
			return nil, s.problem("deny", err)
		}
		lasts = &d
	}
	a, err := s.desk.Deny(ctx, by(ctx), in.ID, lasts, asked.Reason)
	return answer(s.server, fmt.Sprintf("approval %d", in.ID), a, err, ApprovalRow)
}

func (s *incidents) approve(ctx context.Context, in *approveInput) (*body[Approval], error) {
	asked := value(in.Body)
	a, err := s.desk.Approve(ctx, by(ctx), in.ID, desk.Steps{Plan: asked.PlanHash, Numbers: asked.Steps}, asked.Reason)
	return answer(s.server, fmt.Sprintf("approval %d", in.ID), a, err, ApprovalRow)
}

// incidentRow is an incident.
func incidentRow(i ops.Incident) Incident {
	return Incident{
		ID: i.ID, Environment: i.Environment, Service: text(i.Service), Check: text(i.Check), Class: i.Class, Title: i.Title,
		Level: string(i.Level), Status: i.Status, Occurrences: i.Occurrences, FirstCycleID: int64(i.FirstCycle), LastCycleID: int64(i.LastCycle),
		WaitingCycleID: (*int64)(i.Waiting), Report: documentOf(i.Report), OpenedAt: i.OpenedAt, UpdatedAt: i.UpdatedAt,
		DeniedUntil: i.DeniedUntil, CalledAt: i.CalledAt, Handled: i.Handled, ReopenedAt: i.ReopenedAt, ProbationUntil: i.ProbationUntil,
		AcknowledgedAt: i.AcknowledgedAt, AcknowledgedBy: text(i.AcknowledgedBy), SnoozedUntil: i.SnoozedUntil,
		ResolvedAt: i.ResolvedAt, ResolvedBy: text(i.ResolvedBy), Resolution: text(i.Resolution), Reminders: i.Reminders, Findings: i.Findings,
		Note: text(i.Note),
	}
}

// ApprovalRow is an approval.
func ApprovalRow(a ops.Approval) Approval {
	effect := ""
	if a.Status == ops.ApprovalDenied {
		effect = notice.NoLasts(a.Detail())
	}
	return Approval{
		ID: a.ID, CycleID: int64(a.CycleID), SessionID: int64(a.SessionID), Environment: a.Environment, Kind: string(a.Kind), Tier: a.Tier,
		Handler: a.Handler, Status: a.Status, Reason: a.Reason, RequestedAt: a.RequestedAt, ExpiresAt: a.ExpiresAt,
		AnsweredAt: a.AnsweredAt, AnsweredBy: text(a.AnsweredBy), Answer: text(a.Answer),
		Plan: planRows(a), PlanHash: text(a.PlanHash), Steps: append([]int{}, a.Steps...),
		Facts: append([]ops.Fact{}, a.Facts...), DeniedUntil: a.DeniedUntil, Effect: text(effect),
	}
}
