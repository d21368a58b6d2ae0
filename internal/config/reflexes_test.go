package config

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

const reflexService = `services:
  - name: jellyfin
    container: jellyfin
    probes: [{type: http, url: "http://127.0.0.1/"}]
    reflexes:
      - `

func TestAReflexIsRead(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: reflexService + "{on: http, status: down, for: 60s, do: [restart], tries: 3, per: 2h}\n      - {on: http, status: degraded, do: [start]}\n"})
	got := c.Environments()[0].Policy.Inventory.Reflexes("jellyfin")
	if len(got) != 2 || got[0].For != time.Minute || got[0].Tries != 3 || got[0].Per != 2*time.Hour || got[0].Status != ops.Down ||
		got[1].Tries != ops.ReflexTries || got[1].Per != ops.ReflexPer || got[1].Status != ops.Degraded || got[1].For != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAReflexThatCannotWorkIsRefused(t *testing.T) {
	for entry, want := range map[string][]string{
		"{on: http, do: [reboot]}":               {"claudeops.yaml:6", "services[0].reflexes[0].do[0]", `no action "reboot"`, "restart, start, stop"},
		"{on: htp, do: [restart]}":               {"claudeops.yaml:6", "services[0].reflexes[0].on", "http"},
		"{on: tcp, do: [restart]}":               {"claudeops.yaml:6", "services[0].reflexes[0].on", "no probe of type tcp"},
		"{do: [restart]}":                        {"which probe"},
		"{on: http}":                             {"what to do"},
		"{on: http, do: []}":                     {"do"},
		"{on: http, do: [restart], status: red}": {"status"},
		"{on: http, do: [restart], per: 200h}":   {"168h"},
		"{on: http, do: [restart], tries: 0}":    {"tries"},
		"{on: http, do: [restart]}\n      - {on: http, do: [restart], for: 1m}": {"twice"},
	} {
		_, _, err := load(t, setup{yaml: reflexService + entry + "\n"})
		if err == nil {
			t.Errorf("%s is accepted", entry)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not say %q", entry, err, part)
			}
		}
	}
}
