package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Action is something that the supervisor can do to a service.
type Action struct {
	Environment    string  `json:"environment"`
	Service        string  `json:"service"`
	Name           string  `json:"name"`
	Kind           string  `json:"kind" enum:"command,restart,start,stop,redeploy,apply,playbook,push"`
	Description    *string `json:"description"`
	Tier           int     `json:"tier" doc:"The lowest tier whose agents may ask for it."`
	Does           string  `json:"does" doc:"What runs."`
	Undo           string  `json:"undo" doc:"What runs to undo it, or none."`
	Undoable       bool    `json:"undoable"`
	Approval       bool    `json:"approval" doc:"Agents may only propose it in a plan."`
	Counts         string  `json:"counts" doc:"The cooldown that it counts against."`
	TimeoutSeconds int     `json:"timeout_seconds"`
}

// ServiceHealth is what the probes of a service say together.
type ServiceHealth struct {
	Service string  `json:"service"`
	Status  string  `json:"status" enum:"healthy,degraded,down"`
	Error   *string `json:"error"`
}

// ActionRun is one run of an action.
type ActionRun struct {
	ID          int64            `json:"id"`
	Environment string           `json:"environment"`
	Service     string           `json:"service"`
	Action      string           `json:"action"`
	Kind        string           `json:"kind"`
	CycleID     *int64           `json:"cycle_id"`
	SessionID   *int64           `json:"session_id"`
	By          string           `json:"by" doc:"A person, session, or claudeops for the supervisor itself."`
	Why         string           `json:"why"`
	ApprovalID  *int64           `json:"approval_id" doc:"The approved plan that it belongs to."`
	Step        *int             `json:"step" doc:"Of the plan, from 1."`
	UndoOf      *int64           `json:"undo_of" doc:"The run that this one undoes."`
	UndoneBy    *int64           `json:"undone_by" doc:"The run that undid this one."`
	Automatic   bool             `json:"automatic"`
	Status      ops.ActionStatus `json:"status" enum:"requested,started,done,failed,undone,interrupted,refused"`
	Does        string           `json:"does"`
	Branch      *string          `json:"branch"`
	Commit      *string          `json:"commit" doc:"Of the repository that was read."`
	Before      []ServiceHealth  `json:"before"`
	After       []ServiceHealth  `json:"after"`
	Output      *string          `json:"output"`
	Error       *string          `json:"error"`
	RequestedAt time.Time        `json:"requested_at"`
	StartedAt   *time.Time       `json:"started_at"`
	EndedAt     *time.Time       `json:"ended_at"`
}

type actionsQuery struct {
	Environment string `query:"environment" doc:"Filter by environment."`
	Service     string `query:"service" doc:"Filter by service."`
}

type runsQuery struct {
	Paging
	Environment string `query:"environment" doc:"Filter by environment."`
	Service     string `query:"service" doc:"Filter by service."`
	Status      string `query:"status" enum:"requested,started,done,failed,undone,interrupted,refused" doc:"Filter by status."`
	CycleID     int64  `query:"cycle_id" doc:"Filter by cycle."`
	SessionID   int64  `query:"session_id" doc:"Filter by session."`
}

type runActionInput struct {
	Body struct {
		Environment string `json:"environment,omitempty" doc:"Defaults to the first configured environment."`
		Service     string `json:"service"`
		Action      string `json:"action"`
		Branch      string `json:"branch,omitempty" doc:"For an action that pushes a branch."`
		Why         string `json:"why" doc:"Why it is needed, for the record. At most 500 characters."`
	}
}

type undoActionInput struct {
	RowPath
	Body struct {
		Why string `json:"why" doc:"Why it is undone or taken back, for the record. At most 500 characters."`
	}
}

func (s *server) registerActions(api huma.API) {
	huma.Register(api, look("list-actions", "/actions", "List what the supervisor can do to services", "actions",
		"Built-in and configured actions, by environment and service."), s.listActions)
	huma.Register(api, look("list-action-runs", "/actions/runs", "List runs of actions, newest first", "actions",
		"Who asked, why, what ran, and how the services were before and after."), s.listRuns)
	huma.Register(api, look("get-action-run", "/actions/runs/{id}", "Show a run of an action", "actions",
		"With its output.", http.StatusNotFound), s.getRun)
	huma.Register(api, start("run-action", "/actions/runs", "Run an action", "actions",
		"The daemon checks it and runs it; the run tells how it goes. Cooldowns apply.", http.StatusNotFound), s.runAction)
	huma.Register(api, start("undo-action", "/actions/runs/{id}/undo", "Undo a run of an action", "actions",
		"Only if it has a way back. The answer is the run of the undo.", http.StatusNotFound), s.undoAction)
	huma.Register(api, act("withdraw-action", "/actions/runs/{id}/withdraw", "Take back a request", "actions",
		"Only while no daemon has taken it; then it is a conflict.", http.StatusNotFound), s.withdrawAction)
}

func (s *server) withdrawAction(ctx context.Context, in *undoActionInput) (*body[ActionRun], error) {
	r, err := s.desk.Withdraw(ctx, by(ctx), in.ID, in.Body.Why)
	return answer(s, fmt.Sprintf("action %d", in.ID), r, err, ActionRunRow)
}

func (s *server) listActions(_ context.Context, q *actionsQuery) (*body[list[Action]], error) {
	asked, err := s.environments(q.Environment)
	if err != nil {
		return nil, err
	}
	out := list[Action]{Items: []Action{}}
	for _, e := range asked {
		for _, v := range e.Policy.Inventory.Services {
			for _, a := range v.Actions {
				if q.Service == "" || v.Name == q.Service {
					out.Items = append(out.Items, ActionRow(e.Name, a))
				}
			}
		}
	}
	return &body[list[Action]]{out}, nil
}

func (s *server) listRuns(ctx context.Context, q *runsQuery) (*body[list[ActionRun]], error) {
	return listed(s, "list actions", q.Paging, func(before int64, limit int) ([]ops.ActionRun, error) {
		f := store.ActionFilter{
			Environment: q.Environment, Service: q.Service, Status: ops.ActionStatus(q.Status), Before: before, Limit: limit,
			CycleID: (*ops.CycleID)(idOrNull(q.CycleID)), SessionID: (*ops.SessionID)(idOrNull(q.SessionID)),
		}
		return s.Store.ActionRuns(ctx, f)
	}, func(r ops.ActionRun) int64 { return r.ID }, ActionRunRow)
}

func (s *server) getRun(ctx context.Context, in *RowPath) (*body[ActionRun], error) {
	r, err := s.Store.ActionRun(ctx, in.ID)
	return answer(s, fmt.Sprintf("action %d", in.ID), r, err, ActionRunRow)
}

func (s *server) runAction(ctx context.Context, in *runActionInput) (*body[ActionRun], error) {
	r, err := s.desk.RunAction(ctx, by(ctx), desk.Action{
		Environment: in.Body.Environment, Service: in.Body.Service, Name: in.Body.Action, Branch: in.Body.Branch, Why: in.Body.Why,
	})
	return answer(s, "action", r, err, ActionRunRow)
}

func (s *server) undoAction(ctx context.Context, in *undoActionInput) (*body[ActionRun], error) {
	r, err := s.desk.Undo(ctx, by(ctx), in.ID, in.Body.Why)
	return answer(s, fmt.Sprintf("action %d", in.ID), r, err, ActionRunRow)
}

// ActionRow is an action.
func ActionRow(environment string, a ops.ActionSpec) Action {
	return Action{
		Environment: environment, Service: a.Service, Name: a.Name, Kind: string(a.Kind), Description: text(a.Description), Tier: int(a.Tier),
		Does: a.Does(), Undo: a.WayBack(), Undoable: a.Undoable(), Approval: a.Approval, Counts: a.Counts,
		TimeoutSeconds: int(a.Timeout.Seconds()),
	}
}

// ActionRunRow is a run of an action.
func ActionRunRow(r ops.ActionRun) ActionRun {
	return ActionRun{
		ID: r.ID, Environment: r.Environment, Service: r.Service, Action: r.Action, Kind: string(r.Kind), CycleID: (*int64)(r.CycleID),
		SessionID: (*int64)(r.SessionID), By: r.By(), Why: r.Why, ApprovalID: idOrNull(r.ApprovalID), Step: idOrNull(r.Step),
		UndoOf: idOrNull(r.UndoOf), UndoneBy: idOrNull(r.UndoneBy), Automatic: r.Automatic, Status: r.Status, Does: r.Does,
		Branch: text(r.Branch), Commit: text(r.Commit), Before: Rows(r.Before, healthRow), After: Rows(r.After, healthRow),
		Output: text(r.Output), Error: text(r.Error), RequestedAt: r.RequestedAt, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
	}
}

func idOrNull[N int | int64](id N) *N {
	if id == 0 {
		return nil
	}
	return &id
}

func healthRow(h ops.ServiceHealth) ServiceHealth {
	return ServiceHealth{Service: h.Service, Status: string(h.Status), Error: text(h.Error)}
}

func planRows(a ops.Approval) []PlanStep {
	states := a.States
	if states == nil {
		states = a.Progress(nil)
	}
	out := make([]PlanStep, 0, len(a.Plan))
	for i, p := range a.Plan {
		out = append(out, PlanStep{
			Service: p.Service, Action: p.Action, Branch: text(p.Branch), Reason: p.Reason, ExpectedEffect: p.Effect, WayBack: p.Back,
			Does: p.Does, Undo: p.WayBack, State: states[i].State, Why: text(states[i].Why), ActionRunID: idOrNull(states[i].Run),
		})
	}
	return out
}
