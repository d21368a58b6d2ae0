package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

// field is one key of an object in a list, for the checks and the reference.
type field struct {
	name string
	def  string
	doc  string
}

func names(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return out
}

func serviceFields() []field {
	return []field{
		{name: "name", doc: "Name of the service. Required."},
		{name: "aliases", doc: "Its other names: containers, hosts, units. A name belongs to one service only."},
		{name: "probes", doc: "How the supervisor itself checks the service."},
	}
}

func probeFields() []field {
	return []field{
		{name: "type", doc: "`http`, `tcp` or `command`. Required."},
		{name: "url", doc: "`http`: what is requested. Required there."},
		{name: "method", def: "GET", doc: "`http`: GET, HEAD, OPTIONS or POST."},
		{name: "expect_status", def: "any 2xx or 3xx", doc: "`http`: one status code or a list of them."},
		{name: "expect_body", doc: "`http`: a text that the answer must hold."},
		{name: "address", doc: "`tcp`: host:port to connect to. Required there."},
		{name: "command", doc: "`command`: a list of words, or one text for `/bin/sh -c`; healthy when it exits 0. Required there."},
		{name: "timeout", def: "10s", doc: "Slower than this is down."},
		{name: "slow_after", doc: "Slower than this is degraded. Must be below `timeout`."},
	}
}

const defaultProbeTimeout = 10 * time.Second

// inventory is what `services` holds.
type inventory struct {
	services ops.Inventory
	probes   []ops.ProbeSpec
}

// inventory reads services in either form: a plain list, or a mapping with strict and list.
func (f *yamlFile) inventory(n *yaml.Node, key string) inventory {
	var out inventory
	if n = follow(n); n.Kind == yaml.MappingNode {
		var list *yaml.Node
		for _, p := range f.pairs(n, key, []string{"strict", "list"}, nil) {
			switch p.name {
			case "strict":
				v, _ := f.value(p.value, key+".strict", boolKind())
				out.services.Strict, _ = v.(bool)
			case "list":
				list = p.value
			}
		}
		if list == nil {
			return out
		}
		n, key = list, key+".list"
	}
	owners := map[string]string{} // name or alias → service
	for i, item := range f.items(n, key) {
		f.service(item, fmt.Sprintf("%s[%d]", key, i), owners, &out)
	}
	return out
}

func (f *yamlFile) service(n *yaml.Node, key string, owners map[string]string, out *inventory) {
	var s ops.Service
	var probes *yaml.Node
	// The name is needed to say whose alias overlaps, wherever it stands in the entry.
	fields := f.pairs(n, key, names(serviceFields()), nil)
	slices.SortStableFunc(fields, func(a, b pair) int { return nameFirst(a) - nameFirst(b) })
	for _, p := range fields {
		switch p.name {
		case "name":
			s.Name = f.serviceName(p.value, key+".name", "", owners)
		case "aliases":
			for i, item := range f.items(p.value, key+".aliases") {
				if a := f.serviceName(item, fmt.Sprintf("%s.aliases[%d]", key, i), s.Name, owners); a != "" {
					s.Aliases = append(s.Aliases, a)
				}
			}
		case "probes":
			probes = p.value
		}
	}
	if n.Kind == yaml.MappingNode && !slices.ContainsFunc(fields, func(p pair) bool { return p.name == "name" }) {
		f.problems.add(f.at(n), key, "the service has no name", "add name: …")
	}
	if probes != nil {
		for i, item := range f.items(probes, key+".probes") {
			if spec, ok := f.probe(item, fmt.Sprintf("%s.probes[%d]", key, i)); ok {
				spec.Service = s.Name
				out.probes = append(out.probes, spec)
				s.Probed = true
			}
		}
	}
	out.services.Services = append(out.services.Services, s)
}

func nameFirst(p pair) int {
	if p.name == "name" {
		return 0
	}
	return 1
}

// serviceName reads a name or an alias, which must belong to one service only.
func (f *yamlFile) serviceName(n *yaml.Node, key, owner string, owners map[string]string) string {
	v, ok := f.value(n, key, textKind())
	if !ok {
		return ""
	}
	name, _ := v.(string)
	if strings.ContainsFunc(name, unicode.IsControl) {
		f.problems.add(f.at(n), key, "the name holds control characters", "give a plain name")
		return ""
	}
	if taken, twice := owners[name]; twice {
		message := fmt.Sprintf("%q already names the service %s", name, taken)
		if taken == owner {
			message = fmt.Sprintf("%q is given twice", name)
		}
		f.problems.add(f.at(n), key, message, "give every service names of its own")
		return ""
	}
	if owner == "" {
		owner = name
	}
	owners[name] = owner
	return name
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
	fits := map[string][]string{
		"http":    {"url", "method", "expect_status", "expect_body"},
		"tcp":     {"address"},
		"command": {"command"},
	}
	own, known := fits[spec.Type]
	if !known {
		f.problems.add(f.at(n), key, "the probe has no type", "add type: http, tcp or command")
		return spec, false
	}
	if _, ok := given[own[0]]; !ok {
		f.problems.add(f.at(n), key, fmt.Sprintf("a probe of type %s needs %s", spec.Type, own[0]), "add "+own[0]+": …")
	}
	for _, other := range names(probeFields()) {
		common := other == "type" || other == "timeout" || other == "slow_after"
		if at, ok := given[other]; ok && !common && !slices.Contains(own, other) {
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
	return spec, len(f.problems.found) == before
}

func (f *yamlFile) probeField(p pair, key string, spec *ops.ProbeSpec) {
	read := func(k kind) any { v, _ := f.value(p.value, key, k); return v }
	switch p.name {
	case "type":
		spec.Type, _ = read(oneOfKind("http", "tcp", "command")).(string)
	case "url":
		spec.URL, _ = read(webURLKind()).(string)
	case "method":
		spec.Method, _ = read(oneOfKind("GET", "HEAD", "OPTIONS", "POST")).(string)
	case "expect_status":
		spec.ExpectStatus, _ = read(statusKind()).([]int)
	case "expect_body":
		spec.ExpectBody, _ = read(textKind()).(string)
	case "address":
		spec.Address, _ = read(addressKind()).(string)
	case "command":
		spec.Command, _ = read(commandKind()).([]string)
	case "timeout":
		if d, ok := read(durationKind(0)).(time.Duration); ok {
			spec.Timeout = d
		}
	case "slow_after":
		spec.SlowAfter, _ = read(durationKind(0)).(time.Duration)
	}
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
