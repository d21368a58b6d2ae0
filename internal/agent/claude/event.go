package claude

import "strings"

// event is an event of the stream other than the result, with the fields that matter.
type event struct {
	kind      string
	subtype   string
	sessionID string
	version   string
	model     string
	parent    string // the tool call of the subagent it is from
	err       string
	message   message
	apiStatus *figure
	cutBy     string // which limit cut the answer of the model off
	retry     retry
	limit     rateLimit
}

// retry is a call of the model that failed and that the CLI makes again.
type retry struct {
	class   string
	status  *figure
	attempt *figure
	delayMS *figure
}

// rateLimit is the state of a subscription.
type rateLimit struct {
	status   string
	resetsAt *figure // seconds since 1970
}

type message struct {
	id      string
	model   string
	blocks  []block
	written int64 // bytes the model wrote, roughly
	usage   usage // of the call of the model that wrote it
}

type block struct {
	kind      string
	id        string
	name      string
	toolUseID string
	input     string // JSON
	content   string // JSON
	written   int64  // bytes of text
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
		case "api_error_status":
			e.apiStatus = c.number()
		case "api_error_params":
			c.object(func(key string) bool {
				if key == "cut" {
					e.cutBy = c.text()
				}
				return key == "cut"
			})
		case "attempt":
			e.retry.attempt = c.number()
		case "retry_delay_ms":
			e.retry.delayMS = c.number()
		case "error_status":
			e.retry.status = c.number()
		case "rate_limit_info":
			e.limit = parseLimit(c)
		default:
			c.skip()
		}
	}
	e.retry.class = e.err
	return e, c.ended()
}

func parseLimit(c *cursor) (l rateLimit) {
	c.object(func(key string) bool {
		switch key {
		case "status":
			l.status = c.text()
		case "resetsAt":
			l.resetsAt = c.number()
		default:
			return false
		}
		return true
	})
	return l
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
			m.blocks, m.written = parseBlocks(c)
		case "usage":
			m.usage = parseUsage(c)
		default:
			c.skip()
		}
	}
	return m
}

func parseBlocks(c *cursor) (blocks []block, written int64) {
	if c.peek() != '[' {
		c.skip()
		return nil, 0
	}
	c.take('[')
	for n := 0; c.next(']', &n); {
		b := parseBlock(c)
		written += b.written + int64(len(b.input))
		if strings.HasSuffix(b.kind, "tool_use") || strings.HasSuffix(b.kind, "tool_result") {
			blocks = append(blocks, b)
		}
	}
	return blocks, written
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
		case "content":
			b.content = c.value()
		case "text", "thinking":
			// Its length is all that matters, so it is not worth decoding.
			b.written += int64(len(c.value()))
		default:
			c.skip()
		}
	}
	return b
}

// parseUsage reads what one call of the model read and wrote.
func parseUsage(c *cursor) (u usage) {
	c.object(func(key string) bool {
		switch key {
		case "input_tokens":
			u.Input = c.number()
		case "output_tokens":
			u.Output = c.number()
		case "cache_read_input_tokens":
			u.CacheRead = c.number()
		case "cache_creation_input_tokens":
			u.CacheWrite = c.number()
		default:
			return false
		}
		return true
	})
	return u
}

// tokens sums what a call read and wrote.
func (u usage) tokens() (tokens int64) {
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
