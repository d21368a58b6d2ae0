package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the schemas again")

// schemas are the JSON schemas of the files that others write or read, by their names, each made of a type of this package. Comments of fields become
// descriptions.
func schemas(root string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(root, "test/incidents/*.go"))
	if err != nil {
		return nil, fmt.Errorf("find the types: %w", err)
	}
	types := schemaTypes{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("read the types: %w", err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					types[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	out := map[string][]byte{}
	for name, c := range map[string]struct{ of, tag string }{
		"fault": {"Fault", "yaml"}, "model": {"Model", "yaml"}, "result": {"Result", "json"},
	} {
		s := types.object(c.of, c.tag)
		s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "a "+name+" of the benchmark of incidents"
		text, err := json.MarshalIndent(s, "", " ")
		if err != nil {
			return nil, fmt.Errorf("write the schema of a %s: %w", name, err)
		}
		out[name+".schema.json"] = append(text, '\n')
	}
	return out, nil
}

type schemaTypes map[string]*ast.StructType

// narrowed are fields that take some values of their type, and required are those that a file must have although Go does not say so.
func narrowed(field string) []string {
	return map[string][]string{
		"Expect.End": {endResolved, endHuman, endHealthy}, "Claim.End": {endResolved, endHuman, endHealthy, endNone, ""}, "Rule.Can": {"repair", "repair_above"},
	}[field]
}

func required(field string) bool {
	return slices.Contains([]string{
		"Fault.Title", "Fault.Breaks", "Fault.Services", "Fault.Expect", "Fault.Facts", "Expect.End", "Facts.Look", "Model.About", "Model.Rules", "Rule.Do",
		"Poison.Sees", "Poison.Does",
	}, field)
}

// object is the schema of a struct, as it is read or written with this kind of tag.
func (t schemaTypes) object(name, tag string) object {
	properties, must := object{}, []string{}
	for _, field := range t[name].Fields.List {
		var label string
		if field.Tag != nil {
			label = reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get(tag)
		}
		key, options, _ := strings.Cut(label, ",")
		if len(field.Names) == 0 { // embedded
			inner := t.object(field.Type.(*ast.Ident).Name, tag)
			for key, property := range inner["properties"].(object) {
				properties[key] = property
			}
			must = append(must, inner["required"].([]string)...)
			continue
		}
		if key == "" || key == "-" {
			continue
		}
		full := name + "." + field.Names[0].Name
		property := t.schema(field.Type, tag)
		if values := narrowed(full); values != nil {
			property["enum"] = values
		}
		if text := strings.TrimSpace(field.Doc.Text() + field.Comment.Text()); text != "" {
			property["description"] = strings.Join(strings.Fields(text), " ")
		}
		properties[key] = property
		if required(full) || tag == "json" && !strings.HasPrefix(options, "omit") {
			must = append(must, key)
		}
	}
	slices.Sort(must)
	return object{"type": "object", "properties": properties, "required": must, "additionalProperties": false}
}

// schema is the schema of a type.
func (t schemaTypes) schema(e ast.Expr, tag string) object {
	switch e := e.(type) {
	case *ast.StarExpr:
		return t.schema(e.X, tag)
	case *ast.ArrayType:
		return object{"type": "array", "items": t.schema(e.Elt, tag)}
	case *ast.MapType:
		return object{"type": "object", "additionalProperties": t.schema(e.Value, tag)}
	case *ast.SelectorExpr:
		if e.Sel.Name == "Time" {
			return object{"type": "string", "format": "date-time"}
		}
		return object{"type": "object"} // a part of claudeops.yaml or guard.yaml
	case *ast.Ident:
		if kind, ok := map[string]string{
			"string": "string", "int": "integer", "int64": "integer", "float64": "number", "bool": "boolean", "duration": "string", "object": "object",
		}[e.Name]; ok {
			return object{"type": kind}
		}
		if t[e.Name] != nil {
			return t.object(e.Name, tag)
		}
	}
	return object{}
}

// schemaAt compiles a schema file.
func schemaAt(t *testing.T, path string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(path)
	succeeds(t, err)
	return s
}

// asJSON is a value as a reader of JSON sees it.
func asJSON(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(texts(v))
	succeeds(t, err)
	out, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	succeeds(t, err)
	return out
}

// texts turns the keys of YAML into texts, as JSON has them.
func texts(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := object{}
		for key, value := range v {
			out[fmt.Sprint(key)] = texts(value)
		}
		return out
	case object:
		for key, value := range v {
			v[key] = texts(value)
		}
	case []any:
		for i := range v {
			v[i] = texts(v[i])
		}
	}
	return v
}

// TestTheSchemasHold compares the schema files with the types, and every fault, model and published result with them.
func TestTheSchemasHold(t *testing.T) {
	root, err := moduleRoot()
	succeeds(t, err)
	want, err := schemas(root)
	succeeds(t, err)
	files := map[string]*jsonschema.Schema{}
	for name, text := range want {
		path := filepath.Join(root, "test/incidents/schemas", name)
		if *update {
			if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // for everybody
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(text) {
			t.Fatalf("%s is not up to date: run make incidents-docs (%v)", name, err)
		}
		files[strings.TrimSuffix(name, ".schema.json")] = schemaAt(t, path)
	}
	for pattern, kind := range map[string]string{"faults/*/fault.yaml": "fault", "models/*.yaml": "model"} {
		paths, err := filepath.Glob(filepath.Join(root, "test/incidents", pattern))
		if err != nil || len(paths) < 10 {
			t.Fatalf("%v: %v", err, paths)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			succeeds(t, err)
			var value any
			succeeds(t, yaml.Unmarshal(data, &value))
			if err := files[kind].Validate(asJSON(t, value)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	results, err := readResults(filepath.Join(root, "docs", published))
	succeeds(t, err)
	for _, r := range results {
		if err := files["result"].Validate(asJSON(t, r)); err != nil {
			t.Errorf("%s: %v", r.line(), err)
		}
	}
	for kind, wrong := range map[string]any{
		"fault": object{"title": "x"}, "model": object{"about": "x", "rules": []any{object{"do": "look", "tier": 1}}},
		"result": object{"fault": "web-crash"},
	} {
		if files[kind].Validate(asJSON(t, wrong)) == nil {
			t.Errorf("%v is a %s", wrong, kind)
		}
	}
}

// TestRunsAreTrajectories compares the trajectories of all published results with a schema that was written from the specification of ATIF 1.7, and
// with what a schema cannot say: steps are counted from 1, and an observation names a call of its own step.
func TestRunsAreTrajectories(t *testing.T) {
	root, err := moduleRoot()
	succeeds(t, err)
	results, err := readResults(filepath.Join(root, "docs", published))
	succeeds(t, err)
	dir := t.TempDir()
	succeeds(t, writeTrajectories(dir, results))
	schema := schemaAt(t, "testdata/atif-v1.7.schema.json")
	observed := 0
	for _, r := range results {
		data, err := os.ReadFile(filepath.Join(dir, r.Fault, r.Model, r.Contender, fmt.Sprintf("%d.json", r.Repeat)))
		succeeds(t, err)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			t.Errorf("%s: %v", r.line(), err)
		}
		var got struct {
			Steps []struct {
				ID    int `json:"step_id"`
				Calls []struct {
					ID string `json:"tool_call_id"`
				} `json:"tool_calls"`
				Observation struct {
					Results []struct {
						Call string `json:"source_call_id"`
					}
				}
			}
		}
		if err := json.Unmarshal(data, &got); err != nil || len(got.Steps) != len(r.Transcript)+1 {
			t.Errorf("%s: %d steps, %v", r.line(), len(got.Steps), err)
		}
		for i, step := range got.Steps {
			if step.ID != i+1 {
				t.Errorf("step %d has the number %d", i+1, step.ID)
			}
			for _, result := range step.Observation.Results {
				observed++
				if len(step.Calls) == 0 || step.Calls[len(step.Calls)-1].ID != result.Call {
					t.Errorf("%s: step %d: %+v", r.line(), step.ID, step)
				}
			}
		}
	}
	if observed < len(results) {
		t.Errorf("%d answers of tools in %d runs", observed, len(results))
	}
}

func succeeds(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
