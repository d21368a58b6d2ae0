package discover

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

const (
	defaultTimeout = 10 * time.Second
	shortest       = 5 * time.Second // between two runs: a repository must not make us flood a service
)

// target allows no options and separators in what is passed to programs and sockets.
var target = ops.Pattern(`^[A-Za-z0-9][A-Za-z0-9_.@:-]{0,252}$`)

// probeTypes are the probes a repository may ask for, each with its fields; the first is required.
func probeTypes() map[string][]string {
	return map[string][]string{
		"http":      {"url", "method", "expect_status", "expect_body", "expect_regexp", "expect_json", "cert_days"},
		"tcp":       {"address"},
		"dns":       {"host", "record", "server", "expect"},
		"container": {"container", "max_restarts"},
		"systemd":   {"unit"},
		"process":   {"process"},
	}
}

func commonToProbes() []string {
	return []string{"type", "name", "timeout", "slow_after", "interval", "fail_after", "recover_after"}
}

// reserved are the fields that only the operator may set: they run a program or carry a secret.
func reserved() []string {
	return []string{"command", "headers", "body", "socket", "password", "password_file", "query", "insecure_tls"}
}

// declared reads a file of services, in the same form as in the configuration.
func (r *repository) declared(name, text string) {
	d := &document{scanner: r.scanner, file: r.file(name)}
	root := d.parse(text)
	if root == nil {
		return
	}
	if root = follow(root); root.Kind == yaml.MappingNode {
		list := d.child(root, "services")
		if list.Kind == 0 {
			d.problem(root.Line, "has no services; begin with services:")
			return
		}
		root = list
	}
	r.services(d, root, "is declared in "+name)
}

// services reads a list of services.
func (r *repository) services(d *document, n *yaml.Node, why string) {
	n = follow(n)
	if n.Kind == yaml.MappingNode {
		n = d.child(n, "list")
	}
	if n.Kind != yaml.SequenceNode {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!null" {
			d.problem(max(n.Line, 1), "services: expected a list")
		}
		return
	}
	for _, item := range d.items(n, "services") {
		r.service(d, item, why)
	}
}

func (r *repository) service(d *document, n *yaml.Node, why string) {
	if n.Kind == yaml.ScalarNode {
		if name, ok := d.text(n, "services"); ok {
			r.add(d, d.line(n), ops.Service{Name: name}, nil, nil, why)
		}
		return
	}
	if n.Kind != yaml.MappingNode {
		d.problem(n.Line, "services: expected a name, or keys and values")
		return
	}
	var s ops.Service
	var needs []mention
	var probes []ops.ProbeSpec
	for _, f := range d.fields(n) {
		switch f.name {
		case "name":
			s.Name, _ = d.text(f.value, "name")
		case "group":
			if s.Group, _ = d.text(f.value, "group"); s.Group != "" && !plainName().MatchString(s.Group) {
				d.problem(f.line, quoted(s.Group)+" is not a name for a group")
				s.Group = ""
			}
		case "aliases":
			s.Aliases = words(d.texts(f.value, "aliases"))
		case "depends_on":
			needs = d.texts(f.value, "depends_on")
		case "probes":
			for i, item := range d.items(f.value, "probes") {
				if i == maxList {
					d.problem(item.Line, fmt.Sprintf("probes: only the first %d are taken", maxList))
					break
				}
				if p, ok := d.probe(item); ok {
					probes = append(probes, p)
				}
			}
		default:
			d.problem(f.line, quoted(f.name)+" is not known here; use name, aliases, group, depends_on, probes")
		}
	}
	if s.Name == "" {
		d.problem(n.Line, "the service has no name; add name: …")
		return
	}
	r.add(d, d.line(n), s, probes, needs, why)
}

// probe reads one probe; everything in it must be usable.
func (d *document) probe(n *yaml.Node) (ops.ProbeSpec, bool) {
	spec := ops.ProbeSpec{Timeout: defaultTimeout}
	if n.Kind == yaml.ScalarNode {
		text, ok := d.text(n, "probes")
		if !ok {
			return spec, false
		}
		p, err := parseTarget(text)
		if err != nil {
			d.problem(n.Line, err.Error())
			return spec, false
		}
		return p, true
	}
	if n.Kind != yaml.MappingNode {
		d.problem(n.Line, "probes: expected keys and values")
		return spec, false
	}
	if kind := d.child(n, "type"); kind.Kind == yaml.ScalarNode && probeTypes()[kind.Value] == nil {
		d.problem(n.Line, fits(ops.ProbeSpec{Type: kind.Value}, nil).Error())
		return spec, false
	}
	ok := true
	given := map[string]int{}
	for _, f := range d.fields(n) {
		given[f.name] = f.line
		if slices.Contains(reserved(), f.name) {
			d.problem(f.line, f.name+" is not taken from a repository; configure this probe in claudeops.yaml")
			ok = false
			continue
		}
		if err := d.probeField(f, &spec); err != nil {
			d.problem(f.line, err.Error())
			ok = false
		}
	}
	if !ok {
		return spec, false
	}
	if err := fits(spec, given); err != nil {
		d.problem(n.Line, err.Error())
		return spec, false
	}
	return spec, true
}

// fits checks a probe as a whole.
func fits(spec ops.ProbeSpec, given map[string]int) error {
	own, known := probeTypes()[spec.Type]
	if !known {
		types := strings.Join(slices.Sorted(maps.Keys(probeTypes())), ", ")
		if spec.Type == "" {
			return fmt.Errorf("the probe has no type; a repository may ask for %s", types)
		}
		return fmt.Errorf("a probe of type %s is not taken from a repository, only %s; configure it in claudeops.yaml", quoted(spec.Type), types)
	}
	if _, ok := given[own[0]]; !ok {
		return fmt.Errorf("a probe of type %s needs %s", spec.Type, own[0])
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(own, name) && !slices.Contains(commonToProbes(), name) {
			return fmt.Errorf("a probe of type %s has no %s", spec.Type, quoted(name))
		}
	}
	if spec.SlowAfter >= spec.Timeout {
		return fmt.Errorf("slow_after of %s is not below the timeout of %s", spec.SlowAfter, spec.Timeout)
	}
	return nil
}

func (d *document) probeField(f field, spec *ops.ProbeSpec) error {
	lists := map[string]*[]string{"expect_json": &spec.ExpectJSON, "expect": &spec.Expect}
	if list := lists[f.name]; list != nil {
		*list = words(d.texts(f.value, f.name))
		return nil
	}
	if f.name == "expect_status" {
		return d.statuses(f, spec)
	}
	v := follow(f.value)
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" || len(v.Value) > maxText {
		return fmt.Errorf("%s: expected a single value of at most %d characters", quotedPart(f.name), maxText)
	}
	text := strings.TrimSpace(v.Value)
	texts := map[string]*string{"expect_body": &spec.ExpectBody, "expect_regexp": &spec.ExpectRegexp, "name": &spec.Name, "type": &spec.Type}
	names := map[string]*string{
		"host": &spec.Host, "server": &spec.Server, "container": &spec.Container, "unit": &spec.Unit, "process": &spec.Process,
	}
	spans := map[string]*time.Duration{"timeout": &spec.Timeout, "slow_after": &spec.SlowAfter, "interval": &spec.Interval}
	counts := map[string]*int{
		"fail_after": &spec.FailAfter, "recover_after": &spec.RecoverAfter, "cert_days": &spec.CertDays, "max_restarts": &spec.MaxRestarts,
	}
	var err error
	switch {
	case f.name == "name" && !plainName().MatchString(text):
		return fmt.Errorf("%s is not a name for a probe", quoted(text))
	case texts[f.name] != nil:
		*texts[f.name] = text
	case names[f.name] != nil && !target().MatchString(text):
		return fmt.Errorf("%s: %s is not a plain name", f.name, quoted(text))
	case names[f.name] != nil:
		*names[f.name] = text
	case spans[f.name] != nil:
		*spans[f.name], err = span(f.name, text)
	case counts[f.name] != nil:
		*counts[f.name], err = whole(f.name, text, 0, 1000)
	case f.name == "url":
		spec.URL, err = webAddress(text)
	case f.name == "address":
		spec.Address, err = netAddress(text)
	case f.name == "method":
		spec.Method, err = oneOf(f.name, text, "GET", "HEAD")
	case f.name == "record":
		spec.Record, err = oneOf(f.name, text, "A", "AAAA", "CNAME", "MX", "TXT", "NS", "SRV")
	default:
		err = fmt.Errorf("%s is not known in a probe", quoted(f.name))
	}
	return err
}

func (d *document) statuses(f field, spec *ops.ProbeSpec) error {
	for _, m := range d.texts(f.value, f.name) {
		code, err := whole(f.name, m.name, 100, 599)
		if err != nil {
			return err
		}
		spec.ExpectStatus = append(spec.ExpectStatus, code)
	}
	return nil
}

func oneOf(name, text string, allowed ...string) (string, error) {
	for _, a := range allowed {
		if strings.EqualFold(a, text) {
			return a, nil
		}
	}
	return "", fmt.Errorf("%s: a repository may give %s, not %s", name, strings.Join(allowed, ", "), quoted(text))
}

func whole(name, text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: %s is not a whole number from %d to %d", name, quoted(text), least, most)
	}
	return n, nil
}

// span reads a duration as in the configuration: with a unit, or in seconds.
func span(name, text string) (time.Duration, error) {
	least := time.Millisecond
	if name == "interval" {
		least = shortest
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		v, err = time.ParseDuration(text + "s")
	}
	if err != nil || v < least || v > 24*time.Hour {
		return 0, fmt.Errorf("%s: %s is not a time from %s to 24h", name, quoted(text), least)
	}
	return v, nil
}

// webAddress accepts an http or https URL without a password. Messages do not repeat it: it may contain one.
func webAddress(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") ||
		strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }) {
		return "", fmt.Errorf("the address is not an http or https URL")
	}
	if u.User != nil {
		return "", fmt.Errorf("the URL contains a user or password; configure this probe in claudeops.yaml")
	}
	return text, reachable(u.Hostname())
}

func netAddress(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	n, convErr := strconv.Atoi(port)
	if err != nil || convErr != nil || n < 1 || n > 65535 || (!target().MatchString(host) && !strings.HasPrefix(host, "::")) {
		return "", fmt.Errorf("%s is not host:port", quoted(text))
	}
	return text, reachable(host)
}

// reachable refuses addresses at which clouds hand out credentials.
func reachable(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil && (ip.Unmap().IsLinkLocalUnicast() || ip.IsMulticast()) {
		return fmt.Errorf("%s is not an address a repository may ask for", quoted(host))
	}
	return nil
}

// parseTarget makes a probe of one text: a URL, host:port, container:NAME or systemd:UNIT.
func parseTarget(text string) (ops.ProbeSpec, error) {
	spec := ops.ProbeSpec{Timeout: defaultTimeout}
	var err error
	kind, name, _ := strings.Cut(text, ":")
	switch {
	case strings.Contains(text, "://"):
		spec.Type = "http"
		spec.URL, err = webAddress(text)
	case kind == "container" && target().MatchString(name):
		spec.Type, spec.Container = kind, name
	case kind == "systemd" && target().MatchString(name):
		spec.Type, spec.Unit = kind, name
	default:
		spec.Type = "tcp"
		spec.Address, err = netAddress(text)
	}
	return spec, err
}
