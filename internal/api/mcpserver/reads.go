package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

type none struct{}

type idInput struct {
	ID int64 `json:"id" jsonschema:"the id"`
}

type incidentsInput struct {
	All         bool   `json:"all,omitempty" jsonschema:"include resolved incidents"`
	Environment string `json:"environment,omitempty" jsonschema:"only this environment"`
	Service     string `json:"service,omitempty" jsonschema:"only this service"`
	Limit       int    `json:"limit,omitempty" jsonschema:"maximum number, 1 to 100; default 20"`
	Cursor      string `json:"cursor,omitempty" jsonschema:"next_cursor of the previous answer"`
}

type cyclesInput struct {
	Status      string `json:"status,omitempty" jsonschema:"only this status, such as running, resolved or needs_human"`
	Environment string `json:"environment,omitempty" jsonschema:"only this environment"`
	Limit       int    `json:"limit,omitempty" jsonschema:"maximum number, 1 to 100; default 20"`
	Cursor      string `json:"cursor,omitempty" jsonschema:"next_cursor of the previous answer"`
}

type transcriptInput struct {
	ID    int64 `json:"id" jsonschema:"the id of a session of the cycle; cycle_show lists them"`
	After int64 `json:"after,omitempty" jsonschema:"the last seq of the previous answer; default: from the beginning"`
	Limit int   `json:"limit,omitempty" jsonschema:"maximum number of lines, 1 to 200; default 100"`
}

type servicesInput struct {
	Environment string `json:"environment,omitempty" jsonschema:"only this environment"`
	State       string `json:"state,omitempty" jsonschema:"only this state: healthy, degraded, down, unknown or stale"`
	Limit       int    `json:"limit,omitempty" jsonschema:"maximum number, 1 to 200; default 100"`
	Cursor      string `json:"cursor,omitempty" jsonschema:"next_cursor of the previous answer"`
}

type serviceInput struct {
	Name        string `json:"name" jsonschema:"the name of the service"`
	Environment string `json:"environment,omitempty" jsonschema:"default: the first environment with this service"`
	Days        int    `json:"days,omitempty" jsonschema:"number of days, 1 to 365; default 30"`
}

type costsInput struct {
	By          string `json:"by,omitempty" jsonschema:"group by tier, model, service or trigger; default tier"`
	Days        int    `json:"days,omitempty" jsonschema:"number of days, 1 to 365; default 30"`
	Environment string `json:"environment,omitempty" jsonschema:"only this environment"`
}

type guardInput struct {
	Tier        int    `json:"tier" jsonschema:"the tier that would run the command: 1, 2 or 3"`
	Command     string `json:"command" jsonschema:"the shell command; it is not run"`
	DryRun      bool   `json:"dry_run,omitempty" jsonschema:"check as in a dry run"`
	Environment string `json:"environment,omitempty" jsonschema:"default: the first configured environment"`
}

// get asks for a path with the fields of an input.
func get(path string, in any) (Request, error) {
	q := url.Values{}
	for name, v := range said(in) {
		q.Set(name, fmt.Sprint(v))
	}
	return Request{Method: http.MethodGet, Path: path, Query: q}, nil
}

// row asks for the row with an id.
func row(format string) func(idInput) (Request, error) {
	return func(in idInput) (Request, error) {
		if in.ID < 1 {
			return Request{}, errNoID
		}
		return get(fmt.Sprintf(format, in.ID), none{})
	}
}

// limited is a limit of a list, or the usual one.
func limited(n, usual, most int) int {
	if n < 1 {
		return usual
	}
	return min(n, most)
}

// addReads adds the tools that change nothing.
func addReads(s *sdk.Server, api API) {
	notes := &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	add(s, api, notes, tool[none]{
		name: "status", description: "What is being done now and what comes next, in sentences.",
		request: func(in none) (Request, error) { return get("/situation", in) },
	})
	addIncidentReads(s, api, notes)
	addCycleReads(s, api, notes)
	addServiceReads(s, api, notes)
	add(s, api, notes, tool[costsInput]{
		name: "costs", description: "Estimated costs per day, the daily budget, and when it will be used up at the present rate.",
		request: func(in costsInput) (Request, error) {
			days := in.Days
			in.Days = 0
			r, err := get("/costs", in)
			if days > 0 {
				r.Query.Set("since", time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-min(days, 365)).Format(time.RFC3339))
			}
			return r, err
		},
	})
	add(s, api, notes, tool[guardInput]{
		name:        "guard_explain",
		description: "Explain whether the guard would allow an agent of a tier to run a shell command, and why. Nothing is run.",
		request:     func(in guardInput) (Request, error) { return get("/guard/explain", in) },
	})
	add(s, api, notes, tool[none]{
		name: "config_check", description: "Check the configuration file of the daemon as it is now, with the problems and how to fix them.",
		request: func(in none) (Request, error) { return get("/config/check", in) },
	})
}

func addIncidentReads(s *sdk.Server, api API, notes *sdk.ToolAnnotations) {
	add(s, api, notes, tool[incidentsInput]{
		name: "incidents_list", description: "List incidents that are not resolved, newest first: problems that need a human.",
		request: func(in incidentsInput) (Request, error) {
			open := !in.All
			in.All, in.Limit = false, limited(in.Limit, 20, 100)
			r, err := get("/incidents", in)
			if open {
				r.Query.Set("open", "true")
			}
			return r, err
		},
	})
	add(s, api, notes, tool[idInput]{
		name: "incident_show", description: "Show an incident: checks, findings, what was tried, cost.",
		request: row("/incidents/%d"),
	})
	add(s, api, notes, tool[idInput]{
		name: "incident_report", description: "The report of an incident as Markdown: what happened, what was tried, a timeline.",
		request: row("/incidents/%d/report"),
	})
}

func addCycleReads(s *sdk.Server, api API, notes *sdk.ToolAnnotations) {
	add(s, api, notes, tool[cyclesInput]{
		name: "cycles_list", description: "List cycles, newest first. A cycle is one run from a trigger to its end; it has one session per tier.",
		request: func(in cyclesInput) (Request, error) {
			in.Limit = limited(in.Limit, 20, 100)
			return get("/cycles", in)
		},
	})
	add(s, api, notes, tool[idInput]{
		name: "cycle_show", description: "Show a cycle: its sessions, every decision with its reason, recoveries, verifications, approvals.",
		request: row("/cycles/%d"),
		show:    without("policy"),
	})
	add(s, api, notes, tool[transcriptInput]{
		name: "session_transcript", description: "What the agent of a session said and did, oldest line first, secrets removed.",
		request: func(in transcriptInput) (Request, error) {
			if in.ID < 1 {
				return Request{}, errNoID
			}
			return get(fmt.Sprintf("/sessions/%d/transcript", in.ID), struct {
				Cursor int64 `json:"cursor"`
				Limit  int   `json:"limit"`
			}{in.After, limited(in.Limit, 100, 200)})
		},
		show: readable,
	})
	add(s, api, notes, tool[idInput]{
		name: "session_guard", description: "What the guard allowed and refused in a session, oldest first.",
		request: row("/sessions/%d/guard"),
	})
}

func addServiceReads(s *sdk.Server, api API, notes *sdk.ToolAnnotations) {
	add(s, api, notes, tool[servicesInput]{
		name: "services_list", description: "List the watched services with their state and the newest result of each probe.",
		request: func(in servicesInput) (Request, error) {
			in.Limit = limited(in.Limit, 100, 200)
			return get("/services", in)
		},
	})
	add(s, api, notes, tool[serviceInput]{
		name: "service_history", description: "How healthy a service was, day by day.",
		request: func(in serviceInput) (Request, error) {
			if strings.TrimSpace(in.Name) == "" {
				return Request{}, errors.New("name is missing: services_list has the names")
			}
			path := "/services/" + url.PathEscape(in.Name) + "/history"
			in.Name = ""
			return get(path, in)
		},
	})
	add(s, api, notes, tool[none]{
		name: "silences_list", description: "List the silences that have not ended: muted services, groups, probes and alerts.",
		request: func(in none) (Request, error) { return get("/silences", in) },
	})
}

// readable turns the lines of a transcript into what a person would read.
func readable(answer []byte) ([]byte, error) {
	var page struct {
		Items []struct {
			Seq  int64     `json:"seq"`
			At   time.Time `json:"at"`
			Line string    `json:"line"`

			Refused []string `json:"refused"`
		} `json:"items"`
		Next *string `json:"next_cursor"`
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		return nil, err
	}
	type part struct {
		Seq  int64     `json:"seq"`
		At   time.Time `json:"at"`
		Kind string    `json:"kind"`
		Tool string    `json:"tool,omitempty"`
		Text string    `json:"text"`
	}
	items := []part{}
	for _, l := range page.Items {
		for _, p := range transcript.Read(l.Line) {
			p.Refused = p.Refused || p.Answer != "" && slices.Contains(l.Refused, p.Answer)
			items = append(items, part{l.Seq, l.At, p.Word(), p.Tool, p.Text})
		}
	}
	return json.Marshal(map[string]any{"items": items, "next_cursor": page.Next})
}

type runInput struct {
	Prompt      string `json:"prompt" jsonschema:"what Tier 1 should check, in one or two sentences"`
	Environment string `json:"environment,omitempty" jsonschema:"default: the first configured environment"`
	DryRun      bool   `json:"dry_run,omitempty" jsonschema:"observe only: change nothing in this cycle"`
}

type acknowledgeInput struct {
	ID     int64  `json:"id" jsonschema:"the id of the incident"`
	Reason string `json:"reason" jsonschema:"why, for the record"`
}

type snoozeInput struct {
	ID     int64  `json:"id" jsonschema:"the id of the incident"`
	For    string `json:"for" jsonschema:"how long, such as 2h"`
	Reason string `json:"reason" jsonschema:"why, for the record"`
}

type silenceInput struct {
	Service     string `json:"service,omitempty" jsonschema:"name of the service; * matches any text"`
	Group       string `json:"group,omitempty" jsonschema:"group of services"`
	Probe       string `json:"probe,omitempty" jsonschema:"name of a probe"`
	Environment string `json:"environment,omitempty" jsonschema:"default: all environments"`
	For         string `json:"for" jsonschema:"how long, such as 2h"`
	Reason      string `json:"reason" jsonschema:"why, for the record"`
}

// post sends the fields of an input.
func post(path string, in any) (Request, error) {
	return Request{Method: http.MethodPost, Path: path, Body: said(in)}, nil
}

var (
	// errNoReason is told where the record would say nothing.
	errNoReason = errors.New("reason is missing: say why, for the record")
	errNoID     = errors.New("id is missing: ids are numbers from 1 up")
)

// addWrites adds the tools that change something.
func addWrites(s *sdk.Server, api API) {
	notes := &sdk.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)}
	add(s, api, notes, tool[runInput]{
		name:        "cycle_run",
		description: "Queue a cycle now. It starts at Tier 1 and escalates only as far as the configured policy allows.",
		request: func(in runInput) (Request, error) {
			if strings.TrimSpace(in.Prompt) == "" {
				return Request{}, errors.New("prompt is missing: say what Tier 1 should check")
			}
			return post("/cycles", in)
		},
	})
	add(s, api, notes, tool[acknowledgeInput]{
		name: "incident_acknowledge", description: "Acknowledge an incident: nothing escalates for it, and reminders stop.",
		request: func(in acknowledgeInput) (Request, error) { return change(in.ID, "/incidents/%d/ack", in.Reason, in) },
	})
	add(s, api, notes, tool[snoozeInput]{
		name: "incident_snooze", description: "Mute an incident for a time: nothing escalates for it, and reminders stop.",
		request: func(in snoozeInput) (Request, error) { return change(in.ID, "/incidents/%d/snooze", in.Reason, in) },
	})
	add(s, api, notes, tool[silenceInput]{
		name: "silence_add", description: "Silence a service, group or probe for a time: no cycle starts for it, and nothing escalates.",
		request: func(in silenceInput) (Request, error) {
			if strings.TrimSpace(in.Reason) == "" {
				return Request{}, errNoReason
			}
			return post("/silences", in)
		},
	})
}

// change is a request about one incident.
func change(id int64, format, reason string, in any) (Request, error) {
	switch {
	case id < 1:
		return Request{}, errNoID
	case strings.TrimSpace(reason) == "":
		return Request{}, errNoReason
	}
	body := said(in)
	delete(body, "id")
	return Request{Method: http.MethodPost, Path: fmt.Sprintf(format, id), Body: body}, nil
}

// AgentOptions are what the server needs.
type AgentOptions struct {
	Socket  string // of the session's gate
	Environ []string
	Version string
}

type actionInput struct {
	Service string `json:"service" jsonschema:"the service to act on"`
	Action  string `json:"action" jsonschema:"the name of one of its actions, see actions_list"`
	Why     string `json:"why" jsonschema:"why it is needed, in one or two sentences"`
	Branch  string `json:"branch,omitempty" jsonschema:"only for an action that pushes a branch: its name"`
}

type undoInput struct {
	ID  int64  `json:"id" jsonschema:"the id that action_run returned"`
	Why string `json:"why" jsonschema:"why it has to be undone"`
}

type lookInput struct {
	What   string   `json:"what" jsonschema:"sockets, routes, firewall, ping, dns, tcp, tls, http, head, query or command; empty: a list"`
	Target string   `json:"target,omitempty" jsonschema:"a service, or the host, host:port or URL that one of its probes names"`
	Query  string   `json:"query,omitempty" jsonschema:"query: its name; dns: the type of record"`
	Argv   []string `json:"argv,omitempty" jsonschema:"command: the words of ss, ip … show, nft list, dig, nc -z or ping"`
	// Params are strings, whatever their types: the supervisor reads them.
	Params map[string]string `json:"params,omitempty" jsonschema:"query: the values of its parameters"`
}

type probeInput struct {
	Services []string `json:"services,omitempty" jsonschema:"the services to check; empty: all"`
}

// NewForAgent makes the server of a session.
func NewForAgent(o AgentOptions) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: ops.ToolServerName, Version: o.Version}, nil)
	look := &sdk.ToolAnnotations{ReadOnlyHint: true}
	offer(s, o, &sdk.Tool{
		Name: "actions_list", Annotations: look,
		Description: "List the actions that the supervisor can do to the services of this incident, and which of them this session may ask for.",
	}, none{})
	offer(s, o, &sdk.Tool{
		Name: "action_run",
		Description: "Ask the supervisor to do an action. It checks, acts, probes the services before and after, and undoes what made " +
			"them worse. Do not repeat a refused call.",
	}, actionInput{})
	offer(s, o, &sdk.Tool{Name: "action_undo", Description: "Undo an action that this session asked for, if it has a way back."}, undoInput{})
	offer(s, o, &sdk.Tool{Name: "services_status", Annotations: look, Description: "The last known state of all services."}, none{})
	offer(s, o, &sdk.Tool{
		Name: "probe_now", Annotations: look, Description: "Check services now with the supervisor's own probes.",
	}, probeInput{})
	offer(s, o, &sdk.Tool{
		Name: "cooldowns", Annotations: look, Description: "What is left of the rate limits for restarts, redeployments and actions.",
	}, none{})
	offer(s, o, &sdk.Tool{
		Name: "look", Annotations: look,
		Description: "Look at the network of the host and at the addresses of declared services, from outside this session: sockets, routes, " +
			"firewall, ping, DNS, TCP, TLS, GET and HEAD over HTTP and HTTPS, and the queries that the operator declared for databases.",
	}, lookInput{})
	return s
}

// offer adds a tool that is passed on to the gate. The zero value of its input says which fields it has.
func offer[In any](s *sdk.Server, o AgentOptions, tool *sdk.Tool, _ In) {
	sdk.AddTool(s, tool, func(_ context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		input, err := json.Marshal(in)
		if err != nil {
			return nil, nil, fmt.Errorf("write input: %w", err)
		}
		answer, err := client.Tool(o.Socket, variable(o.Environ, "CLAUDEOPS_SESSION_KEY"), tool.Name, input)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("the supervisor cannot be asked: %w", err)
		case answer.Verdict != client.Allow:
			return nil, nil, errors.New(answer.Reason)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer.Text}}}, nil, nil
	})
}

// ServeAgent answers the agent until it closes the connection.
func ServeAgent(ctx context.Context, o AgentOptions) error {
	if err := NewForAgent(o).Run(ctx, &sdk.StdioTransport{}); err != nil && ctx.Err() == nil && !closed(err) {
		return fmt.Errorf("serve tools: %w", err)
	}
	return nil
}

// closed reports the ordinary end of a connection.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) ||
		errors.Is(err, sdk.ErrConnectionClosed)
}

func variable(environ []string, name string) string {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}
