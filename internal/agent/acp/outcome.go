package acp

import (
	"encoding/json"
	"strings"
)

// outcomeIn finds the object that an agent was asked for in its last message: the whole of it, or the last object in it. Whether it
// fits the schema is checked where all outcomes are.
func outcomeIn(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	var last json.RawMessage
	for i := 0; i < len(text); {
		start := strings.IndexByte(text[i:], '{')
		if start < 0 {
			break
		}
		i += start
		dec := json.NewDecoder(strings.NewReader(text[i:]))
		var object map[string]json.RawMessage
		if dec.Decode(&object) != nil {
			i++
			continue
		}
		end := i + int(dec.InputOffset())
		if len(object) > 0 {
			last = json.RawMessage(text[i:end])
		}
		i = end
	}
	return last
}

// instruction tells an agent the form of its answer: the protocol has none for it.
func instruction(schema string) string {
	return "\n\n## Your answer\n\nEnd with one message that is a single JSON object and nothing else: no text before or after it, " +
		"and no code fence. It must fit this JSON Schema:\n\n" + schema + "\n"
}
