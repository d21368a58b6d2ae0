package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// probeEntry is an entry of a service's probes.
type probeEntry struct {
	ops.ProbeSpec
	written

	held string // password that a file holds
}

// probeTypes are the types of probes.
func probeTypes() []string {
	return []string{"command", "container", "dns", "http", "mysql", "postgres", "process", "redis", "systemd", "tcp"}
}

func probeFields(p *probeEntry) []field {
	databases := []string{"postgres", "mysql", "redis"}
	count := intKind(0, 1000)
	return []field{
		value("type", &p.Type, anyCaseKind(probeTypes()...), "Type of the probe.").mustElse("the probe has no type"),
		value("name", &p.Name, textKind(), "Name of the probe among the results.").orElse("made from the rest"),
		value("url", &p.URL, textKind(), "The URL to request, or of the database, such as `postgres://user@db:5432/app`.").
			onlyFor("http", "postgres", "mysql", "redis").must(),
		value("method", &p.Method, anyCaseKind("GET", "HEAD", "OPTIONS", "POST"), "Method of the request.").onlyFor("http").orElse("GET"),
		headersField(&p.Headers).onlyFor("http"),
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
		value("record", &p.Record, anyCaseKind("A", "AAAA", "CNAME", "MX", "TXT", "NS",
			"SRV"), "Type of the record.").onlyFor("dns").orElse("A"),
		value("server", &p.Server, textKind(), "Name server, as host or host:port.").onlyFor("dns").orElse("the machine's own"),
		value("expect", &p.Expect, textsKind("values"), "Values that a `dns` answer must contain, or that the first value of a query may have.").
			onlyFor(append([]string{"dns"}, databases...)...),
		value("container", &p.Container, textKind(), "Name or id of the container.").onlyFor("container").must(),
		value("socket", &p.Socket, textKind(),
			"The Unix socket of the Docker or Podman API.").onlyFor("container").orElse("/var/run/docker.sock"),
		value("max_restarts", &p.MaxRestarts, count,
			"The result is degraded after more restarts than this within ten minutes.").onlyFor("container").orElse("0"),
		value("password", &p.Password, textKind(), "Password, instead of one in `url`.").onlyFor(databases...),
		value("password_file", &p.held, fileKind(), "File that holds the password.").onlyFor(databases...),
		value("query", &p.Query, textKind(), "A SQL statement, or a Redis command.").onlyFor(databases...).orElse("SELECT 1, or PING"),
		value("unit", &p.Unit, textKind(), "Name of the unit.").onlyFor("systemd").must(),
		value("process", &p.Process, textKind(), "Name of a running program.").onlyFor("process").must(),
		value("timeout", &p.Timeout, durationKind(0), "A slower probe is down.").or("10s"),
		value("slow_after", &p.SlowAfter, durationKind(0), "A slower probe is degraded. Must be below `timeout`."),
		value("interval", &p.Interval, durationKind(0), "Time between runs, where probes run all the time.").orElse("30s"),
		value("fail_after", &p.FailAfter, count, "Number of consecutive bad results that count as failing.").orElse("2"),
		value("recover_after", &p.RecoverAfter, count, "Number of consecutive good results that count as recovered.").orElse("2"),
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
	if p.Type == "http" && p.Method == "" {
		p.Method = "GET"
	}
	switch {
	case len(e.problems.found) > before:
	case p.Type == "http" && !webURL(p.URL):
		e.refuse(&p.URL, fixWebURL, notWebURL)
	case e.in.CheckProbe != nil:
		if err := e.in.CheckProbe(p.ProbeSpec); err != nil {
			e.refuseAll("correct it", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
}

// headersField reads names and values as they are.
func headersField(at *map[string]string) field {
	return field{
		key: "headers", doc: "Headers to send. Their values are never shown.", at: at, takes: "names and values",
		schema: func() map[string]any { return map[string]any{"type": "object", "additionalProperties": singleSchema()} },
		descend: func(l *loader, n *yaml.Node, key string) {
			if n.Kind != yaml.MappingNode {
				l.problems.add(l.position(n), key, "expected names and values, found "+describe(n), "write Name: value, indented below it")
				return
			}
			*at = map[string]string{}
			for header := range slices.Chunk(n.Content, 2) {
				name, value := header[0].Value, follow(header[1])
				if value.Kind != yaml.ScalarNode {
					l.problems.add(l.position(value), join(key, name), "expected a single value, found "+describe(value), "give one text")
					continue
				}
				(*at)[name] = value.Value
			}
		},
	}
}
