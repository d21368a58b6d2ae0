package agent

import "strings"

// event is an event of the stream that is no result, as far as it matters.
type event struct {
	kind      string
	subtype   string
	sessionID string
	version   string
	model     string
	parent    string // the tool call of the subagent it is from
	err       string
	message   message
}

type message struct {
	id     string
	model  string
	blocks []block
	tokens int64 // in the call of the model that wrote it
}

type block struct {
	kind      string
	id        string
	name      string
	toolUseID string
	input     string // JSON
	isError   bool
}

// parseEvent reads an event.
func parseEvent(text string) (e event, ok bool) {
	c := &cursor{s: text}
	if !c.take('{') {
		return e, false
	}
	for n := 0; c.next('}', &n); {
		switch c.key() {
		case "type":
			e.kind = c.text()
		case "subtype":
			e.subtype = c.text()
		case "session_id":
			e.sessionID = c.text()
		case "claude_code_version":
			e.version = c.text()
		case "model":
			e.model = c.text()
		case "parent_tool_use_id":
			e.parent = c.text()
		case "error":
			e.err = c.text()
		case "message":
			e.message = parseMessage(c)
		default:
			c.skip()
		}
	}
	return e, c.ended()
}

func parseMessage(c *cursor) (m message) {
	if c.peek() != '{' {
		c.skip()
		return m
	}
	c.take('{')
	for n := 0; c.next('}', &n); {
		switch c.key() {
		case "id":
			m.id = c.text()
		case "model":
			m.model = c.text()
		case "content":
			m.blocks = parseBlocks(c)
		case "usage":
			m.tokens = parseUsage(c)
		default:
			c.skip()
		}
	}
	return m
}

func parseBlocks(c *cursor) (blocks []block) {
	if c.peek() != '[' {
		c.skip()
		return nil
	}
	c.take('[')
	for n := 0; c.next(']', &n); {
		if b := parseBlock(c); b.kind == "tool_use" || b.kind == "tool_result" {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func parseBlock(c *cursor) (b block) {
	if c.peek() != '{' {
		c.skip()
		return b
	}
	c.take('{')
	for n := 0; c.next('}', &n); {
		switch c.key() {
		case "type":
			b.kind = c.text()
		case "id":
			b.id = c.text()
		case "name":
			b.name = c.text()
		case "tool_use_id":
			b.toolUseID = c.text()
		case "is_error":
			b.isError = c.value() == "true"
		case "input":
			b.input = c.value()
		default:
			c.skip()
		}
	}
	return b
}

// parseUsage sums what one call of the model read and wrote.
func parseUsage(c *cursor) (tokens int64) {
	if c.peek() != '{' {
		c.skip()
		return 0
	}
	c.take('{')
	var u usage
	for n := 0; c.next('}', &n); {
		switch c.key() {
		case "input_tokens":
			u.Input = c.number()
		case "output_tokens":
			u.Output = c.number()
		case "cache_read_input_tokens":
			u.CacheRead = c.number()
		case "cache_creation_input_tokens":
			u.CacheWrite = c.number()
		default:
			c.skip()
		}
	}
	for _, f := range []*figure{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
		if count := whole(f); count != nil {
			tokens += *count
		}
	}
	return tokens
}

// maxInput bounds how much of a tool's input is kept to say what it did.
const maxInput = 64 << 10

// keep returns a copy: what is kept of a line must not keep the whole line in memory.
func keep(s string) string {
	if len(s) > maxInput {
		return ""
	}
	return strings.Clone(s)
}
