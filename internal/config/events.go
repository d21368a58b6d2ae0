package config

import (
	"strings"
)

// EventTarget is an entry of events.targets: a program that is told what happens.
type EventTarget struct {
	Name        string
	URL         string
	Secret      string
	Kinds       []string
	Environment string

	held string // the text of the file that holds the secret
}

func eventTargetFields(t *EventTarget) []field {
	one := choiceKind("a kind of event", "cycle", "incident", "approval", "action")
	return []field{
		value("name", &t.Name, textKind(), "Name of the target. A target with a new name gets the events from then on.").must(),
		value("url", &t.URL, webURLKind(), "Address to which events are sent by POST. Redirects are not followed.").must(),
		value("secret", &t.Secret, tokenKind(),
			"Key with which each event is signed (HMAC SHA-256), at least 20 characters; `whsec_…` is decoded from Base64.").orElse("not signed"),
		value("secret_file", &t.held, fileKind(), "File that holds the key."),
		value("kinds", &t.Kinds, listOf("list of "+one.name, strings.Fields, one), "Kinds of events that are sent.").orElse("all"),
		value("environment", &t.Environment, textKind(), "Environment whose events are sent.").orElse("all"),
	}
}

func (c *Config) finishEventTarget(e *entry, t *EventTarget) {
	if t.held != "" {
		t.Secret = t.held
	}
	if t.Secret != "" && len(t.Secret) < ShortestToken {
		e.refuseAll("give a key of at least 20 characters, for example from: openssl rand -hex 20", "the key of the target is too short")
	}
	for _, other := range c.EventTargets {
		if other.Name == t.Name {
			e.refuseAll("give each target its own name", "two targets are called %s", t.Name)
		}
	}
}
