package config

import (
	"strings"

	"claudeops/internal/ops"
)

// The forms in which alerts arrive, which are also addresses.
const (
	formGeneric      = "generic"
	formAlertmanager = "alertmanager"
	formGrafana      = "grafana"
)

func senderFields(s *ops.AlertSender) []field {
	one := checked("JSON pointer", "give a pointer such as /payload/summary", "not a JSON pointer", true, func(text string) bool {
		return strings.HasPrefix(text, "/")
	})
	pointers := listOf("JSON pointers", strings.Fields, one)
	f := &s.Fields
	return []field{
		value("name", &s.Name, nameKind("name", "a name of a sender"),
			"Name of the sender, and the last part of its address: `/api/v1/webhooks/NAME`. Its ids are its own.").must(),
		value("form", &s.Form, choiceKind("a form of alerts", formGeneric, formAlertmanager, formGrafana), "What it sends.").or(formGeneric),
		value("secret", &s.Secret, tokenKind(),
			"For senders that cannot set headers: `/api/v1/webhooks/NAME/SECRET` needs no token and no signature; at least 20 characters.").
			orElse("none"),
		value("secret_file", &s.Secret, fileKind(), "File that holds the secret."),
		object("fields", f, []field{
			value("alerts", &f.Alerts, pointers, "A list of alerts; the other pointers then begin at its entries."),
			value("id", &f.ID, pointers, "What identifies the alert."),
			value("name", &f.Name, pointers, "Its name."),
			value("service", &f.Service, pointers, "The service that it is about."),
			value("status", &f.Status, pointers, "Whether it fires."),
			value("severity", &f.Severity, pointers, "Its severity."),
			value("summary", &f.Summary, pointers, "Its text."),
			value("url", &f.URL, pointers, "A link."),
			value("starts_at", &f.StartsAt, pointers, "When it began (RFC 3339)."),
			value("labels", &f.Labels, pointers, "Its labels: objects, lists of names and values, or single values."),
			value("resolved", &f.Resolved, textsKind("words"), "Statuses that end it, beside the usual ones."),
			value("ignored", &f.Ignored, textsKind("words"), "Statuses that say nothing new, such as `acknowledged`."),
		}, "Where the body of the generic form holds what, as JSON pointers. See [webhooks.md](webhooks.md#your-own-mapping).").
			orElse("as recognised"),
	}
}

func (c *Config) finishSender(e *entry, s *ops.AlertSender) {
	if s.Secret != "" && len(s.Secret) < ShortestToken {
		e.refuseAll("give a secret of at least 20 characters, for example from: openssl rand -hex 20", "the secret of the sender is too short")
	}
	if e.has(&s.Fields) && s.Form != formGeneric {
		e.refuse(&s.Fields, "leave out form, or fields", "the form %s has its own fields", s.Form)
	}
	switch s.Name {
	case formGeneric, formAlertmanager, formGrafana:
		e.refuse(&s.Name, "choose another name", "%s is the address of everybody who sends that form", s.Name)
	}
	for _, other := range c.Edges.AlertSenders {
		if other.Name == s.Name {
			e.refuseAll("give each sender its own name", "two senders are called %s", s.Name)
		}
	}
	for _, words := range [][]string{s.Fields.Resolved, s.Fields.Ignored} {
		for i := range words {
			words[i] = strings.ToLower(words[i])
		}
	}
}
