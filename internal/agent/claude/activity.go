package claude

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// activities are what one line of Claude Code's output tells, in order: usage first, then calls, then results. It needs
// nothing but the line, so a stored transcript tells the same as the live stream. Only a running session knows the time and
// the tool of a result: here both are empty, and the id of the call says which one was answered. A line that was cut when it
// was stored tells nothing.
func activities(line string) []ops.Activity {
	line = strings.TrimLeft(line, " \t")
	if !strings.HasPrefix(line, "{") || !strings.Contains(line, `"assistant"`) && !strings.Contains(line, `"tool_result"`) {
		return nil
	}
	e, ok := parseEvent(line)
	if !ok {
		return nil
	}
	switch e.kind {
	case "assistant":
		return said(e.message)
	case "user":
		return answered(e.message)
	}
	return nil
}

// Activities reads from one stored line of output what the session did.
func (c *Claude) Activities(line string) []ops.Activity { return activities(line) }

// Gated is for programs that ask nobody; this one does.
func (c *Claude) Gated(ops.SessionSpec, agent.Walls) bool { return false }

// said is what a message of the model tells.
func said(m message) (out []ops.Activity) {
	if m.model == synthetic {
		return nil
	}
	count := func(f *figure) int64 {
		if n := whole(f); n != nil {
			return *n
		}
		return 0
	}
	u := m.usage
	if m.id != "" {
		out = append(out, ops.Activity{
			Kind: ops.ActivityUsage, Message: keep(m.id), Model: keep(m.model), InputTokens: count(u.Input), OutputTokens: count(u.Output),
			CacheReadTokens: count(u.CacheRead), CacheWriteTokens: count(u.CacheWrite), Written: m.written,
		})
	}
	for _, b := range m.blocks {
		if b.kind == "tool_use" && b.id != "" {
			out = append(out, ops.Activity{
				Kind: ops.ActivityCall, UseID: keep(b.id), Tool: keep(b.name), Input: shorten(b.input, maxInput),
			})
		}
	}
	return out
}

// answered is what the results of tool calls tell.
func answered(m message) (out []ops.Activity) {
	for _, b := range m.blocks {
		if b.kind == "tool_result" {
			out = append(out, ops.Activity{
				Kind: ops.ActivityResult, UseID: keep(b.toolUseID), Output: shorten(contentText(b.content), maxOutput), Failed: b.isError,
			})
		}
	}
	return out
}

// contentText is the text of what a tool returned. What is not text, such as an image, stays as it was written.
func contentText(content string) string {
	if text, ok := unquote(content); ok {
		return text
	}
	var text string
	if json.Unmarshal([]byte(content), &text) == nil {
		return text
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal([]byte(content), &parts) != nil {
		return content
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Type != "text" {
			return content
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// unquote reads a JSON string without the rarer escapes. Most results are such strings, and encoding/json reads them several times
// slower.
func unquote(content string) (string, bool) {
	if len(content) < 2 || content[0] != '"' || content[len(content)-1] != '"' || !utf8.ValidString(content) {
		return "", false
	}
	content = content[1 : len(content)-1]
	if plain(content) {
		return content, true
	}
	text := make([]byte, 0, len(content))
	for i := 0; i < len(content); i++ {
		c := content[i]
		if c == '\\' && i+1 < len(content) {
			i++
			at := strings.IndexByte(`"\/ntr`, content[i])
			if at < 0 {
				return "", false
			}
			text = append(text, "\"\\/\n\t\r"[at])
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			return "", false
		}
		text = append(text, c)
	}
	return string(text), true
}

// plain reports whether a JSON string has neither escapes nor what is not allowed in it.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// maxOutput bounds how much of a tool's output is passed on.
const maxOutput = 4 << 10

// shorten returns a copy of a text, or its two ends with a hash of the whole between them: two long texts that differ anywhere
// stay different.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return strings.Clone(s)
	}
	sum := sha256.Sum256([]byte(s))
	return ops.Ends(s, limit/2, limit/2, fmt.Sprintf(" … [%d bytes, sha256 %s] … ", len(s), hex.EncodeToString(sum[:8])))
}
