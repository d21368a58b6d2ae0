package recovery

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"claudeops/internal/decide/handoff"
)

// Version is the schema version this package reads and writes.
const Version = 1

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

// compiled are computed once and only read afterwards.
var (
	compiledFailure   = sync.OnceValue(func() *handoff.Rules { return handoff.MustCompile(failureText) })
	compiledForceDone = sync.OnceValue(func() *handoff.Rules { return handoff.MustCompile(forceDoneText) })
)

// ParseFailure reads a failure report strictly. The failure is empty unless the report is OK.
func ParseFailure(raw []byte) (Failure, handoff.Report) {
	return parse[Failure](raw, compiledFailure(), "failure report")
}

// ParseForceDone reads a force-done result, with or without its metadata. It is empty unless the report is OK.
func ParseForceDone(raw []byte) (Ending, handoff.Report) {
	return parse[Ending](raw, compiledForceDone(), "force-done result")
}

// Encode writes the failure report and checks it against its schema.
func (f Failure) Encode() ([]byte, error) {
	f.SchemaVersion = Version
	return encode(f, compiledFailure(), "failure report")
}

// Encode writes the force-done result with its metadata and checks it against its schema.
func (e Ending) Encode() ([]byte, error) { return encode(e, compiledForceDone(), "force-done result") }

func parse[T any](raw []byte, schema *handoff.Rules, document string) (T, handoff.Report) {
	var value T
	report := check(raw, schema, document)
	if !report.OK() {
		return value, report
	}
	// No field but those of the schema is there, so the decoder cannot take one for another by its case.
	if err := json.Unmarshal(raw, &value); err != nil {
		report.Errors = append(report.Errors, handoff.Problem{Message: "cannot be read: " + err.Error(), Document: document})
		return *new(T), report
	}
	return value, report
}

func encode(value any, schema *handoff.Rules, document string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("write %s: %w", document, err)
	}
	raw := bytes.TrimSpace(b.Bytes())
	if err := check(raw, schema, document).Err(); err != nil {
		return nil, fmt.Errorf("write %s: %w", document, err)
	}
	return raw, nil
}

func check(raw []byte, schema *handoff.Rules, document string) handoff.Report {
	tree, problems := handoff.Decode(raw)
	if len(problems) > 0 {
		report := handoff.Report{Errors: problems}
		report.Finish(document)
		return report
	}
	report := handoff.Validate(schema, tree)
	nameUnknown(&report)
	report.Finish(document)
	return report
}

// nameUnknown turns the warnings about unknown fields into the errors they are here.
func nameUnknown(report *handoff.Report) {
	if len(report.Warnings) == 0 {
		return
	}
	report.Errors = slices.DeleteFunc(report.Errors, func(p handoff.Problem) bool {
		return strings.HasPrefix(p.Message, "breaks the rule additionalProperties")
	})
	for _, warning := range report.Warnings {
		at, message, _ := strings.Cut(warning, ": ")
		report.Errors = append(
			report.Errors,
			handoff.Problem{Pointer: at, Message: strings.Replace(message, "unknown field, ignored", "is an unknown field", 1)},
		)
	}
	report.Warnings = nil
}
