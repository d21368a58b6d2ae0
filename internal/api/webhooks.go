package api

import (
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

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
