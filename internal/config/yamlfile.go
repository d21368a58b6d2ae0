package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// The library gives the place of a syntax error only inside its message.
var yamlErrorLine = regexp.MustCompile(`line (\d+): (.*)`)

// yamlFile is the configuration file, read node by node so that every value keeps its line and column.
type yamlFile struct {
	name     string // as the operator knows it
	dir      string // what paths in it are relative to
	root     *yaml.Node
	problems *problemList
	places   places
	checks   Checks
}

// openYAML finds the file and reads it; the first of the usual places that exists is used alone.
func openYAML(in Input, vars map[string]string, p places, problems *problemList) *yamlFile {
	type candidate struct {
		path   string
		wanted origin // set when the operator named the file: then it must exist
	}
	var candidates []candidate
	switch {
	case in.ConfigPath != "":
		candidates = []candidate{{in.ConfigPath, origin{source: sourceFlag, name: "config"}}}
	case vars[configVariable] != "":
		candidates = []candidate{{vars[configVariable], origin{source: sourceEnvironment, name: configVariable}}}
	default:
		candidates = []candidate{{path: "claudeops.yaml"}}
		if p.configHome != "" {
			candidates = append(candidates, candidate{path: filepath.Join(p.configHome, "claudeops", "claudeops.yaml")})
		}
	}
	for _, c := range candidates {
		path := c.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(in.Dir, path)
		}
		data, err := os.ReadFile(path)
		named := c.wanted != origin{}
		if errors.Is(err, fs.ErrNotExist) && !named {
			continue
		}
		if err != nil {
			at := c.wanted
			if !named {
				at = origin{source: sourceFile, name: c.path, line: 1, col: 1}
			}
			problems.add(at, "", fmt.Sprintf("read configuration file: %s", err), "give the path of a readable YAML file")
			return nil
		}
		f := &yamlFile{name: c.path, dir: filepath.Dir(path), problems: problems, places: p, checks: in.Checks}
		f.parse(data)
		return f
	}
	return nil
}

func (f *yamlFile) parse(data []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return // an empty file sets nothing
	}
	if err == nil {
		f.root = document.Content[0]
		err = decoder.Decode(&second)
		if err == nil {
			f.problems.add(f.at(&second), "", "a second document begins here", "keep one document per file")
			return
		}
	}
	if errors.Is(err, io.EOF) {
		return
	}
	f.root = nil
	line, message := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlErrorLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = m[2]
	}
	f.problems.add(origin{source: sourceFile, name: f.name, line: line, col: 1}, "", "the file is not valid YAML: "+message,
		"check the indentation and quotes of this line and the one before")
}

func (f *yamlFile) at(n *yaml.Node) origin {
	return origin{source: sourceFile, name: f.name, line: n.Line, col: n.Column}
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

// pairs returns the known keys of a mapping that have a value, and reports unknown and repeated ones. Hint may
// know where an unknown name belongs.
func (f *yamlFile) pairs(n *yaml.Node, section string, known []string, hint func(string) string) []pair {
	n = follow(n)
	if null(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		f.problems.add(f.at(n), section, "expected keys and values, found "+describe(n), "write name: value, indented below it")
		return nil
	}
	var out []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], follow(n.Content[i+1])
		name := key.Value
		path := join(section, name)
		if line, twice := seen[name]; twice {
			f.problems.add(f.at(key), path, fmt.Sprintf("the key is already given in line %d", line), "keep one of them")
			continue
		}
		seen[name] = key.Line
		if key.Kind != yaml.ScalarNode || !slices.Contains(known, name) {
			f.problems.add(f.at(key), path, "unknown key", unknownFix(name, section, known, hint))
			continue
		}
		if !null(value) {
			out = append(out, pair{name: name, key: key, value: value})
		}
	}
	return out
}

func unknownFix(name, section string, known []string, hint func(string) string) string {
	if s := suggest(name, known); s != "" {
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

// raw reads a single value, or a list of them where the kind takes one.
func (f *yamlFile) raw(n *yaml.Node, key string, list bool) (raw, bool) {
	n = follow(n)
	v := raw{at: f.at(n), dir: f.dir}
	switch {
	case n.Kind == yaml.ScalarNode:
		v.text = strings.TrimSpace(n.Value)
		return v, true
	case n.Kind == yaml.SequenceNode && list:
		v.list = true
		for i, item := range n.Content {
			entry, ok := f.raw(item, fmt.Sprintf("%s[%d]", key, i), false)
			if !ok {
				return raw{}, false
			}
			if entry.text == "" {
				f.problems.add(entry.at, fmt.Sprintf("%s[%d]", key, i), "the entry is empty", "remove it")
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
	f.problems.add(f.at(n), key, fmt.Sprintf("expected %s, found %s", wanted, describe(n)), "")
	return raw{}, false
}

// value reads a node as a kind; ok is false when it is not usable, which is then reported.
func (f *yamlFile) value(n *yaml.Node, key string, k kind) (any, bool) {
	v, ok := f.raw(n, key, k.list)
	if !ok {
		return nil, false
	}
	if v.text == "" && !v.list {
		f.problems.add(v.at, key, "the value is empty", "give a value, or remove the key")
		return nil, false
	}
	got, faults := k.parse(f.places, v)
	f.problems.addFaults(key, faults)
	return got, faults == nil
}

// items returns the entries of a list of objects.
func (f *yamlFile) items(n *yaml.Node, key string) []*yaml.Node {
	n = follow(n)
	if null(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		f.problems.add(f.at(n), key, "expected a list, found "+describe(n), "begin each entry with a dash")
		return nil
	}
	out := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		out[i] = follow(item)
	}
	return out
}
