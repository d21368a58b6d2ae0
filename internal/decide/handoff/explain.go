package handoff

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// explain turns the validator's tree of errors into a flat list in words an operator, and a model, can act upon.
func explain(err error, tree any) []Problem {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []Problem{{Message: "cannot be validated: " + err.Error()}}
	}
	var problems []Problem
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				collect(cause)
			}
			return
		}
		problems = append(problems, leaf(e, tree)...)
	}
	collect(invalid)
	return order(problems)
}

func leaf(e *jsonschema.ValidationError, tree any) []Problem {
	path := e.InstanceLocation
	if missing, ok := e.ErrorKind.(*kind.Required); ok {
		problems := make([]Problem, 0, len(missing.Missing))
		for _, name := range missing.Missing {
			at := pointer(append(slices.Clone(path), name))
			problems = append(problems, Problem{Pointer: at, Message: "is missing"})
		}
		return problems
	}
	return []Problem{{Pointer: pointer(path), Message: message(e.ErrorKind, path, valueAt(tree, path))}}
}

func message(k jsonschema.ErrorKind, path []string, value any) string {
	is := show(value)
	if len(path) == 1 && path[0] == "schema_version" {
		return fmt.Sprintf("is %s, but only version %d is known here; write \"schema_version\": %d", is, Version, Version)
	}
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s (is %s)", article(strings.Join(k.Want, " or ")), is)
	case *kind.Enum:
		return fmt.Sprintf("must be one of %s (is %s)", list(k.Want), is)
	case *kind.MinItems:
		return "must not be empty"
	case *kind.Pattern:
		return "must not be blank"
	case *kind.Minimum:
		return fmt.Sprintf("must be at least %s (is %s)", k.Want.RatString(), is)
	case *kind.Maximum:
		return fmt.Sprintf("must be at most %s (is %s)", k.Want.RatString(), is)
	default:
		return fmt.Sprintf("breaks the rule %s (is %s)", strings.Join(k.KeywordPath(), "/"), is)
	}
}

func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeio") {
		return "an " + noun
	}
	return "a " + noun
}

func list(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ", ")
}

func valueAt(tree any, path []string) any {
	for _, token := range path {
		switch t := tree.(type) {
		case map[string]any:
			tree = t[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(t) {
				return nil
			}
			tree = t[i]
		}
	}
	return tree
}

// show names a wrong value in a few words.
func show(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return `"` + oneLine(v) + `"`
	case json.Number:
		return oneLine(v.String())
	default:
		return string(encode(v))
	}
}
