package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"claudeops/internal/ops"
)

// Version is the schema version of all documents.
const Version = 1

// rule is what a field must satisfy. It stands in the field's tag report, that of the items of a list in the tag each. Only fields with
// the tag report are fields of the document:
//
//	required   the field must be there
//	tier2      it must be there and hold a text from Tier 2 up
//	optional   nothing else is asked of it
//	version    the number Version
//	text       at least one visible character
//	filled     at least one character, or item
//	says       in an outcome, no placeholder
//	name       in an outcome, no placeholder for the name of a service
//	loose      may say that it does not apply, where a placeholder is refused
//	one=A|B    one of these
//	min= max=  bounds of a number; max of a list: of its items
type rule struct {
	required, tier2, version, text, filled bool
	says, name, loose                      bool
	one                                    []string
	minimum, maximum                       *big.Rat
}

func ruleOf(tag string) rule {
	var r rule
	for word := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "required":
			r.required = true
		case "tier2":
			r.tier2 = true
		case "version":
			r.version = true
		case "text":
			r.text = true
		case "filled":
			r.filled = true
		case "says":
			r.says = true
		case "name":
			r.says, r.name = true, true
		case "loose":
			r.loose = true
		case "one":
			r.one = strings.Split(value, "|")
		case "min":
			r.minimum, _ = new(big.Rat).SetString(value)
		case "max":
			r.maximum, _ = new(big.Rat).SetString(value)
		}
	}
	return r
}

// field is a field of a document.
type field struct {
	rule

	index []int // of the field in its struct
	each  rule  // for the items of a list
}

// fieldsOf are the fields of a type by their names in the document.
func fieldsOf(t reflect.Type) map[string]field {
	out := map[string]field{}
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("report")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = field{index: f.Index, rule: ruleOf(tag), each: ruleOf(f.Tag.Get("each"))}
	}
	return out
}

// reader fills a typed value from a decoded document and notes what is wrong on the way. It goes on after an error, so that a model is
// told all of them at once.
type reader struct {
	Findings

	from   ops.Tier // the tier that wrote the document
	closed bool     // a field that is not named is an error, not a warning
	hollow bool     // a placeholder is an error
	path   []string
	types  map[reflect.Type]map[string]field
}

// Closed reads a document of this program in which no field but the named ones may stand. The value is empty unless the findings are OK.
// The checks are rules beyond those of the fields; they are also asked about a value whose fields break theirs.
func Closed[T any](raw []byte, document string, checks ...func(T) []Problem) (T, Findings) {
	var value T
	r := reader{closed: true}
	if tree, ok := r.decode(raw); ok {
		r.fill(tree, &value)
		for _, check := range checks {
			r.Errors = append(r.Errors, check(value)...)
		}
	}
	r.finish(document)
	if !r.OK() {
		return *new(T), r.Findings
	}
	return value, r.Findings
}

// fill reads a whole document.
func (r *reader) fill(tree, to any) {
	r.types = map[reflect.Type]map[string]field{}
	r.value(tree, reflect.ValueOf(to).Elem(), field{})
}

func (r *reader) refuse(format string, args ...any) {
	r.Errors = append(r.Errors, Problem{Pointer: pointer(r.path), Message: fmt.Sprintf(format, args...)})
}

// at reads something below the present place.
func (r *reader) at(token string, read func()) {
	r.path = append(r.path, token)
	read()
	r.path = r.path[:len(r.path)-1]
}

// value reads any value. One of another type is only reported as that.
func (r *reader) value(tree any, to reflect.Value, f field) {
	if f.version {
		if n, ok := tree.(json.Number); !ok || number(n).Cmp(big.NewRat(Version, 1)) != 0 {
			r.refuse("is %s, but only version %d is known here; write \"schema_version\": %d", show(tree), Version, Version)
			return
		}
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	name := kindOf(to.Type())
	switch v := tree.(type) {
	case map[string]any:
		if name == "object" {
			r.object(v, to)
			return
		}
	case []any:
		if name == "array" {
			r.list(v, to, f)
			return
		}
	case string:
		if name == "string" {
			r.text(v, to, f.rule)
			return
		}
	case bool:
		if name == "boolean" {
			to.SetBool(v)
			r.choice(strconv.FormatBool(v), v, f.rule)
			return
		}
	case json.Number:
		if name == "number" || name == "integer" && number(v).IsInt() {
			r.number(v, to, f.rule)
			return
		}
	}
	r.refuse("must be %s (is %s)", article(name), show(tree))
}

// kindOf is the type of JSON Schema that is read into a type.
func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return "object"
	case t.Kind() == reflect.Slice:
		return "array"
	case t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.Struct:
		return "object"
	}
	return "integer"
}

func (r *reader) object(object map[string]any, to reflect.Value) {
	if to.Kind() != reflect.Struct { // such as the cooldown state, which holds what it likes
		to.SetBytes(encode(object))
		return
	}
	fields, ok := r.types[to.Type()]
	if !ok {
		fields = fieldsOf(to.Type())
		r.types[to.Type()] = fields
	}
	for name, f := range fields {
		if _, there := object[name]; !there && (f.required || f.tier2 && r.from >= ops.Tier2) {
			r.at(name, func() { r.refuse("is missing") })
		}
	}
	keys := slices.Sorted(maps.Keys(object))
	for _, key := range keys {
		if _, known := fields[key]; !known {
			r.at(key, func() { r.unknown(fields, key) })
		}
	}
	for _, key := range keys {
		if f, known := fields[key]; known {
			r.at(key, func() { r.value(object[key], to.FieldByIndex(f.index), f) })
		}
	}
}

// unknown reports a field that is not named, with the one that was probably meant.
func (r *reader) unknown(fields map[string]field, key string) {
	hint := ""
	for name := range fields {
		if strings.EqualFold(name, key) {
			hint = "; did you mean " + name + "?"
		}
	}
	if r.closed {
		r.refuse("is an unknown field%s", hint)
		return
	}
	r.warn(r.path, "unknown field, ignored%s", hint)
}

func (r *reader) list(list []any, to reflect.Value, f field) {
	if f.filled && len(list) == 0 {
		r.refuse("must not be empty")
	}
	if f.maximum != nil && big.NewRat(int64(len(list)), 1).Cmp(f.maximum) > 0 {
		r.refuse("must have at most %s entries (has %d)", f.maximum.RatString(), len(list))
	}
	if len(list) == 0 && !f.required {
		return // written again it is left out
	}
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list))) // never nil, which would be written as null
	for i, item := range list {
		r.at(strconv.Itoa(i), func() { r.value(item, to.Index(i), field{rule: f.each}) })
	}
}

func (r *reader) text(s string, to reflect.Value, f rule) {
	to.SetString(s)
	switch {
	case (f.text || f.tier2 && r.from >= ops.Tier2) && !strings.ContainsFunc(s, visible):
		r.refuse("must not be blank")
	case f.filled && s == "":
		r.refuse("must not be empty")
	case r.hollow && f.says && f.isPlaceholder(s, f.loose || f.tier2 && r.from < ops.Tier2):
		r.refuse("is only a placeholder (is %.40q); write what is the case", s)
	default:
		r.choice(s, s, f)
	}
}

func (r *reader) number(n json.Number, to reflect.Value, f rule) {
	value := number(n)
	if f.minimum != nil && value.Cmp(f.minimum) < 0 {
		r.refuse("must be at least %s (is %s)", f.minimum.RatString(), show(n))
		return
	}
	if f.maximum != nil && value.Cmp(f.maximum) > 0 {
		r.refuse("must be at most %s (is %s)", f.maximum.RatString(), show(n))
		return
	}
	if r.choice(value.RatString(), n, f); to.CanFloat() {
		float, _ := n.Float64() // never out of range: decode bounds the exponent, or the rule the value
		to.SetFloat(float)
		return
	}
	to.SetInt(value.Num().Int64())
}

// choice refuses a value that is none of those the rule names.
func (r *reader) choice(text string, value any, f rule) {
	if f.one != nil && !slices.Contains(f.one, text) {
		r.refuse("must be one of %s (is %s)", strings.Join(f.one, ", "), show(value))
	}
}

// number is exact. A number of a decoded document is always one.
func number(n json.Number) *big.Rat {
	value, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return new(big.Rat)
	}
	return value
}

// visible is the meaning of the pattern \S in the published schemas, which knows only ASCII blanks in Go.
func visible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// encode writes JSON without the HTML escapes that would only blow the text up.
func encode(value any) []byte {
	return []byte(ops.JSON(value, ""))
}
