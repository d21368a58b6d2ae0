package config

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

const serviceList = `- name: web
  aliases: [nginx, www]
  probes:
    - {type: http, url: "http://127.0.0.1:1/health", method: HEAD, expect_status: [200, 204], expect_body: ok, timeout: 2, slow_after: 500ms}
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

const databaseProbes = `    probes:
      - {type: postgres, url: "postgres://monitor@127.0.0.1/app"}
      - {type: redis, url: "redis://127.0.0.1"}
`

func TestQueriesAreRead(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "services:\n  - name: db\n" + databaseProbes + `    queries:
      - {name: order, run: "SELECT n::text, ':no' FROM orders WHERE id = :id AND note = :note;", params: {note: text, id: integer}}
      - {name: memory, run: [INFO, memory]}
      - {name: ping, run: [PING]}
      - name: value
        run: [GET, ":key"]
        params: {key: text}
`})
	services := c.Environments()[0].Policy.Inventory.Services
	want := []string{"db order id=INTEGER note=TEXT", "db memory", "db ping", "db value key=TEXT"}
	if got := ops.QueryForms(services); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	got, err := services[0].Queries[0].Bind(func(name string) string { return "<" + name + ">" })
	if err != nil || got[0] != "SELECT n::text, ':no' FROM orders WHERE id = <id> AND note = <note>" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestABadQueryIsReportedWithItsLineAndFix(t *testing.T) {
	for _, tc := range []struct{ query, key, text, fix string }{
		{`{run: "SELECT 1"}`, "", "has no name", "add name"},
		{`{name: "a b", run: "SELECT 1"}`, ".name", "not a name for a query", "small letters"},
		{`{name: a}`, "", "does not say what to run", "add run"},
		{`{name: a, run: ""}`, ".run", "empty", "give a value"},
		{`{name: a, run: []}`, ".run", "empty", "[INFO, memory]"},
		{`{name: a, run: "DELETE FROM orders"}`, ".run", "DELETE does not only read", "begin with SELECT"},
		{`{name: a, run: "COPY orders TO PROGRAM 'id'"}`, ".run", "COPY does not only read", "begin with SELECT"},
		{`{name: a, run: "/*! DROP TABLE orders */"}`, ".run", "does not only read", "begin with SELECT"},
		{`{name: a, run: "SELECT 1; DROP TABLE orders"}`, ".run", "more than one statement", "one statement"},
		{`{name: a, run: "SELECT 'it''s;"}`, ".run", "a quote is not closed", "written twice"},
		{`{name: a, run: "INFO memory"}`, ".run", "INFO does not only read", "as a list of words"},
		{`{name: a, run: [FLUSHALL]}`, ".run", "FLUSHALL is not on the list", "[INFO, memory]"},
		{`{name: a, run: [EVAL, "return 1", 0]}`, ".run", "is not on the list", "[INFO, memory]"},
		{`{name: a, run: [CONFIG, GET, requirepass]}`, ".run", "is not on the list", "[INFO, memory]"},
		{`{name: a, run: [":c", x], params: {c: text}}`, ".run", "is not on the list", ""},
		{`{name: a, run: "SELECT :id"}`, ".run", "the parameter :id is not declared", "add id: text or id: integer to params"},
		{`{name: a, run: "SELECT 1 ", params: {id: text}}`, ".params", "does not use the parameter id", "write :id in run"},
		{`{name: a, run: "SELECT ':id'", params: {id: text}}`, ".params", "does not use the parameter id", "write :id in run"},
		{`{name: a, run: "SELECT :id", params: {id: float}}`, ".params", `"float" is not a type of parameter id`, "integer or text"},
		{`{name: a, run: "SELECT :id", params: [id]}`, ".params", "expected names and values", ""},
		{`{name: twice, run: "SELECT 1"}`, ".name", "the query twice is given twice", "a name of its own"},
		{`{name: a, run: "SELECT 1", parms: {}}`, ".parms", "unknown", "params"},
	} {
		yaml := "services:\n  - name: db\n" + databaseProbes + "    queries:\n      - {name: twice, run: [PING]}\n      - " + tc.query + "\n"
		_, _, err := load(t, setup{yaml: yaml})
		found := problems(t, err)[0]
		if found.Key != "services[0].queries[1]"+tc.key || !strings.Contains(found.Message, tc.text) || !strings.Contains(found.Fix, tc.fix) ||
			!strings.HasPrefix(found.Where, "claudeops.yaml:8:") {
			t.Errorf("%s: %s", tc.query, found)
		}
	}
	for _, run := range []string{`"SELECT 1"`, "[PING]"} {
		_, _, err := load(t, setup{yaml: "services:\n  - name: db\n    probes: [{type: tcp, address: 'a:1'}]\n    queries: [{name: a, run: " + run + "}]\n"})
		found := problems(t, err)
		if len(found) != 1 || found[0].Key != "services[0].queries[0]" || !strings.Contains(found[0].Fix, "add a probe of type postgres or mysql") {
			t.Errorf("%s: %v", run, err)
		}
	}
}

func TestBadServiceIsReported(t *testing.T) {
	probe := func(text string) string { return "services: [{name: a, probes: [{" + text + "}]}]\n" }
	refuses(t, []mistake{
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
	})
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

const withActions = `repos_dir: /srv/repos
services:
  - name: jellyfin
    container: jellyfin
    compose: {repo: homelab, file: media/compose.yml, project: media}
    actions:
      - {name: clear-cache, run: [rm, -r, /srv/cache], cooldown: {count: 2, per: 4h}, timeout: 60s}
      - {name: rollback, tier: 3, run: [/srv/bin/deploy, "{{previous}}"], undo: [/srv/bin/deploy, "{{current}}"], approval: true}
      - {name: stop, approval: true}
      - {name: start, off: true}
      - {name: propose, push: "git@example.org:me/homelab.git", repo: homelab}
  - name: cron
    probes: [{type: systemd, unit: cron.service}]
  - name: plain
    probes: [{type: http, url: "http://127.0.0.1/"}]
`

func TestAServiceHasItsBuiltInAndDeclaredActions(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: withActions})
	services := c.Environments()[0].Policy.Inventory
	names := func(service string) string {
		for _, s := range services.Services {
			if s.Name == service {
				return listOr(s.Actions, "")
			}
		}
		return "?"
	}
	for service, want := range map[string]string{
		"jellyfin": "restart, stop, redeploy, apply, clear-cache, rollback, propose", "cron": "restart, start, stop", "plain": "",
	} {
		if got := names(service); got != want {
			t.Errorf("%s has %q, want %q", service, got, want)
		}
	}
	if off := services.Services[0].Off; len(off) != 1 || off[0] != "start" {
		t.Errorf("turned off: %q", off)
	}
	own, _ := services.Action("jellyfin", "clear-cache")
	want := ops.CooldownLimit{Service: "jellyfin", Action: "clear-cache", Count: 2, Window: 4 * time.Hour}
	if own.Kind != ops.ActionCommand || own.Tier != ops.Tier2 || own.Limit != want || own.Counts != "clear-cache" || own.Timeout != time.Minute {
		t.Errorf("clear-cache is %+v", own)
	}
	restart, _ := services.Action("jellyfin", "restart")
	if restart.Tier != ops.Tier2 || restart.Counts != ops.CountsRestart || restart.Container != "jellyfin" {
		t.Errorf("restart is %+v", restart)
	}
	if stop, _ := services.Action("jellyfin", "stop"); !stop.Approval || stop.Tier != ops.Tier3 || stop.Counts != ops.CountsRedeployment {
		t.Errorf("stop is %+v", stop)
	}
	if back, _ := services.Action("jellyfin", "rollback"); back.Counts != ops.CountsRedeployment || !back.Undoable() || !back.Approval {
		t.Errorf("rollback is %+v", back)
	}
	if unit, _ := services.Action("cron", "restart"); unit.Unit != "cron.service" || unit.Container != "" {
		t.Errorf("restart of a unit is %+v", unit)
	}
	if push, _ := services.Action("jellyfin", "propose"); push.Kind != ops.ActionPush || push.Prefix != "claudeops/" {
		t.Errorf("propose is %+v", push)
	}
}

func TestAnActionThatCannotWorkIsRefusedAtStart(t *testing.T) {
	for name, c := range map[string]struct{ entry, says string }{
		"no name":             {`{run: [true]}`, "no name"},
		"name like an option": {`{name: -x, run: [true]}`, "not a name for an action"},
		"nothing to run":      {`{name: fix}`, "does not say what it runs"},
		"two ways":            {`{name: fix, run: [true], push: /srv/r.git, repo: r}`, "more than one of"},
		"no repository":       {`{name: fix, push: /srv/r.git}`, "names no repository"},
		"nothing of a repo":   {`{name: restart, repo: r}`, "only a program or a push"},
		"repo with a slash":   {`{name: fix, run: [make], repo: ../r}`, "not a folder name"},
		"tier 1":              {`{name: fix, tier: 1, run: [true]}`, "tier"},
		"built in":            {`{name: restart, run: [true]}`, "is a built-in action"},
		"lower tier":          {`{name: stop, tier: 2}`, "needs a higher tier"},
		"placeholder":         {`{name: fix, run: [echo, "{{secret}}"]}`, "is not known"},
		"empty":               {`{name: fix, run: []}`, "empty"},
		"option as program":   {`{name: fix, run: [--help]}`, "looks like an option"},
		"too long":            {`{name: fix, run: [true], timeout: 31m}`, "too long"},
		"where agents write":  {`{name: fix, run: [/srv/repos/r/fix.sh]}`, "where agents write"},
		"undo in the clone":   {`{name: fix, run: [true], undo: [/srv/repos/r/fix.sh]}`, "where agents write"},
		"remote helper":       {`{name: fix, push: "ext::sh -c id", repo: r}`, "not the address of a repository"},
		"cooldown":            {`{name: fix, run: [true], cooldown: {count: 2}}`, "per is missing"},
		"unknown key":         {`{name: fix, run: [true], shell: x}`, "shell"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := load(t, setup{yaml: "repos_dir: /srv/repos\nservices:\n  - name: web\n    container: web\n    actions:\n      - " + c.entry + "\n"})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q", err, c.says)
			}
			if !strings.Contains(err.Error(), "claudeops.yaml:") {
				t.Errorf("%v names no line", err)
			}
		})
	}
}

func TestAServiceHasAContainerOrAUnit(t *testing.T) {
	_, _, err := load(t, setup{yaml: "services: [{name: web, container: web, unit: web.service}]\n"})
	if err == nil || !strings.Contains(err.Error(), "not both") {
		t.Error(err)
	}
	_, _, err = load(t, setup{yaml: "services: [{name: web, compose: {repo: r, file: c.yml}}]\n"})
	if err == nil || !strings.Contains(err.Error(), "repos_dir") {
		t.Error(err)
	}
}

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
		_, not := inventory.Update("jellyfin")
		if watch := inventory.Watched("jellyfin"); not != "" || watch != cmp.Or(want.Watch, ops.UpdateWatch) {
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
