package mcpserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

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

func post(path string, body map[string]any) Request {
	return Request{Method: http.MethodPost, Path: path, Body: fields(body)}
}

// errNoReason is told where the record would say nothing.
var errNoReason = errors.New("reason is missing: say why, for the record")

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
			return post("/cycles", map[string]any{"prompt": in.Prompt, "environment": in.Environment, "dry_run": in.DryRun}), nil
		},
	})
	add(s, api, notes, tool[acknowledgeInput]{
		name: "incident_acknowledge", description: "Acknowledge an incident: nothing escalates for it, and reminders stop.",
		request: func(in acknowledgeInput) (Request, error) {
			return change(in.ID, "/incidents/%d/ack", in.Reason, nil)
		},
	})
	add(s, api, notes, tool[snoozeInput]{
		name: "incident_snooze", description: "Mute an incident for a time: nothing escalates for it, and reminders stop.",
		request: func(in snoozeInput) (Request, error) {
			return change(in.ID, "/incidents/%d/snooze", in.Reason, map[string]any{"for": in.For})
		},
	})
	add(s, api, notes, tool[silenceInput]{
		name: "silence_add", description: "Silence a service, group or probe for a time: no cycle starts for it, and nothing escalates.",
		request: func(in silenceInput) (Request, error) {
			if strings.TrimSpace(in.Reason) == "" {
				return Request{}, errNoReason
			}
			return post("/silences", map[string]any{
				"service": in.Service, "group": in.Group, "probe": in.Probe, "environment": in.Environment, "for": in.For, "reason": in.Reason,
			}), nil
		},
	})
}

// change is a request about one incident.
func change(id int64, format, reason string, body map[string]any) (Request, error) {
	switch {
	case id < 1:
		return Request{}, errors.New("id is missing: ids are numbers from 1 up")
	case strings.TrimSpace(reason) == "":
		return Request{}, errNoReason
	}
	all := map[string]any{"reason": reason}
	for name, v := range body {
		all[name] = v
	}
	return post(fmt.Sprintf(format, id), all), nil
}
