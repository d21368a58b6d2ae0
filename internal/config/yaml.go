package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// The library gives the position of a syntax error only inside its message.
var yamlErrorLine = ops.Pattern(`line (\d+): (.*)`)

// candidate is a path at which the configuration file may be.
type candidate struct {
	path   string
	wanted origin // set when the operator named the file: then it must exist
}

func (l *loader) candidates() []candidate {
	if l.in.ConfigPath != "" {
		return []candidate{{l.in.ConfigPath, origin{source: sourceFlag, name: "config"}}}
	}
	if path := l.vars[configVariable]; path != "" {
		return []candidate{{path, origin{source: sourceEnvironment, name: configVariable}}}
	}
	out := []candidate{{path: "claudeops.yaml"}}
	if l.places.configHome != "" {
		out = append(out, candidate{path: filepath.Join(l.places.configHome, "claudeops", "claudeops.yaml")})
	}
	if l.in.SystemPath != "" {
		out = append(out, candidate{path: l.in.SystemPath})
	}
	return out
}

// openFile finds the file and returns its root node; only the first of the usual files that exists is used.
func (l *loader) openFile() *yaml.Node {
	for _, c := range l.candidates() {
		path := c.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.in.Dir, path)
		}
		data, err := l.places.readFile(path)
		named := c.wanted != origin{}
		if errors.Is(err, fs.ErrNotExist) && !named {
			continue
		}
		if err != nil {
			at := c.wanted
			if !named {
				at = origin{source: sourceFile, name: c.path, line: 1, col: 1}
			}
			l.problems.add(at, "", fmt.Sprintf("read configuration file: %s", err), "give the path of a readable YAML file")
			return nil
		}
		l.fileName, l.fileDir, l.digest = c.path, filepath.Dir(path), Digest(data)
		return l.parse(data)
	}
	return nil
}

func (l *loader) parse(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil // an empty file sets nothing
	}
	if err == nil {
		if err = decoder.Decode(&second); err == nil {
			l.problems.add(l.position(&second), "", "a second document begins here", "keep one document per file")
			return document.Content[0]
		}
	}
	if errors.Is(err, io.EOF) {
		return document.Content[0]
	}
	line, message := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlErrorLine().FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = m[2]
	}
	at := origin{source: sourceFile, name: l.fileName, line: brokenLine(data, line), col: 1}
	l.problems.add(at, "", "the file is not valid YAML: "+message, "check the indentation and quotes of this line and the one before")
	return nil
}

// brokenLine is the line after the longest beginning of a text that is valid. The parser's own errors name the line at which a list or
// mapping begins, which may be the first one of the file; how far it has read bounds the search.
func brokenLine(data []byte, reported int) int {
	const tries = 300 // a quote that is never closed makes a large file all wrong
	lines := bytes.SplitAfter(data, []byte("\n"))
	read := &byLine{lines: slices.Clone(lines)}
	_ = valid(read)
	for n := len(lines) - len(read.lines); n > 0 && n > len(lines)-len(read.lines)-tries; n-- {
		if valid(bytes.NewReader(bytes.Join(lines[:n-1], nil))) {
			return n
		}
	}
	return reported
}

// valid reports whether a text is YAML.
func valid(text io.Reader) bool {
	for decoder := yaml.NewDecoder(text); ; {
		if err := decoder.Decode(new(yaml.Node)); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// byLine is a text of which at most a line is read at once.
type byLine struct{ lines [][]byte }

func (t *byLine) Read(p []byte) (int, error) {
	if len(t.lines) == 0 {
		return 0, io.EOF
	}
	n := copy(p, t.lines[0])
	if t.lines[0] = t.lines[0][n:]; len(t.lines[0]) == 0 {
		t.lines = t.lines[1:]
	}
	return n, nil
}

func (l *loader) position(n *yaml.Node) origin {
	return origin{source: sourceFile, name: l.fileName, line: n.Line, col: n.Column}
}

// pair is one key of a mapping with its value; an alias is already followed.
type pair struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
}

func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

// pairs returns the known keys of a mapping that have a value, and reports unknown and repeated ones. With nil every name is
// known. Hint may know the section of an unknown name.
func (l *loader) pairs(n *yaml.Node, section string, known []string, hint func(string) string) []pair {
	n = follow(n)
	if null(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		l.problems.add(l.position(n), section, "expected keys and values, found "+describe(n), "write name: value, indented below it")
		return nil
	}
	var out []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], follow(n.Content[i+1])
		path := join(section, key.Value)
		if line, twice := seen[key.Value]; twice {
			l.problems.add(l.position(key), path, fmt.Sprintf("the key is already given in line %d", line), "keep one of them")
			continue
		}
		seen[key.Value] = key.Line
		if key.Kind != yaml.ScalarNode || (known != nil && !slices.Contains(known, key.Value)) {
			l.problems.add(l.position(key), path, "unknown key", unknownFix(key.Value, section, known, hint))
			continue
		}
		if !null(value) {
			out = append(out, pair{name: key.Value, key: key, value: value})
		}
	}
	return out
}

func unknownFix(name, section string, known []string, hint func(string) string) string {
	if s := Suggest(name, known); s != "" {
		return "did you mean " + join(section, s) + "?"
	}
	if hint != nil {
		if s := hint(name); s != "" {
			return "did you mean " + s + "?"
		}
	}
	return "known here: " + strings.Join(known, ", ")
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode:
	}
	return "a single value"
}

// raw reads a single value, or a list of them where the field takes one.
func (l *loader) raw(n *yaml.Node, key string, list bool) (raw, bool) {
	n = follow(n)
	v := raw{at: l.position(n), dir: l.fileDir}
	switch {
	case n.Kind == yaml.ScalarNode:
		v.text = strings.TrimSpace(n.Value)
		return v, true
	case n.Kind == yaml.SequenceNode && list:
		v.list = true
		for i, item := range n.Content {
			path := fmt.Sprintf("%s[%d]", key, i)
			entry, ok := l.raw(item, path, false)
			if !ok {
				return raw{}, false
			}
			if entry.text == "" {
				l.problems.add(entry.at, path, "the entry is empty", "remove it")
				return raw{}, false
			}
			v.items = append(v.items, entry)
		}
		return v, true
	}
	wanted := "a single value"
	if list {
		wanted = "a single value or a list of them"
	}
	l.problems.add(l.position(n), key, fmt.Sprintf("expected %s, found %s", wanted, describe(n)), "")
	return raw{}, false
}

// items returns the entries of a list of objects.
func (l *loader) items(n *yaml.Node, key string) []*yaml.Node {
	n = follow(n)
	if null(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		l.problems.add(l.position(n), key, "expected a list, found "+describe(n), "begin each entry with a dash")
		return nil
	}
	return ops.Map(n.Content, follow)
}

// readNode reads the value of a field at a node of the file.
func (l *loader) readNode(f field, n *yaml.Node, key string) {
	if f.structured() {
		if f.empty != "" && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			l.problems.add(l.position(n), key, "the list is empty", f.empty)
		}
		f.descend(l, n, key)
		return
	}
	v, ok := l.raw(n, key, f.isList)
	if !ok {
		return
	}
	if v.text == "" && !v.list {
		l.problems.add(v.at, key, "the value is empty", "give a value, or remove the key")
		return
	}
	l.problems.addFaults(key, f.read(l.places, v))
}

// entry is an object of the file that was read by its fields. Checks name a field by its address in the struct it was read into.
type entry struct {
	*loader
	node   *yaml.Node
	key    string
	fields table
	given  map[any]pair
}

// readEntry reads an object by its fields and remembers where each of them is.
func (l *loader) readEntry(n *yaml.Node, key string, fields table) *entry {
	e := &entry{loader: l, node: n, key: key, fields: fields, given: map[any]pair{}}
	if n.Kind != yaml.MappingNode {
		e.refuseAll("begin with "+fields[0].key+": …", "expected keys and values, found %s", describe(n))
		return e
	}
	locate := func(key string, n *yaml.Node) {
		if _, known := l.origins[key]; !known && ofPolicy(key) {
			l.origins[key] = l.position(n)
		}
	}
	locate(key, n)
	for _, p := range l.pairs(n, key, fields.keys(), nil) {
		f, _ := fields.find(p.name)
		path := join(key, p.name)
		locate(path, p.value)
		for i, item := range p.value.Content {
			locate(fmt.Sprintf("%s[%d]", path, i), item)
		}
		e.given[f.at] = p
		l.readNode(f, p.value, path)
	}
	for _, f := range fields {
		if e.has(f.at) {
			continue
		}
		if f.def != "" {
			l.problems.addFaults(join(key, f.key), f.read(l.places, raw{text: f.def, dir: l.fileDir}))
		}
		if f.required && f.only == nil {
			e.missing(f)
		}
	}
	return e
}

// missing reports a required field that is not given.
func (e *entry) missing(f field) {
	message, fix := f.missing, "…"
	message = cmp.Or(message, f.key+" is missing")
	if f.words != nil {
		fix = strings.Join(f.words, ", ")
	}
	e.refuseAll("add "+f.key+": "+fix, "%s", message)
}

// has reports whether a field is given.
func (e *entry) has(at any) bool {
	_, ok := e.given[at]
	return ok
}

// hasAny reports whether one of the fields is given.
func (e *entry) hasAny(fields ...any) bool { return slices.ContainsFunc(fields, e.has) }

// refuse reports a problem of one field, at its value or, where it is not given, at the whole entry.
func (e *entry) refuse(at any, fix, format string, args ...any) {
	node := e.node
	if p, ok := e.given[at]; ok {
		node = p.value
	}
	e.problems.add(e.position(node), join(e.key, e.fields.bound(at).key), fmt.Sprintf(format, args...), fix)
}

// refuseItem reports a problem of one entry of a plain list.
func (e *entry) refuseItem(at any, i int, fix, format string, args ...any) {
	key := fmt.Sprintf("%s[%d]", join(e.key, e.fields.bound(at).key), i)
	n := e.given[at].value
	if i < len(n.Content) { // otherwise a single value stands for the list
		n = n.Content[i]
	}
	e.problems.add(e.position(n), key, fmt.Sprintf(format, args...), fix)
}

// refuseAll reports a problem of the whole entry.
func (e *entry) refuseAll(fix, format string, args ...any) {
	e.problems.add(e.position(e.node), e.key, fmt.Sprintf(format, args...), fix)
}
