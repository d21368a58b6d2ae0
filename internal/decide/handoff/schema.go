package handoff

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"claudeops/internal/ops"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Version is the schema version this package reads and writes.
const Version = 1

// SchemaID is the address under which the schema is published.
const SchemaID = "https://claudeops.dev/schemas/handoff/v1.json"

//go:embed schema/handoff-v1.json
var schemaText string

// Schema returns the JSON Schema of the handoff file.
func Schema() []byte { return []byte(schemaText) }

// schemas are the compiled forms of the one published document.
type schemas struct {
	tier1 *jsonschema.Schema
	tier2 *jsonschema.Schema // Tier 2 and above owe findings and attempts as well
}

// compiled is computed once and only read afterwards.
var compiled = sync.OnceValue(compile) //nolint:gochecknoglobals // a constant that takes work to make

// compile panics when the embedded document is broken: that is a build mistake no operator can act upon.
func compile() schemas {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schemaText))
	if err != nil {
		panic(fmt.Sprintf("read the embedded handoff schema: %v", err))
	}
	c := NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		panic(fmt.Sprintf("add the embedded handoff schema: %v", err))
	}
	return schemas{
		tier1: c.MustCompile(SchemaID),
		tier2: c.MustCompile(SchemaID + "#/$defs/from_tier_2"),
	}
}

func (s schemas) of(from ops.Tier) *jsonschema.Schema {
	if from >= ops.Tier2 {
		return s.tier2
	}
	return s.tier1
}

// NewCompiler returns a compiler of schemas whose one pattern, \S, asks for a visible character.
func NewCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(visibleEngine)
	return c
}

// visiblePattern is the only pattern of the schema.
const visiblePattern = `\S`

// visible gives the pattern its Unicode meaning, which Go's own \S, knowing ASCII blanks only, does not have.
type visible struct{}

func (visible) String() string { return visiblePattern }

func (visible) MatchString(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}

func visibleEngine(pattern string) (jsonschema.Regexp, error) {
	if pattern != visiblePattern {
		return nil, fmt.Errorf("compile pattern %q: only %q is supported", pattern, visiblePattern)
	}
	return visible{}, nil
}
