package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// longestWatch is how long an update may be watched.
const longestWatch = 24 * time.Hour

// inventory is what `services` holds.
type inventory struct {
	services ops.Inventory
	probes   []ops.ProbeSpec
	written  []written          // where the probes are configured
	declared map[string]written // where the services are configured
}

// written is a place in the configuration file.
type written struct {
	at  origin
	key string
}

// service is an entry of `services`.
type service struct {
	ops.Service
	needs    []string // dependencies as they were written: names or aliases
	probes   []probeEntry
	compose  ops.Compose
	actions  []action
	reflexes []reflex
	queries  []query
}

func serviceFields(s *service) []field {
	return []field{
		value("name", &s.Name, textKind(), "Name of the service.").mustElse("the service has no name"),
		value("aliases", &s.Aliases, strictListKind("names"), "Other names: containers, hosts, units. A name belongs to one service only."),
		value("group", &s.Group, textKind(), "Services of one group share their causes: their failures start one cycle together."),
		value("depends_on", &s.needs, strictListKind("services"),
			"Services that it needs. While one of them is failing, this one starts no cycle."),
		value("settle", &s.Settle, durationKind(time.Second),
			"How long it may take to answer after a start; at most two minutes.").orElse("learned from its last starts"),
		value("container", &s.Container, namedKind("container name", containerForm),
			"Its container. Gives the actions `restart`, `start` and `stop`. A repair is proven only if it runs afterwards.").
			orElse("that of its first `container` probe"),
		value("unit", &s.Unit, namedKind("unit name", unitForm),
			"Its systemd unit. Gives the actions `restart`, `start` and `stop`. A repair is proven only if it runs afterwards.").
			orElse("that of its first `systemd` probe"),
		object("compose", &s.compose, composeFields(&s.compose),
			"Its committed compose file. Gives the actions `redeploy` and `apply`. See [Actions](#actions)."),
		list("actions", &s.actions, actionFields, finishAction,
			"What the supervisor can do to it when an agent or a person asks. See [Actions](#actions)."),
		list("reflexes", &s.reflexes, reflexFields, finishReflex,
			"Repairs that the supervisor does without an agent when a probe fails. See [Reflexes](reflexes.md)."),
		object("updates", &s.Updates, []field{
			value("schedule", &s.Updates.Schedule, textKind(), "When it is updated, in UTC: `sun 04:00`, or the five fields of cron.").
				orElse("when a person asks"),
			value("watch", &s.Updates.Watch, durationKind(time.Second), "How long a new image is watched, at most 24h.").orElse("10m"),
		}, "How it gets newer images. Needs `compose`. See [Updates](howto/updates.md)."),
		value("trust", &s.Trust, trustKind(), "How far agents may go for it without you.").orElse("`trust` of the environment"),
		value("methods", &s.Methods, methodsKind(),
			"HTTP methods that sessions above Tier 1 may use on its addresses where `sandbox.network` is `services`; `any` also permits other "+
				"protocols.").orElse("`GET`, `HEAD`"),
		value("headers", &s.Headers, listOf("header names", splitAtCommas, headerKind()),
			"HTTP headers that sessions may send to it where `sandbox.network` is `services`, such as `X-Api-Version`. `Accept*`, `Range`, `If-*`, "+
				"`User-Agent`, `Cache-Control` and `Content-Type` pass without it; other headers are left out.").orElse("none"),
		list("queries", &s.queries, queryFields, finishQuery,
			"What agents may ask its database, through its first probe of that type. See [Queries](#queries)."),
		list("probes", &s.probes, probeFields, finishProbe, "Checks that the supervisor runs itself."),
	}
}

// query is an entry of a service's queries.
type query struct {
	ops.Query
	written
}

func queryFields(q *query) []field {
	return []field{
		value("name", &q.Name, matching("name", actionName, "a name for a query", fixActionName), "Name that agents use.").
			mustElse("the query has no name"),
		value("run", &q.Run, textsKind("SQL statement, or list of words"),
			"One SQL statement that reads, or the words of a Redis command that only reads. `:name` stands for a parameter.").
			mustElse("the query does not say what to run"),
		namesField("params", &q.Params,
			"What the agent gives, by name: `integer` or `text`. It is bound by the driver and never becomes part of the statement."),
	}
}

// finishQuery checks one query without its service.
func finishQuery(e *entry, q *query) {
	q.written = written{e.position(e.node), e.key}
	used := map[string]bool{}
	_, err := q.Bind(func(name string) string { used[name] = true; return "" })
	words := strings.Fields(strings.ToUpper(strings.Join(q.Run, " ")))
	switch {
	case len(words) == 0:
		e.refuse(&q.Run, "give a SQL statement, or words such as [INFO, memory]", "it is empty")
	case err != nil:
		e.refuse(&q.Run, "give one statement in which every quote is closed; a quote inside text is written twice", "%s", err)
	case q.SQL() && !slices.Contains([]string{"SELECT", "WITH", "SHOW", "EXPLAIN"}, words[0]):
		e.refuse(&q.Run, "begin with SELECT, WITH, SHOW or EXPLAIN; write a Redis command as a list of words",
			"%s does not only read", words[0])
	case !q.SQL() && !ops.RedisReads(q.Run):
		e.refuse(&q.Run, "use one that is, such as [INFO, memory]; write SQL as one text",
			"%s is not on the list of Redis commands that only read", strings.Join(q.Run, " "))
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if q.Params[name] == "" {
			e.refuse(&q.Run, "add "+name+": text or "+name+": integer to params; write a space after a colon that begins no parameter",
				"the parameter :%s is not declared", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Params)) {
		if kind := q.Params[name]; kind != ops.ParamInteger && kind != ops.ParamText {
			e.refuse(&q.Params, "give integer or text", "%q is not a type of parameter %s", kind, name)
		}
		if !used[name] {
			e.refuse(&q.Params, "write :"+name+" in run, or remove it", "the query does not use the parameter %s", name)
		}
	}
}

// checkQueries checks the queries of a service against the service.
func checkQueries(e *entry, s *service) {
	for _, q := range s.queries {
		if slices.ContainsFunc(s.Queries, func(o ops.Query) bool { return o.Name == q.Name }) {
			e.problems.add(q.at, q.key+".name", fmt.Sprintf("the query %s is given twice", q.Name), "give each a name of its own")
		}
		if !slices.ContainsFunc(s.probes, func(p probeEntry) bool { return q.Through(p.Type) }) {
			e.problems.add(q.at, q.key, "the service has no probe of a database to run it through",
				"add a probe of type postgres or mysql for SQL, of type redis for a list of words")
		}
		s.Queries = append(s.Queries, q.Query)
	}
}

// headerKind reads the name of a header that a session may send: none that signs in, names another host or concerns the connection.
func headerKind() kind[string] {
	one := matching("header name", `^[A-Za-z0-9][A-Za-z0-9-]*$`, "the name of a header", "use letters, digits and dashes")
	parse := one.parse
	one.parse = func(p places, v raw) (string, []fault) {
		name, bad := parse(p, v)
		name = http.CanonicalHeaderKey(name)
		if slices.Contains([]string{
			"Authorization", "Cookie", "Host", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
			"Content-Length",
			"X-Http-Method-Override", "X-Http-Method", "X-Method-Override",
		}, name) || strings.HasPrefix(name, "Proxy-") {
			bad = append(bad, wrong(v, "leave it out", "sessions never send the header %s", name)...)
		}
		return name, bad
	}
	return one
}

// methodsKind reads HTTP methods, or any.
func methodsKind() kind[[]string] {
	return listOf("HTTP methods", splitAtCommas, choiceKind("a method", "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "any"))
}

// servicesField takes a plain list, or a mapping with the list and whether other services are rejected.
func servicesField(at *inventory, doc string) field {
	inner := func() []field { return serviceFields(new(service)) }
	return field{
		key: "services", doc: doc, at: at, takes: "list", inner: inner, text: func() string { return "" },
		schema: func() map[string]any {
			services := arrayOf(objectSchema(inner()))
			whole := map[string]any{"strict": boolKind().schema, "list": services}
			return map[string]any{"anyOf": []any{
				services, map[string]any{"type": []any{"object", "null"}, "properties": whole, "additionalProperties": false},
			}}
		},
		descend: func(l *loader, n *yaml.Node, key string) { *at = l.inventory(n, key) },
	}
}

// inventory reads services in either form.
func (l *loader) inventory(n *yaml.Node, key string) inventory {
	out := inventory{declared: map[string]written{}}
	if n = follow(n); n.Kind == yaml.MappingNode {
		var services *yaml.Node
		l.readEntry(n, key, []field{
			value("strict", &out.services.Strict, boolKind(), ""),
			{key: "list", at: &services, descend: func(_ *loader, n *yaml.Node, _ string) { services = n }},
		})
		if services == nil {
			return out
		}
		n, key = services, key+".list"
	}
	items := l.items(n, key)
	services, entries := make([]service, len(items)), make([]*entry, len(items))
	owners := map[string]string{} // name or alias → service
	// As in a list, all services share one table, and each is in s while it is looked at.
	s := new(service)
	fields, probes := table(serviceFields(s)), 0
	for i, item := range items {
		*s = service{}
		entries[i] = l.readEntry(item, fmt.Sprintf("%s[%d]", key, i), fields)
		claimNames(entries[i], s, owners)
		services[i] = *s
		probes += len(s.probes)
	}
	before := len(l.problems.found)
	out.services.Services = make([]ops.Service, 0, len(services))
	out.probes, out.written = make([]ops.ProbeSpec, 0, probes), make([]written, 0, probes)
	for i, e := range entries {
		*s = services[i]
		resolveNeeds(e, s, owners)
		checkActions(e, s)
		checkReflexes(e, s)
		checkQueries(e, s)
		checkUpdates(e, s)
		out.declared[s.Name] = written{e.position(e.node), e.key}
		out.add(s)
	}
	if l.in.CheckServices != nil && len(l.problems.found) == before {
		if err := l.in.CheckServices(out.services.Services); err != nil {
			l.problems.add(l.position(n), key, err.Error(), "remove one of the dependencies")
		}
	}
	l.distinguish(out.probes)
	l.aimReflexes(out)
	return out
}

// checkUpdates checks how a service gets newer images.
func checkUpdates(e *entry, s *service) {
	u := s.Updates
	switch {
	case u == ops.Updates{}:
	case u.Watch > longestWatch:
		e.refuse(&s.Updates, "give at most 24h", "it is watched for %s, which is too long", u.Watch)
	case s.compose.Repo == "":
		e.refuse(&s.Updates, "add compose: {repo: …, file: …}, or remove it", "only a service with a compose file is updated")
	case len(s.probes) == 0:
		e.refuse(&s.Updates, "add a probe to the service, or remove it", "nothing could be watched, because the service has no probe")
	case u.Schedule != "" && e.in.CheckMaintenance != nil:
		if err := e.in.CheckMaintenance(ops.Maintenance{Schedule: u.Schedule, Length: time.Hour}); err != nil {
			e.refuse(&s.Updates, "give `sun 04:00`, or the five fields of cron", "%s", err)
		}
	}
}

func (v *inventory) add(s *service) {
	for _, p := range s.probes {
		p.Service = s.Name
		v.probes = append(v.probes, p.ProbeSpec)
		v.written = append(v.written, p.written)
		s.Probed = true
	}
	v.services.Services = append(v.services.Services, s.Service)
}

// claimNames checks that the name and the aliases of a service belong to it alone.
func claimNames(e *entry, s *service, owners map[string]string) {
	claim := func(name, owner string, refuse func(fix, format string, args ...any)) {
		taken, twice := owners[name]
		switch {
		case strings.ContainsFunc(name, unicode.IsControl):
			refuse("give a plain name", "the name holds control characters")
		case twice && taken == owner:
			refuse("give every service names of its own", "%q is given twice", name)
		case twice:
			refuse("give every service names of its own", "%q already names the service %s", name, taken)
		default:
			owners[name] = cmp.Or(owner, name)
		}
	}
	if s.Name != "" {
		claim(s.Name, "", func(fix, format string, args ...any) { e.refuse(&s.Name, fix, format, args...) })
	}
	for i, alias := range s.Aliases {
		claim(alias, s.Name, func(fix, format string, args ...any) { e.refuseItem(&s.Aliases, i, fix, format, args...) })
	}
}

// resolveNeeds replaces aliases by names, once all services are known.
func resolveNeeds(e *entry, s *service, owners map[string]string) {
	for i, need := range s.needs {
		name, known := owners[need]
		if !known {
			fix := suggestOr(need, slices.Sorted(maps.Keys(owners)), "name a service of this list")
			e.refuseItem(&s.needs, i, fix, "no service is called %q", need)
			continue
		}
		s.DependsOn = append(s.DependsOn, name)
	}
}

// distinguish gives probes of one service that would have the same name different names, so that their results are not mixed up.
func (l *loader) distinguish(probes []ops.ProbeSpec) {
	if l.in.ProbeName == nil {
		return
	}
	seen := map[string]int{}
	for i := range probes {
		name := l.in.ProbeName(probes[i])
		key := probes[i].Service + "\x00" + name
		if seen[key]++; seen[key] > 1 {
			probes[i].Name = fmt.Sprintf("%s (%d)", name, seen[key])
		}
	}
}

// ProbePlace says where a probe of an environment is configured, by its index among the environment's probes.
func (c *Config) ProbePlace(name string, i int) (where, key string) {
	e := slices.IndexFunc(c.environments, func(o environment) bool { return o.name == name })
	place := c.environments[e].inventory.written[i]
	return place.at.where(), place.key
}

// showServices names the services of the top level, or of every environment that has its own.
func (c *Config) showServices() string {
	var parts []string
	for _, e := range c.environments {
		var names []string
		for _, s := range e.inventory.services.Services {
			names = append(names, s.Name)
		}
		text := strings.Join(names, ",")
		if len(c.environments) > 1 && text != "" {
			text = e.name + ": " + text
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// probeEntry is an entry of a service's probes.
type probeEntry struct {
	ops.ProbeSpec
	written

	held string // password that a file holds
}

// probeTypes are the types of probes.
func probeTypes() []string {
	return []string{"command", "container", "dns", "heartbeat", "http", "mysql", "postgres", "redis", "systemd", "tcp"}
}

func probeFields(p *probeEntry) []field {
	databases := []string{"postgres", "mysql", "redis"}
	count := intKind(0, 1000)
	return []field{
		value("type", &p.Type, choiceKind("a type of probe", probeTypes()...), "Type of the probe.").mustElse("the probe has no type"),
		value("name", &p.Name, textKind(), "Name of the probe among the results.").orElse("made from the rest"),
		value("url", &p.URL, textKind(), "The URL to request, or of the database, such as `postgres://user@db:5432/app`.").
			onlyFor("http", "postgres", "mysql", "redis").must(),
		value("method", &p.Method, choiceKind("a method", "GET", "HEAD", "OPTIONS", "POST"), "Method of the request.").
			onlyFor("http").orElse("GET"),
		namesField("headers", &p.Headers, "Headers to send. Their values are never shown.").onlyFor("http"),
		value("body", &p.Body, textKind(), "Body of the request.").onlyFor("http"),
		value("expect_status", &p.ExpectStatus, listOf("status codes", splitAtCommas, intKind(100, 599)),
			"Status code, or a list of them.").
			onlyFor("http").orElse("any 2xx or 3xx"),
		value("expect_body", &p.ExpectBody, textKind(), "Text that the response must contain.").onlyFor("http"),
		value("expect_regexp", &p.ExpectRegexp, textKind(), "Regular expression (RE2) that the response must match.").onlyFor("http"),
		value("expect_json", &p.ExpectJSON, textsKind("conditions"),
			"Conditions such as `$.status == \"ok\"`. All must hold.").onlyFor("http"),
		value("cert_days", &p.CertDays, count,
			"The result is degraded when the certificate expires within this many days.").onlyFor("http"),
		value("insecure_tls", &p.InsecureTLS, boolKind(), "Accept any certificate.").onlyFor("http", "redis").orElse("`false`"),
		value("address", &p.Address, addressKind(), "Address to connect to.").onlyFor("tcp").must(),
		value("command", &p.Command, commandKind(), "Command to run. Exit code 0 means healthy.").onlyFor("command").must(),
		value("host", &p.Host, textKind(), "Name to look up.").onlyFor("dns").must(),
		value("record", &p.Record, choiceKind("a type of record", "A", "AAAA", "CNAME", "MX", "TXT", "NS",
			"SRV"), "Type of the record.").onlyFor("dns").orElse("A"),
		value("server", &p.Server, textKind(), "Name server, as host or host:port.").onlyFor("dns").orElse("the machine's own"),
		value("expect", &p.Expect, textsKind("values"), "Values that a `dns` answer must contain, or that the first value of a query may have.").
			onlyFor(append([]string{"dns"}, databases...)...),
		value("container", &p.Container, textKind(), "Name or id of the container.").onlyFor("container").must(),
		value("password", &p.Password, textKind(), "Password, instead of one in `url`.").onlyFor(databases...),
		value("password_file", &p.held, fileKind(), "File that holds the password.").onlyFor(databases...),
		value("query", &p.Query, textKind(), "A SQL statement, or a Redis command.").onlyFor(databases...).orElse("SELECT 1, or PING"),
		value("unit", &p.Unit, textKind(), "Name of the unit.").onlyFor("systemd").must(),
		value("every", &p.Every, durationKind(time.Second), "How often the job runs. Or give a `schedule`.").onlyFor(ops.ProbeHeartbeat),
		value("schedule", &p.Schedule, textKind(),
			"When the job runs: `sun 02:00`, or the five fields of cron. See [Heartbeats](heartbeats.md).").onlyFor(ops.ProbeHeartbeat),
		value("zone", &p.Zone, textKind(), "Time zone of the schedule, such as Europe/Berlin.").onlyFor(ops.ProbeHeartbeat).orElse("UTC"),
		value("grace", &p.Grace, durationKind(0), "How late its call may be, and how long a run may take that has called its start.").
			onlyFor(ops.ProbeHeartbeat).orElse("1h"),
		value("timeout", &p.Timeout, durationKind(0), "A slower probe is down.").or("10s"),
		value("slow_after", &p.SlowAfter, durationKind(0), "A slower probe is degraded. Must be below `timeout`."),
		value("interval", &p.Interval, durationKind(0), "Time between runs, where probes run all the time.").orElse("30s"),
		value("fail_after", &p.FailAfter, count, "Number of consecutive bad results that count as failing.").orElse("2; `heartbeat`: 1"),
		value("recover_after", &p.RecoverAfter, count, "Number of consecutive good results that count as recovered.").
			orElse("2; `heartbeat`: 1"),
	}
}

// finishProbe checks that the fields of a probe suit its type.
func finishProbe(e *entry, p *probeEntry) {
	before := len(e.problems.found)
	p.written = written{e.position(e.node), e.key}
	if p.held != "" {
		p.Password = p.held
	}
	for _, f := range e.fields {
		switch {
		case f.fits(p.Type) && f.required && !e.has(f.at):
			e.refuseAll("add "+f.key+": …", "a probe of type %s needs %s", p.Type, f.key)
		case !f.fits(p.Type) && e.has(f.at):
			e.refuse(f.at, "remove it, or change the type", "a probe of type %s has no %s", p.Type, f.key)
		}
	}
	if p.SlowAfter >= p.Timeout {
		e.refuse(&p.SlowAfter, "lower it, or raise timeout", "%s is not below the timeout of %s", p.SlowAfter, p.Timeout)
	}
	switch {
	case p.Type == "http" && p.Method == "":
		p.Method = "GET"
	case p.Type == ops.ProbeHeartbeat:
		// One call says everything, and results come when something changes.
		p.Name, p.Interval, p.Grace = cmp.Or(p.Name, p.Type), cmp.Or(p.Interval, time.Hour), cmp.Or(p.Grace, time.Hour)
		p.FailAfter, p.RecoverAfter = cmp.Or(p.FailAfter, 1), cmp.Or(p.RecoverAfter, 1)
	}
	switch {
	case len(e.problems.found) > before:
	case p.Type == "http" && !webURL(p.URL):
		e.refuse(&p.URL, fixWebURL, notWebURL)
	case e.in.CheckProbe != nil:
		for _, err := range e.in.CheckProbe(p.ProbeSpec) {
			e.refuseAll("correct it", "%s", err)
		}
	}
}

// namesField reads names and values as they are.
func namesField(key string, at *map[string]string, doc string) field {
	return field{
		key: key, doc: doc, at: at, takes: "names and values",
		schema: func() map[string]any { return map[string]any{"type": "object", "additionalProperties": singleSchema()} },
		descend: func(l *loader, n *yaml.Node, key string) {
			if n.Kind != yaml.MappingNode {
				l.problems.add(l.position(n), key, "expected names and values, found "+describe(n), "write Name: value, indented below it")
				return
			}
			*at = map[string]string{}
			for pair := range slices.Chunk(n.Content, 2) {
				name, value := pair[0].Value, follow(pair[1])
				if value.Kind != yaml.ScalarNode {
					l.problems.add(l.position(value), join(key, name), "expected a single value, found "+describe(value), "give one text")
					continue
				}
				(*at)[name] = value.Value
			}
		},
	}
}
