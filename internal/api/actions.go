package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	Kind           string  `json:"kind" enum:"command,restart,start,stop,redeploy,apply,push"`
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

func (s *actions) registerActions(api huma.API) {
	huma.Register(api, look("list-actions", "/actions", "List what the supervisor can do to services", "actions",
		"Built-in and configured actions, by environment and service."), s.listActions)
	huma.Register(api, look("list-action-runs", "/actions/runs", "List runs of actions, newest first", "actions",
		"Who asked, why, what ran, and how the services were before and after."), s.listRuns)
	huma.Register(api, look("get-action-run", "/actions/runs/{id}", "Show a run of an action", "actions",
		"With its output.", http.StatusNotFound), shown(s.server, "action", s.Store.Acts.ActionRun, ActionRunRow))
	huma.Register(api, start("run-action", "/actions/runs", "Run an action", "actions",
		"The daemon checks it and runs it; the run tells how it goes. Cooldowns apply.", http.StatusNotFound), s.runAction)
	huma.Register(api, start("undo-action", "/actions/runs/{id}/undo", "Undo a run of an action", "actions",
		"Only if it has a way back. The answer is the run of the undo.", http.StatusNotFound), s.undoAction)
	huma.Register(api, act("withdraw-action", "/actions/runs/{id}/withdraw", "Take back a request", "actions",
		"Only while no daemon has taken it; then it is a conflict.", http.StatusNotFound), s.withdrawAction)
}

func (s *actions) withdrawAction(ctx context.Context, in *undoActionInput) (*body[ActionRun], error) {
	r, err := s.desk.Withdraw(ctx, by(ctx), in.ID, in.Body.Why)
	return answer(s.server, fmt.Sprintf("action %d", in.ID), r, err, ActionRunRow)
}

func (s *actions) listActions(_ context.Context, q *actionsQuery) (*body[list[Action]], error) {
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

func (s *actions) listRuns(ctx context.Context, q *runsQuery) (*body[list[ActionRun]], error) {
	return listed(s.server, "list actions", q.Paging, func(before int64, limit int) ([]ops.ActionRun, error) {
		f := store.ActionFilter{
			Environment: q.Environment, Service: q.Service, Status: ops.ActionStatus(q.Status), Before: before, Limit: limit,
			CycleID: (*ops.CycleID)(idOrNull(q.CycleID)), SessionID: (*ops.SessionID)(idOrNull(q.SessionID)),
		}
		return s.Store.Acts.ActionRuns(ctx, f)
	}, func(r ops.ActionRun) int64 { return r.ID }, ActionRunRow)
}

func (s *actions) runAction(ctx context.Context, in *runActionInput) (*body[ActionRun], error) {
	r, err := s.desk.RunAction(ctx, by(ctx), desk.Action{
		Environment: in.Body.Environment, Service: in.Body.Service, Name: in.Body.Action, Branch: in.Body.Branch, Why: in.Body.Why,
	})
	return answer(s.server, "action", r, err, ActionRunRow)
}

func (s *actions) undoAction(ctx context.Context, in *undoActionInput) (*body[ActionRun], error) {
	r, err := s.desk.Undo(ctx, by(ctx), in.ID, in.Body.Why)
	return answer(s.server, fmt.Sprintf("action %d", in.ID), r, err, ActionRunRow)
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

// GuardDecision is the guard's decision about one tool call. It is recorded before the agent gets the answer.
type GuardDecision struct {
	ID        int64     `json:"id"`
	SessionID int64     `json:"session_id"`
	At        time.Time `json:"at"`
	Tier      ops.Tier  `json:"tier"`
	Gate      string    `json:"gate" enum:"hook,shell,docker,action" doc:"Before a tool call, a command, a Docker request or an action."`
	ToolUseID *string   `json:"tool_use_id"`
	Tool      string    `json:"tool"`
	Input     string    `json:"input" doc:"Redacted and shortened. The digest covers the whole input."`
	Digest    string    `json:"input_digest"`
	Verdict   string    `json:"verdict" enum:"allow,deny"`
	Rule      string    `json:"rule"`
	Reason    string    `json:"reason" doc:"The text that the agent was given."`
	Mutating  bool      `json:"mutating" doc:"It counts as a restart or a redeployment."`
	TookUS    int64     `json:"took_us"`
}

type guardQuery struct {
	SessionPath
	Paging
}

func (s *actions) registerGuard(api huma.API) {
	huma.Register(api, look("list-guard-decisions", "/sessions/{id}/guard", "List the guard decisions of a session, oldest first", "sessions",
		"Each decision is recorded before the agent gets the answer.", http.StatusNotFound), s.guardDecisions)
}

func (s *actions) guardDecisions(ctx context.Context, q *guardQuery) (*body[list[GuardDecision]], error) {
	return listed(s.server, fmt.Sprintf("guard decisions of session %d", q.ID), q.Paging, func(after int64, _ int) ([]ops.GuardRecord, error) {
		if _, err := s.Store.Journal.Session(ctx, ops.SessionID(q.ID)); err != nil {
			return nil, err
		}
		rows, err := s.Store.Acts.GuardDecisions(ctx, ops.SessionID(q.ID))
		first, _ := slices.BinarySearchFunc(rows, after+1, func(r ops.GuardRecord, id int64) int { return cmp.Compare(r.ID, id) })
		return rows[first:], err
	}, func(r ops.GuardRecord) int64 { return r.ID }, GuardRow)
}

// GuardRow is a decision of the guard.
func GuardRow(r ops.GuardRecord) GuardDecision {
	verdict := "deny"
	if r.Allowed {
		verdict = "allow"
	}
	return GuardDecision{
		ID: r.ID, SessionID: int64(r.SessionID), At: r.At, Tier: r.Tier, Gate: string(r.Gate), ToolUseID: text(r.ToolUseID),
		Tool: r.Tool, Input: r.Input, Digest: r.Digest, Verdict: verdict, Rule: r.Rule, Reason: r.Reason, Mutating: r.Mutating,
		TookUS: r.Took.Microseconds(),
	}
}

// Cooldown is how often an action on a service is still allowed.
type Cooldown struct {
	Environment string     `json:"environment"`
	Service     string     `json:"service"`
	Action      string     `json:"action" doc:"restart, redeployment, or the name of an action with its own cooldown."`
	Left        int        `json:"left" doc:"How often the action is still allowed in the sliding window."`
	Until       *time.Time `json:"until" doc:"When the action is allowed again; null if it is allowed now."`
}

type cooldownsQuery struct {
	Environment string `query:"environment" doc:"Filter by environment."`
}

type clearInput struct {
	Body struct {
		Environment string `json:"environment,omitempty" doc:"Defaults to the first configured environment."`
		Service     string `json:"service"`
		Action      string `json:"action,omitempty" doc:"restart, redeployment, or an action with its own cooldown. Default: all."`
		Reason      string `json:"reason" doc:"Why the limit is reset, for the record. At most 500 characters."`
	}
}

type cleared struct {
	Cleared int `json:"cleared" doc:"Number of entries that no longer count."`
}

func (s *actions) registerCooldowns(api huma.API) {
	huma.Register(api, look("list-cooldowns", "/cooldowns", "List services with a cooldown", "cooldowns",
		"Only services with an action in the sliding window. The others have their full limits."), s.cooldowns)
	huma.Register(api, act("clear-cooldown", "/cooldowns/clear", "Reset the rate limit of a service", "cooldowns",
		"Earlier restarts, redeployments or actions no longer count. A reason is required.", http.StatusNotFound), s.clearCooldown)
}

func (s *actions) cooldowns(ctx context.Context, q *cooldownsQuery) (*body[list[Cooldown]], error) {
	asked, err := s.environments(q.Environment)
	if err != nil {
		return nil, err
	}
	out := list[Cooldown]{Items: []Cooldown{}}
	for _, e := range asked {
		rows, err := s.Store.Acts.Cooldowns(ctx, e.Name, e.Policy.AllCooldowns(), s.Clock())
		if err != nil {
			return nil, s.problem("list cooldowns", err)
		}
		for _, r := range rows {
			out.Items = append(out.Items, CooldownRow(e.Name, r))
		}
	}
	return &body[list[Cooldown]]{out}, nil
}

func (s *actions) clearCooldown(ctx context.Context, in *clearInput) (*body[cleared], error) {
	n, err := s.desk.ClearCooldown(ctx, by(ctx), desk.Action{
		Environment: in.Body.Environment, Service: in.Body.Service, Name: in.Body.Action, Why: in.Body.Reason,
	})
	return answer(s.server, "cooldown of "+in.Body.Service, cleared{n}, err, same)
}

// CooldownRow is how often an action on a service is still possible.
func CooldownRow(environment string, c ops.Cooldown) Cooldown {
	row := Cooldown{Environment: environment, Service: c.Service, Action: c.Action, Left: c.Left}
	if !c.Until.IsZero() {
		row.Until = &c.Until
	}
	return row
}

// Trust is how far a service is trusted.
type Trust struct {
	Environment string     `json:"environment"`
	Service     string     `json:"service"`
	Level       string     `json:"level" enum:"watch,suggest,ask,repair,full" doc:"What holds now."`
	Ceiling     string     `json:"ceiling" enum:"watch,suggest,ask,repair,full" doc:"What the configuration allows."`
	LoweredBy   *string    `json:"lowered_by" doc:"Who lowered it below the configuration; claudeops is the supervisor itself."`
	Reason      *string    `json:"reason"`
	ChangedAt   *time.Time `json:"changed_at"`
	Proposed    int        `json:"proposed" doc:"Repairs that people were asked about."`
	Approved    int        `json:"approved"`
	Verified    int        `json:"verified"`
	Undone      int        `json:"undone"`
	Refuted     int        `json:"refuted"`
	Next        *string    `json:"next" doc:"What would be next."`
}

// TrustRow shows how far a service is trusted.
func TrustRow(t desk.Trusted) Trust {
	out := Trust{
		Environment: t.Environment, Service: t.Service, Level: t.Level.String(), Ceiling: t.Ceiling.String(), Next: text(t.Next),
		Proposed: t.Record.Proposed, Approved: t.Record.Approved, Verified: t.Record.Verified, Undone: t.Record.Undone, Refuted: t.Record.Refuted,
	}
	if l := t.Lowered; l != nil {
		out.LoweredBy, out.Reason, out.ChangedAt = text(l.By), text(l.Reason), ops.Ptr(l.At)
	}
	return out
}

type trustQuery struct {
	Environment string `query:"environment" doc:"Default: the first one."`
	Service     string `query:"service" doc:"Only this one."`
}

type trustInput struct {
	Body struct {
		Environment string `json:"environment,omitempty" doc:"Default: the first one."`
		Service     string `json:"service"`
		Level       string `json:"level" doc:"watch, suggest, ask, repair or full; at most what the configuration allows."`
		Reason      string `json:"reason,omitempty" doc:"Why, for the record. At most 500 characters."`
	}
}

func (s *actions) registerTrust(api huma.API) {
	huma.Register(api, look("list-trust", "/trust", "List how far services are trusted", "trust",
		"The level that holds, the one that the configuration allows, what became of the work so far, and what would be next.",
		http.StatusUnprocessableEntity), s.listTrust)
	huma.Register(api, act("set-trust", "/trust", "Change how far a service is trusted", "trust",
		"Up to what the configuration allows. Raising it needs the role that may approve, and a person."), s.setTrust)
}

func (s *actions) listTrust(ctx context.Context, q *trustQuery) (*body[list[Trust]], error) {
	var rows []desk.Trusted
	var err error
	if q.Service == "" {
		rows, err = s.desk.AllTrusted(ctx, q.Environment)
	} else {
		rows = make([]desk.Trusted, 1)
		rows[0], err = s.desk.TrustedService(ctx, q.Environment, q.Service)
	}
	return whole(s.server, "list trust", rows, err, TrustRow)
}

func (s *actions) setTrust(ctx context.Context, in *trustInput) (*body[Trust], error) {
	t, err := s.desk.Trust(ctx, by(ctx), desk.TrustChange(in.Body))
	return answer(s.server, "change trust", t, err, TrustRow)
}

// EarnedReflex is a repair that the supervisor does without an agent, because it helped several times and a person said yes.
type EarnedReflex struct {
	ID          int64         `json:"id"`
	Environment string        `json:"environment"`
	Service     string        `json:"service"`
	Probe       string        `json:"probe" doc:"The probe that fails."`
	On          string        `json:"on" doc:"Its type."`
	Status      string        `json:"status" enum:"down,degraded" doc:"What it finds."`
	Class       string        `json:"class" doc:"In which way: a class of HTTP such as 5xx, refused, timeout, exit, else the status."`
	Do          []string      `json:"do" doc:"The actions, in order."`
	Does        []string      `json:"does" doc:"What these run as they are configured now."`
	State       string        `json:"state" enum:"asked,on,off" doc:"Asked: nobody has answered, and it is not done."`
	Cycles      []ops.CycleID `json:"cycles" doc:"The repairs that earned it."`
	Done        int           `json:"done" doc:"Cycles in which it was done."`
	Helped      int           `json:"helped" doc:"Of these, those that it resolved for good."`
	ChangedBy   *string       `json:"changed_by" doc:"Who switched it last; claudeops is the supervisor, which only switches off."`
	Reason      *string       `json:"reason"`
	AskedAt     time.Time     `json:"asked_at"`
	ChangedAt   time.Time     `json:"changed_at"`
}

// ReflexRow shows an earned reflex.
func ReflexRow(r desk.EarnedReflex) EarnedReflex {
	return EarnedReflex{
		ID: r.ID, Environment: r.Environment, Service: r.Service, Probe: strings.Join(r.Probes, ", "), On: r.On, Status: string(r.Status),
		Class: r.Class, Do: r.Do, Does: r.Does, State: string(r.State), Cycles: r.Cycles, Done: r.Done, Helped: r.Helped,
		ChangedBy: text(r.Person), Reason: text(r.Why), AskedAt: r.AskedAt, ChangedAt: r.ChangedAt,
	}
}

type reflexesQuery struct {
	Environment string `query:"environment" doc:"Default: the first one."`
	Service     string `query:"service" doc:"Only those of this one."`
}

type switchInput struct {
	RowPath
	Body struct {
		Reason string `json:"reason,omitempty" doc:"Why, for the record. At most 500 characters."`
	}
}

func (s *actions) registerReflexes(api huma.API) {
	huma.Register(api, look("list-reflexes", "/reflexes", "List earned reflexes", "reflexes",
		"What has helped three times, where it comes from, whether people said yes, and what became of it since.",
		http.StatusUnprocessableEntity), s.listReflexes)
	huma.Register(api, look("get-reflex", "/reflexes/{id}", "Show an earned reflex", "reflexes",
		"With what its actions run as they are configured now.", http.StatusNotFound), shown(s.server, "reflex", s.desk.Reflex, ReflexRow))
	const people = "It needs the role that may approve, and a person. One that is in this state already is a conflict."
	huma.Register(api, act("enable-reflex", "/reflexes/{id}/enable", "Switch an earned reflex on", "reflexes",
		"From then on the supervisor does exactly what is configured now. "+people, http.StatusNotFound), s.switchReflex(ops.ReflexOn))
	huma.Register(api, act("disable-reflex", "/reflexes/{id}/disable", "Switch an earned reflex off, or say no to it", "reflexes",
		people, http.StatusNotFound), s.switchReflex(ops.ReflexIsOff))
}

func (s *actions) listReflexes(ctx context.Context, q *reflexesQuery) (*body[list[EarnedReflex]], error) {
	all, err := s.desk.Reflexes(ctx, q.Environment, q.Service)
	return whole(s.server, "list reflexes", all, err, ReflexRow)
}

func (s *actions) switchReflex(to ops.ReflexState) func(context.Context, *switchInput) (*body[EarnedReflex], error) {
	return func(ctx context.Context, in *switchInput) (*body[EarnedReflex], error) {
		r, err := s.desk.SwitchReflex(ctx, by(ctx), in.ID, to, in.Body.Reason)
		return answer(s.server, fmt.Sprintf("reflex %d", in.ID), r, err, ReflexRow)
	}
}
