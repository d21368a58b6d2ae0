package claude

import (
	"encoding/json"
	"strconv"
	"strings"
)

// cursor walks through JSON text and builds only what it is asked for. Most of what an agent prints
// is skipped, so decoding every line as a whole would cost more than everything else together. It
// accepts all valid JSON; of invalid JSON it may accept some.
type cursor struct {
	s   string
	i   int
	bad bool
}

func (c *cursor) space() {
	for c.i < len(c.s) && (c.s[c.i] == ' ' || c.s[c.i] == '\t' || c.s[c.i] == '\n' || c.s[c.i] == '\r') {
		c.i++
	}
}

// peek returns the next byte that is not white space, or 0.
func (c *cursor) peek() byte {
	c.space()
	if c.i < len(c.s) {
		return c.s[c.i]
	}
	return 0
}

// take goes past the byte if it is the next one.
func (c *cursor) take(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.i++
	return true
}

// next reports whether another element follows in an object or array that ends with end, and goes
// past what separates it from the last one. n counts the elements; it starts at 0.
func (c *cursor) next(end byte, n *int) bool {
	if c.bad {
		return false
	}
	if c.take(end) {
		return false
	}
	if *n > 0 && !c.take(',') {
		c.bad = true
		return false
	}
	*n++
	return true
}

// key returns the next key of an object.
func (c *cursor) key() string {
	k, ok := c.raw()
	if !ok || !c.take(':') {
		c.bad = true
	}
	return k
}

// object goes through the next value if it is an object. read takes the value of a key, or returns false to leave it out.
func (c *cursor) object(read func(key string) bool) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	c.take('{')
	for n := 0; c.next('}', &n); {
		if !read(c.key()) {
			c.skip()
		}
	}
}

// raw returns what is between the quotes of the next value, if it is a string.
func (c *cursor) raw() (string, bool) {
	if !c.take('"') {
		return "", false
	}
	from := c.i
	for {
		end := strings.IndexByte(c.s[c.i:], '"')
		if end < 0 {
			c.bad, c.i = true, len(c.s)
			return "", false
		}
		c.i += end + 1
		slashes := 0
		for at := c.i - 2; at >= from && c.s[at] == '\\'; at-- {
			slashes++
		}
		if slashes%2 == 0 {
			return c.s[from : c.i-1], true
		}
	}
}

// text returns the next value if it is a string, else "".
func (c *cursor) text() string {
	if c.peek() != '"' {
		c.skip()
		return ""
	}
	from := c.i
	text, ok := c.raw()
	if !ok || strings.IndexByte(text, '\\') < 0 {
		return text
	}
	var out string
	if err := json.Unmarshal([]byte(c.s[from:c.i]), &out); err != nil {
		c.bad = true
	}
	return out
}

// number returns the next value if it is a number, else nil.
func (c *cursor) number() *figure {
	c.space()
	from := c.i
	c.skip()
	if n, err := strconv.ParseFloat(c.s[from:c.i], 64); err == nil {
		f := figure(n)
		return &f
	}
	return nil
}

// value returns the text of the next value as it is written.
func (c *cursor) value() string {
	c.space()
	from := c.i
	c.skip()
	return c.s[from:c.i]
}

// skip goes past the next value.
func (c *cursor) skip() {
	depth := 0
	for {
		switch b := c.peek(); b {
		case '"':
			if _, ok := c.raw(); !ok {
				return
			}
		case '{', '[':
			c.i++
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				c.bad = true
				return
			}
			c.i++
			depth--
		case ',', ':':
			if depth == 0 {
				c.bad = true
				return
			}
			c.i++
			continue
		case 0:
			c.bad = true
			return
		default:
			c.scalar()
		}
		if depth == 0 {
			return
		}
	}
}

// scalar goes past a number, true, false or null.
func (c *cursor) scalar() {
	for c.i < len(c.s) {
		switch c.s[c.i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
			return
		}
		c.i++
	}
}

// ended reports whether all was read and well formed.
func (c *cursor) ended() bool {
	c.space()
	return !c.bad && c.i == len(c.s)
}
