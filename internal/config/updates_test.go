package config

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

const updatedService = `repos_dir: /srv/repos
services:
  - name: jellyfin
    container: jellyfin
    compose: {repo: lab, file: compose.yml}
    probes: [{type: http, url: "http://127.0.0.1/"}]
    updates: `

func TestUpdatesAreRead(t *testing.T) {
	for text, want := range map[string]ops.Updates{
		`{schedule: "sun 04:00", watch: 5m}`: {Schedule: "sun 04:00", Watch: 5 * time.Minute},
		`{schedule: "0 4 * * 0"}`:            {Schedule: "0 4 * * 0"},
	} {
		c, _ := mustLoad(t, setup{yaml: updatedService + text + "\n"})
		inventory := c.Environments()[0].Policy.Inventory
		if got := inventory.Services[0].Updates; got != want {
			t.Errorf("%s: %+v", text, got)
		}
		if _, watch, not := inventory.Update("jellyfin"); not != "" || want.Watch == 0 && watch != ops.DefaultUpdateWatch {
			t.Errorf("%s: %s %s", text, watch, not)
		}
	}
}

func TestUpdatesThatCannotWorkAreRefused(t *testing.T) {
	for text, want := range map[string][]string{
		updatedService + `{schedule: "sunday at four"}`:    {"claudeops.yaml:7", "services[0].updates", "five fields of cron"},
		updatedService + `{watch: 48h}`:                    {"claudeops.yaml:7", "too long"},
		updatedService + `{watch: soon}`:                   {"services[0].updates.watch"},
		updatedService + `{every: 1h}`:                     {"services[0].updates.every"},
		"services:\n  - {name: web, updates: {watch: 5m}}": {"claudeops.yaml:2", "only a service with a compose file is updated"},
		"repos_dir: /srv/repos\nservices:\n  - {name: web, compose: {repo: lab, file: c.yml}, updates: {watch: 5m}}": {"claudeops.yaml:3", "no probe"},
	} {
		_, _, err := load(t, setup{yaml: text + "\n"})
		if err == nil {
			t.Errorf("%s is accepted", text)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not say %q", text, err, part)
			}
		}
	}
}
