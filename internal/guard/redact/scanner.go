package redact

import (
	"strings"
)

// literal is a text that may begin or be something to take out.
type literal struct {
	text string
	fold bool // text is lower case and matches in any case
	mark mark
	// match narrows a hit at s[i:j] to what must go; nil takes the hit itself.
	match func(s string, i, j int) (from, to int, ok bool)
	// each does the same where several pieces may have to go.
	each func(s string, i, j int, add func(from, to int))
	// next limits the bytes that may follow a literal of three bytes; nil is any.
	next func(c byte) bool
}

const (
	window  = 4
	stride  = 2
	key     = 3 // bytes by which a literal is found
	keyMask = 1<<(8*key) - 1
	caseBit = 0x20
	// caseBits is caseBit for each byte of a key.
	caseBits = caseBit<<16 | caseBit<<8 | caseBit
	// filterBits is the size of the table that tells most keys of ordinary text from those of literals. It stays in the
	// processor's nearest cache.
	filterBits = 18
	slack      = 1 << 20
)

// scanner finds many literals in one pass. Each is represented by four neighbouring bytes of it, so that looking at
// three bytes at every second place cannot miss it: one of its two groups of three is looked at.
// A fixed stride keeps the loop free of steps that wait for each other. Bytes are compared without
// regard to case first and exactly after.
type scanner struct {
	filter   [1 << (filterBits - 6)]uint64
	buckets  []bucket // by hash of the key, one of those that follow if it is taken; the length is a power of two
	literals []literal
}

// bucket holds the literals with one key.
type bucket struct {
	key     uint32
	entries []entry
}

// entry is a literal in a bucket, with what tells most texts from it.
type entry struct {
	number      int32
	at, behind  int32 // from the key to the literal's beginning and end
	first, last byte  // of the literal, without case
}

func newScanner(literals []literal) *scanner {
	sc := &scanner{literals: literals}
	byKey := make(map[uint32][]entry)
	add := func(key uint32, e entry) { byKey[key] = append(byKey[key], e) }
	for number, l := range literals {
		if len(l.text) >= window {
			at := anchor(l.text)
			add(keyOf(l.text[at:]), newEntry(number, at, l.text))
			add(keyOf(l.text[at+1:]), newEntry(number, at+1, l.text))
			continue
		}
		add(keyOf(l.text), newEntry(number, 0, l.text))
		followers := make(map[byte]bool)
		for c := range 1 << 8 { // the byte behind a literal of three
			if l.next == nil || l.next(byte(c)) {
				followers[byte(c)|caseBit] = true
			}
		}
		for c := range followers {
			add(keyOf(l.text[1:]+string([]byte{c})), newEntry(number, 1, l.text))
		}
	}
	size := 1
	for size < 4*len(byKey) {
		size *= 2
	}
	sc.buckets = make([]bucket, size)
	for key, entries := range byKey {
		h := hash(key)
		sc.filter[h>>6] |= 1 << (h & 63)
		*sc.bucket(key) = bucket{key: key, entries: entries}
	}
	return sc
}

func newEntry(number, at int, text string) entry {
	return entry{
		number: int32(number), at: int32(at), behind: int32(len(text) - at), //nolint:gosec // short texts, few of them
		first: text[0] | caseBit, last: text[len(text)-1] | caseBit,
	}
}

// bucket returns the bucket of the key, or the empty one it may have.
func (sc *scanner) bucket(key uint32) *bucket {
	mask := uint32(len(sc.buckets) - 1)
	for i := key * 0x9E3779B1 >> 7 & mask; ; i = (i + 1) & mask {
		if b := &sc.buckets[i]; b.key == key || b.entries == nil {
			return b
		}
	}
}

// keyOf is the key of the first three bytes.
func keyOf(s string) uint32 {
	return (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16) | caseBits
}

func hash(key uint32) uint32 { return key * 2654435761 >> (32 - filterBits) }

// anchor picks the four bytes of a literal that are least likely to stand in ordinary text.
func anchor(text string) int {
	best, bestScore := 0, -1
	for at := 0; at+window <= len(text); at++ {
		// The commoner of the two keys decides how often the literal is tried in vain.
		score := rarity(text[at+1]) + rarity(text[at+2]) + min(rarity(text[at]), rarity(text[at+3]))
		if score > bestScore {
			best, bestScore = at, score
		}
	}
	return best
}

func rarity(c byte) int {
	for score, class := range []string{"etaoinsr \",", "hldcum0123456789:{}[]", "pfgwybv_."} {
		if strings.IndexByte(class, c|caseBit) >= 0 || strings.IndexByte(class, c) >= 0 {
			return score
		}
	}
	return 4
}

// find returns what must go, in no particular order and possibly overlapping.
func (sc *scanner) find(s string) []span {
	var f finding
	i := 0
	for ; i+4 <= len(s); i += stride {
		k := (uint32(s[i])|uint32(s[i+1])<<8|uint32(s[i+2])<<16|uint32(s[i+3])<<24)&keyMask | caseBits
		h := k * 2654435761 >> (32 - filterBits)
		if sc.filter[h>>6]&(1<<(h&63)) != 0 {
			sc.tryAll(&f, s, i, k)
		}
	}
	if i+key <= len(s) {
		sc.tryAll(&f, s, i, keyOf(s[i:]))
	}
	return f.spans
}

func (sc *scanner) tryAll(f *finding, s string, i int, key uint32) {
	for _, e := range sc.bucket(key).entries {
		from, to := i-int(e.at), i+int(e.behind)
		if from >= 0 && to <= len(s) && s[from]|caseBit == e.first && s[to-1]|caseBit == e.last {
			f.try(&sc.literals[e.number], s, from)
		}
	}
}

// finding is what was found in one text so far.
type finding struct {
	spans []span
	to    int // the furthest end of a span
	work  int // bytes looked at behind literals
}

// try looks for the literal at from, where there is room for it. Text that is made to have every literal look at all that
// follows is not worth more than a few passes: then what lies in an earlier span stays as it is.
func (f *finding) try(l *literal, s string, from int) {
	to := from + len(l.text)
	if !l.same(s[from:to]) {
		return
	}
	switch {
	case l.match == nil && l.each == nil:
		f.add(span{from: from, to: to, mark: l.mark})
		return
	case from < f.to && f.work > slack+4*len(s):
		return
	case l.each != nil:
		l.each(s, from, to, func(start, end int) {
			f.work += end - from
			f.add(span{from: start, to: end, mark: l.mark})
		})
		return
	}
	start, end, ok := l.match(s, from, to)
	if !ok || start >= end {
		return
	}
	f.work += end - from
	f.add(span{from: start, to: end, mark: l.mark})
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
	st.block, st.answer = blockValue(s), namesDirective(s)
	return out
}

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
