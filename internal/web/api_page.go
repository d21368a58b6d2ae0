package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"claudeops/internal/api"
)

// apiPath is the page that documents the API.
const apiPath = "/api/docs"

// apiDocument is what the page shows of the OpenAPI description.
type apiDocument struct {
	Info  struct{ Version, Description string }
	Tags  []struct{ Name, Description string }
	Paths map[string]map[string]struct {
		Summary, Description string
		Tags                 []string
		Parameters           []struct {
			Name, In, Description string
			Required              bool
			Schema                apiSchema
		}
		RequestBody struct{ Content map[string]apiContent }
		Responses   map[string]struct{ Content map[string]apiContent }
	}
	Components struct{ Schemas map[string]apiSchema }
}

type apiContent struct{ Schema apiSchema }

// apiSchema describes a value. Type is a word, or a list of words with null among them.
type apiSchema struct {
	Type        any
	Ref         string `json:"$ref"`
	Description string
	Enum        []any
	Items       *apiSchema
	Properties  map[string]apiSchema
	Required    []string
}

// apiView is the page: operations by subject.
type apiView struct {
	Version, Text string
	Subjects      []apiSubject
}

type apiSubject struct {
	Name, Text string
	Operations []apiOperation
}

type apiOperation struct {
	ID, Method, Path, Summary, Text, Curl string
	Takes, Gives                          []apiField
}

type apiField struct {
	Name, Type, Where, Text string
	Required                bool
}

// apiDocs describes the API, from the description that it serves itself.
func (s *server) apiDocs(machine http.Handler) http.HandlerFunc {
	return s.page("api", "read the description of the API", func(r *http.Request) (page, error) {
		view, err := readAPI(r, machine)
		return page{Title: "API", Nav: "docs", Body: view, Static: true}, err
	})
}

func readAPI(r *http.Request, machine http.Handler) (view apiView, err error) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://localhost"+api.Prefix+"/openapi.json", nil)
	if err != nil {
		return view, err
	}
	answer, err := api.Direct{Handler: machine, Caller: caller(r)}.RoundTrip(request)
	if err != nil {
		return view, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	var d apiDocument
	if err := json.NewDecoder(answer.Body).Decode(&d); err != nil {
		return view, fmt.Errorf("read openapi.json: %w", err)
	}
	return d.view(), nil
}

func (d apiDocument) view() apiView {
	view := apiView{Version: d.Info.Version, Text: strings.ReplaceAll(d.Info.Description, "`", "")}
	of := map[string][]apiOperation{}
	for path, methods := range d.Paths {
		for method, o := range methods {
			one := apiOperation{Method: strings.ToUpper(method), Path: api.Prefix + path, Summary: o.Summary, Text: o.Description}
			one.ID = strings.Trim(strings.NewReplacer("/", "-", "{", "", "}", "").Replace(method+path), "-")
			for _, p := range o.Parameters {
				one.Takes = append(one.Takes, apiField{p.Name, p.Schema.kind(), p.In, cmp.Or(p.Description, p.Schema.Description), p.Required})
			}
			one.Takes = append(one.Takes, d.fields(o.RequestBody.Content["application/json"].Schema, "body")...)
			for _, status := range []string{"200", "201", "202"} {
				one.Gives = append(one.Gives, d.fields(o.Responses[status].Content["application/json"].Schema, "")...)
			}
			one.Curl = `curl -H "Authorization: Bearer $CLAUDEOPS_API_TOKEN" "$CLAUDEOPS_SERVER` + one.Path + `"`
			if one.Method != http.MethodGet {
				one.Curl += " -X " + one.Method + ` -H 'Content-Type: application/json' -d '{…}'`
			}
			subject := strings.Join(o.Tags, " ")
			of[subject] = append(of[subject], one)
		}
	}
	for _, t := range d.Tags {
		operations := of[t.Name]
		slices.SortFunc(operations, func(a, b apiOperation) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
		})
		if len(operations) > 0 {
			view.Subjects = append(view.Subjects, apiSubject{t.Name, t.Description, operations})
		}
	}
	return view
}

// fields are those of a value, with those of the rows of a list.
func (d apiDocument) fields(s apiSchema, where string) (out []apiField) {
	if s.Ref != "" {
		s = d.Components.Schemas[s.named()]
	}
	for name, p := range s.Properties {
		if name == "$schema" {
			continue
		}
		out = append(out, apiField{name, p.kind(), where, p.Description, where != "" && slices.Contains(s.Required, name)})
		if p.Items != nil && name == "items" {
			for _, f := range d.fields(*p.Items, where) {
				f.Name = "items[]." + f.Name
				out = append(out, f)
			}
		}
	}
	slices.SortFunc(out, func(a, b apiField) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (s apiSchema) named() string { return s.Ref[strings.LastIndex(s.Ref, "/")+1:] }

// kind is the type of a value in words.
func (s apiSchema) kind() string {
	switch {
	case s.Ref != "":
		return s.named()
	case s.Items != nil:
		return "list of " + s.Items.kind()
	case len(s.Enum) > 0:
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Enum...), "\n", " "), "[]")
	}
	if words, ok := s.Type.([]any); ok {
		return strings.Trim(fmt.Sprint(words), "[]")
	}
	return fmt.Sprint(cmp.Or(s.Type, any("any")))
}
