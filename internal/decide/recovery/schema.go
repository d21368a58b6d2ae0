package recovery

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// The addresses under which the schemas are published.
const (
	FailureSchemaID   = "https://claudeops.dev/schemas/failure/v1.json"
	ForceDoneSchemaID = "https://claudeops.dev/schemas/force-done/v1.json"
)

//go:embed schema/failure-v1.json
var failureText string

//go:embed schema/force-done-v1.json
var forceDoneText string

// FailureSchema returns the JSON Schema of the failure report.
func FailureSchema() []byte { return []byte(failureText) }

// ForceDoneSchema returns the JSON Schema of the force-done result.
func ForceDoneSchema() []byte { return []byte(forceDoneText) }

// ParseFailure reads a failure report strictly. The failure is empty unless the findings are OK.
func ParseFailure(raw []byte) (Failure, report.Findings) {
	return report.Closed[Failure](raw, "failure report")
}

// ParseForceDone reads a force-done result, with or without its metadata. It is empty unless the findings are OK.
func ParseForceDone(raw []byte) (Ending, report.Findings) {
	return report.Closed(raw, "force-done result", Ending.Check)
}

// Check refuses a path that names a level twice or does not lead to level 5.
func (e Ending) Check() []report.Problem {
	var out []report.Problem
	for i, level := range e.EscalationPath {
		if slices.Contains(e.EscalationPath[:i], level) {
			out = append(out, report.Problem{Pointer: "/escalationPath", Message: fmt.Sprintf("must not hold level %d twice", level)})
			break
		}
	}
	if len(e.EscalationPath) > 0 && !slices.Contains(e.EscalationPath, ops.RecoveryForceDone) {
		out = append(out, report.Problem{Pointer: "/escalationPath", Message: "must hold level 5"})
	}
	return out
}

// Encode writes the force-done result with its metadata, unless its readers would refuse it.
func (e Ending) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("write force-done result: %w", err)
	}
	raw := bytes.TrimSpace(b.Bytes())
	if _, found := ParseForceDone(raw); !found.OK() {
		return nil, fmt.Errorf("write force-done result: %w", found.Err())
	}
	return raw, nil
}
