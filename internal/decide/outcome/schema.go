package outcome

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"claudeops/internal/decide/handoff"
)

// Version is the schema version this package reads and writes.
const Version = 1

// SchemaID is the address under which the schema is published.
const SchemaID = "https://claudeops.dev/schemas/outcome/v1.json"

//go:embed schema/outcome-v1.json
var schemaText string

//go:embed schema/inline-v1.json
var inlineText []byte

// Schema returns the JSON Schema of the outcome. It holds the schema of the handoff, so it can be used alone.
func Schema() []byte { return []byte(schemaText) }

// Inline returns the schema as an agent CLI takes it on its command line: one line, without references.
func Inline() string {
	var b bytes.Buffer
	if err := json.Compact(&b, inlineText); err != nil {
		panic(fmt.Sprintf("read the embedded inline schema: %v", err)) // a build mistake no operator can act upon
	}
	return b.String()
}

// compiled is computed once and only read afterwards.
var compiled = sync.OnceValue(func() *handoff.Rules { return handoff.MustCompile(schemaText) })
