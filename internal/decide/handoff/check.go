package handoff

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"
)

// faults collects where a tree breaks its rules, in words an operator, and a model, can act upon.
type faults struct {
	problems []Problem
}

func (f *faults) add(path []string, value any, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(path) == 1 && path[0] == "schema_version" {
		text = fmt.Sprintf("is %s, but only version %d is known here; write \"schema_version\": %d", show(value), Version, Version)
	}
	f.problems = append(f.problems, Problem{Pointer: pointer(path), Message: text})
}

// broken reports that a rule is broken for which there are no better words.
func (f *faults) broken(path []string, value any, rule string) {
	f.add(path, value, "breaks the rule %s (is %s)", rule, show(value))
}

// satisfies reports whether a value breaks no rule.
func (r *Rules) satisfies(value any) bool {
	var f faults
	r.check(value, nil, &f)
	return len(f.problems) == 0
}

// check adds what is wrong with the value at a path. A value of another type or none of the allowed ones is only reported as that.
func (r *Rules) check(value any, path []string, f *faults) {
	switch {
	case r.never:
		f.broken(path, value, "")
		return
	case r.kind != "" && !isKind(value, r.kind):
		f.add(path, value, "must be %s (is %s)", article(r.kind), show(value))
		return
	case r.constant != nil && !equal(value, r.constant):
		f.broken(path, value, "const")
		return
	case r.enum != nil && !slices.ContainsFunc(r.enum, func(v any) bool { return equal(value, v) }):
		f.add(path, value, "must be one of %s (is %s)", list(r.enum), show(value))
		return
	}
	if r.Ref != nil {
		r.Ref.check(value, path, f)
	}
	switch v := value.(type) {
	case map[string]any:
		r.checkObject(v, path, f)
	case []any:
		r.checkArray(v, path, f)
	case string:
		r.checkText(v, path, f)
	case json.Number:
		r.checkNumber(v, path, f)
	}
	if r.condition == nil {
		return
	}
	next := r.otherwise
	if r.condition.satisfies(value) {
		next = r.then
	}
	if next != nil {
		next.check(value, path, f)
	}
}

func (r *Rules) checkObject(object map[string]any, path []string, f *faults) {
	for _, name := range r.required {
		if _, ok := object[name]; !ok {
			f.problems = append(f.problems, Problem{Pointer: pointer(append(slices.Clone(path), name)), Message: "is missing"})
		}
	}
	unknown := false
	for name, value := range object {
		if field := r.Properties[name]; field != nil {
			field.check(value, append(slices.Clone(path), name), f)
		} else {
			unknown = true
		}
	}
	if r.closed && unknown {
		f.broken(path, object, "additionalProperties")
	}
}

func (r *Rules) checkArray(array []any, path []string, f *faults) {
	if len(array) < r.minItems {
		f.add(path, array, "must not be empty")
	}
	if r.maxItems != nil && len(array) > *r.maxItems {
		f.broken(path, array, "maxItems")
	}
	if r.unique && hasDuplicate(array) {
		f.broken(path, array, "uniqueItems")
	}
	if r.Items != nil {
		for i, item := range array {
			r.Items.check(item, append(slices.Clone(path), strconv.Itoa(i)), f)
		}
	}
	if r.contains == nil || slices.ContainsFunc(array, r.contains.satisfies) {
		return
	}
	if len(array) == 0 {
		f.broken(path, array, "contains")
	}
	for i, item := range array {
		r.contains.check(item, append(slices.Clone(path), strconv.Itoa(i)), f)
	}
}

func (r *Rules) checkText(s string, path []string, f *faults) {
	if r.minLength > 0 && utf8.RuneCountInString(s) < r.minLength {
		f.broken(path, s, "minLength")
	}
	if r.visible && !isVisible(s) {
		f.add(path, s, "must not be blank")
	}
}

func (r *Rules) checkNumber(n json.Number, path []string, f *faults) {
	if r.minimum == nil && r.maximum == nil {
		return
	}
	value, ok := new(big.Rat).SetString(n.String())
	if !ok {
		f.broken(path, n, "type")
		return
	}
	if r.minimum != nil && value.Cmp(r.minimum) < 0 {
		f.add(path, n, "must be at least %s (is %s)", r.minimum.RatString(), show(n))
	}
	if r.maximum != nil && value.Cmp(r.maximum) > 0 {
		f.add(path, n, "must be at most %s (is %s)", r.maximum.RatString(), show(n))
	}
}

// isKind reports whether a value is of a type of JSON Schema; 2.0 is an integer.
func isKind(value any, kind string) bool {
	switch v := value.(type) {
	case map[string]any:
		return kind == "object"
	case []any:
		return kind == "array"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case json.Number:
		if kind == "number" {
			return true
		}
		rat, ok := new(big.Rat).SetString(v.String())
		return kind == "integer" && ok && rat.IsInt()
	}
	return kind == "null"
}

// equal compares two values as JSON Schema does: numbers by their value, not by how they are written.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, okX := new(big.Rat).SetString(a.String())
		y, okY := new(big.Rat).SetString(n.String())
		return okX && okY && x.Cmp(y) == 0
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(a, other, equal)
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for name, value := range a {
			if o, ok := other[name]; !ok || !equal(value, o) {
				return false
			}
		}
		return true
	}
	return a == b // texts, truth values and null
}

func hasDuplicate(array []any) bool {
	for i, item := range array {
		if slices.ContainsFunc(array[:i], func(v any) bool { return equal(item, v) }) {
			return true
		}
	}
	return false
}
