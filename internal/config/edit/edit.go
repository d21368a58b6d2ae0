// Package edit changes one thing in the operator's configuration file and leaves every other byte as it was. It is pure: bytes in, bytes
// out. What it returns was parsed again, and differs from the old document by this one thing.
package edit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Change is the one thing that is added, changed or removed: exactly one of Service, Probe, Targets, Trust and Remove is set. Commands,
// rules and actions are not among them, because whoever writes these runs programs as the daemon.
type Change struct {
	Environment string
	Name        string   // of the service that it is about; empty: the trust of the environment
	Service     *Service // a new one
	Probe       *Probe   // a new one, or what the one at At becomes
	At          int      // which probe of the service, from 1, is changed or removed
	Targets     string   // the file that holds the notification targets
	Trust       string   // a level
	Remove      bool     // the line that names Targets, the probe at At, or without these the service
}

// Service is a new service, with its first probe or none.
type Service struct {
	Name  string
	Probe *Probe
}

// Probe is a probe that a form can write. The type decides which of the fields it may have.
type Probe struct {
	Type, URL, ExpectStatus, ExpectBody, Address, Container, Every, Grace, Interval string
}

// probeKeys are the keys of a probe in the order in which they are written.
func probeKeys() []string {
	return []string{"type", "url", "expect_status", "expect_body", "address", "container", "every", "grace", "interval"}
}

// Field is the value of a key; nil if a form writes no such key.
func (p *Probe) Field(key string) *string {
	return map[string]*string{
		"type": &p.Type, "url": &p.URL, "expect_status": &p.ExpectStatus, "expect_body": &p.ExpectBody, "address": &p.Address,
		"container": &p.Container, "every": &p.Every, "grace": &p.Grace, "interval": &p.Interval,
	}[key]
}

// Written is a probe as it stands in the file.
type Written struct {
	Probe

	Line  int
	Plain bool // it holds nothing but what a form writes
}

// ProbeTypes are the probes that can be added: none of them runs a program.
func ProbeTypes() []string { return []string{"http", "tcp", "container", "heartbeat"} }

// Result is the changed file.
type Result struct {
	Content []byte
	Line    int    // where the first new line stands, from 1
	Offset  int    // where the new text begins
	Added   string // the new text; of a changed probe what is other now
	Removed string // what stood in its place
}

// Unfit is a value that cannot be written.
type Unfit struct{ Key, Why string }

func (u *Unfit) Error() string { return u.Key + " " + u.Why }

// longest is how long a value may be, in bytes.
const longest = 2000

// Apply makes the change in the file.
func Apply(content []byte, c Change) (Result, error) {
	d, err := parse(content)
	if err != nil {
		return Result{}, err
	}
	switch {
	case c.Remove:
		return d.remove(c)
	case c.Probe != nil && c.At > 0:
		return d.changeProbe(c)
	case c.Service != nil:
		return d.addService(c)
	case c.Probe != nil:
		return d.addProbe(c)
	case c.Targets != "":
		return d.addTargets(c.Targets)
	case c.Trust != "":
		return d.setTrust(c)
	}
	return Result{}, errors.New("nothing is to be changed")
}

// Probes are the probes of a service as they stand in the file.
func Probes(content []byte, environment, service string) ([]Written, error) {
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	s, err := d.service(Change{Environment: environment, Name: service})
	if err != nil {
		return nil, err
	}
	s, found, err := s.child("probes")
	if err != nil || !found {
		return nil, err
	}
	var out []Written
	for _, n := range s.node.Content {
		out = append(out, written(n))
	}
	return out, nil
}

func written(n *yaml.Node) Written {
	out := Written{Line: n.Line, Plain: n.Kind == yaml.MappingNode && n.Anchor == ""}
	for i := 0; i+1 < len(n.Content); i += 2 {
		field, value := out.Field(n.Content[i].Value), n.Content[i+1]
		if field == nil || value.Kind != yaml.ScalarNode || value.Anchor != "" {
			out.Plain = false
			continue
		}
		*field = value.Value
	}
	out.Plain = out.Plain && slices.Contains(ProbeTypes(), out.Type)
	return out
}

// TargetsFile returns the file that the configuration names for the notification targets, and in which line; empty if it names none.
func TargetsFile(content []byte) (string, int, error) {
	d, err := parse(content)
	if err != nil {
		return "", 0, err
	}
	s, found, err := d.top().child("notify")
	if err == nil && found {
		s, found, err = s.child(targetsKey)
	}
	if err != nil || !found {
		return "", 0, err
	}
	return s.node.Value, s.node.Line, nil
}

const targetsKey = "apprise_urls_file"

func (d *document) addService(c Change) (Result, error) {
	pairs, err := mapping("name", c.Service.Name)
	if err != nil {
		return Result{}, err
	}
	if c.Service.Probe != nil {
		probe, err := c.Service.Probe.node()
		if err != nil {
			return Result{}, err
		}
		pairs.Content = append(pairs.Content, text("probes"), list(probe))
	}
	s, found, err := d.services(c.Environment)
	if err != nil {
		return Result{}, err
	}
	if !found {
		return d.add(s, -1, text("services"), list(pairs))
	}
	for _, item := range s.node.Content {
		if line := named(item, c.Service.Name); line > 0 {
			return Result{}, &Unfit{"name", fmt.Sprintf("%q exists already, in line %d", c.Service.Name, line)}
		}
	}
	return d.add(s, -1, pairs)
}

func (d *document) addProbe(c Change) (Result, error) {
	probe, err := c.Probe.node()
	if err != nil {
		return Result{}, err
	}
	service, err := d.service(c)
	if err != nil {
		return Result{}, err
	}
	s, found, err := service.child("probes")
	if err != nil {
		return Result{}, err
	}
	if !found {
		return d.add(service, -1, text("probes"), list(probe))
	}
	for _, item := range s.node.Content {
		if same(probe, item) {
			return Result{}, fmt.Errorf("%s has this probe already, in line %d", c.Name, item.Line)
		}
	}
	return d.add(s, -1, probe)
}

// probeAt is the place of a probe in the file.
func (d *document) probeAt(c Change) (spot, error) {
	service, err := d.service(c)
	if err != nil {
		return spot{}, err
	}
	s, found, err := service.child("probes")
	if err == nil && (!found || s.node.Kind != yaml.SequenceNode || c.At > len(s.node.Content)) {
		err = fmt.Errorf("%s has no probe %d in this file: open its page again", c.Name, c.At)
	}
	if err != nil {
		return spot{}, err
	}
	return s.at(c.At-1, s.node.Content[c.At-1])
}

// changeProbe writes the values of a probe that are others now, key by key: comments and order stay.
func (d *document) changeProbe(c Change) (Result, error) {
	s, err := d.probeAt(c)
	if err != nil {
		return Result{}, err
	}
	was := written(s.node)
	switch _, unfit := c.Probe.node(); {
	case !was.Plain:
		return Result{}, fmt.Errorf("the probe in line %d holds more than a form can write: change it there", was.Line)
	case c.Probe.Type != was.Type:
		return Result{}, &Unfit{"type", "stays " + was.Type + ": remove this probe and add another one"}
	case unfit != nil:
		return Result{}, unfit
	}
	out := Result{Content: d.content, Line: was.Line}
	for _, key := range probeKeys() {
		before, now := *was.Field(key), *c.Probe.Field(key)
		if before == now {
			continue
		}
		next, err := parse(out.Content)
		if err != nil {
			return out, err
		}
		r, err := next.setKey(c, key, before, now)
		if err != nil {
			return out, err
		}
		out.Content, out.Line = r.Content, r.Line
		out.Added = strings.TrimSpace(out.Added + " " + key + ": " + cmp.Or(now, "(none)"))
	}
	if out.Added == "" {
		return out, errors.New("nothing differs from the probe as it is")
	}
	return out, nil
}

// setKey adds, replaces or removes a value of a probe.
func (d *document) setKey(c Change, key, before, now string) (Result, error) {
	s, err := d.probeAt(c)
	if err != nil {
		return Result{}, err
	}
	if before == "" {
		return d.add(s, -1, text(key), text(now))
	}
	old, _, err := s.child(key)
	switch {
	case err != nil:
		return Result{}, err
	case now == "":
		return d.without(old.path)
	}
	return d.replace(old, text(now))
}

// remove takes a probe, a whole service or the line of the targets out.
func (d *document) remove(c Change) (Result, error) {
	var s spot
	var err error
	switch {
	case c.Targets != "":
		s, _, err = d.top().child("notify")
		if err == nil {
			s, _, err = s.child(targetsKey)
		}
	case c.At > 0:
		s, err = d.probeAt(c)
	default:
		s, err = d.service(c)
	}
	if err != nil {
		return Result{}, err
	}
	return d.without(s.path)
}

func (d *document) addTargets(path string) (Result, error) {
	pair, err := mapping(targetsKey, path)
	if err != nil {
		return Result{}, err
	}
	s, found, err := d.top().child("notify")
	if err != nil {
		return Result{}, err
	}
	if !found {
		return d.add(d.top(), -1, text("notify"), pair)
	}
	return d.add(s, -1, pair.Content...)
}

func (d *document) setTrust(c Change) (Result, error) {
	pair, err := mapping("trust", c.Trust)
	if err != nil {
		return Result{}, err
	}
	s := d.top()
	if c.Name != "" {
		s, err = d.service(c)
	} else if own, found, e := d.environment(c.Environment); e != nil || found {
		s, err = own, e
	}
	if err != nil {
		return Result{}, err
	}
	old, found, err := s.child("trust")
	if err != nil {
		return Result{}, err
	}
	if found {
		return d.replace(old, pair.Content[1])
	}
	after := -1
	for i := 0; i+1 < len(s.node.Content); i += 2 {
		if s.node.Content[i].Value == "name" && !s.flow {
			after = i + 2 // beside the name it is found
		}
	}
	return d.add(s, after, pair.Content...)
}

// node is the probe as it is written.
func (p *Probe) node() (*yaml.Node, error) {
	if !slices.Contains(ProbeTypes(), p.Type) {
		return nil, &Unfit{"type", fmt.Sprintf("%q cannot be added by a form", p.Type)}
	}
	var pairs []string
	for _, key := range probeKeys() {
		pairs = append(pairs, key, *p.Field(key))
	}
	return mapping(pairs...)
}

// mapping makes keys and values of a list of both. Empty values are left out.
func mapping(pairs ...string) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for pair := range slices.Chunk(pairs, 2) {
		key, value := pair[0], pair[1]
		control := func(r rune) bool {
			return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r == '\uFEFF'
		}
		switch {
		case value == "":
			continue
		case !utf8.ValidString(value) || strings.ContainsFunc(value, control):
			return nil, &Unfit{key, "holds characters that are not text, such as a line break"}
		case len(value) > longest:
			return nil, &Unfit{key, fmt.Sprintf("is too long: use at most %d characters", longest)}
		case strings.TrimSpace(value) != value:
			return nil, &Unfit{key, "begins or ends with a blank"}
		}
		n.Content = append(n.Content, text(key), text(value))
	}
	if len(n.Content) == 0 {
		return nil, &Unfit{pairs[0], "is missing"}
	}
	return n, nil
}

func text(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: value} }

func list(items ...*yaml.Node) *yaml.Node { return &yaml.Node{Kind: yaml.SequenceNode, Content: items} }

// named returns the line of an entry with that name or alias; 0 if it has another one.
func named(item *yaml.Node, name string) int {
	for item.Kind == yaml.AliasNode {
		item = item.Alias
	}
	for i := 0; i+1 < len(item.Content); i += 2 {
		key, value := item.Content[i], item.Content[i+1]
		isAlias := func(n *yaml.Node) bool { return n.Value == name }
		if key.Value == "name" && value.Value == name || key.Value == "aliases" && slices.ContainsFunc(value.Content, isAlias) {
			return item.Line
		}
	}
	return 0
}

// same reports whether two trees hold the same. Where the first one has no tag, it was made here and only must not become null.
func same(a, b *yaml.Node) bool {
	null := func(n *yaml.Node) bool { return n.Tag == "!!null" }
	if a.Kind != b.Kind || a.Value != b.Value || a.Anchor != b.Anchor || len(a.Content) != len(b.Content) || null(a) != null(b) ||
		a.Kind == yaml.ScalarNode && a.Tag != "" && a.Tag != b.Tag {
		return false
	}
	for i := range a.Content {
		if !same(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}

// quoted writes a text so that it is read again as the same text.
func quoted(value string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-:@=+", r))
	}
	var n yaml.Node
	if !strings.ContainsFunc(value, func(r rune) bool { return !plain(r) }) && !strings.HasSuffix(value, ":") &&
		yaml.Unmarshal([]byte(value), &n) == nil && len(n.Content) == 1 && same(text(value), n.Content[0]) {
		return value
	}
	var b bytes.Buffer
	b.WriteByte('"')
	for _, r := range value {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
