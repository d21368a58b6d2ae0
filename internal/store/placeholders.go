package store

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxTexts bounds how many numbered texts are kept; a text beyond is numbered each time.
const maxTexts = 1000

// placeholders turns texts with ? into ones with $1, $2 and so on, each of them once.
type placeholders struct {
	mu    sync.RWMutex
	texts map[string]string
}

func newPlaceholders() *placeholders { return &placeholders{texts: map[string]string{}} }

// bind is a text and its arguments as PostgreSQL takes them.
func (p *placeholders) bind(query string, args []any) (string, []any) {
	if len(args) == 0 {
		return query, args
	}
	for i, a := range args {
		if clean, ok := storable(a); !ok {
			args = append([]any(nil), args...) // they are the caller's
			args[i] = clean
			for j := i + 1; j < len(args); j++ {
				args[j], _ = storable(args[j])
			}
			break
		}
	}
	p.mu.RLock()
	text, ok := p.texts[query]
	p.mu.RUnlock()
	if ok {
		return text, args
	}
	text = number(query)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.texts) < maxTexts {
		p.texts[query] = text
	}
	return text, args
}

// number replaces every ? that stands outside a quoted text.
func number(query string) string {
	var b strings.Builder
	b.Grow(len(query) + 32)
	n, quoted := 0, byte(0)
	for i := range len(query) {
		c := query[i]
		switch {
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '\'' || c == '"':
			quoted = c
		case c == '?':
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// storable is an argument without what PostgreSQL refuses in a text: the byte 0, and what is no UTF-8. Output of a program
// may hold both. It reports whether the argument was so already.
func storable(v any) (any, bool) {
	text, ok := v.(string)
	if !ok {
		r := reflect.ValueOf(v)
		if r.Kind() != reflect.String {
			return v, true
		}
		text = r.String()
	}
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return v, true
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\x00", string(utf8.RuneError)), false
}
