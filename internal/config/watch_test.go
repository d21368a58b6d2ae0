package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestEveryTypeOfProbeIsRead(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: `services:
  - name: all
    probes:
      - type: http
        name: front door
        url: https://example.org/
        headers: {Authorization: Bearer abcdefgh12345678, X-Plain: "1"}
        body: "{}"
        method: POST
        expect_regexp: "^ok"
        expect_json: ['$.status == "ok"', "$.n > 2"]
        cert_days: 14
        insecure_tls: true
        interval: 1m
        fail_after: 3
        recover_after: 1
      - {type: dns, host: example.org, record: MX, server: "192.0.2.1", expect: [10 mail.example.org]}
      - {type: container, container: web, fail_after: 3}
      - {type: postgres, url: "postgres://u@db/app", password_file: secret, query: SELECT 2, expect: "2"}
      - {type: mysql, url: "mysql://u@db/app", password: hunter22}
      - {type: redis, url: "rediss://cache", insecure_tls: true}
      - {type: systemd, unit: nginx.service}
`, files: map[string]string{"secret": "topsecret\n"}})
	want := []ops.ProbeSpec{
		{
			Type: "http", Name: "front door", URL: "https://example.org/", Headers: map[string]string{"Authorization": "Bearer abcdefgh12345678", "X-Plain": "1"},
			Body: "{}", Method: "POST", ExpectRegexp: "^ok", ExpectJSON: []string{`$.status == "ok"`, "$.n > 2"}, CertDays: 14, InsecureTLS: true,
			Interval: time.Minute, FailAfter: 3, RecoverAfter: 1,
		},
		{Type: "dns", Host: "example.org", Record: "MX", Server: "192.0.2.1", Expect: []string{"10 mail.example.org"}},
		{Type: "container", Container: "web", FailAfter: 3},
		{Type: "postgres", URL: "postgres://u@db/app", Password: "topsecret", Query: "SELECT 2", Expect: []string{"2"}},
		{Type: "mysql", URL: "mysql://u@db/app", Password: "hunter22"},
		{Type: "redis", URL: "rediss://cache", InsecureTLS: true},
		{Type: "systemd", Unit: "nginx.service"},
	}
	got := c.Environments()[0].Probes
	for i := range want {
		want[i].Service, want[i].Timeout = "all", 10*time.Second
		if i >= len(got) || !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("probe %d is %+v", i, got[i])
		}
	}
	for _, secret := range []string{"topsecret", "hunter22", "abcdefgh12345678"} {
		if !slices.Contains(c.Secrets, secret) {
			t.Errorf("%s is not removed from what is shown", secret)
		}
	}
}

func TestProbesThatWouldHaveOneNameAreToldApart(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "services: [{name: a, probes: [{type: http, url: 'http://a/'}, {type: http, url: 'http://a/', expect_status: 200}]}]\n"})
	got := c.Environments()[0].Probes
	if got[0].Name != "" || got[1].Name != "GET http://a/ (2)" {
		t.Errorf("names are %q and %q", got[0].Name, got[1].Name)
	}
}

func TestWatchingIsRead(t *testing.T) {
	const probes = "probes: [{type: tcp, address: 'a:1'}]"
	c, _ := mustLoad(t, setup{yaml: `interval: 20m
observe_every: 24h
grouping: {window: 1m, grace: 3m, pause: 15m}
maintenance: [{name: nightly, service: "db*", schedule: "sun 02:00 Europe/Berlin", length: 2h}]
services: [{name: a, settle: 45s, group: core, depends_on: [the-b], ` + probes + `}, {name: b, aliases: [the-b]}]
environments:
  - {name: default}
  - {name: both, observe: both, observe_every: 0, grouping: {window: 2m, repeat: 4h}, maintenance: []}
  - {name: bare, services: [], observe: probes}
`})
	envs := c.Environments()
	first := envs[0]
	if first.Policy.Observe != ops.ObserveProbes || first.Policy.ObserveEvery != 24*time.Hour {
		t.Errorf("observed by %s every %s", first.Policy.Observe, first.Policy.ObserveEvery)
	}
	want := ops.Watch{
		Grouping:    ops.Grouping{Window: time.Minute, Grace: 3 * time.Minute, Pause: 15 * time.Minute, Repeat: 20 * time.Minute},
		Maintenance: []ops.Maintenance{{Name: "nightly", Service: "db*", Schedule: "sun 02:00", Length: 2 * time.Hour, Zone: "Europe/Berlin"}},
	}
	if !reflect.DeepEqual(first.Watch, want) {
		t.Errorf("watched as %+v", first.Watch)
	}
	if s := first.Policy.Inventory.Services[0]; s.Group != "core" || s.Settle != 45*time.Second || !slices.Equal(s.DependsOn, []string{"b"}) {
		t.Errorf("service is %+v", s)
	}
	second := envs[1]
	want = ops.Watch{
		Grouping: ops.Grouping{Window: 2 * time.Minute, Grace: 3 * time.Minute, Pause: 15 * time.Minute, Repeat: 4 * time.Hour},
	}
	if second.Policy.Observe != ops.ObserveBoth || second.Policy.ObserveEvery != 0 || !reflect.DeepEqual(second.Watch, want) {
		t.Errorf("%s, watched as %+v", second.Policy.Observe, second.Watch)
	}
	if envs[2].Policy.Observe != ops.ObserveAgent {
		t.Error("without a probe an agent must look")
	}
}

func TestAServiceWithoutAProbeBesideOthersIsLookedAtOnceADay(t *testing.T) {
	const probed, bare = "{name: web, probes: [{type: tcp, address: 'a:1'}]}", "{name: db}"
	for _, c := range []struct {
		name, yaml string
		want       time.Duration
		unprobed   string
	}{
		{"all have probes", "services: [" + probed + "]\n", 0, "[]"},
		{"none has", "services: [" + bare + "]\n", 0, "[]"},
		{"one has none", "services: [" + probed + ", " + bare + "]\n", 24 * time.Hour, "[db]"},
		{"zero is zero", "observe_every: 0\nservices: [" + probed + ", " + bare + "]\n", 0, "[db]"},
		{"another time", "observe_every: 6h\nservices: [" + probed + ", " + bare + "]\n", 6 * time.Hour, "[db]"},
		{"an agent looks on schedule", "observe: both\nservices: [" + probed + ", " + bare + "]\n", 0, "[]"},
		{"zero of the environment", "services: [" + probed + ", " + bare + "]\nenvironments: [{name: default, observe_every: 0}]\n", 0, "[db]"},
		{
			"zero above, its own in the environment",
			"observe_every: 0\nservices: [" + probed + ", " + bare + "]\nenvironments: [{name: default, observe_every: 2h}]\n", 2 * time.Hour, "[db]",
		},
	} {
		cfg, _ := mustLoad(t, setup{yaml: c.yaml})
		p := cfg.Environments()[0].Policy
		if p.ObserveEvery != c.want || fmt.Sprint(p.Unprobed()) != c.unprobed {
			t.Errorf("%s: every %s, without a probe are %v", c.name, p.ObserveEvery, p.Unprobed())
		}
	}
}

func TestNoticeRoutesAreReadAndKeptSecret(t *testing.T) {
	c, _ := mustLoad(t, setup{
		yaml: `notify:
  routes:
    - {name: night, level: critical, urls_file: pager}
    - {name: media, services: ["arr-*"], kinds: [opened, resolved], urls: ["discord://averyveryverylongtoken/x"]}
    - {name: quiet, kinds: [budget], urls: []}
`, files: map[string]string{"pager": "json://one json://two\n"},
	})
	want := []ops.NoticeRoute{
		{Name: "night", Level: ops.LevelCritical, URLs: []string{"json://one", "json://two"}},
		{Name: "media", Services: []string{"arr-*"}, Kinds: []ops.NoticeKind{"opened", "resolved"}, URLs: []string{"discord://averyveryverylongtoken/x"}},
		{Name: "quiet", Kinds: []ops.NoticeKind{"budget"}, URLs: []string{}},
	}
	if !reflect.DeepEqual(c.NoticeRoutes, want) {
		t.Errorf("routes are %+v", c.NoticeRoutes)
	}
	if !slices.Contains(c.Secrets, "averyveryverylongtoken") {
		t.Error("a target's token is shown")
	}
	if got := shown(c, "notify.routes").Value; got != "night,media,quiet" {
		t.Errorf("shown as %q", got)
	}
}

func TestARouteSaysWhen(t *testing.T) {
	c, _ := mustLoad(t, setup{
		yaml: `notify:
  telegram_senders: [42, 43]
  telegram_responders: [44]
  routes:
    - {name: night, quiet_hours: "22:00-7:30 Europe/Berlin"}
    - {name: day, quiet_hours: 12:00-13:00, urls: ["json://x"]}
`,
	})
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
	want := []ops.NoticeRoute{
		{
			Name: "night", Default: true,
			Quiet: &ops.QuietHours{From: 22 * time.Hour, To: 7*time.Hour + 30*time.Minute, Zone: berlin},
		},
		{Name: "day", URLs: []string{"json://x"}, Quiet: &ops.QuietHours{From: 12 * time.Hour, To: 13 * time.Hour, Zone: time.UTC}},
	}
	if !reflect.DeepEqual(c.NoticeRoutes, want) {
		t.Errorf("routes are %+v", c.NoticeRoutes)
	}
	if !slices.Equal(c.Edges.TelegramSenders, []int64{42, 43}) || !slices.Equal(c.Edges.TelegramResponders, []int64{44}) || c.Edges.ApproveByNtfy {
		t.Errorf("edges are %+v", c.Edges)
	}
}

func TestBadWatchingIsReported(t *testing.T) {
	probe := func(text string) string { return "services: [{name: a, probes: [{" + text + "}]}]\n" }
	refuses(t, []mistake{
		{"regexp", probe("type: http, url: 'http://a', expect_regexp: '('"), "services[0].probes[0]", "expect_regexp"},
		{"condition", probe("type: http, url: 'http://a', expect_json: ['status']"), "services[0].probes[0]", "start with $"},
		{"headers", probe("type: http, url: 'http://a', headers: [a]"), "services[0].probes[0].headers", "names and values"},
		{"record", probe("type: dns, host: a, record: AA"), "services[0].probes[0].record", "did you mean"},
		{"database", probe("type: redis, url: 'http://a'"), "services[0].probes[0]", "redis://"},
		{"password file", probe("type: redis, url: 'redis://a', password_file: none"), "services[0].probes[0].password_file", "no such file"},
		{"field of another", probe("type: systemd, unit: a, container: b"), "services[0].probes[0].container", "has no container"},
		{"unknown dependency", "services: [{name: web, depends_on: [bd]}, {name: db}]\n", "services[0].depends_on[0]", "did you mean"},
		{"circle", "services: [{name: a, depends_on: [b]}, {name: b, depends_on: [a]}]\n", "services", "depend on each other"},
		{"observe", "observe: probe\n", "observe", "did you mean probes?"},
		{"maintenance", "maintenance: [{name: a, schedule: 'sun 02:00'}]\n", "maintenance[0]", "length is missing"},
		{"zone", "maintenance: [{name: a, schedule: '02:00 Mars/Base', length: 1h}]\n", "maintenance[0]", "time zone"},
		{"both", "maintenance: [{name: a, schedule: '02:00', from: 2026-01-01T00:00:00Z, length: 1h}]\n", "maintenance[0]", "not both"},
		{"moment", "maintenance: [{name: a, from: soon, length: 1h}]\n", "maintenance[0].from", "is not a time"},
		{"grouping", "environments: [{name: a, grouping: {windw: 1m}}]\n", "environments[0].grouping.windw", "did you mean"},
		{"route without target", "notify: {routes: [{name: a}]}\n", "notify.routes[0]", "has no targets"},
		{"route kind", "notify: {routes: [{name: a, kinds: [opened, escaladed], urls: []}]}\n", "notify.routes[0].kinds", "did you mean escalated?"},
		{"quiet hours", "notify: {routes: [{name: a, quiet_hours: at night}]}\n", "notify.routes[0].quiet_hours", "22:00-07:00"},
		{"quiet hours without end", "notify: {routes: [{name: a, quiet_hours: '22:00-22:00'}]}\n", "notify.routes[0].quiet_hours", "begins when it ends"},
		{"zone of a route", "notify: {routes: [{name: a, quiet_hours: '22:00-07:00 Mars'}]}\n", "notify.routes[0].quiet_hours", "not a time zone"},
		{"sender", "notify: {telegram_senders: [alice]}\n", "notify.telegram_senders", "not the id of a user"},
		{"route level", "notify: {routes: [{name: a, level: bad, urls: []}]}\n", "notify.routes[0].level", "not a level"},
	})
}

func TestAnEscalationIsToldOnlyWhereARouteNamesIt(t *testing.T) {
	const environments = "environments: [{name: home}, {name: lab}]\n"
	for _, tc := range []struct {
		name, route string
		want        bool
	}{
		{"no kinds", `{name: all, urls: ["json://a"]}`, false},
		{"other kinds", `{name: a, kinds: [opened], urls: ["json://a"]}`, false},
		{"named", `{name: a, kinds: [opened, escalated], urls: ["json://a"]}`, true},
		{"named for nobody", `{name: a, kinds: [escalated], urls: []}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := mustLoad(t, setup{yaml: environments + "notify: {routes: [" + tc.route + "]}\n"})
			for _, e := range c.Environments() {
				if e.Policy.TellEscalated != tc.want {
					t.Errorf("told in %s: %t", e.Name, e.Policy.TellEscalated)
				}
			}
		})
	}
}

func TestSendersOfAlerts(t *testing.T) {
	c, _ := mustLoad(t, setup{
		yaml: `webhooks:
  senders:
    - {name: sentry, secret_file: path}
    - {name: prod, form: alertmanager, secret: another-secret-of-a-sender}
`, files: map[string]string{"path": "the-secret-path-of-sentry\n"},
	})
	got := c.Edges.AlertSenders
	if len(got) != 2 || got[0].Form != "generic" || got[0].Secret != "the-secret-path-of-sentry" || got[1].Form != "alertmanager" {
		t.Errorf("%+v", got)
	}
	if !slices.Contains(c.Secrets, "the-secret-path-of-sentry") || !slices.Contains(c.Secrets, "another-secret-of-a-sender") {
		t.Error("a secret path is not removed from what is stored")
	}
	for _, s := range c.Show() {
		if strings.Contains(s.Value, "secret") {
			t.Errorf("%s shows %s", s.Key, s.Value)
		}
	}
}

func TestSendersThatCannotWorkAreRefused(t *testing.T) {
	for _, tc := range []struct{ senders, want string }{
		{`[{name: generic}]`, "is the address of everybody"},
		{`[{name: Sentry!}]`, "not a name of a sender"},
		{`[{name: a, secret: short}]`, "secret of the sender is too short"},
		{`[{name: a}, {name: a}]`, "two senders are called a"},
		{`[{name: a, form: nagios}]`, "nagios"},
	} {
		_, _, err := load(t, setup{yaml: "webhooks:\n  senders: " + tc.senders + "\n"})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.senders, err)
		}
	}
}
