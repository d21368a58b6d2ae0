package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// mostAnswer is far above the longest page of a transcript.
const mostAnswer = 256 << 20

// client asks a daemon elsewhere. It has the methods of the store that commands use, so that both look the same.
type client struct {
	base  string
	token string
	http  *http.Client
}

func newClient(server, token string) *client {
	return &client{base: strings.TrimSuffix(server, "/") + "/api/v1", token: token, http: &http.Client{
		Timeout: time.Minute,
		// The API never sends one elsewhere; whoever does must not get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// refusal is what a daemon elsewhere said instead of an answer.
type refusal struct {
	detail string
	kind   error // what the exit code follows from; nil for no special one
}

func (e *refusal) Error() string { return e.detail }
func (e *refusal) Unwrap() error { return e.kind }

// ask sends a request and reads the answer into out, which may be nil.
func (c *client) ask(ctx context.Context, method, path string, body, out any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("write request: %w", err)
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return fmt.Errorf("ask the server: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if answer.StatusCode/100 != 2 {
		return refused(answer, text)
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the server's answer: %w: is this the address of claudeops?", err)
	}
	return nil
}

// refused makes an error that exits like the same one of the store would.
func refused(answer *http.Response, text []byte) error {
	var problem struct {
		Detail string `json:"detail"`
		Errors []struct {
			Message  string `json:"message"`
			Location string `json:"location"`
		} `json:"errors"`
	}
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		problem.Detail = "the server answered " + answer.Status
	}
	for _, e := range problem.Errors {
		problem.Detail += fmt.Sprintf("; %s: %s", e.Location, e.Message)
	}
	err := &refusal{detail: clean(problem.Detail)}
	switch answer.StatusCode {
	case http.StatusNotFound:
		err.kind = ops.ErrNotFound
	case http.StatusConflict:
		err.kind = ops.ErrConflict
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return usage(err)
	case http.StatusUnauthorized:
		err.detail = "the server wants another token: set CLAUDEOPS_API_TOKEN, or name its file with --token-file"
	}
	return err
}

// items reads a list, page by page, up to limit.
func items[T any](ctx context.Context, c *client, path string, q url.Values, limit int) ([]T, error) {
	var out []T
	for {
		var page struct {
			Items []T     `json:"items"`
			Next  *string `json:"next_cursor"`
		}
		q.Set("limit", strconv.Itoa(min(200, limit-len(out))))
		if err := c.ask(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if page.Next == nil || len(out) >= limit {
			return out, nil
		}
		q.Set("cursor", *page.Next)
	}
}

// query leaves out what is not set.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if v := pairs[i+1]; v != "" && v != "0" && v != "false" {
			q.Set(pairs[i], v)
		}
	}
	return q
}

func digits[T ~int | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// each turns rows of the API into those of the journal.
func each[T, R any](rows []T, err error, turn func(T) R) ([]R, error) {
	if err != nil {
		return nil, err
	}
	out := make([]R, 0, len(rows))
	for _, r := range rows {
		out = append(out, turn(r))
	}
	return out, nil
}

// pageOf is how many rows a filter asks for.
func pageOf(limit int) int {
	if limit <= 0 {
		return 50
	}
	return limit
}

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
