// Package redact takes secrets out of text before it is stored, shown or logged.
//
// It knows two things: the values the operator configured, also as JSON, URLs and base64 write them,
// and the shapes of common credentials. One pass over the text finds both, so that the usual line,
// which holds neither, costs a fraction of a microsecond.
package redact

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// mark is what a piece of text is replaced with. It holds neither quotes nor backslashes, so that a
// line of JSON stays one. A lower value wins where two marks meet.
type mark uint8

const (
	markSecret mark = iota
	markKey
	markToken
	markPassword
)

func (m mark) String() string {
	switch m {
	case markSecret:
		return "[redacted: secret]"
	case markKey:
		return "[redacted: key]"
	case markToken:
		return "[redacted: token]"
	case markPassword:
		return "[redacted: password]"
	}
	return "[redacted]"
}

// unsafeLine stands for a JSON line that would not be JSON any more, because a secret is also part
// of its structure (a number, a key with its quotes).
const unsafeLine = `{"type":"redacted","text":"[redacted: secret]"}`

// span is a piece of text to take out.
type span struct {
	from, to int
	mark     mark
}

// Redactor replaces secrets in text. It is safe for concurrent use.
type Redactor struct {
	// scan makes the tables when the first text comes; they take longer than the rest of a start.
	scan atomic.Pointer[func() *scanner]
}

// New makes a Redactor for the given secret values. Values shorter than six bytes are ignored: they
// would blot out ordinary text.
func New(secrets []string) *Redactor {
	r := &Redactor{}
	r.Learn(secrets)
	return r
}

// Learn makes these the secret values from now on.
func (r *Redactor) Learn(secrets []string) {
	secrets = slices.Clone(secrets)
	scan := sync.OnceValue(func() *scanner { return newScanner(append(shapes(), forms(secrets)...)) })
	r.scan.Store(&scan)
}

// String returns s without secrets. A line of valid JSON stays valid JSON.
func (r *Redactor) String(s string) string {
	spans := (*r.scan.Load())().find(s)
	if len(spans) == 0 {
		return s
	}
	out := replace(s, merge(s, spans))
	if !json.Valid([]byte(out)) && json.Valid([]byte(s)) {
		return unsafeLine
	}
	return out
}

func looksLikeJSON(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return s != "" && (s[0] == '{' || s[0] == '[' || s[0] == '"')
}

// merge widens the spans to whole escape sequences, sorts them and joins those that overlap.
func merge(s string, spans []span) []span {
	for i := range spans {
		spans[i].from, _ = escapeAround(s, spans[i].from)
		_, spans[i].to = escapeAround(s, spans[i].to)
	}
	slices.SortFunc(spans, func(a, b span) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	out := spans[:1]
	for _, sp := range spans[1:] {
		last := &out[len(out)-1]
		if sp.from >= last.to {
			out = append(out, sp)
			continue
		}
		last.to = max(last.to, sp.to)
		last.mark = min(last.mark, sp.mark)
	}
	return out
}

func replace(s string, spans []span) string {
	var b strings.Builder
	b.Grow(len(s))
	at := 0
	for _, sp := range spans {
		b.WriteString(s[at:sp.from])
		b.WriteString(sp.mark.String())
		at = sp.to
	}
	b.WriteString(s[at:])
	return b.String()
}

// escapeAround returns the bounds of the JSON escape sequence that i lies inside of, or i twice.
// Half an escape sequence left behind would make a line invalid.
func escapeAround(s string, i int) (from, to int) {
	for back := 1; back <= 5 && i-back >= 0; back++ {
		at := i - back
		if s[at] != '\\' || backslashes(s, at+1)%2 == 0 {
			continue
		}
		length := 2
		if at+1 < len(s) && s[at+1] == 'u' {
			length = 6
		}
		if at+length > i {
			return at, min(at+length, len(s))
		}
	}
	return i, i
}

// backslashes counts the backslashes that end right before i.
func backslashes(s string, i int) int {
	n := 0
	for i-n > 0 && s[i-n-1] == '\\' {
		n++
	}
	return n
}
