package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// mostAnswer is far above the longest page of a transcript.
const mostAnswer = 256 << 20

// Sessions returns a page of sessions.
func (c *client) Sessions(ctx context.Context, f store.SessionFilter) ([]ops.Session, error) {
	rows, err := items[api.Session](ctx, c, "/sessions",
		query("status", string(f.Status), "tier", digits(f.Tier), "environment", f.Environment, "cursor", digits(f.Before)), pageOf(f.Limit))
	return each(rows, err, api.Session.Ops)
}

// Session returns one session.
func (c *client) Session(ctx context.Context, id ops.SessionID) (ops.Session, error) {
	var row api.SessionReport
	err := c.ask(ctx, http.MethodGet, "/sessions/"+digits(id), nil, &row)
	return row.Ops(), err
}

// Transcript returns lines after one.
func (c *client) Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]ops.Line, error) {
	rows, err := items[api.Line](ctx, c, "/sessions/"+digits(id)+"/transcript", query("cursor", digits(after)), limit)
	return each(rows, err, func(l api.Line) ops.Line { return ops.Line{Seq: l.Seq, At: l.At, Text: l.Line} })
}

// GuardDecisions returns what the guard decided about a session.
func (c *client) GuardDecisions(ctx context.Context, id ops.SessionID) ([]ops.GuardRecord, error) {
	rows, err := items[api.GuardDecision](ctx, c, "/sessions/"+digits(id)+"/guard", query(), 100_000)
	return each(rows, err, api.GuardDecision.Ops)
}

// Cycles returns a page of cycles.
func (c *client) Cycles(ctx context.Context, f store.CycleFilter) ([]store.CycleSummary, error) {
	rows, err := items[api.Cycle](ctx, c, "/cycles",
		query("status", string(f.Status), "environment", f.Environment, "cursor", digits(f.Before)), pageOf(f.Limit))
	return each(rows, err, func(row api.Cycle) store.CycleSummary {
		cycle, sessions := row.Ops()
		return store.CycleSummary{Cycle: cycle, Sessions: sessions}
	})
}

func (c *client) cycle(ctx context.Context, id ops.CycleID) (ops.Claimed, []ops.Verification, error) {
	var row api.CycleReport
	if err := c.ask(ctx, http.MethodGet, "/cycles/"+digits(id), nil, &row); err != nil {
		return ops.Claimed{}, nil, err
	}
	loaded, verified := row.Ops()
	return loaded, verified, nil
}

// Load returns a cycle with its journal.
func (c *client) Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error) {
	loaded, _, err := c.cycle(ctx, id)
	return loaded, err
}

// Verifications returns what judges made of a cycle.
func (c *client) Verifications(ctx context.Context, id ops.CycleID) ([]ops.Verification, error) {
	_, verified, err := c.cycle(ctx, id)
	return verified, err
}

// Events returns a page of events.
func (c *client) Events(ctx context.Context, f store.EventFilter) ([]ops.Event, error) {
	q := query("level", string(f.Level), "kind", f.Kind, "service", f.Service, "environment", f.Environment,
		"after", digits(f.After), "cursor", digits(f.Before))
	if f.CycleID != nil {
		q.Set("cycle_id", digits(*f.CycleID))
	}
	if f.SessionID != nil {
		q.Set("session_id", digits(*f.SessionID))
	}
	rows, err := items[api.Event](ctx, c, "/events", q, pageOf(f.Limit))
	return each(rows, err, api.Event.Ops)
}

// Incidents returns a page of incidents.
func (c *client) Incidents(ctx context.Context, f store.IncidentFilter) ([]ops.Incident, error) {
	rows, err := items[api.Incident](ctx, c, "/incidents", query("open", strconv.FormatBool(f.Open), "status", string(f.Status),
		"environment", f.Environment, "service", f.Service, "cursor", digits(f.Before)), pageOf(f.Limit))
	return each(rows, err, api.Incident.Ops)
}

// Incident returns one incident.
func (c *client) Incident(ctx context.Context, id int64) (ops.Incident, error) {
	var row api.Incident
	err := c.ask(ctx, http.MethodGet, "/incidents/"+digits(id), nil, &row)
	return row.Ops(), err
}

// Approvals returns a page of questions.
func (c *client) Approvals(ctx context.Context, f store.ApprovalFilter) ([]ops.Approval, error) {
	rows, err := items[api.Approval](ctx, c, "/approvals",
		query("status", string(f.Status), "environment", f.Environment, "cursor", digits(f.Before)), pageOf(f.Limit))
	return each(rows, err, api.Approval.Ops)
}

// Memories returns a page of what is remembered.
func (c *client) Memories(ctx context.Context, f store.MemoryFilter) ([]ops.Memory, error) {
	rows, err := items[api.Memory](ctx, c, "/memories", query("environment", f.Environment, "service", f.Service, "category", f.Category,
		"all", strconv.FormatBool(f.All), "cursor", digits(f.Before)), pageOf(f.Limit))
	return each(rows, err, api.Memory.Ops)
}

// SubmitCycle queues a cycle.
func (c *client) SubmitCycle(ctx context.Context, n ops.NewCycle) (ops.CycleID, error) {
	var got struct {
		ID ops.CycleID `json:"id"`
	}
	err := c.ask(ctx, http.MethodPost, "/cycles", map[string]any{"environment": n.Environment, "prompt": n.Prompt, "dry_run": n.Options.DryRun}, &got)
	return got.ID, err
}

// RequestCancel asks for the end of a cycle.
func (c *client) RequestCancel(ctx context.Context, id ops.CycleID, reason string, _ time.Time) (ops.Cycle, error) {
	err := c.ask(ctx, http.MethodPost, "/cycles/"+digits(id)+"/cancel", because(reason), nil)
	return ops.Cycle{ID: id}, err
}

func because(reason string) map[string]any { return map[string]any{"reason": reason} }

// The server writes down the name that belongs to the token, so the name below is not sent.

// Acknowledge takes an incident.
func (c *client) Acknowledge(ctx context.Context, id int64, _, reason string, _ time.Time) (ops.Incident, error) {
	return c.incident(ctx, id, "ack", because(reason))
}

// ResolveIncident closes an incident.
func (c *client) ResolveIncident(ctx context.Context, id int64, _, reason string, _ time.Time) (ops.Incident, error) {
	return c.incident(ctx, id, "resolve", because(reason))
}

// Snooze leaves an incident alone for a time.
func (c *client) Snooze(ctx context.Context, id int64, _ string, until time.Time, reason string, _ time.Time) (ops.Incident, error) {
	return c.incident(ctx, id, "snooze", map[string]any{"until": until, "reason": reason})
}

func (c *client) incident(ctx context.Context, id int64, verb string, body any) (ops.Incident, error) {
	var row api.Incident
	err := c.ask(ctx, http.MethodPost, "/incidents/"+digits(id)+"/"+verb, body, &row)
	return row.Ops(), err
}

// Answer answers a question.
func (c *client) Answer(ctx context.Context, id int64, status ops.ApprovalStatus, _, reason string, _ time.Time) (ops.Approval, error) {
	verb := "deny"
	if status == ops.ApprovalApproved {
		verb = "approve"
	}
	var row api.Approval
	err := c.ask(ctx, http.MethodPost, "/approvals/"+digits(id)+"/"+verb, because(reason), &row)
	return row.Ops(), err
}

// AddMemory remembers something.
func (c *client) AddMemory(ctx context.Context, m ops.Memory) (int64, error) {
	var row api.Memory
	body := map[string]any{
		"environment": m.Environment, "category": m.Category, "service": m.Service, "observation": m.Observation, "confidence": m.Confidence,
	}
	if m.ExpiresAt != nil {
		body["expires_at"] = *m.ExpiresAt
	}
	err := c.ask(ctx, http.MethodPost, "/memories", body, &row)
	return row.ID, err
}

// RemoveMemory forgets something.
func (c *client) RemoveMemory(ctx context.Context, id int64) error {
	return c.ask(ctx, http.MethodDelete, "/memories/"+digits(id), nil, nil)
}

// ClearCooldown lets what was done to a service count no longer.
func (c *client) ClearCooldown(ctx context.Context, environment, service, action, reason, _ string, _ time.Time) (int, error) {
	var got struct {
		Cleared int `json:"cleared"`
	}
	err := c.ask(ctx, http.MethodPost, "/cooldowns/clear",
		map[string]any{"environment": environment, "service": service, "action": action, "reason": reason}, &got)
	return got.Cleared, err
}

// cooldowns lists them for all environments of the server.
func (c *client) cooldowns(ctx context.Context) ([]api.Cooldown, error) {
	return items[api.Cooldown](ctx, c, "/cooldowns", query(), 100_000)
}

// Silences returns silences; those that have ended too where no time is asked for.
func (c *client) Silences(ctx context.Context, f store.SilenceFilter) ([]ops.Silence, error) {
	rows, err := items[api.Silence](ctx, c, "/silences", query("environment", f.Environment,
		"all", strconv.FormatBool(f.Active.IsZero()), "cursor", digits(f.Before)), pageOf(f.Limit))
	return each(rows, err, api.Silence.Ops)
}

// silence begins one. Where it begins at once, the server's clock counts and not ours.
func (c *client) silence(ctx context.Context, q ops.Silence, from, until string, span time.Duration) (ops.Silence, error) {
	body := map[string]any{"reason": q.Reason}
	for name, value := range map[string]string{"environment": q.Environment, "service": q.Service, "group": q.Group, "probe": q.Probe} {
		if value != "" {
			body[name] = value
		}
	}
	if len(q.Labels) > 0 {
		body["labels"] = q.Labels
	}
	if from != "" {
		body["from"] = q.From
	}
	if until != "" {
		body["until"] = q.Until
	} else {
		body["for"] = span.String()
	}
	var row api.Silence
	err := c.ask(ctx, http.MethodPost, "/silences", body, &row)
	return row.Ops(), err
}

// EndSilence ends a silence.
func (c *client) EndSilence(ctx context.Context, id int64, _ string, _ time.Time) (ops.Silence, error) {
	var row api.Silence
	err := c.ask(ctx, http.MethodPost, "/silences/"+digits(id)+"/end", nil, &row)
	return row.Ops(), err
}

// NoticeList returns a page of notices.
func (c *client) NoticeList(ctx context.Context, f store.NoticeFilter) ([]ops.Notice, error) {
	rows, err := items[api.Notification](ctx, c, "/notifications", query("status", string(f.Status), "cursor", digits(f.Before)), pageOf(f.Limit))
	return each(rows, err, api.Notification.Ops)
}

// RetryNotice sends a notice again.
func (c *client) RetryNotice(ctx context.Context, id int64, _ time.Time) error {
	return c.ask(ctx, http.MethodPost, "/notifications/"+digits(id)+"/retry", nil, nil)
}

// costs adds up what was spent since a moment, and names the most expensive chains.
func (c *client) costs(ctx context.Context, by string, f store.CostFilter, chains int) (api.Costs, []api.ChainCost, error) {
	q := query("by", by, "environment", f.Environment, "since", f.Since.Format(time.RFC3339))
	var sum api.Costs
	if err := c.ask(ctx, http.MethodGet, "/costs?"+q.Encode(), nil, &sum); err != nil || chains == 0 {
		return sum, nil, err
	}
	q.Del("by")
	dear, err := items[api.ChainCost](ctx, c, "/costs/chains", q, chains)
	return sum, dear, err
}

// services tells how everything is that the server watches.
func (c *client) services(ctx context.Context, environment string) ([]api.ServiceState, error) {
	return items[api.ServiceState](ctx, c, "/services", query("environment", environment), 100_000)
}

// service tells how one is, how it was, and what may still be done to it.
func (c *client) service(ctx context.Context, name, environment string, days int) (serviceReport, error) {
	path, q := "/services/"+url.PathEscape(name), query("environment", environment)
	var out serviceReport
	if err := c.ask(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &out.ServiceState); err != nil {
		return out, err
	}
	q = query("environment", out.Environment, "days", digits(days))
	if err := c.ask(ctx, http.MethodGet, path+"/history?"+q.Encode(), nil, &out.past); err != nil {
		return out, err
	}
	var err error
	out.cooldowns, err = items[api.Cooldown](ctx, c, "/cooldowns", query("environment", out.Environment), 100_000)
	return out, err
}

// errLocalOnly is what a command says that needs the state folder.
var errLocalOnly = errors.New("this command works on the local state folder only: leave --server out")
