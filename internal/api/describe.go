package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

const description = `Watch and steer Claude Ops. Lists are ` + "`{\"items\": […], \"next_cursor\": …}`" + `: pass the cursor on to get the next page; null means
that nothing follows. Errors are problem documents (RFC 9457). Every GET has an ETag. A POST with an Idempotency-Key can be repeated without
doing anything twice. From another machine every request needs the token; a read-only token is good for GET alone.`

// describe is what the document says about the API as a whole.
func describe(version string) huma.Config {
	c := huma.DefaultConfig("Claude Ops", version)
	c.DocsPath = ""    // the built-in page loads from another host
	c.SchemasPath = "" // and so do the links to it
	c.OpenAPIPath = "" // served by us, made once and safely
	c.CreateHooks = nil
	c.Info.Description = description
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "CLAUDEOPS_API_TOKEN, or CLAUDEOPS_API_READ_TOKEN for GET."},
	}
	c.Security = []map[string][]string{{"token": {}}, {}}
	for _, t := range [][2]string{
		{"cycles", "One run from trigger to end."},
		{"sessions", "One agent process: one handler, one model, one set of figures."},
		{"incidents", "Problems a human knows of, or has to."},
		{"approvals", "Questions to a human about one step of one cycle."},
		{"services", "What is watched, and how it is."},
		{"cooldowns", "How often something may still be done to a service."},
		{"events", "What happened, and who did what."},
		{"memories", "What is remembered for later sessions."},
		{"silences", "What may fail for a while without starting anything."},
		{"notifications", "What people are told, and what became of it."},
		{"costs", "What sessions cost: list-price estimates, not a bill."},
		{"hosts", "Who works on this database."},
		{"stats", "Flat figures for dashboards."},
	} {
		c.Tags = append(c.Tags, &huma.Tag{Name: t[0], Description: t[1]})
	}
	return c
}

// look describes a question.
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

// start describes an action whose work goes on after the answer.
func start(id, path, summary, tag, text string, errors ...int) huma.Operation {
	o := act(id, path, summary, tag, text, errors...)
	o.DefaultStatus = http.StatusAccepted
	return o
}
