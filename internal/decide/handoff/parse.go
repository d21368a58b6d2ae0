package handoff

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// Parse reads a handoff that a session of tier from has left. The handoff is empty unless the report is OK.
//
// With from 0 (unknown, as for a file on the command line) the writer is taken to be one below the recommended tier.
func Parse(raw []byte, from ops.Tier) (ops.Handoff, Report) {
	tree, problems := Decode(raw)
	if len(problems) > 0 {
		return ops.Handoff{}, Report{Errors: problems}
	}
	h, report := ParseTree(tree, from)
	report.boundWarnings()
	return h, report
}

// ParseTree is Parse for a handoff inside another document that Decode has read. Every warning starts with its pointer,
// and their number is not bounded.
func ParseTree(tree any, from ops.Tier) (ops.Handoff, Report) {
	if from == 0 {
		from = writer(tree)
	}
	report := Validate(compiled().of(from), tree)
	if !report.OK() {
		return ops.Handoff{}, report
	}
	return build(tree.(map[string]any)), report
}

// Validate explains where a tree breaks a schema, and warns of the fields the schema does not name.
func Validate(schema *Rules, tree any) Report {
	var found faults
	schema.check(tree, nil, &found)
	report := Report{Errors: order(found.problems)}
	warnUnknown(schema, tree, nil, &report)
	return report
}

func writer(tree any) ops.Tier {
	object, _ := tree.(map[string]any)
	recommended, ok := object["recommended_tier"].(json.Number)
	if !ok {
		return ops.Tier1
	}
	value, ok := new(big.Rat).SetString(recommended.String())
	if ok && value.Cmp(big.NewRat(int64(ops.Tier2), 1)) > 0 {
		return ops.Tier2
	}
	return ops.Tier1
}

// warnUnknown warns of what the schema does not name, wherever it names fields.
func warnUnknown(schema *Rules, tree any, path []string, report *Report) {
	for schema.Ref != nil { // what stands beside a reference only narrows the fields that are named there
		schema = schema.Ref
	}
	switch value := tree.(type) {
	case []any:
		for i, item := range value {
			if schema.Items != nil {
				warnUnknown(schema.Items, item, append(slices.Clone(path), strconv.Itoa(i)), report)
			}
		}
	case map[string]any:
		if schema.Properties == nil { // such as the cooldown state, which holds what it likes
			return
		}
		keys := slices.Sorted(maps.Keys(value))
		for _, key := range keys {
			if schema.Properties[key] == nil {
				report.Warn(append(slices.Clone(path), key), "unknown field, ignored%s", hint(schema.Properties, key))
			}
		}
		for _, key := range keys {
			if field := schema.Properties[key]; field != nil {
				warnUnknown(field, value[key], append(slices.Clone(path), key), report)
			}
		}
	}
}

// hint names the field that was probably meant.
func hint(known map[string]*Rules, key string) string {
	for name := range known {
		if strings.EqualFold(name, key) {
			return "; did you mean " + name + "?"
		}
	}
	return ""
}

// build makes the typed handoff from a tree that satisfies the schema. It reads fields by their exact names,
// which encoding/json would not.
func build(tree map[string]any) ops.Handoff {
	h := ops.Handoff{
		SchemaVersion:         int(integer(tree["schema_version"])),
		RecommendedTier:       ops.Tier(integer(tree["recommended_tier"])),
		Target:                text(tree["target"]),
		Reason:                text(tree["reason"]),
		InvestigationFindings: text(tree["investigation_findings"]),
		RemediationAttempted:  text(tree["remediation_attempted"]),
		CooldownState:         encode(tree["cooldown_state"]),
		Confidence:            Confidence(tree["confidence"]),
	}
	services, _ := tree["services_affected"].([]any)
	for _, service := range services {
		h.ServicesAffected = append(h.ServicesAffected, text(service))
	}
	h.CheckResults = CheckResults(tree["check_results"])
	plan, _ := tree["plan"].([]any)
	for _, item := range plan {
		step, _ := item.(map[string]any)
		h.Plan = append(h.Plan, ops.PlanStep{
			Service: text(step["service"]), Action: text(step["action"]), Branch: text(step["branch"]), Reason: text(step["reason"]),
			Effect: text(step["expected_effect"]), Back: text(step["way_back"]),
		})
	}
	return h
}

// Confidence reads a confidence that the schema has already bounded; nil where none is given.
func Confidence(value any) *float64 {
	number, ok := value.(json.Number)
	if !ok {
		return nil
	}
	f, err := number.Float64()
	if err != nil {
		return nil
	}
	return &f
}

// CheckResults makes the typed check results from a tree that satisfies the schema.
func CheckResults(tree any) []ops.CheckResult {
	list, _ := tree.([]any)
	results := make([]ops.CheckResult, len(list))
	for i, item := range list {
		check, _ := item.(map[string]any)
		results[i] = buildCheck(check)
	}
	return results
}

func buildCheck(check map[string]any) ops.CheckResult {
	result := ops.CheckResult{
		Service:   text(check["service"]),
		CheckType: ops.CheckType(text(check["check_type"])),
		Status:    ops.Health(text(check["status"])),
		Error:     text(check["error"]),
	}
	if value, ok := check["response_time_ms"]; ok {
		result.ResponseTimeMS = ops.Ptr(integer(value))
	}
	return result
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// integer reads a number the schema has already bounded; 2.0 and 2e0 are 2.
func integer(value any) int64 {
	number, _ := value.(json.Number)
	rat, ok := new(big.Rat).SetString(number.String())
	if !ok {
		return 0
	}
	return rat.Num().Int64()
}

// encode writes JSON without the HTML escapes that would only blow the text up.
func encode(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return []byte("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
