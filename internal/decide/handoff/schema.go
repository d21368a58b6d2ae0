package handoff

import (
	_ "embed"
	"strings"
	"sync"

	"claudeops/internal/ops"
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
	tier1 *Rules
	tier2 *Rules // Tier 2 and above owe findings and attempts as well
}

// compiled is computed once and only read afterwards.
var compiled = sync.OnceValue(compile)

func compile() schemas {
	document := MustCompile(schemaText)
	return schemas{tier1: document, tier2: document.Defs["from_tier_2"]}
}

func (s schemas) of(from ops.Tier) *Rules {
	if from >= ops.Tier2 {
		return s.tier2
	}
	return s.tier1
}

// isVisible reports whether a text has a visible character. It is the meaning of visiblePattern, whose \S knows only ASCII
// blanks in Go.
func isVisible(s string) bool { return strings.ContainsFunc(s, visible) }
