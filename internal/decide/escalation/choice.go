package escalation

import "encoding/json"

// ChoiceSchema is the form of a manager's answer: one of the ids, and why. It uses plain keywords only, as the agents'
// programs take it.
func ChoiceSchema(ids []string) string {
	raw, err := json.Marshal(map[string]any{
		"type": "object",
		"properties": map[string]any{
			"target": map[string]any{"type": "string", "enum": ids},
			"reason": map[string]any{"type": "string"},
		},
		"required":             []string{"target", "reason"},
		"additionalProperties": false,
	})
	if err != nil { // plain strings always encode
		return "{}"
	}
	return string(raw)
}
