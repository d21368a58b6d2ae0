package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

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
	State       string `json:"state,omitempty" jsonschema:"only this state: healthy, degraded, down or unknown"`
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

func get(path string, q map[string]any) (Request, error) {
	return Request{Method: http.MethodGet, Path: path, Query: query(q)}, nil
}

// byID is the path of one row.
func byID(format string, id int64) (Request, error) {
	if id < 1 {
		return Request{}, errors.New("id is missing: ids are numbers from 1 up")
	}
	return get(fmt.Sprintf(format, id), nil)
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
		request: func(none) (Request, error) { return get("/situation", nil) },
	})
	addIncidentReads(s, api, notes)
	addCycleReads(s, api, notes)
	addServiceReads(s, api, notes)
	add(s, api, notes, tool[costsInput]{
		name: "costs", description: "Estimated costs per day, the daily budget, and when it will be used up at the present rate.",
		request: func(in costsInput) (Request, error) {
			since := ""
			if in.Days > 0 {
				since = time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-min(in.Days, 365)).Format(time.RFC3339)
			}
			return get("/costs", map[string]any{"by": in.By, "environment": in.Environment, "since": since})
		},
	})
	add(s, api, notes, tool[guardInput]{
		name:        "guard_explain",
		description: "Explain whether the guard would allow an agent of a tier to run a shell command, and why. Nothing is run.",
		request: func(in guardInput) (Request, error) {
			return get("/guard/explain", map[string]any{
				"tier": in.Tier, "command": in.Command, "dry_run": in.DryRun, "environment": in.Environment,
			})
		},
	})
	add(s, api, notes, tool[none]{
		name: "config_check", description: "Check the configuration file of the daemon as it is now, with the problems and how to fix them.",
		request: func(none) (Request, error) { return get("/config/check", nil) },
	})
}

func addIncidentReads(s *sdk.Server, api API, notes *sdk.ToolAnnotations) {
	add(s, api, notes, tool[incidentsInput]{
		name: "incidents_list", description: "List incidents that are not resolved, newest first: problems that need a human.",
		request: func(in incidentsInput) (Request, error) {
			return get("/incidents", map[string]any{
				"open": !in.All, "environment": in.Environment, "service": in.Service, "limit": limited(in.Limit, 20, 100), "cursor": in.Cursor,
			})
		},
	})
	add(s, api, notes, tool[idInput]{
		name: "incident_show", description: "Show an incident: checks, findings, what was tried, cost.",
		request: func(in idInput) (Request, error) { return byID("/incidents/%d", in.ID) },
	})
	add(s, api, notes, tool[idInput]{
		name: "incident_report", description: "The report of an incident as Markdown: what happened, what was tried, a timeline.",
		request: func(in idInput) (Request, error) { return byID("/incidents/%d/report", in.ID) },
	})
}

func addCycleReads(s *sdk.Server, api API, notes *sdk.ToolAnnotations) {
	add(s, api, notes, tool[cyclesInput]{
		name: "cycles_list", description: "List cycles, newest first. A cycle is one run from a trigger to its end; it has one session per tier.",
		request: func(in cyclesInput) (Request, error) {
			return get("/cycles", map[string]any{
				"status": in.Status, "environment": in.Environment, "limit": limited(in.Limit, 20, 100), "cursor": in.Cursor,
			})
		},
	})
	add(s, api, notes, tool[idInput]{
		name: "cycle_show", description: "Show a cycle: its sessions, every decision with its reason, recoveries, verifications, approvals.",
		request: func(in idInput) (Request, error) { return byID("/cycles/%d", in.ID) },
		show:    without("policy"),
	})
	add(s, api, notes, tool[transcriptInput]{
		name: "session_transcript", description: "What the agent of a session said and did, oldest line first, secrets removed.",
		request: func(in transcriptInput) (Request, error) {
			r, err := byID("/sessions/%d/transcript", in.ID)
			r.Query = query(map[string]any{"limit": limited(in.Limit, 100, 200), "cursor": in.After})
			return r, err
		},
		show: readable,
	})
	add(s, api, notes, tool[idInput]{
		name: "session_guard", description: "What the guard allowed and refused in a session, oldest first.",
		request: func(in idInput) (Request, error) { return byID("/sessions/%d/guard", in.ID) },
	})
}

func addServiceReads(s *sdk.Server, api API, notes *sdk.ToolAnnotations) {
	add(s, api, notes, tool[servicesInput]{
		name: "services_list", description: "List the watched services with their state and the newest result of each probe.",
		request: func(in servicesInput) (Request, error) {
			return get("/services", map[string]any{
				"environment": in.Environment, "state": in.State, "limit": limited(in.Limit, 100, 200), "cursor": in.Cursor,
			})
		},
	})
	add(s, api, notes, tool[serviceInput]{
		name: "service_history", description: "How healthy a service was, day by day.",
		request: func(in serviceInput) (Request, error) {
			if strings.TrimSpace(in.Name) == "" {
				return Request{}, errors.New("name is missing: services_list has the names")
			}
			return get("/services/"+url.PathEscape(in.Name)+"/history", map[string]any{"environment": in.Environment, "days": in.Days})
		},
	})
	add(s, api, notes, tool[none]{
		name: "silences_list", description: "List the silences that have not ended: muted services, groups, probes and alerts.",
		request: func(none) (Request, error) { return get("/silences", nil) },
	})
}

// readable turns the lines of a transcript into what a person would read.
func readable(answer []byte) ([]byte, error) {
	var page struct {
		Items []struct {
			Seq  int64     `json:"seq"`
			At   time.Time `json:"at"`
			Line string    `json:"line"`
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
			items = append(items, part{l.Seq, l.At, p.Word(), p.Tool, p.Text})
		}
	}
	return json.Marshal(map[string]any{"items": items, "next_cursor": page.Next})
}
