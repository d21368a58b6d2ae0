package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

const description = `Monitor and control Claude Ops. Lists are ` + "`{\"items\": […], \"next_cursor\": …}`" + `: pass the cursor to get the
next page; null means that this is the last page. Errors are problem documents (RFC 9457). Every GET has an ETag. A POST with an
Idempotency-Key can be repeated safely. Requests from another machine need the token; a read-only token allows GET only.`

// describe is the general part of the OpenAPI document.
func describe(version string) huma.Config {
	c := huma.DefaultConfig("Claude Ops", version)
	c.DocsPath = ""    // the pages have one of their own; this one loads files from another host
	c.SchemasPath = "" // and so do links to schemas
	c.OpenAPIPath = "" // served by this package
	c.CreateHooks = nil
	c.Info.Description = description
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token":     {Type: "http", Scheme: "bearer", Description: "CLAUDEOPS_API_TOKEN, or CLAUDEOPS_API_READ_TOKEN for GET."},
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
