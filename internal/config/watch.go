package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

// Edges is what the world outside may tell us, and hears of us.
type Edges struct {
	WebhookSecret string
	AlertsExpire  time.Duration
	SecondURLs    []string
	PublicURL     string
	DeadManMissed int
	PingURL       string
}

func (c *Config) edges() Edges {
	k := c.values
	return Edges{
		WebhookSecret: get[string](k, "webhooks.secret"), AlertsExpire: get[time.Duration](k, "webhooks.expire"),
		SecondURLs: get[[]string](k, "notify.second_urls"), PublicURL: strings.TrimRight(get[string](k, "web.public_url"), "/"),
		DeadManMissed: get[int](k, "deadman.missed"), PingURL: get[string](k, "deadman.ping_url"),
	}
}

func observeKind() kind {
	return choiceKind("a way to observe", string(ops.ObserveAgent), string(ops.ObserveProbes), string(ops.ObserveBoth))
}

func watchSettings() []setting {
	return []setting{
		{
			key: "observe", env: "CLAUDEOPS_OBSERVE", kind: observeKind(), shown: "`probes` where a probe is configured, else `agent`",
			doc: "Who looks. `probes`: probes run all the time, and an agent is started for what they find only. `agent`: Tier 1 looks at every interval. `both`.",
		},
		{
			key: "observe_every", def: "0", kind: waitKind(),
			doc: "With `observe: probes`, an agent also looks when none has for so long; 0 means never.",
		},
		{
			key: "tolerate_degraded", def: "false", kind: boolKind(),
			doc: "Degraded results count as good ones.",
		},
		{
			key: "grouping.window", def: "30s", kind: durationKind(time.Second),
			doc: "How long a failure waits for others that have the same cause. They start one cycle.",
		},
		{
			key: "grouping.grace", def: "2m", kind: durationKind(time.Second),
			doc: "How long a service may take to follow a dependency that recovered.",
		},
		{
			key: "grouping.pause", def: "10m", kind: durationKind(time.Second),
			doc: "Shortest time between two cycles for a service that fails again.",
		},
		{
			key: "grouping.repeat", kind: waitKind(), shown: "`interval` with `observe: probes`, else 0",
			doc: "After which a service that is still bad starts another cycle, unless a human has it; 0 means never.",
		},
		{
			key: "flapping.turns", def: "6", kind: wholeKind(0, 1000),
			doc: "A check that turns between good and bad so often within `flapping.window` is flapping and starts nothing; 0 means never.",
		},
		{
			key: "flapping.window", def: "30m", kind: durationKind(time.Second),
			doc: "The time within which turns are counted.",
		},
		{
			key: "flapping.calm", def: "10m", kind: durationKind(time.Second),
			doc: "How long a flapping check must be steady to count again.",
		},
		{
			key: "maintenance", structured: true, kind: kind{name: "list"},
			doc: "Times in which what fails starts nothing. See [Watching](#watching-in-detail).",
		},
		{
			key: "deadman.missed", def: "3", kind: wholeKind(0, 1000),
			doc: "So many intervals without a finished cycle raise an event and a notice; 0 turns it off.",
		},
		{
			key: "deadman.ping_url", env: "CLAUDEOPS_PING_URL", kind: webURLKind(), secret: true,
			doc: "Address that is requested after each finished cycle, for a watcher outside that notices when this stops.",
		},
		{
			key: "webhooks.secret", env: "CLAUDEOPS_WEBHOOK_SECRET", kind: tokenKind(), secret: true,
			doc: "Senders may sign the body with it (HMAC SHA-256 in `X-Hub-Signature-256`) instead of sending `api_token`. See [webhooks.md](webhooks.md).",
		},
		{
			key: "webhooks.expire", def: "24h", kind: waitKind(),
			doc: "An alert that nobody repeats for so long is over; 0 means never.",
		},
	}
}

func maintenanceFields() []field {
	return []field{
		{name: "name", doc: "What it is called. Required."},
		{name: "service", def: "all", doc: "Which services; `*` stands for any text."},
		{name: "group", def: "all", doc: "Which groups; `*` stands for any text."},
		{name: "probe", def: "all", doc: "Which probes; `*` stands for any text."},
		{name: "from", doc: "When it begins, such as `2026-03-14T22:00:00Z`. With `until`."},
		{name: "until", doc: "When it ends."},
		{name: "schedule", doc: "When it begins again and again: `sun 02:00`, or the five fields of cron. With `length`."},
		{name: "length", doc: "How long it then lasts, at most a week."},
		{name: "zone", def: "UTC", doc: "Time zone of the schedule, such as `Europe/Berlin`."},
	}
}

// watching is how one environment is watched.
type watching struct {
	observe     ops.Observe // empty: as its probes suggest
	every       time.Duration
	tolerate    bool
	grouping    ops.Grouping
	repeats     bool // grouping.repeat is given
	flapping    ops.Flapping
	maintenance []ops.Maintenance
}

// watching reads what holds where an environment says nothing else.
func (l *loader) watching(c *Config) watching {
	k := c.values
	span := func(key string) time.Duration { return get[time.Duration](k, key) }
	w := watching{
		observe: ops.Observe(get[string](k, "observe")), every: span("observe_every"), tolerate: get[bool](k, "tolerate_degraded"),
		grouping: ops.Grouping{
			Window: span("grouping.window"), Grace: span("grouping.grace"), Pause: span("grouping.pause"), Repeat: span("grouping.repeat"),
		},
		repeats:  k.Get("grouping.repeat") != nil,
		flapping: ops.Flapping{Turns: turns(get[int](k, "flapping.turns")), Window: span("flapping.window"), Calm: span("flapping.calm")},
	}
	if n := l.sections["maintenance"]; n != nil {
		w.maintenance = l.maintenance(n, "maintenance")
	}
	return w
}

// turns is the configured number: 0 means never, which others write as less than nothing.
func turns(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func (l *loader) grouping(n *yaml.Node, key string, w *watching) {
	fields := []field{{name: "window"}, {name: "grace"}, {name: "pause"}, {name: "repeat"}}
	kinds := map[string]kind{
		"window": durationKind(time.Second), "grace": durationKind(time.Second), "pause": durationKind(time.Second), "repeat": waitKind(),
	}
	e := l.entry(n, key, fields, kinds, nil, nil)
	for name, into := range map[string]*time.Duration{
		"window": &w.grouping.Window, "grace": &w.grouping.Grace, "pause": &w.grouping.Pause, "repeat": &w.grouping.Repeat,
	} {
		if d, ok := e[name].(time.Duration); ok {
			*into = d
			w.repeats = w.repeats || name == "repeat"
		}
	}
}

func (l *loader) flapping(n *yaml.Node, key string, w *watching) {
	fields := []field{{name: "turns"}, {name: "window"}, {name: "calm"}}
	kinds := map[string]kind{"turns": wholeKind(0, 1000), "window": durationKind(time.Second), "calm": durationKind(time.Second)}
	e := l.entry(n, key, fields, kinds, nil, nil)
	if v, ok := e["turns"].(int); ok {
		w.flapping.Turns = turns(v)
	}
	for name, into := range map[string]*time.Duration{"window": &w.flapping.Window, "calm": &w.flapping.Calm} {
		if d, ok := e[name].(time.Duration); ok {
			*into = d
		}
	}
}

func momentKind() kind {
	return kind{name: "time", parse: func(_ places, v raw) (any, []fault) {
		for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
			if t, err := time.Parse(layout, v.text); err == nil {
				return t, nil
			}
		}
		return nil, wrong(v, "give a time such as 2026-03-14T22:00:00Z", "%q is not a time", v.text)
	}}
}

func (l *loader) maintenance(n *yaml.Node, section string) []ops.Maintenance {
	words := textKind()
	kinds := map[string]kind{
		"name": words, "service": words, "group": words, "probe": words, "from": momentKind(), "until": momentKind(), "schedule": words,
		"length": durationKind(time.Minute), "zone": words,
	}
	var out []ops.Maintenance
	for i, item := range l.file.items(n, section) {
		key := fmt.Sprintf("%s[%d]", section, i)
		e := l.entry(item, key, maintenanceFields(), kinds, []string{"name"}, nil)
		if e == nil {
			continue
		}
		m := ops.Maintenance{
			Name: text(e, "name"), Service: text(e, "service"), Group: text(e, "group"), Probe: text(e, "probe"),
			Schedule: text(e, "schedule"), Zone: text(e, "zone"),
		}
		m.From, _ = e["from"].(time.Time)
		m.Until, _ = e["until"].(time.Time)
		m.Length, _ = e["length"].(time.Duration)
		if l.in.CheckMaintenance != nil {
			if err := l.in.CheckMaintenance(m); err != nil {
				l.problems.add(l.file.at(item), key, err.Error(), "give from and until, or schedule and length")
				continue
			}
		}
		out = append(out, m)
	}
	return out
}

// observe is who looks at an environment: probes where there are some, unless something else was said.
func (e environment) observe() ops.Observe {
	switch {
	case len(e.inventory.probes) == 0:
		return ops.ObserveAgent
	case e.watching.observe == "":
		return ops.ObserveProbes
	default:
		return e.watching.observe
	}
}

func (e environment) watch() ops.Watch {
	w := ops.Watch{
		Grouping: e.watching.grouping, Flapping: e.watching.flapping, TolerateDegraded: e.watching.tolerate,
		Maintenance: slices.Clone(e.watching.maintenance),
	}
	if !e.watching.repeats && e.observe() == ops.ObserveProbes {
		w.Grouping.Repeat = max(e.interval, w.Grouping.Pause) // what is still bad is tried again, as every interval would
	}
	return w
}

func (c *Config) showMaintenance() string {
	names := map[string]bool{}
	for _, e := range c.environments {
		for _, m := range e.watching.maintenance {
			names[m.Name] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// watchSecrets adds what probes log in with and what notices are sent to.
func (c *Config) watchSecrets(add func(string, int)) {
	add(c.Edges.WebhookSecret, 0)
	add(c.Edges.PingURL, 0)
	addTokens(c.Edges.PingURL, add)
	urls := slices.Clone(c.Edges.SecondURLs)
	for _, r := range c.NoticeRoutes {
		urls = append(urls, r.URLs...)
	}
	for _, u := range urls {
		add(u, 0)
		addCredentials(u, add)
		addTokens(u, add)
	}
	for _, e := range c.environments {
		for _, p := range e.inventory.probes {
			add(p.Password, shortestPassword)
			addCredentials(p.URL, add)
			for name, value := range p.Headers {
				if soundsSecret(strings.ToUpper("_"+strings.NewReplacer("-", "_").Replace(name))) || strings.EqualFold(name, "authorization") ||
					strings.EqualFold(name, "cookie") {
					_, word, _ := strings.Cut(value, " ") // Bearer …
					add(value, shortestPassword*2)
					add(word, shortestPassword*2)
				}
			}
		}
	}
}

const referenceWatch = `
## Watching in detail

Where an environment has a probe, probes run all the time (` + "`observe: probes`" + `): while all of them are well no agent is started, and a scheduled
cycle ends healthy without one. A probe that turns bad, or an alert (see [webhooks.md](webhooks.md)), starts a cycle with what was found. Before that, in
code: a check must fail ` + "`fail_after`" + ` times in a row; what depends on a bad service starts nothing; what fails together within ` + "`grouping.window`" + `, or
belongs to one ` + "`group`" + `, starts one cycle; what turns too often is flapping and waits; maintenance, silences (` + "`claudeops silences`" + `) and incidents a human
has taken hold it back. ` + "`claudeops events`" + ` tells each of it.

` + "```yaml" + `
observe: probes
observe_every: 24h
grouping: {window: 1m, pause: 15m}
flapping: {turns: 4, window: 20m}
maintenance:
  - {name: backups, service: "db*", schedule: "sun 02:00", length: 2h, zone: Europe/Berlin}
  - {name: move, from: 2026-03-14T22:00:00Z, until: 2026-03-15T04:00:00Z}
` + "```" + `
`

const referenceNotices = `
## Notices

Who is told what. The first route that matches counts; what matches none goes to ` + "`notify.apprise_urls`" + `. Reminders that nobody answered go to
` + "`notify.second_urls`" + `. Notices that could not be delivered are tried again for about 45 minutes; ` + "`claudeops notify list`" + ` shows those that were given
up, ` + "`claudeops notify retry`" + ` sends them again. Several that come at once are sent as one message.
People hear when a problem opens and how it ends. That the next tier takes over (` + "`escalated`" + `) is told only where a route names it.

` + "```yaml" + `
notify:
  apprise_urls: [ntfy://ntfy.sh/homelab]
  routes:
    - {name: night, level: critical, urls_file: /run/secrets/pager}
    - {name: media, services: ["jellyfin", "arr-*"], urls: ["discord://…"]}
    - {name: quiet, kinds: [resolved], urls: []}
    - {name: every step, kinds: [escalated], urls: ["ntfy://ntfy.sh/homelab-steps"]}
web: {public_url: "https://ops.example.org"}
` + "```" + `
`
