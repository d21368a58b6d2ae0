package api

import (
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

const description = `Monitor and control Claude Ops. Lists are ` + "`{\"items\": […], \"next_cursor\": …}`" + `: pass the cursor to get the
next page; null means that this is the last page. Errors are problem documents (RFC 9457). Requests from another machine
need the token; a read-only token allows GET only.`

// describe is the general part of the OpenAPI document.
func describe(version string) huma.Config {
	c := huma.DefaultConfig("Claude Ops", version)
	c.DocsPath = ""    // it would load files from another host
	c.SchemasPath = "" // and so would links to schemas
	c.OpenAPIPath = "" // served by this package
	c.CreateHooks = nil
	c.Info.Description = description
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token":     {Type: "http", Scheme: "bearer", Description: "CLAUDEOPS_API_TOKEN, or a token of `claudeops tokens create`."},
		"signature": {Type: "apiKey", In: "header", Name: "X-Claudeops-Signature", Description: "Webhooks: t=TIME,v2=HEX, see docs/webhooks.md."},
	}
	c.Security = []map[string][]string{{"token": {}}, {}}
	for _, t := range [][2]string{
		{"cycles", "One run from trigger to end."},
		{"sessions", "One agent process: one handler, one model, one set of figures."},
		{"incidents", "Problems that need a human."},
		{"approvals", "Steps of a cycle that wait for approval."},
		{"services", "Watched services and their state."},
		{"actions", "What the supervisor can do to services, and what it did."},
		{"cooldowns", "Rate limits of restarts and redeployments."},
		{"events", "What happened, including an audit record of every action."},
		{"memories", "Notes that later sessions are given."},
		{"trust", "How far agents may go for a service."},
		{"reflexes", "Repairs without an agent that were earned."},
		{"updates", "Newer images of services, watched and taken back if they make things worse."},
		{"changes", "What changed on the hosts."},
		{"silences", "Muted services, groups, probes and alerts."},
		{"notifications", "Messages to people, and whether they were sent."},
		{"costs", "Costs of sessions: list-price estimates, not a bill."},
		{"hosts", "Hosts that share this database."},
		{"guard", "What the guard would say of a command."},
		{"config", "Whether the configuration is valid."},
		{"stats", "Figures for dashboards."},
		{"webhooks", "Alerts of other systems."},
	} {
		c.Tags = append(c.Tags, &huma.Tag{Name: t[0], Description: t[1]})
	}
	return c
}

// look describes a read.
func look(id, path, summary, tag, text string, errors ...int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Description: text, Tags: []string{tag}, Errors: errors,
	}
}

// act describes an action.
func act(id, path, summary, tag, text string, errors ...int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, Description: text, Tags: []string{tag},
		MaxBodyBytes: maxBody, Errors: append(errors, http.StatusConflict),
	}
}

// start describes an action whose work continues after the answer.
func start(id, path, summary, tag, text string, errors ...int) huma.Operation {
	o := act(id, path, summary, tag, text, errors...)
	o.DefaultStatus = http.StatusAccepted
	return o
}

// describeWebhooks adds the webhooks to the description of the API. They are served by package webhook, which authenticates senders itself.
func describeWebhooks(o *huma.OpenAPI) {
	text := func(description string) *huma.Schema { return &huma.Schema{Type: "string", Description: description} }
	parameter := func(in, name, description string) *huma.Param {
		return &huma.Param{Name: name, In: in, Required: in == "path", Description: description, Schema: text("")}
	}
	said := []*huma.Param{
		parameter("query", "environment", "The environment; the first one if it is left out."),
		parameter("query", "name", "Generic form: the name of the alert, if the body does not say it."),
		parameter("query", "service", "Generic form: the service, if the body does not say it."),
		parameter("query", "status", "Generic form: firing or resolved, if the body does not say it."),
		parameter("query", "severity", "Generic form: the severity, if the body does not say it."),
	}
	alert := &huma.Schema{
		Type: "object", Description: "The generic form. Bodies of known programs and configured senders differ.",
		Properties: map[string]*huma.Schema{
			"name": text("What is wrong; name or service is required."), "service": text("Which service it is about."),
			"status":   text("firing, or resolved, ok, up, normal, closed, recovered, healthy."),
			"severity": text("critical, warning or info, and other words for them."),
			"summary":  text("One sentence."), "url": text("A link."), "starts_at": {Type: "string", Format: "date-time"},
			"fingerprint": text("What identifies the alert."), "labels": {Type: "object", AdditionalProperties: true},
			"alerts": {Type: "array", Items: &huma.Schema{Type: "object"}, Description: "Several alerts in one body."},
		},
	}
	answer := &huma.Schema{Type: "object", Required: []string{"accepted"}, Properties: map[string]*huma.Schema{
		"accepted": {Type: "integer", Description: "How many alerts were stored."},
		"replayed": {Type: "boolean", Description: "The signed request was received and stored before."},
		"test":     {Type: "boolean", Description: "The sender's test button was pressed; an event shows it, and no alert was stored."},
	}}
	responses := map[string]*huma.Response{
		"202": {Description: "The alerts are stored.", Content: map[string]*huma.MediaType{"application/json": {Schema: answer}}},
	}
	for _, status := range []int{401, 403, 404, 408, 413, 421, 422, 429, 503} {
		responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: &huma.Schema{Ref: "#/components/schemas/ErrorModel"}}},
		}
	}
	add := func(id, path, summary, more string, security []map[string][]string, inPath ...*huma.Param) {
		o.AddOperation(&huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, Tags: []string{"webhooks"},
			Description: "Takes alerts of other systems; 202 means that they are stored. See docs/webhooks.md." + more,
			Parameters:  append(inPath, said...), Security: security, Responses: maps.Clone(responses),
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
				"application/json": {Schema: alert}, "text/plain": {Schema: text("Generic form: the text of an alert.")},
			}},
		})
	}
	sender := "alertmanager, grafana, generic, or the name of a configured sender."
	add("send-alerts", "/webhooks/{sender}", "Send alerts", " Needs the token, or a signature with webhooks.secret.",
		[]map[string][]string{{"token": {}}, {"signature": {}}}, parameter("path", "sender", sender))
	add("send-alerts-by-secret", "/webhooks/{sender}/{secret}", "Send alerts without headers",
		" For configured senders that cannot set headers.", []map[string][]string{{}},
		parameter("path", "sender", "The name of a configured sender."), parameter("path", "secret", "Its secret."))
}
