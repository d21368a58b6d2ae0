package handoff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode"
)

// visiblePattern is the only pattern that a schema of this program may have.
const visiblePattern = `\S`

func visible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// Rules is a compiled JSON Schema. It knows the keywords that the schemas of this program use; MustCompile refuses any other one.
// A complete implementation compiles the five metaschemas whenever the program starts, which takes longer than the rest of the start.
type Rules struct {
	Ref        *Rules            // beside the other rules, not instead of them
	Items      *Rules            // of every item of an array
	Properties map[string]*Rules // of the fields of an object
	Defs       map[string]*Rules // for references

	never            bool // the schema false
	id               string
	ref              string
	kind             string
	constant         any
	enum             []any
	required         []string
	closed           bool // no field but the named ones
	minItems         int
	maxItems         *int
	unique           bool
	contains         *Rules
	minLength        int
	visible          bool
	minimum, maximum *big.Rat
	condition        *Rules
	then, otherwise  *Rules
}

// written is a schema as it is written.
type written struct {
	Schema               string            `json:"$schema"`
	ID                   string            `json:"$id"`
	Title                string            `json:"title"`
	Description          string            `json:"description"`
	Ref                  string            `json:"$ref"`
	Defs                 map[string]*Rules `json:"$defs"`
	Type                 string            `json:"type"`
	Const                any               `json:"const"`
	Enum                 []any             `json:"enum"`
	Required             []string          `json:"required"`
	Properties           map[string]*Rules `json:"properties"`
	AdditionalProperties *bool             `json:"additionalProperties"`
	Items                *Rules            `json:"items"`
	MinItems             int               `json:"minItems"`
	MaxItems             *int              `json:"maxItems"`
	UniqueItems          bool              `json:"uniqueItems"`
	Contains             *Rules            `json:"contains"`
	MinLength            int               `json:"minLength"`
	Pattern              string            `json:"pattern"`
	Minimum              json.Number       `json:"minimum"`
	Maximum              json.Number       `json:"maximum"`
	If                   *Rules            `json:"if"`
	Then                 *Rules            `json:"then"`
	Else                 *Rules            `json:"else"`
}

// MustCompile reads a schema of this program. It panics when the document is broken: that is a build mistake no operator can act upon.
func MustCompile(text string) *Rules {
	var r Rules
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		panic(fmt.Sprintf("read an embedded schema: %v", err))
	}
	documents := map[string]*Rules{}
	r.collect(documents)
	if err := r.resolve(&r, documents); err != nil {
		panic(fmt.Sprintf("resolve the embedded schema %s: %v", r.id, err))
	}
	return &r
}

// UnmarshalJSON reads a schema. It refuses keywords that Rules does not know.
func (r *Rules) UnmarshalJSON(raw []byte) error {
	if string(raw) == "false" {
		*r = Rules{never: true}
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	var w written
	if err := decoder.Decode(&w); err != nil {
		return err
	}
	if w.Pattern != "" && w.Pattern != visiblePattern {
		return fmt.Errorf("compile pattern %q: only %q is supported", w.Pattern, visiblePattern)
	}
	*r = Rules{
		Items: w.Items, Properties: w.Properties, Defs: w.Defs, id: w.ID, ref: w.Ref, kind: w.Type, constant: w.Const, enum: w.Enum,
		required: w.Required, closed: w.AdditionalProperties != nil && !*w.AdditionalProperties,
		minItems: w.MinItems, maxItems: w.MaxItems, unique: w.UniqueItems,
		contains: w.Contains, minLength: w.MinLength, visible: w.Pattern != "", condition: w.If, then: w.Then, otherwise: w.Else,
	}
	var err error
	r.minimum, err = bound(w.Minimum)
	if err != nil {
		return err
	}
	r.maximum, err = bound(w.Maximum)
	return err
}

func bound(n json.Number) (*big.Rat, error) {
	if n == "" {
		return nil, nil //nolint:nilnil // no bound
	}
	value, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return nil, fmt.Errorf("read bound %q", n)
	}
	return value, nil
}

// parts are the schemas inside a schema.
func (r *Rules) parts() []*Rules {
	var out []*Rules
	for _, p := range []*Rules{r.Items, r.contains, r.condition, r.then, r.otherwise} {
		if p != nil {
			out = append(out, p)
		}
	}
	for _, named := range []map[string]*Rules{r.Properties, r.Defs} {
		for _, p := range named {
			out = append(out, p)
		}
	}
	return out
}

// collect notes the schemas that have an address.
func (r *Rules) collect(documents map[string]*Rules) {
	if r.id != "" {
		documents[r.id] = r
	}
	for _, p := range r.parts() {
		p.collect(documents)
	}
}

// resolve finds what the references name: a document, or a definition of one. A reference without an address is to the document it is in.
func (r *Rules) resolve(document *Rules, documents map[string]*Rules) error {
	if r.id != "" {
		document = r
	}
	if r.ref != "" {
		address, at, _ := strings.Cut(r.ref, "#")
		target := document
		if address != "" {
			target = documents[address]
		}
		if name, ok := strings.CutPrefix(at, "/$defs/"); ok && target != nil {
			target = target.Defs[name]
		} else if at != "" {
			target = nil
		}
		if target == nil {
			return errors.New("nothing is at " + r.ref)
		}
		r.Ref = target
	}
	for _, p := range r.parts() {
		if err := p.resolve(document, documents); err != nil {
			return err
		}
	}
	return nil
}
