package edit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document is a file with its tree, whose nodes know their lines and columns.
type document struct {
	content []byte
	lines   []int // where each line begins
	root    *yaml.Node
	eol     string
}

// parse reads a file with at most one document. An empty file has a null as its root.
func parse(content []byte) (*document, error) {
	d := &document{content: content, lines: []int{0}, eol: "\n"}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var first, second yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		d.root = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	case err != nil:
		return nil, fmt.Errorf("the file is not valid YAML: %w", err)
	default:
		d.root = first.Content[0]
		if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
			return nil, errors.New("the file holds more than one document")
		}
	}
	if !utf8.Valid(content) {
		return nil, errors.New("the file is not written in UTF-8")
	}
	for i, b := range content {
		if b == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	if i := bytes.IndexByte(content, '\n'); i > 0 && content[i-1] == '\r' {
		d.eol = "\r\n"
	}
	return d, nil
}

// spot is a place in the tree.
type spot struct {
	node   *yaml.Node
	path   []int // the way to it from the root
	column int   // of the key that it belongs to, from 1; 0 for the root
	line   int   // of that key
	flow   bool  // it, or what is around it, is written in brackets
}

func (d *document) top() spot { return spot{node: d.root, flow: d.root.Style&yaml.FlowStyle != 0} }

// at goes one step down.
func (s spot) at(i int, key *yaml.Node) (spot, error) {
	n := s.node.Content[i]
	out := spot{
		node: n, path: append(slices.Clone(s.path), i), column: key.Column, line: key.Line, flow: s.flow || n.Style&yaml.FlowStyle != 0,
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return out, fmt.Errorf("line %d is shared with other places (& and *): write it there yourself", n.Line)
	}
	return out, nil
}

// child returns the value of a key.
func (s spot) child(key string) (spot, bool, error) {
	switch {
	case s.node.Tag == "!!null" && s.node.Kind == yaml.ScalarNode:
		return s, false, nil
	case s.node.Kind != yaml.MappingNode:
		return s, false, fmt.Errorf("line %d does not hold keys and values", s.node.Line)
	case s.node.Anchor != "":
		return s, false, fmt.Errorf("line %d is shared with other places (& and *): write it there yourself", s.node.Line)
	}
	for i := 0; i+1 < len(s.node.Content); i += 2 {
		if k := s.node.Content[i]; k.Value == key {
			out, err := s.at(i+1, k)
			return out, true, err
		}
	}
	return s, false, nil
}

// item returns the entry of a list with a name.
func (s spot) item(name string) (spot, bool, error) {
	for i, n := range s.node.Content {
		if s.node.Kind == yaml.SequenceNode && named(n, name) > 0 {
			out, err := s.at(i, n)
			return out, true, err
		}
	}
	return s, false, nil
}

// environment returns the entry of an environment that has one.
func (d *document) environment(name string) (spot, bool, error) {
	s, found, err := d.top().child("environments")
	if err != nil || !found {
		return s, false, err
	}
	return s.item(name)
}

// services returns the list of services of an environment: its own, or that of all. Without one it returns where the key belongs.
func (d *document) services(environment string) (spot, bool, error) {
	s, found, err := d.environment(environment)
	if err == nil && found {
		s, found, err = s.child("services")
	}
	if err == nil && !found {
		s, found, err = d.top().child("services")
	}
	if err == nil && found && s.node.Kind == yaml.MappingNode && len(s.node.Content) > 0 { // with strict and list
		inner, has, e := s.child("list")
		if e == nil && !has {
			e = fmt.Errorf("services in line %d has no list: add `list: []`", s.node.Line)
		}
		return inner, has, e
	}
	return s, found, err
}

// service returns the entry of a service.
func (d *document) service(c Change) (spot, error) {
	s, found, err := d.services(c.Environment)
	if err == nil && found {
		s, found, err = s.item(c.Name)
	}
	if err == nil && !found {
		err = fmt.Errorf("the service %s is not in this file", c.Name)
	}
	return s, err
}

// candidate is a way to write the change; the first one that is read again as intended is used.
type candidate struct {
	offset         int
	removed, added string
	kept           int // how much of what is added stood there before
}

// add puts nodes into a collection, after so many of its nodes; -1 is at its end.
func (d *document) add(s spot, after int, nodes ...*yaml.Node) (Result, error) {
	kind := yaml.MappingNode
	if nodes[0].Kind != yaml.ScalarNode {
		kind = yaml.SequenceNode
	}
	empty := len(s.node.Content) == 0
	if !empty && s.node.Kind != kind || empty && s.node.Kind == yaml.ScalarNode && s.node.Tag != "!!null" {
		return Result{}, fmt.Errorf("line %d holds something else than expected: see claudeops config check", s.node.Line)
	}
	wanted, err := parse(d.content)
	if err != nil {
		return Result{}, err
	}
	n := follow(wanted.root, s.path)
	n.Kind, n.Tag, n.Value = kind, "", ""
	if after < 0 {
		after = len(n.Content)
	}
	n.Content = slices.Insert(n.Content, after, nodes...)
	var tries []candidate
	switch {
	case s.flow && (!empty || slices.ContainsFunc(d.around(s), func(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 })):
		tries = d.inBrackets(s, nodes)
	case empty && len(s.path) > 0:
		tries = d.belowKey(s, nodes)
	case empty:
		tries = d.atEnd(nodes, 1)
	case len(s.path) == 0:
		tries = d.atEnd(nodes, s.node.Content[0].Column)
	default:
		tries = d.below(s, after, nodes)
	}
	return d.first(tries, wanted.root)
}

// replace writes another value in the place of a single one.
func (d *document) replace(s spot, value *yaml.Node) (Result, error) {
	wanted, err := parse(d.content)
	if err != nil {
		return Result{}, err
	}
	n := follow(wanted.root, s.path)
	n.Value, n.Tag = value.Value, ""
	at := d.offset(s.node)
	var tries []candidate
	for _, old := range []string{s.node.Value, `"` + s.node.Value + `"`, "'" + s.node.Value + "'"} {
		if s.node.Kind == yaml.ScalarNode && s.node.Value != "" && bytes.HasPrefix(d.content[at:], []byte(old)) {
			tries = append(tries, candidate{offset: at, removed: old, added: quoted(value.Value)})
		}
	}
	return d.first(tries, wanted.root)
}

// without takes an entry of a list out, or a value with its key. What holds nothing else goes with it.
func (d *document) without(path []int) (Result, error) {
	parent := follow(d.root, path[:len(path)-1])
	from, size := path[len(path)-1], 1
	if parent.Kind == yaml.MappingNode {
		from, size = from-1, 2
	}
	if len(parent.Content) == size && len(path) > 1 {
		return d.without(path[:len(path)-1])
	}
	wanted, err := parse(d.content)
	if err != nil {
		return Result{}, err
	}
	root := wanted.root
	rest := follow(root, path[:len(path)-1])
	if rest.Content = slices.Delete(rest.Content, from, from+size); len(rest.Content) == 0 {
		root = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	gone := parent.Content[from : from+size]
	begins, last := d.offset(gone[0]), gone[0].Line
	for _, n := range gone {
		walk(n, func(n *yaml.Node) { last = max(last, n.Line) })
	}
	var tries []candidate
	take := func(from, to int) {
		if from < to {
			tries = append(tries, candidate{offset: from, removed: string(d.content[from:to])})
		}
	}
	next := len(d.lines) + 1
	walk(d.root, func(n *yaml.Node) {
		if n.Line > last {
			next = min(next, n.Line)
		}
	})
	column := gone[0].Column
	if parent.Kind == yaml.SequenceNode {
		column = parent.Column
	}
	take(d.start(gone[0].Line), d.start(d.endOf(column, last+1, next)))
	for line := last + 1; line <= next; line++ {
		take(d.start(gone[0].Line), d.start(line))
	}
	if from+size < len(parent.Content) { // in brackets, or the first key behind a dash
		take(begins, d.offset(parent.Content[from+size]))
	}
	if from > 0 { // the last one in brackets, with the comma before it
		const most = 50
		end, brackets := d.offset(gone[len(gone)-1]), 0
		comma := bytes.LastIndexByte(d.content[:begins], ',')
		for ; comma >= 0 && end < len(d.content) && brackets < most; end++ {
			if c := d.content[end]; c == ']' || c == '}' {
				brackets++
				take(comma, end)
				take(comma, end+1)
			}
		}
	}
	return d.first(tries, root)
}

func follow(n *yaml.Node, path []int) *yaml.Node {
	for _, i := range path {
		n = n.Content[i]
	}
	return n
}

// first uses the first candidate that is read as it should be.
func (d *document) first(tries []candidate, wanted *yaml.Node) (Result, error) {
	for _, t := range tries {
		content := slices.Concat(d.content[:t.offset], []byte(t.added), d.content[t.offset+len(t.removed):])
		got, err := parse(content)
		if err != nil || !same(wanted, got.root) {
			continue
		}
		// Above the first letter there may be the end of the line before, and an empty line.
		begins := t.offset + len(t.added) - len(strings.TrimLeft(t.added[t.kept:], "\r\n"))
		line := 1 + bytes.Count(content[:begins], []byte("\n"))
		return Result{Content: content, Line: line, Offset: t.offset, Added: t.added, Removed: t.removed}, nil
	}
	return Result{}, errors.New("the file is written in a way that no line can be changed safely: write it there yourself")
}

// around are the collections around a spot.
func (d *document) around(s spot) []*yaml.Node {
	var out []*yaml.Node
	n := d.root
	for _, i := range s.path {
		out = append(out, n)
		n = n.Content[i]
	}
	return out
}

func (d *document) offset(n *yaml.Node) int {
	at := d.lines[min(n.Line, len(d.lines))-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(d.content[at:])
		at += size
	}
	return at
}

// start is where a line begins; that after the last one is the end of the file.
func (d *document) start(line int) int {
	if line > len(d.lines) {
		return len(d.content)
	}
	return d.lines[line-1]
}

// lineAt begins a line there, also after a last line without an end.
func (d *document) lineAt(line int, block string) candidate {
	at := d.start(line)
	if at == len(d.content) && at > 0 && d.content[at-1] != '\n' {
		block = d.eol + block
	}
	return candidate{offset: at, added: block}
}

// atEnd adds keys of the root at the end of the file: comments there mostly belong to what is above them.
func (d *document) atEnd(nodes []*yaml.Node, column int) []candidate {
	end := len(d.lines) + 1
	plain := d.lineAt(end, d.block(column, nodes))
	if len(bytes.TrimSpace(d.content)) == 0 {
		return []candidate{plain}
	}
	spaced := d.lineAt(end, d.eol+d.block(column, nodes))
	return append([]candidate{spaced, plain}, d.below(d.top(), len(d.root.Content), nodes)...)
}

// below adds lines after those that come before in a collection. Comments behind them that are not indented more than the new lines stay
// behind the new lines.
func (d *document) below(s spot, after int, nodes []*yaml.Node) []candidate {
	if len(s.node.Content) == 0 {
		return nil
	}
	column := s.node.Content[0].Column
	if s.node.Kind == yaml.SequenceNode {
		column = s.node.Column
	}
	low := 0
	inside := map[*yaml.Node]bool{}
	for _, n := range s.node.Content[:after] {
		walk(n, func(n *yaml.Node) { inside[n], low = true, max(low, n.Line) })
	}
	low++
	next := len(d.lines) + 1
	walk(d.root, func(n *yaml.Node) {
		if !inside[n] && n.Line >= low {
			next = min(next, n.Line)
		}
	})
	block := d.block(column, nodes)
	out := []candidate{d.lineAt(d.endOf(column, low, next), block)}
	const most = 200 // of a long text at the end of an entry
	for line := low; line <= next && line < low+most; line++ {
		out = append(out, d.lineAt(line, block))
	}
	return out
}

// endOf is the line after the last one that belongs to an entry, whose end lies between two lines: empty lines and comments that are not
// indented more than the entry belong to what follows.
func (d *document) endOf(column, low, next int) int {
	for next > low {
		line := string(d.content[d.start(next-1):d.start(next)])
		trimmed := strings.TrimSpace(line)
		if trimmed != "" && (trimmed[0] != '#' || strings.IndexByte(line, '#') >= column) {
			break
		}
		next--
	}
	return next
}

// belowKey adds the first lines of a key that has none: nothing, null, [] or {} is in their place.
func (d *document) belowKey(s spot, nodes []*yaml.Node) []candidate {
	at, end := d.offset(s.node), d.start(s.line+1)
	block := d.block(s.column+2, nodes)
	if s.node.Kind == yaml.ScalarNode && s.node.Value == "" {
		return []candidate{d.lineAt(s.line+1, block)}
	}
	if at > end {
		return nil
	}
	written := string(d.content[at:end])
	rest := strings.TrimPrefix(written, s.node.Value)
	if s.node.Kind != yaml.ScalarNode {
		brackets := strings.IndexAny(written, "]}")
		if brackets < 0 || strings.TrimSpace(written[1:brackets]) != "" {
			return nil
		}
		rest = written[brackets+1:]
	}
	if !strings.HasSuffix(rest, "\n") {
		rest += d.eol
	}
	for at > 0 && d.content[at-1] == ' ' { // no blanks are left behind
		at, written = at-1, " "+written
	}
	return []candidate{{at, written, rest + block, len(rest)}}
}

// inBrackets adds to a collection that is written in one line. Its closing bracket is one of those behind its last entry.
func (d *document) inBrackets(s spot, nodes []*yaml.Node) []candidate {
	at, separator := d.offset(s.node)+1, ""
	for _, n := range s.node.Content {
		walk(n, func(n *yaml.Node) { at, separator = max(at, d.offset(n)), ", " })
	}
	var parts []string
	for i := 0; i < len(nodes); i++ {
		part := inFlow(nodes[i])
		if nodes[i].Kind == yaml.ScalarNode {
			i++
			part += ": " + inFlow(nodes[i])
		}
		parts = append(parts, part)
	}
	var out []candidate
	const most = 50
	for ; at < len(d.content) && len(out) < most; at++ {
		if c := d.content[at]; c == ']' || c == '}' {
			out = append(out, candidate{offset: at, added: separator + strings.Join(parts, ", ")})
		}
	}
	return out
}

func walk(n *yaml.Node, visit func(*yaml.Node)) {
	visit(n)
	for _, c := range n.Content {
		walk(c, visit)
	}
}

// block writes entries of a list, or keys with their values, one per line.
func (d *document) block(column int, nodes []*yaml.Node) string {
	var b strings.Builder
	indent := strings.Repeat(" ", column-1)
	if nodes[0].Kind != yaml.ScalarNode {
		for _, n := range nodes {
			b.WriteString(indent + "- " + strings.TrimLeft(d.block(column+2, n.Content), " "))
		}
		return b.String()
	}
	for pair := range slices.Chunk(nodes, 2) {
		b.WriteString(indent + pair[0].Value + ":")
		if pair[1].Kind == yaml.ScalarNode {
			b.WriteString(" " + quoted(pair[1].Value) + d.eol)
			continue
		}
		b.WriteString(d.eol + d.block(column+2, pair[1].Content))
	}
	return b.String()
}

// inFlow writes a node in one line.
func inFlow(n *yaml.Node) string {
	var parts []string
	switch n.Kind {
	case yaml.SequenceNode:
		for _, c := range n.Content {
			parts = append(parts, inFlow(c))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case yaml.MappingNode:
		for pair := range slices.Chunk(n.Content, 2) {
			parts = append(parts, inFlow(pair[0])+": "+inFlow(pair[1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode:
	}
	return quoted(n.Value)
}
