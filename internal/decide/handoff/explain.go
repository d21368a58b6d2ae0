package handoff

import (
	"encoding/json"
	"fmt"
	"strings"
)

func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeio") {
		return "an " + noun
	}
	return "a " + noun
}

func list(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ", ")
}

// show names a wrong value in a few words.
func show(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return `"` + oneLine(v) + `"`
	case json.Number:
		return oneLine(v.String())
	default:
		return string(encode(v))
	}
}
