package config

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

const serviceList = `- name: web
  aliases: [nginx, www]
  probes:
    - {type: http, url: "http://127.0.0.1:1/health", method: head, expect_status: [200, 204], expect_body: ok, timeout: 2, slow_after: 500ms}
    - {type: http, url: "http://127.0.0.1:1/", expect_status: 301}
- name: db
  probes:
    - {type: tcp, address: "127.0.0.1:5432"}
    - {type: command, command: [pg_isready, -q]}
    - {type: command, command: "pg_isready | grep ok"}
- name: cron
`

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n    ") + "\n"
}

func TestServicesAreReadInBothForms(t *testing.T) {
	probes := []ops.ProbeSpec{
		{
			Service: "web", Type: "http", URL: "http://127.0.0.1:1/health", Method: "HEAD", ExpectStatus: []int{200, 204}, ExpectBody: "ok",
			Timeout: 2 * time.Second, SlowAfter: 500 * time.Millisecond,
		},
		{Service: "web", Type: "http", URL: "http://127.0.0.1:1/", Method: "GET", ExpectStatus: []int{301}, Timeout: 10 * time.Second},
		{Service: "db", Type: "tcp", Address: "127.0.0.1:5432", Timeout: 10 * time.Second},
		{Service: "db", Type: "command", Command: []string{"pg_isready", "-q"}, Timeout: 10 * time.Second},
		{Service: "db", Type: "command", Command: []string{"/bin/sh", "-c", "pg_isready | grep ok"}, Timeout: 10 * time.Second},
	}
	services := []ops.Service{
		{Name: "web", Aliases: []string{"nginx", "www"}, Probed: true},
		{Name: "db", Probed: true},
		{Name: "cron"},
	}
	for _, tc := range []struct {
		name   string
		yaml   string
		strict bool
	}{
		{"plain list", "services:\n" + indent(serviceList), false},
		{"mapping", "services:\n  list:\n" + indent(serviceList), false},
		{"strict mapping", "services:\n  strict: true\n  list:\n" + indent(serviceList), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := mustLoad(t, setup{yaml: tc.yaml})
			env := c.Environments()[0]
			if !reflect.DeepEqual(env.Probes, probes) {
				t.Errorf("probes are %+v", env.Probes)
			}
			if want := (ops.Inventory{Services: services, Strict: tc.strict}); !reflect.DeepEqual(env.Policy.Inventory, want) {
				t.Errorf("inventory is %+v", env.Policy.Inventory)
			}
			if got := shown(c, "services"); got.Value != "web,db,cron" || got.Origin != "claudeops.yaml:1" {
				t.Errorf("services are shown as %+v", got)
			}
		})
	}
}

func TestBadServiceIsReported(t *testing.T) {
	probe := func(text string) string { return "services: [{name: a, probes: [{" + text + "}]}]\n" }
	for _, tc := range []struct{ name, yaml, key, text string }{
		{"no name", "services: [{aliases: [b]}]\n", "services[0]", "has no name"},
		{"empty name", "services: [{name: ''}]\n", "services[0].name", "empty"},
		{"no object", "services: [web]\n", "services[0]", "keys and values"},
		{"no list", "services: web\n", "services", "a list"},
		{"same name", "services: [{name: a}, {name: a}]\n", "services[1].name", "already names the service a"},
		{"alias is a name", "services: [{name: a}, {name: b, aliases: [a]}]\n", "services[1].aliases[0]", "already names the service a"},
		{"name is an alias", "services: [{aliases: [b], name: a}, {name: b}]\n", "services[1].name", "already names the service a"},
		{"own alias", "services: [{name: a, aliases: [a]}]\n", "services[0].aliases[0]", "given twice"},
		{"strict", "services: {strict: perhaps, list: []}\n", "services.strict", "true or false"},
		{"list form key", "services: {list: [{name: ''}]}\n", "services.list[0].name", "empty"},
		{"no type", probe("url: 'http://a'"), "services[0].probes[0]", "has no type"},
		{"unknown type", probe("type: htp, url: 'http://a'"), "services[0].probes[0].type", "did you mean http?"},
		{"http without url", probe("type: http"), "services[0].probes[0]", "needs url"},
		{"tcp without address", probe("type: tcp"), "services[0].probes[0]", "needs address"},
		{"command without one", probe("type: command"), "services[0].probes[0]", "needs command"},
		{"empty command", probe("type: command, command: []"), "services[0].probes[0].command", "list is empty"},
		{"url", probe("type: http, url: 'a b'"), "services[0].probes[0].url", "http or https"},
		{"method", probe("type: http, url: 'http://a', method: DELETE"), "services[0].probes[0].method", "GET, HEAD"},
		{"status", probe("type: http, url: 'http://a', expect_status: [200, 999]"), "services[0].probes[0].expect_status", "100 to 599"},
		{"address", probe("type: tcp, address: db"), "services[0].probes[0].address", "host:port"},
		{"timeout", probe("type: tcp, address: 'db:1', timeout: 0"), "services[0].probes[0].timeout", "above zero"},
		{"slow after timeout", probe("type: tcp, address: 'db:1', timeout: 1s, slow_after: 2s"), "services[0].probes[0].slow_after", "below the timeout"},
		{"heartbeat of another type", probe("type: tcp, address: 'db:1', every: 1h"), "services[0].probes[0].every", "has no every"},
		{"field of another type", probe("type: tcp, address: 'db:1', url: 'http://a'"), "services[0].probes[0].url", "has no url"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := load(t, setup{yaml: tc.yaml})
			got := problems(t, err)
			if len(got) != 1 || got[0].Key != tc.key || !strings.Contains(got[0].String(), tc.text) || !strings.HasPrefix(got[0].Where, "claudeops.yaml:1:") {
				t.Errorf("got %v\nwant %s … %s", err, tc.key, tc.text)
			}
		})
	}
}

func TestAHeartbeatCountsByItsFirstResult(t *testing.T) {
	c, _, err := load(t, setup{yaml: `services:
  - name: backup
    probes: [{type: heartbeat, every: 24h}, {type: heartbeat, name: weekly, schedule: "sun 02:00", zone: Europe/Berlin, grace: 30m, fail_after: 2}]
`})
	must(t, err)
	want := []ops.ProbeSpec{
		{
			Service: "backup", Type: "heartbeat", Name: "heartbeat", Every: 24 * time.Hour, Grace: time.Hour, Interval: time.Hour,
			Timeout: 10 * time.Second, FailAfter: 1, RecoverAfter: 1,
		},
		{
			Service: "backup", Type: "heartbeat", Name: "weekly", Schedule: "sun 02:00", Zone: "Europe/Berlin", Grace: 30 * time.Minute, Interval: time.Hour,
			Timeout: 10 * time.Second, FailAfter: 2, RecoverAfter: 1,
		},
	}
	if got := c.Environments()[0].Probes; !reflect.DeepEqual(got, want) {
		t.Errorf("probes are %+v", got)
	}
}

// A large inventory leaves only settings behind, and an entry makes no table for a list that it does not have.
func TestALargeInventoryIsCheap(t *testing.T) {
	const services = 200
	var y strings.Builder
	y.WriteString("services:\n")
	for i := range services {
		fmt.Fprintf(&y, "  - name: s%d\n    probes: [{type: http, url: \"http://127.0.0.1:1/\"}]\n", i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, _ := mustLoad(t, setup{yaml: y.String()})
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / services; each > 100_000 {
		t.Errorf("a service with a probe takes %d bytes to read", each)
	}
	for key := range c.origins {
		if strings.Contains(key, "[") {
			t.Fatalf("the origin of %s is kept", key)
		}
	}
}
