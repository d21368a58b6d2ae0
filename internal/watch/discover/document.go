package discover

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

var (
	// plainName allows only names that are safe in pages, prompts and commands that people copy.
	//
	plainName = ops.Pattern(`^[A-Za-z0-9][A-Za-z0-9 ._@:/-]{0,62}$`)
	// The library gives the line of a syntax error only in its message.
	//
	yamlErrorLine = ops.Pattern(`line (\d+): (.*)`)
)

// document is one file that is being read, with a budget: anchors and merges let a small file grow without end.
type document struct {
	scanner  *scanner
	file     string
	offset   int // lines before the YAML begins
	steps    int
	services int
}

// field is one key of a mapping.
type field struct {
	name  string
	line  int
	value *yaml.Node
}

// parse returns the first node of the YAML; nil when there is none.
func (d *document) parse(text string) (root *yaml.Node) {
	defer func() {
		// The text comes from outside; a bug in the parser must not end the process.
		if fault := recover(); fault != nil {
			d.problem(1, "the YAML cannot be read")
			root = nil
		}
	}()
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		line, message := 1, strings.TrimPrefix(err.Error(), "yaml: ")
		if m := yamlErrorLine().FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1])
			message = m[2]
		}
		d.problem(line, "is not valid YAML: "+quotedPart(message))
		return nil
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) == 0 {
		return nil
	}
	return n.Content[0]
}

func (d *document) problem(line int, message string) {
	d.scanner.problem(d.file, line+d.offset, message)
}

// line is the line of a node in the file.
func (d *document) line(n *yaml.Node) int { return n.Line + d.offset }

// step takes one from the budget and reports whether anything was left.
func (d *document) step() bool {
	d.steps++
	if d.steps == maxSteps+1 {
		d.problem(1-d.offset, "holds too much, counting what its anchors repeat; the rest is not read")
	}
	return d.steps <= maxSteps
}

// follow is what an alias stands for. An alias of an alias cannot be written, so once is enough.
func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil {
		return &yaml.Node{}
	}
	return n
}

// fields are the keys of a mapping with what is merged into it; its own come first and win. Anything else has none.
func (d *document) fields(n *yaml.Node) []field {
	var out []field
	d.collect(n, 0, map[string]bool{}, &out)
	return out
}

func (d *document) collect(n *yaml.Node, depth int, seen map[string]bool, out *[]field) {
	n = follow(n)
	if n.Kind != yaml.MappingNode || depth > 8 {
		return
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !d.step() {
			return
		}
		key, value := n.Content[i], follow(n.Content[i+1])
		switch {
		case key.Kind != yaml.ScalarNode:
			d.problem(key.Line, "a key is not a plain text")
		case key.Value == "<<" && value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		case key.Value == "<<":
			merged = append(merged, value)
		case !seen[key.Value]:
			seen[key.Value] = true
			*out = append(*out, field{key.Value, key.Line, value})
		}
	}
	for _, m := range merged {
		if !d.step() {
			return
		}
		d.collect(m, depth+1, seen, out)
	}
}

// child is the value of one key; an empty node when there is none.
func (d *document) child(n *yaml.Node, name string) *yaml.Node {
	for _, f := range d.fields(n) {
		if f.name == name {
			return f.value
		}
	}
	return &yaml.Node{}
}

// items are the entries of a list. A single value is a list of one where a text is enough.
func (d *document) items(n *yaml.Node, what string) []*yaml.Node {
	n = follow(n)
	switch {
	case n.Kind == yaml.SequenceNode:
		if len(n.Content) > maxPerFile {
			d.problem(n.Line, fmt.Sprintf("%s: only the first %d entries are read", what, maxPerFile))
		}
		var out []*yaml.Node
		for _, item := range n.Content[:min(len(n.Content), maxPerFile)] {
			if !d.step() {
				break
			}
			out = append(out, follow(item))
		}
		return out
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		return []*yaml.Node{n}
	case n.Kind == yaml.MappingNode:
		d.problem(n.Line, what+": expected a list, found keys and values")
	}
	return nil
}

// text is a single value; anything else is reported as a problem and not ok.
func (d *document) text(n *yaml.Node, what string) (string, bool) {
	n = follow(n)
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		d.problem(n.Line, what+": expected a single value")
		return "", false
	case len(n.Value) > maxText:
		d.problem(n.Line, fmt.Sprintf("%s: the value is longer than %d characters", what, maxText))
		return "", false
	}
	return strings.TrimSpace(n.Value), true
}

// texts is a list of single values.
func (d *document) texts(n *yaml.Node, what string) []mention {
	var out []mention
	for i, item := range d.items(n, what) {
		if i == maxList {
			d.problem(item.Line, fmt.Sprintf("%s: only the first %d entries are taken", what, maxList))
			break
		}
		if text, ok := d.text(item, what); ok && text != "" {
			out = append(out, mention{text, d.line(item)})
		}
	}
	return out
}

func words(list []mention) []string {
	var out []string
	for _, m := range list {
		out = append(out, m.name)
	}
	return out
}

// quoted shows a text of a repository in a message: short, and without control characters.
func quoted(s string) string { return `"` + quotedPart(s) + `"` }

func quotedPart(s string) string {
	return shown(ops.Cut(s, 60))
}

var (
	heading = ops.Pattern(`^(#{1,6})\s+(.*?)\s*#*\s*$`)
	bullet  = ops.Pattern(`^\s{0,3}[-*+]\s+(.*)$`)
	rule    = ops.Pattern(`^\s*\|?[\s:|-]+\|?\s*$`)
	word    = ops.Pattern(`[A-Za-z0-9][A-Za-z0-9._@-]{0,62}`)
	webLink = ops.Pattern(`https?://[A-Za-z0-9._~:/?=%-]+`)
)

// markdown reads the front matter of a manifest.
func (r *repository) markdown(name, text string) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	d := &document{scanner: r.scanner, file: r.file(name)}
	lines := strings.Split(text, "\n")
	start := 0
	if lines[0] == "---" {
		end := 1
		for end < len(lines) && lines[end] != "---" && lines[end] != "..." {
			end++
		}
		if end == len(lines) {
			d.problem(1, "the front matter has no end; close it with a line ---")
			return
		}
		start = end + 1
		r.frontMatter(d, strings.Join(lines[1:end], "\n"), name)
	}
	d.oldForm(lines[start:], start)
}

func (r *repository) frontMatter(d *document, text, name string) {
	d.offset = 1
	defer func() { d.offset = 0 }()
	root := d.parse(text)
	if root == nil {
		return
	}
	if list := d.child(root, "services"); list.Kind != 0 {
		r.services(d, list, "is declared in "+name)
	}
}

// oldForm finds the lists and tables below a heading "Services", which earlier versions read, and says what to write instead.
func (d *document) oldForm(lines []string, offset int) {
	inside, fenced, at := 0, false, 0
	var entries []string
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
			fenced = !fenced
		}
		if m := heading().FindStringSubmatch(line); m != nil && !fenced {
			level := len(m[1])
			switch {
			case strings.EqualFold(m[2], "services"):
				inside = level
			case level <= inside:
				inside = 0
			}
			continue
		}
		header := i+1 < len(lines) && rule().MatchString(lines[i+1])
		row := strings.HasPrefix(trimmed, "|") && !rule().MatchString(line) && !header
		if fenced || inside == 0 || !row && !bullet().MatchString(line) {
			continue
		}
		if at == 0 {
			at = offset + i + 1
		}
		if e := inYAML(trimmed); e != "" && len(entries) < maxList {
			entries = append(entries, e)
		}
	}
	if at > 0 {
		d.problem(at, "services in lists and tables are not read; write them into the front matter, between two lines --- at the top: "+
			"services: ["+strings.Join(entries, ", ")+"]")
	}
}

// inYAML is an entry of a list or table as it stands in the front matter.
func inYAML(text string) string {
	name, url := word().FindString(text), webLink().FindString(text)
	if name == "" || url == "" {
		return name
	}
	return "{name: " + name + `, probes: ["` + url + `"]}`
}
