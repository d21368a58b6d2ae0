package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The formats of --output.
const (
	asTable = "table"
	asJSON  = "json"
	asLines = "jsonl"
	asYAML  = "yaml"
)

func outputs() []string { return []string{asTable, asJSON, asLines, asYAML} }

// encode writes a value for programs, with the fields of --json only if there are any.
func (a *app) encode(v any) error {
	var buffer bytes.Buffer
	enc := json.NewEncoder(&buffer)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	text := buffer.Bytes()
	if len(a.fields) > 0 {
		var err error
		if text, err = pick(text, reflect.TypeOf(v), a.fields); err != nil {
			return err
		}
	}
	switch a.output {
	case asYAML:
		return a.encodeYAML(text)
	case asJSON:
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "  "); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		text = indented.Bytes()
	}
	_, err := a.Stdout.Write(append(bytes.TrimSpace(text), '\n'))
	return err
}

// pick keeps the named fields of a row, or of each row of a list, in the order they were named in.
func pick(text []byte, of reflect.Type, fields []string) ([]byte, error) {
	if of.Kind() == reflect.Slice {
		var rows []json.RawMessage
		if err := json.Unmarshal(text, &rows); err != nil {
			return nil, fmt.Errorf("read rows: %w", err)
		}
		if err := checkFields(fieldsOf(of.Elem()), fields); err != nil {
			return nil, err
		}
		out := make([]json.RawMessage, len(rows))
		for i, row := range rows {
			var err error
			if out[i], err = pick(row, of.Elem(), fields); err != nil {
				return nil, err
			}
		}
		return json.Marshal(out)
	}
	row := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &row); err != nil {
		return nil, usage(errors.New("--json: this command prints no row with fields"))
	}
	known := fieldsOf(of)
	for name := range row { // the fields of a map
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	if err := checkFields(known, fields); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for i, name := range fields {
		value := row[name]
		if value == nil {
			value = json.RawMessage("null")
		}
		fmt.Fprintf(&b, "%s%q:%s", map[bool]string{true: "{", false: ","}[i == 0], name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func checkFields(known, asked []string) error {
	for _, name := range asked {
		if len(known) > 0 && !slices.Contains(known, name) {
			return usage(fmt.Errorf("--json: unknown field %q%s; the fields are %s", name, didYouMean(name, known), strings.Join(known, ", ")))
		}
	}
	return nil
}

// fieldsOf lists the names that the fields of a row have in JSON, including those of embedded rows.
func fieldsOf(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, fieldsOf(f.Type)...)
		case f.IsExported() && name != "-":
			out = append(out, or(name, f.Name))
		}
	}
	return out
}

// encodeYAML writes JSON as YAML, with the fields in the same order.
func (a *app) encodeYAML(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	node, err := yamlNode(dec)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	enc := yaml.NewEncoder(a.Stdout)
	enc.SetIndent(2)
	return errors.Join(enc.Encode(node), enc.Close())
}

// yamlNode reads the next JSON value.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.MappingNode}
		if t == '[' {
			node.Kind = yaml.SequenceNode
		}
		for dec.More() {
			child, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		if len(node.Content) == 0 {
			node.Style = yaml.FlowStyle // an empty list is written as []
		}
		_, err := dec.Token() // the closing bracket
		return node, err
	case string:
		node := &yaml.Node{}
		node.SetString(t)
		return node, nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(t.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: t.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(t)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}
