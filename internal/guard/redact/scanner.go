package redact

import (
	"strings"

	"claudeops/internal/ops"
)

// literal is a text that may begin or be something to take out.
type literal struct {
	text string
	fold bool // text is lower case and matches in any case
	mark mark
	// match adds what must go of a hit at s[i:j]; nil takes the hit itself.
	match func(s string, i, j int, add func(from, to int))
}

const (
	caseBit = 0x20
	slack   = 1 << 20
)

// scanner finds many literals in one pass, by their first two bytes without regard to case.
type scanner struct {
	pairs [1 << 16]uint16 // to lists; 0 is none
	lists [][]literal
}

func newScanner(literals []literal) *scanner {
	sc := &scanner{lists: make([][]literal, 1)}
	for _, l := range literals {
		at := pair(l.text[0], l.text[1])
		if sc.pairs[at] == 0 {
			sc.pairs[at] = uint16(len(sc.lists)) //nolint:gosec // one for each pair
			sc.lists = append(sc.lists, nil)
		}
		list := &sc.lists[sc.pairs[at]]
		*list = append(*list, l)
	}
	return sc
}

func pair(a, b byte) uint16 { return uint16(a|caseBit) | uint16(b|caseBit)<<8 }

// find returns what must go, in no particular order and possibly overlapping.
func (sc *scanner) find(s string) []span {
	var f finding
	for i := 0; i+1 < len(s); i++ {
		if at := sc.pairs[pair(s[i], s[i+1])]; at != 0 {
			for k := range sc.lists[at] {
				f.try(&sc.lists[at][k], s, i)
			}
		}
	}
	return f.spans
}

// finding is what was found in one text so far.
type finding struct {
	spans []span
	to    int // the furthest end of a span
	work  int // bytes looked at behind literals
}

// try looks for the literal at from. Text that is made to have every literal look at all that follows is not worth more than a few passes:
// then what lies in an earlier span stays as it is.
func (f *finding) try(l *literal, s string, from int) {
	to := from + len(l.text)
	switch {
	case to > len(s) || !l.same(s[from:to]):
	case l.match == nil:
		f.add(span{from: from, to: to, mark: l.mark})
	case from >= f.to || f.work <= slack+4*len(s):
		l.match(s, from, to, func(start, end int) {
			if start < end {
				f.work += end - from
				f.add(span{from: start, to: end, mark: l.mark})
			}
		})
	}
}

func (f *finding) add(sp span) {
	f.spans = append(f.spans, sp)
	f.to = max(f.to, sp.to)
}

func (l *literal) same(s string) bool {
	if !l.fold {
		return s == l.text
	}
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c |= caseBit
		}
		if c != l.text[i] {
			return false
		}
	}
	return true
}

// Stream redacts the lines of one output in order. A private key, and a value that stands below its name, is taken out of
// each of its lines. No line waits for the next one. It is not safe for concurrent use.
type Stream struct {
	redactor *Redactor
	keyLines int  // how many more lines may belong to the key that was begun
	answer   bool // the next line is the value of the setting that this one names
	block    int  // the indentation of a name whose value is on the lines below it, plus one
}

const maxKeyLines = 500

// Stream starts the redaction of one output.
func (r *Redactor) Stream() *Stream { return &Stream{redactor: r} }

// Line returns the next line without secrets.
func (st *Stream) Line(s string) string {
	if st.answer {
		st.answer = false
		if strings.TrimSpace(s) != "" && !looksLikeJSON(s) {
			return markPassword.String()
		}
	}
	if st.keyLines > 0 || st.block > 0 {
		if mark, ok := st.belongs(s); ok {
			return mark.String()
		}
	}
	out := st.redactor.String(s)
	if looksLikeJSON(s) {
		return out // an event holds its lines itself
	}
	if out != s && beginsKey(s) {
		st.keyLines = maxKeyLines
	}
	st.block, st.answer = blockValue(s), namesSetting().MatchString(s)
	return out
}

// namesSetting matches a line that is only the name of a setting whose value is a secret, as in the answer to CONFIG GET.
var namesSetting = ops.Pattern(`(?i)^\s*(\d+\) )?"?(requirepass|masterauth|bindpw|rootpw)"?\s*$`)

// belongs reports whether the line is part of a key or of a value that began above it.
func (st *Stream) belongs(s string) (mark, bool) {
	line := strings.TrimSpace(s)
	if st.block > 0 {
		if line != "" && len(s)-len(strings.TrimLeft(s, " ")) >= st.block {
			return markPassword, true
		}
		st.block = 0
	}
	if st.keyLines == 0 {
		return 0, false
	}
	st.keyLines--
	switch {
	case strings.HasPrefix(line, "{"):
		st.keyLines = 0
		return 0, false
	case strings.Contains(line, keyEnd):
		st.keyLines = 0
	}
	return markKey, true
}

// blockValue returns one more than the indentation of a YAML key whose value is a block below it, if the key is the name of a secret.
func blockValue(s string) int {
	text := strings.TrimLeft(s, " -")
	key, marker, found := strings.Cut(text, ":")
	marker = strings.TrimSpace(marker)
	if !found || marker == "" || marker[0] != '|' && marker[0] != '>' || len(marker) > 3 {
		return 0
	}
	key = strings.ToLower(strings.Trim(key, `"'`))
	for _, end := range []string{"password", "passwd", "passphrase", "secret", "token", "key", "credentials", "_pass", "_pw"} {
		if strings.HasSuffix(key, end) {
			return len(s) - len(text) + 1
		}
	}
	return 0
}

// beginsKey reports whether a private key begins in a line of plain text and does not end there.
func beginsKey(s string) bool {
	i := strings.LastIndex(s, "-----BEGIN ")
	return i >= 0 && !looksLikeJSON(s) && strings.Contains(s[i:], "PRIVATE KEY") && !strings.Contains(s[i:], keyEnd)
}
