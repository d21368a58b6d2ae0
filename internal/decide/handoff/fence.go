package handoff

import (
	"encoding/json"
	"strings"

	"claudeops/internal/ops"
)

// Quote writes text that others wrote as a fenced block it cannot close.
func Quote(text string) string {
	fence := fenceFor(text)
	return fence + "\n" + text + "\n" + fence
}

// Fence writes check results as a fenced block for a prompt. Their texts come from the services, so the fence is
// longer than any the content could close.
func Fence(results []ops.CheckResult) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(results); err != nil {
		return "" // plain texts and numbers always encode
	}
	fence := fenceFor(b.String())
	return fence + "json\n" + b.String() + fence
}
