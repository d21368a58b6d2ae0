package db

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxQueries limits how many rewritten queries are kept; others are rewritten each time.
const maxQueries = 1000

// placeholders rewrites queries with ? to $1, $2 and so on, and keeps the result.
type placeholders struct {
	mu      sync.RWMutex
	queries map[string]string
}

func newPlaceholders() *placeholders { return &placeholders{queries: map[string]string{}} }

// bind is a query and its arguments as PostgreSQL takes them.
func (p *placeholders) bind(query string, args []any) (string, []any) {
	if len(args) == 0 {
		return query, args
	}
	for i, a := range args {
		if clean, ok := storable(a); !ok {
			args = append([]any(nil), args...) // the caller owns them
			args[i] = clean
			for j := i + 1; j < len(args); j++ {
				args[j], _ = storable(args[j])
			}
			break
		}
	}
	p.mu.RLock()
	text, ok := p.queries[query]
	p.mu.RUnlock()
	if ok {
		return text, args
	}
	text = number(query)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queries) < maxQueries {
		p.queries[query] = text
	}
	return text, args
}

// number replaces every ? outside quotes.
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

// storable is an argument without what PostgreSQL refuses in a text: the byte 0 and invalid UTF-8. The output of a program may
// contain both. It reports whether the argument is unchanged.
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
