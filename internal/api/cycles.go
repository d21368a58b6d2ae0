package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
)

// Cycle is a cycle with its sessions and their total cost.
type Cycle struct {
	ID                int64           `json:"id"`
	Environment       string          `json:"environment"`
	Title             string          `json:"title" doc:"The problem, or else the first line of the prompt, or else the trigger in words."`
	Problem           *string         `json:"problem" doc:"What is wrong, in one line. Null until it is known."`
	Trigger           string          `json:"trigger"`
	Status            ops.CycleStatus `json:"status"`
	Verified          *bool           `json:"verified" doc:"Resolved: whether somebody but the agent confirmed it. Else null."`
	VerifiedBy        *string         `json:"verified_by" doc:"Resolved: by whom: probe, judge, human, plan, reflex or none. Else null."`
	RefutedAt         *time.Time      `json:"refuted_at" doc:"Resolved: when the same check failed again; the repair did not hold."`
	ProbationUntil    *time.Time      `json:"probation_until" doc:"Resolved: until then the same check opens its incidents again."`
	Reason            *string         `json:"reason"`
	Prompt            *string         `json:"prompt"`
	WakeAt            *time.Time      `json:"wake_at"`
	WakeSeq           int64           `json:"wake_seq"`
	CancelRequestedAt *time.Time      `json:"cancel_requested_at"`
	CancelReason      *string         `json:"cancel_reason"`
	Owner             *string         `json:"owner"`
	Term              int64           `json:"term"`
	CreatedAt         time.Time       `json:"created_at"`
	StartedAt         *time.Time      `json:"started_at"`
	EndedAt           *time.Time      `json:"ended_at"`
	Chain
}

// CycleReport is a cycle with its policy and everything that was decided in it.
type CycleReport struct {
	Cycle
	Policy      ops.Policy   `json:"policy"`
	Result      Document     `json:"result"`
	Escalations []Escalation `json:"escalations"`

	Recoveries    []Recovery     `json:"recoveries"`
	Verifications []Verification `json:"verifications"`
	Approvals     []Approval     `json:"approvals"`
	Story         story.Story    `json:"story" doc:"What happened, in a line and at most eight steps."`
}

// Escalation is one routing decision.
type Escalation struct {
	ID                     int64     `json:"id"`
	CycleID                int64     `json:"cycle_id"`
	SessionID              int64     `json:"session_id"`
	SourceHandler          string    `json:"source_handler"`
	TargetHandler          *string   `json:"target_handler"`
	Reason                 string    `json:"reason"`
	Proposed               *string   `json:"proposed"`
	Depth                  int       `json:"depth"`
	MaxDepth               int       `json:"max_depth"`
	TargetValidated        bool      `json:"target_validated"`
	SelfEscalationRejected bool      `json:"self_escalation_rejected"`
	ProcessMode            string    `json:"process_mode"`
	ManagerPresent         bool      `json:"manager_present"`
	Path                   []string  `json:"path"`
	Services               []string  `json:"services"`
	Decision               string    `json:"decision"`
	Check                  *string   `json:"check_name"`
	At                     time.Time `json:"at"`
}

// accepted answers a request whose work continues after the answer.
type accepted struct {
	ID     int64  `json:"id"`
	Status string `json:"status"`
}

// newCycle is what a caller can choose. The tier is not part of it: every cycle starts at Tier 1.
type newCycle struct {
	Environment string `json:"environment,omitempty" doc:"Defaults to the first configured environment."`
	Prompt      string `json:"prompt,omitempty" doc:"Added to the prompt of Tier 1. At most 20,000 characters."`
	DryRun      bool   `json:"dry_run,omitempty" doc:"Observe only. False does not override a configured dry run."`
}

type submitInput struct {
	Body *newCycle
}

// queued answers a request for a cycle.
type queued struct {
	accepted
	Held []Held `json:"held" doc:"What agents leave alone in the environment, and why. The cycle runs all the same."`
}

// CyclePath names a cycle.
type CyclePath struct {
	ID int64 `path:"id" minimum:"1" doc:"The cycle's id."`
}

type cancelInput struct {
	CyclePath
	Body *struct {
		Reason string `json:"reason,omitempty" doc:"For the record. At most 500 characters."`
	}
}

type cyclesQuery struct {
	Paging
	Status      cycleStatus `query:"status" doc:"Filter by status."`
	Since       time.Time   `query:"since" doc:"Submitted since then."`
	Environment string      `query:"environment" doc:"Filter by environment."`
}

// cycleStatus is a status to filter by.
type cycleStatus string

// Schema names the statuses.
func (cycleStatus) Schema(huma.Registry) *huma.Schema {
	out := &huma.Schema{Type: huma.TypeString}
	for _, s := range ops.CycleStatuses() {
		out.Enum = append(out.Enum, string(s))
	}
	return out
}

func (s *server) registerCycles(api huma.API) {
	huma.Register(api, start("run-cycle", "/cycles", "Run a cycle now", "cycles",
		"Queues a cycle; it starts when no other cycle runs in the environment. Every cycle starts at Tier 1 and escalates only as far as "+
			"the configured policy allows. The Location header is the cycle; held is what agents leave alone, and why."), s.submit)
	huma.Register(api, look("list-held", "/held", "What agents leave alone now", "cycles",
		"Silences, maintenance, incidents that a person has taken over, put off or is asked about, and services that flap or depend on a "+
			"failing one."), s.listHeld)
	huma.Register(api, look("list-cycles", "/cycles", "List cycles, newest first", "cycles",
		"Each cycle includes its sessions and their total cost."), s.listCycles)
	huma.Register(api, look("get-cycle", "/cycles/{id}", "Show a cycle", "cycles",
		"With its policy and everything that was decided in it: escalations, recoveries, verifications, approvals.",
		http.StatusNotFound), s.getCycle)
	huma.Register(api, start("cancel-cycle", "/cycles/{id}/cancel", "Cancel a cycle", "cycles",
		"Stops its session and starts no more. A cycle that has ended is a conflict.", http.StatusNotFound), s.cancel)
}

func (s *server) submit(ctx context.Context, in *submitInput) (*created[queued], error) {
	asked := value(in.Body)
	id, err := s.desk.RunCycle(ctx, by(ctx), ops.NewCycle{
		Environment: asked.Environment, Prompt: asked.Prompt, Options: ops.CycleOptions{DryRun: asked.DryRun},
	})
	if err != nil {
		return nil, s.problem("run a cycle", err)
	}
	return s.queued(ctx, id, asked.Environment)
}

// queued answers with a cycle that was queued, and with what agents leave alone in its environment. The cycle is queued whatever that is.
func (s *server) queued(ctx context.Context, id ops.CycleID, environment string) (*created[queued], error) {
	out := &created[queued]{
		Location: fmt.Sprintf("%s/cycles/%d", Prefix, id), Body: queued{accepted{int64(id), string(ops.CycleQueued)}, []Held{}},
	}
	e, err := s.environment(environment)
	if err != nil {
		return out, nil //nolint:nilerr // the environment of an old incident may be gone
	}
	onHold, err := s.desk.HeldBack(ctx, e, s.Clock())
	if err != nil {
		s.Logger.WarnContext(ctx, "what is held back could not be read", "error", err)
	}
	out.Body.Held = Rows(onHold, HeldRow)
	return out, nil
}

// Held is something that agents leave alone.
type Held struct {
	Service *string    `json:"service" doc:"A service or a pattern; null for the whole environment."`
	Why     string     `json:"why" enum:"silenced,maintenance,person,flapping,dependency"`
	Reason  string     `json:"reason"`
	Until   *time.Time `json:"until" doc:"When this ends by itself; null for never."`
}

// HeldRow is something that agents leave alone.
func HeldRow(w ops.Withheld) Held {
	h := Held{Service: text(w.Service), Why: string(w.Why), Reason: w.Reason}
	if !w.Until.IsZero() {
		h.Until = &w.Until
	}
	return h
}

type heldQuery struct {
	Environment string `query:"environment" doc:"Defaults to the first configured environment."`
}

func (s *server) listHeld(ctx context.Context, q *heldQuery) (*body[list[Held]], error) {
	e, err := s.environment(q.Environment)
	if err != nil {
		return nil, err
	}
	onHold, err := s.desk.HeldBack(ctx, e, s.Clock())
	return whole(s, "read what is held back", onHold, err, HeldRow)
}

func (s *server) listCycles(ctx context.Context, q *cyclesQuery) (*body[list[Cycle]], error) {
	return listed(s, "list cycles", q.Paging, func(before int64, limit int) ([]store.CycleSummary, error) {
		return s.Store.Reports.Cycles(ctx, store.CycleFilter{
			Status: ops.CycleStatus(q.Status), Environment: q.Environment, Since: q.Since, Before: ops.CycleID(before), Limit: limit,
		})
	}, func(r store.CycleSummary) int64 { return int64(r.ID) }, CycleRow)
}

func (s *server) getCycle(ctx context.Context, in *CyclePath) (*body[CycleReport], error) {
	what := fmt.Sprintf("cycle %d", in.ID)
	rows, err := s.Store.Reports.CycleStory(ctx, ops.CycleID(in.ID))
	if err != nil {
		return nil, s.problem(what, err)
	}
	verified, err := s.Store.Journal.Verifications(ctx, ops.CycleID(in.ID))
	return answer(s, what, CycleReportRow(rows, verified, s.Clock()), err, same)
}

func (s *server) cancel(ctx context.Context, in *cancelInput) (*body[accepted], error) {
	err := s.desk.Cancel(ctx, by(ctx), ops.CycleID(in.ID), value(in.Body).Reason)
	return answer(s, fmt.Sprintf("cancel cycle %d", in.ID), accepted{ID: in.ID, Status: "cancelling"}, err, same)
}

// CycleRow is a cycle in a list, with what its sessions add up to.
func CycleRow(c store.CycleSummary) Cycle {
	return Cycle{
		ID: int64(c.ID), Environment: c.Environment, Title: c.Title(), Problem: text(c.Problem), Trigger: string(c.Trigger),
		Status: c.Status, Verified: c.Verified, VerifiedBy: text(c.VerifiedBy), RefutedAt: c.RefutedAt, ProbationUntil: c.ProbationUntil,
		Reason: text(c.Reason), Prompt: text(c.Prompt),
		WakeAt: c.WakeAt, WakeSeq: c.WakeSeq,
		CancelRequestedAt: c.CancelRequestedAt, CancelReason: text(c.CancelReason),
		Owner: text(c.Owner.Host), Term: c.Owner.Term,
		CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, EndedAt: c.EndedAt,
		Chain: chainOf(c.Sessions),
	}
}

// StatusText is the status as a person reads it.
func (c Cycle) StatusText() string {
	switch {
	case c.RefutedAt != nil:
		return "resolved, did not hold"
	case c.Status == ops.CycleResolved && c.Verified != nil && !*c.Verified:
		return "resolved, unverified"
	case c.Status == ops.CycleQueued && c.StartedAt != nil && c.WakeAt != nil:
		return "waiting"
	}
	return string(c.Status)
}

func escalationRow(d ops.Decision) Escalation {
	return Escalation{
		ID: d.ID, CycleID: int64(d.CycleID), SessionID: int64(d.SessionID),
		SourceHandler: d.SourceHandler, TargetHandler: text(d.TargetHandler),
		Reason: d.Reason, Proposed: text(d.Proposed), Depth: d.Depth, MaxDepth: d.MaxDepth,
		TargetValidated: d.TargetValidated, SelfEscalationRejected: d.SelfEscalationRejected,
		ProcessMode: string(d.ProcessMode), ManagerPresent: d.ManagerPresent, Path: nonNil(d.Path), Services: nonNil(d.Services),
		Decision: string(d.Verdict), Check: text(d.Check), At: d.At,
	}
}
