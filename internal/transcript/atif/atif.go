// Package atif writes the sessions of a cycle in the Agent Trajectory Interchange Format, version 1.7.
//
// A cycle is one document. Its steps are those of the supervisor: it starts a session for each attempt, by code and without a model, so
// these steps have an llm_call_count of 0. Each session is an embedded subagent trajectory, to which the step that started it refers.
package atif

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Version is the version of the format.
const Version = "ATIF-v1.7"

// Trajectory is one document, or a session within it.
type Trajectory struct {
	SchemaVersion string         `json:"schema_version"`
	SessionID     string         `json:"session_id,omitempty"`
	TrajectoryID  string         `json:"trajectory_id,omitempty"`
	Agent         Agent          `json:"agent"`
	Steps         []Step         `json:"steps"`
	Notes         string         `json:"notes,omitempty"`
	FinalMetrics  *FinalMetrics  `json:"final_metrics,omitempty"`
	Extra         map[string]any `json:"extra,omitempty"`
	Subagents     []Trajectory   `json:"subagent_trajectories,omitempty"`
}

// Agent is the program that acts.
type Agent struct {
	Name      string         `json:"name"`
	Version   string         `json:"version"`
	ModelName string         `json:"model_name,omitempty"`
	Extra     map[string]any `json:"extra,omitempty"`
}

// Step is one message with the calls that follow from it and what they returned.
type Step struct {
	StepID       int            `json:"step_id"`
	Timestamp    *time.Time     `json:"timestamp,omitempty"`
	Source       string         `json:"source"`
	ModelName    string         `json:"model_name,omitempty"`
	Message      string         `json:"message"`
	Reasoning    string         `json:"reasoning_content,omitempty"`
	ToolCalls    []ToolCall     `json:"tool_calls,omitempty"`
	Observation  *Observation   `json:"observation,omitempty"`
	Metrics      *Metrics       `json:"metrics,omitempty"`
	LLMCallCount *int           `json:"llm_call_count,omitempty"`
	Extra        map[string]any `json:"extra,omitempty"`
}

// ToolCall is one call of a tool.
type ToolCall struct {
	ID        string         `json:"tool_call_id"`
	Function  string         `json:"function_name"`
	Arguments map[string]any `json:"arguments"`
}

// Observation is what the calls of a step returned.
type Observation struct {
	Results []Result `json:"results"`
}

// Result is what one call returned. Without a call it is something that the environment said by itself.
type Result struct {
	SourceCallID string         `json:"source_call_id,omitempty"`
	Content      string         `json:"content"`
	Subagents    []SubagentRef  `json:"subagent_trajectory_ref,omitempty"`
	Extra        map[string]any `json:"extra,omitempty"`
}

// SubagentRef refers to an embedded trajectory.
type SubagentRef struct {
	TrajectoryID string `json:"trajectory_id"`
	SessionID    string `json:"session_id,omitempty"`
}

// Metrics are the figures of one step. Prompt tokens include cached ones.
type Metrics struct {
	PromptTokens     *int64 `json:"prompt_tokens,omitempty"`
	CompletionTokens *int64 `json:"completion_tokens,omitempty"`
	CachedTokens     *int64 `json:"cached_tokens,omitempty"`
}

// FinalMetrics are the figures of a trajectory. What was not reported is left out.
type FinalMetrics struct {
	PromptTokens     *int64         `json:"total_prompt_tokens,omitempty"`
	CompletionTokens *int64         `json:"total_completion_tokens,omitempty"`
	CachedTokens     *int64         `json:"total_cached_tokens,omitempty"`
	CostUSD          *float64       `json:"total_cost_usd,omitempty"`
	Steps            int            `json:"total_steps"`
	Extra            map[string]any `json:"extra,omitempty"`
}

// The sources of a step.
const (
	sourceSystem = "system"
	sourceUser   = "user"
	sourceAgent  = "agent"
)

// Cycle is what the document of a cycle is made from.
type Cycle struct {
	ID                int64
	Environment       string
	Title             string
	Trigger           string
	Status            string
	Reason            string
	Prompt            string
	Created           time.Time
	Ended             *time.Time
	SupervisorVersion string
	Sessions          []Session
	Decisions         []Decision
}

// Decision is a decision about an escalation.
type Decision struct {
	Session int64 // after which it was made
	Verdict string
	Reason  string
	At      time.Time
}

// Session is one session with its output.
type Session struct {
	ID           int64
	Parent       *int64
	Tier         int
	Role         string
	Handler      string
	Agent        string
	Model        string
	Version      string // of the agent CLI
	Conversation string // its own id of the conversation
	ContextMode  string
	Status       string
	Outcome      string
	Error        string
	Started      *time.Time
	Ended        *time.Time
	Turns        *int64
	DurationMS   *int64
	CostUSD      *float64
	Input        *int64
	Output       *int64
	CacheRead    *int64
	CacheWrite   *int64
	Lines        []Line
}

// Line is one recorded line of output.
type Line struct {
	At   time.Time
	Text string
}

// Export makes the document of a cycle.
func Export(c Cycle) Trajectory {
	run := fmt.Sprintf("cycle-%d", c.ID)
	out := Trajectory{
		SchemaVersion: Version, SessionID: run, TrajectoryID: run,
		Agent: Agent{Name: "claudeops", Version: orUnknown(c.SupervisorVersion), Extra: map[string]any{"environment": c.Environment}},
		Notes: "The supervisor of the cycle. It decides by code; each session is an embedded trajectory. Secrets are removed from all texts.",
		Extra: map[string]any{"trigger": c.Trigger, "title": c.Title, "status": c.Status, "reason": c.Reason},
	}
	start := strings.TrimSpace(c.Title + "\n" + c.Prompt)
	out.add(Step{Timestamp: &c.Created, Source: sourceUser, Message: start, Extra: map[string]any{"trigger": c.Trigger}})
	for _, s := range c.Sessions {
		t := session(run, s)
		out.Subagents = append(out.Subagents, t)
		out.add(dispatch(s, t))
		for _, d := range c.Decisions {
			if d.Session == s.ID {
				at := d.At
				out.add(Step{Timestamp: &at, Source: sourceSystem, Message: d.Reason, Extra: map[string]any{"decision": d.Verdict}})
			}
		}
	}
	if c.Ended != nil {
		out.add(Step{Timestamp: c.Ended, Source: sourceSystem, Message: strings.TrimSpace("The cycle ended: " + c.Status + ". " + c.Reason)})
	}
	out.FinalMetrics = total(out, c.Sessions)
	return out
}

// dispatch is the step in which the supervisor starts a session and sees how it ends.
func dispatch(s Session, t Trajectory) Step {
	id := fmt.Sprintf("start_session_%d", s.ID)
	none := 0
	ended := strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Status, s.Outcome, s.Error))
	return Step{
		Timestamp: s.Started, Source: sourceAgent, LLMCallCount: &none,
		Message: fmt.Sprintf("Start session %d: Tier %d, handler %s, model %s.", s.ID, s.Tier, s.Handler, s.Model),
		ToolCalls: []ToolCall{{ID: id, Function: "start_session", Arguments: map[string]any{
			"tier": s.Tier, "role": s.Role, "handler": s.Handler, "agent": s.Agent, "model": s.Model, "context_mode": s.ContextMode,
		}}},
		Observation: &Observation{Results: []Result{{
			SourceCallID: id, Content: ended, Subagents: []SubagentRef{{TrajectoryID: t.TrajectoryID, SessionID: t.SessionID}},
		}}},
	}
}

// session is the trajectory of one session.
func session(run string, s Session) Trajectory {
	out := Trajectory{
		SchemaVersion: Version, SessionID: run, TrajectoryID: fmt.Sprintf("%s-session-%d", run, s.ID),
		Agent: Agent{Name: s.Agent, Version: orUnknown(s.Version), ModelName: s.Model},
		Extra: map[string]any{
			"session": s.ID, "tier": s.Tier, "role": s.Role, "handler": s.Handler, "context_mode": s.ContextMode, "status": s.Status,
		},
	}
	for name, text := range map[string]string{"outcome": s.Outcome, "error": s.Error, "conversation_id": s.Conversation} {
		if text != "" {
			out.Extra[name] = text
		}
	}
	if s.Parent != nil {
		out.Extra["escalated_from_session"] = *s.Parent
	}
	r := reader{out: &out}
	for _, l := range s.Lines {
		r.read(l)
	}
	r.flush()
	if len(out.Steps) == 0 { // a trajectory has at least one step
		out.add(Step{Timestamp: s.Started, Source: sourceSystem, Message: "No output of this session is recorded."})
	}
	out.FinalMetrics = &FinalMetrics{
		PromptTokens: sum(s.Input, s.CacheRead, s.CacheWrite), CompletionTokens: s.Output, CachedTokens: s.CacheRead, CostUSD: s.CostUSD,
		Steps: len(out.Steps),
	}
	extra := map[string]any{}
	for name, n := range map[string]*int64{"turns": s.Turns, "duration_ms": s.DurationMS, "cache_write_tokens": s.CacheWrite} {
		if n != nil {
			extra[name] = *n
		}
	}
	if len(extra) > 0 {
		out.FinalMetrics.Extra = extra
	}
	return out
}

// add appends a step with the next number.
func (t *Trajectory) add(s Step) {
	s.StepID = len(t.Steps) + 1
	if s.Timestamp != nil {
		at := s.Timestamp.UTC()
		s.Timestamp = &at
	}
	t.Steps = append(t.Steps, s)
}

// total adds up the sessions.
func total(t Trajectory, sessions []Session) *FinalMetrics {
	out := FinalMetrics{Steps: len(t.Steps)}
	for _, s := range t.Subagents {
		out.PromptTokens = sum(out.PromptTokens, s.FinalMetrics.PromptTokens)
		out.CompletionTokens = sum(out.CompletionTokens, s.FinalMetrics.CompletionTokens)
		out.CachedTokens = sum(out.CachedTokens, s.FinalMetrics.CachedTokens)
	}
	for _, s := range sessions {
		if s.CostUSD != nil {
			if out.CostUSD == nil {
				out.CostUSD = new(float64)
			}
			*out.CostUSD += *s.CostUSD
		}
	}
	return &out
}

// sum adds figures; nil if none is known.
func sum(all ...*int64) *int64 {
	var out *int64
	for _, n := range all {
		if n == nil {
			continue
		}
		if out == nil {
			out = new(int64)
		}
		*out += *n
	}
	return out
}

func orUnknown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}

// arguments are those of a call. What is not an object is put into one.
func arguments(raw json.RawMessage, text string) map[string]any {
	out := map[string]any{}
	if len(raw) > 0 && json.Unmarshal(raw, &out) == nil && out != nil {
		return out
	}
	return map[string]any{"input": text}
}
