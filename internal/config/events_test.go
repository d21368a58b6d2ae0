package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestEventTargets(t *testing.T) {
	c, _ := mustLoad(t, setup{
		yaml: `events:
  targets:
    - {name: n8n, url: "https://user:verysecretword@n8n.example.org/hook", secret_file: key}
    - {name: ledger, url: "http://127.0.0.1:9000/events", kinds: [action, approval], environment: home, secret: another-secret-of-this-test}
`, files: map[string]string{"key": "a-secret-of-twenty-characters\n"},
	})
	got := make([]EventTarget, len(c.EventTargets))
	for i, x := range c.EventTargets {
		got[i] = EventTarget{Name: x.Name, URL: x.URL, Secret: x.Secret, Kinds: x.Kinds, Environment: x.Environment}
	}
	want := []EventTarget{
		{Name: "n8n", URL: "https://user:verysecretword@n8n.example.org/hook", Secret: "a-secret-of-twenty-characters"},
		{Name: "ledger", URL: "http://127.0.0.1:9000/events", Secret: "another-secret-of-this-test", Kinds: []string{"action", "approval"}, Environment: "home"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("targets are %+v", got)
	}
	for _, secret := range []string{"a-secret-of-twenty-characters", "another-secret-of-this-test", "verysecretword"} {
		if !slices.Contains(c.Secrets, secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	if got := shown(c, "events.targets").Value; got != "n8n,ledger" {
		t.Errorf("shown as %q", got)
	}
}

func TestBadEventTargetsAreReported(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, key, text string }{
		"no address":   {"events: {targets: [{name: a}]}\n", "events.targets[0]", "url"},
		"no web page":  {"events: {targets: [{name: a, url: 'ftp://a'}]}\n", "events.targets[0].url", "not an http or https URL"},
		"a short key":  {"events: {targets: [{name: a, url: 'http://a', secret: short}]}\n", "events.targets[0]", "too short"},
		"a kind":       {"events: {targets: [{name: a, url: 'http://a', kinds: [cycel]}]}\n", "events.targets[0].kinds", "did you mean cycle?"},
		"twice":        {"events: {targets: [{name: a, url: 'http://a'}, {name: a, url: 'http://b'}]}\n", "events.targets[1]", "two targets are called a"},
		"another word": {"web: {mcp: full}\n", "web.mcp", "give off, read or write"},
	} {
		_, _, err := load(t, setup{yaml: tc.yaml})
		got := problems(t, err)
		if len(got) != 1 || got[0].Key != tc.key || !strings.Contains(got[0].String(), tc.text) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
