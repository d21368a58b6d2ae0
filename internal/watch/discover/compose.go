package discover

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

var (
	variable = ops.Pattern(`\$\{[A-Za-z_][A-Za-z0-9_]*(?::?-([^{}$]*))?\}|\$[A-Za-z_][A-Za-z0-9_]*`)
	// What compose leaves out of a folder's name to make a project's name.
	//
	notProject = ops.Pattern(`[^a-z0-9_-]`)
)

// label is the prefix of the labels with which a compose file can say more.
const label = "claudeops."

// compose reads the services of a compose file. It is not run through compose: what includes, extends or variables
// without a default would add is not seen.
func (r *repository) compose(name, text string) {
	d := &document{scanner: r.scanner, file: r.file(name)}
	root := d.parse(text)
	if root == nil {
		return
	}
	if follow(root).Kind != yaml.MappingNode {
		d.problem(root.Line, "is not a compose file: expected keys and values")
		return
	}
	services := d.child(root, "services")
	switch {
	case services.Kind == 0:
		return // an older or a partial file
	case services.Kind != yaml.MappingNode:
		d.problem(max(services.Line, 1), "services: expected keys and values")
		return
	}
	project := projectOf(r.name, name)
	if n := d.child(root, "name"); n.Kind == yaml.ScalarNode {
		if given, ok := d.expand(n, "name"); ok {
			project = given
		}
	}
	for i, f := range d.fields(services) {
		if i > maxPerFile {
			break // add has reported it
		}
		if f.value.Kind != yaml.MappingNode {
			d.problem(f.line, "the service "+quotedPart(f.name)+" is not keys and values")
			continue
		}
		r.composed(d, f, project)
	}
}

// projectOf is the project's name that compose would choose.
func projectOf(repository, file string) string {
	folder := path.Base(path.Dir(file))
	if folder == "." {
		folder = repository
	}
	return strings.TrimLeft(notProject().ReplaceAllString(strings.ToLower(folder), ""), "_-")
}

// composed reads one service of a compose file.
func (r *repository) composed(d *document, f field, project string) {
	s := ops.Service{Name: f.name}
	container := project + "-" + f.name + "-1"
	var needs []mention
	var ports []string
	labels := map[string]string{}
	var profiles []string
	health := false
	for _, v := range d.fields(f.value) {
		switch v.name {
		case "container_name":
			if given, ok := d.expand(v.value, v.name); ok && given != "" {
				container = given
				if given != s.Name {
					s.Aliases = append(s.Aliases, given)
				}
			}
		case "depends_on":
			needs = d.composeNeeds(v.value)
		case "ports":
			ports = d.ports(v.value)
		case "labels":
			labels = d.labels(v.value)
		case "healthcheck":
			health = d.checked(v.value)
		case "profiles":
			profiles = words(d.texts(v.value, v.name))
		}
	}
	if v := strings.ToLower(labels["enable"]); v == "false" || v == "no" || v == "0" {
		return
	}
	if name := labels["name"]; name != "" && name != s.Name {
		// Other services in the file depend on it by this name.
		s.Aliases = append(s.Aliases, s.Name)
		s.Name = name
		s.Aliases = slices.DeleteFunc(s.Aliases, func(a string) bool { return a == name })
	}
	if g := labels["group"]; plainName().MatchString(g) {
		s.Group = g
	}
	why := []string{"is a compose service"}
	if len(profiles) > 0 {
		// It may be off without being a failure.
		r.add(d, f.line, s, nil, needs, "is a compose service that only runs with a profile")
		return
	}
	var probes []ops.ProbeSpec
	if u := labels["url"]; u != "" {
		p, err := parseTarget(u)
		if err != nil {
			d.problem(f.line, err.Error())
		} else {
			probes = append(probes, p)
			why = append(why, "a label names its address")
		}
	}
	if health {
		probes = append(probes, ops.ProbeSpec{Type: "container", Container: container, Timeout: defaultTimeout})
		why = append(why, "has a health check")
	}
	for _, address := range ports {
		probes = append(probes, ops.ProbeSpec{Type: "tcp", Address: address, Timeout: defaultTimeout})
	}
	if len(ports) > 0 {
		why = append(why, "publishes "+strings.Join(ports, ", "))
	}
	r.add(d, f.line, s, probes, needs, strings.Join(why, ", "))
}

// composeNeeds reads either form: a list of names, or names with conditions.
func (d *document) composeNeeds(n *yaml.Node) []mention {
	if n = follow(n); n.Kind != yaml.MappingNode {
		return d.texts(n, "depends_on")
	}
	var out []mention
	for _, f := range d.fields(n) {
		if len(out) < maxList {
			out = append(out, mention{f.name, f.line})
		}
	}
	return out
}

// labels are those with our prefix, which is removed.
func (d *document) labels(n *yaml.Node) map[string]string {
	out := map[string]string{}
	keep := func(name, value string) {
		if own, ok := strings.CutPrefix(name, label); ok && len(value) <= maxText {
			out[own] = strings.TrimSpace(value)
		}
	}
	if n = follow(n); n.Kind == yaml.MappingNode {
		for _, f := range d.fields(n) {
			if f.value.Kind == yaml.ScalarNode {
				keep(f.name, f.value.Value)
			}
		}
		return out
	}
	for _, item := range d.items(n, "labels") {
		if item.Kind == yaml.ScalarNode {
			name, value, _ := strings.Cut(item.Value, "=")
			keep(name, value)
		}
	}
	return out
}

// checked reports whether there is an enabled health check.
func (d *document) checked(n *yaml.Node) bool {
	if follow(n).Kind != yaml.MappingNode {
		d.problem(max(n.Line, 1), "healthcheck: expected keys and values")
		return false
	}
	on := false
	for _, f := range d.fields(n) {
		switch f.name {
		case "disable":
			if v := strings.ToLower(f.value.Value); v == "true" || v == "yes" {
				return false
			}
		case "test":
			on = f.value.Kind == yaml.ScalarNode && !strings.EqualFold(f.value.Value, "none")
			if f.value.Kind == yaml.SequenceNode && len(f.value.Content) > 0 {
				on = follow(f.value.Content[0]).Value != "NONE"
			}
		}
	}
	return on
}

// ports are the addresses at which tcp ports are published on the machine itself.
func (d *document) ports(n *yaml.Node) []string {
	var out []string
	for _, item := range d.items(n, "ports") {
		address := ""
		if item.Kind == yaml.MappingNode {
			address = d.longPort(item)
		} else if text, ok := d.expand(item, "ports"); ok {
			var err error
			if address, err = shortPort(text); err != nil {
				d.problem(item.Line, err.Error())
			}
		}
		if address != "" && !slices.Contains(out, address) && len(out) < maxList {
			out = append(out, address)
		}
	}
	return out
}

func (d *document) longPort(n *yaml.Node) string {
	values := map[string]string{"protocol": "tcp"}
	for _, f := range d.fields(n) {
		switch f.name {
		case "published", "host_ip", "protocol":
			text, ok := d.expand(f.value, "ports."+f.name)
			if !ok {
				return ""
			}
			values[f.name] = text
		}
	}
	if values["protocol"] != "tcp" || values["published"] == "" {
		return ""
	}
	address, err := published(values["host_ip"], values["published"])
	if err != nil {
		d.problem(n.Line, err.Error())
	}
	return address
}

// shortPort reads [host:]published:container[/protocol]. A port of the container alone is published at random.
func shortPort(text string) (string, error) {
	ports, protocol, _ := strings.Cut(text, "/")
	if protocol != "" && protocol != "tcp" {
		return "", nil
	}
	rest, container, both := cutLast(ports)
	if !both {
		if _, ok := firstPort(ports); !ok {
			return "", fmt.Errorf("ports: %s is not a port", quoted(text))
		}
		return "", nil
	}
	if _, ok := firstPort(container); !ok {
		return "", fmt.Errorf("ports: %s is not a port", quoted(text))
	}
	host, port, withHost := cutLast(rest)
	if !withHost {
		host, port = "", rest
	}
	if port == "" {
		return "", nil // host given, port at random
	}
	return published(strings.Trim(host, "[]"), port)
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndex(s, ":")
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// published is where a published port is reached from this machine; of a range, the first.
func published(host, port string) (string, error) {
	first, ok := firstPort(port)
	if !ok {
		return "", fmt.Errorf("ports: %s is not a port", quoted(port))
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	address := host + ":" + strconv.Itoa(first)
	if strings.Contains(host, ":") {
		address = "[" + host + "]:" + strconv.Itoa(first)
	}
	return netAddress(address)
}

// firstPort is a port, or the first of a range.
func firstPort(text string) (int, bool) {
	from, to, ranged := strings.Cut(text, "-")
	if !ranged {
		to = from
	}
	first, err := strconv.Atoi(from)
	last, errLast := strconv.Atoi(to)
	return first, err == nil && errLast == nil && first >= 1 && first <= last && last <= 65535
}

// expand is a text with the defaults of its variables. Values of variables are not looked up: they may be secrets.
func (d *document) expand(n *yaml.Node, what string) (string, bool) {
	text, ok := d.text(n, what)
	if !ok {
		return "", false
	}
	missing := ""
	text = variable().ReplaceAllStringFunc(text, func(v string) string {
		m := variable().FindStringSubmatch(v)
		if !strings.Contains(v, "-") {
			missing = v
		}
		return m[1]
	})
	if missing != "" {
		d.problem(n.Line, fmt.Sprintf("%s: the value of %s is not known here; give it a default, or configure the probe in claudeops.yaml",
			what, quotedPart(missing)))
		return "", false
	}
	if strings.Contains(text, "$") {
		d.problem(n.Line, what+": the value holds a variable that cannot be read here")
		return "", false
	}
	return text, true
}
