package main_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// Each command prints the rows of the API, whether it reads the database or asks a server. A list is printed without its envelope.
func TestCommandsPrintTheRowsOfTheAPI(t *testing.T) {
	t.Parallel()
	b := gated(t)
	b.configured(`services:
  - name: web
    probes: [{type: command, command: "false", interval: 1h}]
    actions: [{name: fix, run: ["true"]}]
observe: agent
`)
	d := b.ready()
	d.until("the cycle waits", func() bool { c, ok := b.newest(); return ok && c.Cycle.Status == ops.CycleWaitingHuman })
	for _, words := range [][]string{
		{"memory", "add", "web needs its disk", "--service", "web"},
		{"silences", "add", "--service", "db", "--for", "2h", "--reason", "moving"},
		{"actions", "run", "web", "fix", "--why", "to be sure"},
	} {
		b.run(words...)
	}
	for command, path := range map[string]string{
		"sessions list": "/sessions", "sessions show 1": "/sessions/1", "sessions logs 1": "/sessions/1/transcript?limit=200",
		"cycles list": "/cycles", "cycles show 1": "/cycles/1",
		"incidents list": "/incidents?open=true", "approvals list": "/approvals?status=pending", "approvals show 1": "/approvals/1",
		"actions list": "/actions", "actions history": "/actions/runs", "actions show 1": "/actions/runs/1",
		"events": "/events", "services list": "/services", "services show web": "/services/web", "cooldowns list": "/cooldowns",
		"silences list": "/silences", "memory list": "/memories", "notify list": "/notifications", "hosts list": "/hosts", "costs": "/costs",
	} {
		t.Run(command, func(t *testing.T) {
			status, body := d.get("/api/v1" + path)
			if status != 200 {
				t.Fatalf("%s answers %d: %s", path, status, body)
			}
			want := rowsOf(t, body)
			if command == "sessions show 1" {
				_, guard := d.get("/api/v1/sessions/1/guard")
				want.(map[string]any)["guard_decisions"] = rowsOf(t, guard)
			}
			local := b.run(append(strings.Fields(command), "-o", "json")...)
			remote := b.runWith([]string{"CLAUDEOPS_API_TOKEN=" + d.token(), "CLAUDEOPS_SERVER=http://" + d.addr},
				append(strings.Fields(command), "-o", "json")...)
			for from, got := range map[string]ran{"the database": local, "the server": remote} {
				if got.code != 0 {
					t.Fatalf("from %s it exits %d: %s", from, got.code, got.stderr)
				}
				if rows := rowsOf(t, got.stdout); !reflect.DeepEqual(rows, want) {
					t.Errorf("from %s:\n%s\nthe API sends:\n%s", from, got.stdout, body)
				}
			}
		})
	}
}

// rowsOf reads JSON without the envelope of a list and without what changes from moment to moment.
func rowsOf(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if m, ok := v.(map[string]any); ok {
		delete(m, "$schema")
		if _, list := m["next_cursor"]; list {
			return m["items"]
		}
	}
	return v
}
