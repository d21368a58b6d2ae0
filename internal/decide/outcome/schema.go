package outcome

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"claudeops/internal/decide/handoff"
	"claudeops/internal/ops"
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

// Inline returns the schema for a session of a tier as an agent CLI takes it on its command line: one line, without references. A tier that
// was called to a problem is not offered healthy.
func Inline(tier ops.Tier) string {
	var b bytes.Buffer
	if err := json.Compact(&b, inlineText); err != nil {
		panic(fmt.Sprintf("read the embedded inline schema: %v", err)) // a build mistake no operator can act upon
	}
	if tier < ops.Tier2 {
		return b.String()
	}
	return strings.NewReplacer(
		`["healthy","resolved",`, `["resolved",`,
		`"healthy: no check is down and nothing had to be done. resolved: you repaired it and saw that it works; `,
		`"resolved: you saw that it works, because you repaired it or because it had recovered; `,
	).Replace(b.String())
}

// compiled is computed once and only read afterwards.
var compiled = sync.OnceValue(func() *handoff.Rules { return handoff.MustCompile(schemaText) })
