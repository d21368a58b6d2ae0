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
	after, err := q.after()
	if err != nil {
		return nil, err
	}
	id := ops.SessionID(q.ID)
	what := fmt.Sprintf("guard decisions of session %d", q.ID)
	if _, err := s.Store.Session(ctx, id); err != nil {
		return nil, s.problem(what, err)
	}
	rows, err := s.Store.GuardDecisions(ctx, id)
	if err != nil {
		return nil, s.problem(what, err)
	}
	first, _ := slices.BinarySearchFunc(rows, after+1, func(r ops.GuardRecord, id int64) int { return cmp.Compare(r.ID, id) })
	return &body[list[GuardDecision]]{page(rows[first:], q.Limit, func(r ops.GuardRecord) int64 { return r.ID }, GuardRow)}, nil
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
