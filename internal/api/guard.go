package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
)

// GuardDecision is the guard's decision about one tool call. It is recorded before the agent gets the answer.
type GuardDecision struct {
	ID        int64     `json:"id"`
	SessionID int64     `json:"session_id"`
	At        time.Time `json:"at"`
	Tier      ops.Tier  `json:"tier"`
	Gate      string    `json:"gate" enum:"hook,shell,docker" doc:"Before a tool call, a shell command, or a Docker request."`
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

func (s *server) registerGuard(api huma.API) {
	huma.Register(api, look("list-guard-decisions", "/sessions/{id}/guard", "List the guard decisions of a session, oldest first", "sessions",
		"Each decision is recorded before the agent gets the answer.", http.StatusNotFound), s.guardDecisions)
}

func (s *server) guardDecisions(ctx context.Context, q *guardQuery) (*body[list[GuardDecision]], error) {
	return listed(s, fmt.Sprintf("guard decisions of session %d", q.ID), q.Paging, func(after int64, _ int) ([]ops.GuardRecord, error) {
		if _, err := s.Store.Session(ctx, ops.SessionID(q.ID)); err != nil {
			return nil, err
		}
		rows, err := s.Store.GuardDecisions(ctx, ops.SessionID(q.ID))
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

func (s *server) registerCooldowns(api huma.API) {
	huma.Register(api, look("list-cooldowns", "/cooldowns", "List services with a cooldown", "cooldowns",
		"Only services with an action in the sliding window. The others have their full limits."), s.cooldowns)
	huma.Register(api, act("clear-cooldown", "/cooldowns/clear", "Reset the rate limit of a service", "cooldowns",
		"Earlier restarts, redeployments or actions no longer count. A reason is required.", http.StatusNotFound), s.clearCooldown)
}

func (s *server) cooldowns(ctx context.Context, q *cooldownsQuery) (*body[list[Cooldown]], error) {
	asked, err := s.environments(q.Environment)
	if err != nil {
		return nil, err
	}
	out := list[Cooldown]{Items: []Cooldown{}}
	for _, e := range asked {
		rows, err := s.Store.Cooldowns(ctx, e.Name, e.Policy.AllCooldowns(), s.Clock())
		if err != nil {
			return nil, s.problem("list cooldowns", err)
		}
		for _, r := range rows {
			out.Items = append(out.Items, CooldownRow(e.Name, r))
		}
	}
	return &body[list[Cooldown]]{out}, nil
}

func (s *server) clearCooldown(ctx context.Context, in *clearInput) (*body[cleared], error) {
	n, err := s.desk.ClearCooldown(ctx, by(ctx), in.Body.Environment, in.Body.Service, in.Body.Action, in.Body.Reason)
	return answer(s, "cooldown of "+in.Body.Service, cleared{n}, err, same)
}

// CooldownRow is how often an action on a service is still possible.
func CooldownRow(environment string, c ops.Cooldown) Cooldown {
	row := Cooldown{Environment: environment, Service: c.Service, Action: c.Action, Left: c.Left}
	if !c.Until.IsZero() {
		row.Until = &c.Until
	}
	return row
}
