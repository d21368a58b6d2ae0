package config

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

func probeFields() []field {
	return []field{
		{name: "type", doc: "`http`, `tcp`, `command`, `dns`, `container`, `postgres`, `mysql`, `redis`, `systemd` or `process`. Required."},
		{name: "name", def: "made from the rest", doc: "What the probe is called among its results."},
		{name: "url", doc: "`http`: what is requested. `postgres`, `mysql`, `redis`: where the database is, such as `postgres://user@db:5432/app`. Required there."},
		{name: "method", def: "GET", doc: "`http`: GET, HEAD, OPTIONS or POST."},
		{name: "headers", doc: "`http`: names and values to send. Values are never shown."},
		{name: "body", doc: "`http`: what is sent."},
		{name: "expect_status", def: "any 2xx or 3xx", doc: "`http`: one status code or a list of them."},
		{name: "expect_body", doc: "`http`: a text that the answer must hold."},
		{name: "expect_regexp", doc: "`http`: a regular expression (RE2) that the answer must match."},
		{name: "expect_json", doc: "`http`: conditions such as `$.status == \"ok\"`, all of which must hold."},
		{name: "cert_days", doc: "`http`: a certificate that ends within so many days is degraded."},
		{name: "insecure_tls", def: "false", doc: "`http`, `redis`: take any certificate."},
		{name: "address", doc: "`tcp`: host:port to connect to. Required there."},
		{name: "command", doc: "`command`: a list of words, or one text for `/bin/sh -c`; healthy when it exits 0. Required there."},
		{name: "host", doc: "`dns`: the name to look up. Required there."},
		{name: "record", def: "A", doc: "`dns`: A, AAAA, CNAME, MX, TXT, NS or SRV."},
		{name: "server", def: "the machine's own", doc: "`dns`: the name server, as host or host:port."},
		{name: "expect", doc: "`dns`: values that must be among the answers. Databases: what the first value may be."},
		{name: "container", doc: "`container`: its name or id. Required there."},
		{name: "socket", def: "/var/run/docker.sock", doc: "`container`: unix socket of the Docker or Podman API."},
		{name: "max_restarts", def: "0", doc: "`container`: more restarts than this within ten minutes is degraded."},
		{name: "password", doc: "Databases: instead of one in `url`."},
		{name: "password_file", doc: "Databases: file that holds the password."},
		{name: "query", def: "SELECT 1, or PING", doc: "Databases: SQL, or a Redis command."},
		{name: "unit", doc: "`systemd`: the unit. Required there."},
		{name: "process", doc: "`process`: name of a running program. Required there."},
		{name: "timeout", def: "10s", doc: "Slower than this is down."},
		{name: "slow_after", doc: "Slower than this is degraded. Must be below `timeout`."},
		{name: "interval", def: "30s", doc: "How often it runs, where probes run all the time."},
		{name: "fail_after", def: "2", doc: "Bad results in a row that count as failing."},
		{name: "recover_after", def: "2", doc: "Good results in a row that count as recovered."},
	}
}

// probeTypes says which fields fit a type beside the common ones; the first is required.
func probeTypes() map[string][]string {
	return map[string][]string{
		"http": {
			"url", "method", "headers", "body", "expect_status", "expect_body", "expect_regexp", "expect_json", "cert_days", "insecure_tls",
		},
		"tcp":       {"address"},
		"command":   {"command"},
		"dns":       {"host", "record", "server", "expect"},
		"container": {"container", "socket", "max_restarts"},
		"postgres":  {"url", "password", "password_file", "query", "expect"},
		"mysql":     {"url", "password", "password_file", "query", "expect"},
		"redis":     {"url", "password", "password_file", "query", "expect", "insecure_tls"},
		"systemd":   {"unit"},
		"process":   {"process"},
	}
}

// commonToProbes are the fields of every type.
func commonToProbes() []string {
	return []string{"type", "name", "timeout", "slow_after", "interval", "fail_after", "recover_after"}
}

const defaultProbeTimeout = 10 * time.Second

// tellApart gives probes of one service that would have the same name names of their own: their results must not be mixed up.
func (f *yamlFile) tellApart(probes []ops.ProbeSpec) {
	if f.checks.ProbeName == nil {
		return
	}
	seen := map[string]int{}
	for i := range probes {
		name := f.checks.ProbeName(probes[i])
		key := probes[i].Service + "\x00" + name
		if seen[key]++; seen[key] > 1 {
			probes[i].Name = fmt.Sprintf("%s (%d)", name, seen[key])
		}
	}
}

// probe reads one probe; the fields that fit its type are required or allowed, others are refused.
func (f *yamlFile) probe(n *yaml.Node, key string) (ops.ProbeSpec, bool) {
	before := len(f.problems.found)
	spec := ops.ProbeSpec{Timeout: defaultProbeTimeout}
	given := map[string]*yaml.Node{}
	for _, p := range f.pairs(n, key, names(probeFields()), nil) {
		given[p.name] = p.value
		f.probeField(p, join(key, p.name), &spec)
	}
	if len(f.problems.found) > before || n.Kind != yaml.MappingNode {
		return spec, false
	}
	own, known := probeTypes()[spec.Type]
	if !known {
		f.problems.add(f.at(n), key, "the probe has no type", "add type: "+strings.Join(slices.Sorted(maps.Keys(probeTypes())), ", "))
		return spec, false
	}
	if _, ok := given[own[0]]; !ok {
		f.problems.add(f.at(n), key, fmt.Sprintf("a probe of type %s needs %s", spec.Type, own[0]), "add "+own[0]+": …")
	}
	for _, other := range names(probeFields()) {
		if at, ok := given[other]; ok && !slices.Contains(commonToProbes(), other) && !slices.Contains(own, other) {
			f.problems.add(f.at(at), join(key, other), fmt.Sprintf("a probe of type %s has no %s", spec.Type, other), "remove it, or change the type")
		}
	}
	if spec.SlowAfter >= spec.Timeout {
		f.problems.add(f.at(given["slow_after"]), key+".slow_after",
			fmt.Sprintf("%s is not below the timeout of %s", spec.SlowAfter, spec.Timeout), "lower it, or raise timeout")
	}
	if spec.Type == "http" && spec.Method == "" {
		spec.Method = "GET"
	}
	if len(f.problems.found) == before {
		f.checkProbe(n, key, spec, given)
	}
	return spec, len(f.problems.found) == before
}

// checkProbe says what is wrong with a probe as a whole.
func (f *yamlFile) checkProbe(n *yaml.Node, key string, spec ops.ProbeSpec, given map[string]*yaml.Node) {
	if spec.Type == "http" && !webURL(spec.URL) {
		// The text may hold a password: it is not repeated.
		f.problems.add(f.at(given["url"]), join(key, "url"), "the value is not an http or https URL", "give a URL such as http://127.0.0.1:8000")
		return
	}
	if f.checks.CheckProbe == nil {
		return
	}
	if err := f.checks.CheckProbe(spec); err != nil {
		f.problems.add(f.at(n), key, strings.ReplaceAll(err.Error(), "\n", "; "), "correct it")
	}
}

func (f *yamlFile) probeField(p pair, key string, spec *ops.ProbeSpec) {
	texts := map[string]*string{
		"name": &spec.Name, "url": &spec.URL, "body": &spec.Body, "expect_body": &spec.ExpectBody, "expect_regexp": &spec.ExpectRegexp,
		"host": &spec.Host, "server": &spec.Server, "container": &spec.Container, "socket": &spec.Socket, "password": &spec.Password,
		"query": &spec.Query, "unit": &spec.Unit, "process": &spec.Process,
	}
	spans := map[string]*time.Duration{"timeout": &spec.Timeout, "slow_after": &spec.SlowAfter, "interval": &spec.Interval}
	counts := map[string]*int{
		"fail_after": &spec.FailAfter, "recover_after": &spec.RecoverAfter, "cert_days": &spec.CertDays, "max_restarts": &spec.MaxRestarts,
	}
	read := func(k kind) any { v, _ := f.value(p.value, key, k); return v }
	switch {
	case texts[p.name] != nil:
		*texts[p.name], _ = read(textKind()).(string)
		return
	case spans[p.name] != nil:
		if d, ok := read(durationKind(0)).(time.Duration); ok {
			*spans[p.name] = d
		}
		return
	case counts[p.name] != nil:
		*counts[p.name], _ = read(wholeKind(0, 1000)).(int)
		return
	}
	switch p.name {
	case "type":
		spec.Type, _ = read(oneOfKind(slices.Sorted(maps.Keys(probeTypes()))...)).(string)
	case "method":
		spec.Method, _ = read(oneOfKind("GET", "HEAD", "OPTIONS", "POST")).(string)
	case "record":
		spec.Record, _ = read(oneOfKind("A", "AAAA", "CNAME", "MX", "TXT", "NS", "SRV")).(string)
	case "expect_status":
		spec.ExpectStatus, _ = read(statusKind()).([]int)
	case "expect_json":
		spec.ExpectJSON, _ = read(listKind("conditions")).([]string)
	case "expect":
		spec.Expect, _ = read(listKind("values")).([]string)
	case "address":
		spec.Address, _ = read(addressKind()).(string)
	case "command":
		spec.Command, _ = read(commandKind()).([]string)
	case "insecure_tls":
		spec.InsecureTLS, _ = read(boolKind()).(bool)
	case "password_file":
		spec.Password, _ = read(fileKind()).(string)
	case "headers":
		spec.Headers = f.headers(p.value, key)
	}
}

// headers reads names and values as they are.
func (f *yamlFile) headers(n *yaml.Node, key string) map[string]string {
	if n.Kind != yaml.MappingNode {
		f.problems.add(f.at(n), key, "expected names and values, found "+describe(n), "write Name: value, indented below it")
		return nil
	}
	out := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, follow(n.Content[i+1])
		if value.Kind != yaml.ScalarNode {
			f.problems.add(f.at(value), join(key, name), "expected a single value, found "+describe(value), "give one text")
			continue
		}
		out[name] = value.Value
	}
	return out
}

// listKind is a list of texts; a single one is a list of one.
func listKind(name string) kind {
	return kind{name: name, list: true, parse: func(_ places, v raw) (any, []fault) {
		if !v.list {
			return []string{v.text}, nil
		}
		var out []string
		for _, e := range v.items {
			out = append(out, e.text)
		}
		return out, nil
	}}
}

// fileKind reads a value from the file that is named.
func fileKind() kind {
	return kind{name: "path", parse: func(p places, v raw) (any, []fault) {
		path, faults := p.resolve(v)
		if faults != nil {
			return nil, faults
		}
		text, err := readText(path)
		if err != nil {
			return nil, wrong(v, "give the path of a file that holds the value", "%s", err.Error())
		}
		return strings.TrimSpace(text), nil
	}}
}

func oneOfKind(words ...string) kind {
	return kind{name: strings.Join(words, ", "), parse: func(_ places, v raw) (any, []fault) {
		for _, w := range words {
			if strings.EqualFold(w, v.text) {
				return w, nil
			}
		}
		fix := "give one of " + strings.Join(words, ", ")
		if s := suggest(v.text, words); s != "" {
			fix = "did you mean " + s + "?"
		}
		return nil, wrong(v, fix, "%q is not known here", v.text)
	}}
}

func statusKind() kind {
	return kind{name: "status codes", list: true, parse: func(p places, v raw) (any, []fault) {
		var codes []int
		var faults []fault
		for _, e := range v.entries(splitAtCommas) {
			code, wrongs := wholeKind(100, 599).parse(p, e)
			if n, ok := code.(int); ok {
				codes = append(codes, n)
			}
			faults = append(faults, wrongs...)
		}
		return codes, faults
	}}
}

func addressKind() kind {
	return kind{name: "host:port", parse: func(_ places, v raw) (any, []fault) {
		host, port, err := net.SplitHostPort(v.text)
		n, convErr := strconv.Atoi(port)
		if err != nil || convErr != nil || host == "" || n < 1 || n > 65535 {
			return nil, wrong(v, "give host:port, such as db.example.org:5432", "%q is not host:port", v.text)
		}
		return v.text, nil
	}}
}

func commandKind() kind {
	return kind{name: "words", list: true, parse: func(_ places, v raw) (any, []fault) {
		if !v.list {
			return []string{"/bin/sh", "-c", v.text}, nil
		}
		if len(v.items) == 0 {
			return nil, wrong(v, "give the program and its arguments", "the list is empty")
		}
		var words []string
		for _, e := range v.items {
			words = append(words, e.text)
		}
		return words, nil
	}}
}
