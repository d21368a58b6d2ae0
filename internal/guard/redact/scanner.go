package redact

import "strings"

// literal is a text that may begin or be something to take out.
type literal struct {
	text string
	fold bool // text is lower case and matches in any case
	mark mark
	// match narrows a hit at s[i:j] to what must go; nil takes the hit itself.
	match func(s string, i, j int) (from, to int, ok bool)
	// at is where the pair of bytes lies by which the scanner finds the literal.
	at int
}

const (
	window    = 3
	stride    = window - 1
	tableSize = 1 << 16
	caseBit   = 0x20
	slack     = 1 << 20
)

// scanner finds many literals in one pass. Each is represented by three neighbouring bytes of it,
// so that looking at every second pair of bytes cannot miss it: one of its two pairs is looked at.
// A fixed stride keeps the loop free of steps that wait for each other. Bytes are compared without
// regard to case first and exactly after.
type scanner struct {
	bucket  [tableSize]uint16 // by pair of bytes; 0 means no literal
	buckets [][]literal
}

func newScanner(literals []literal) *scanner {
	sc := &scanner{buckets: make([][]literal, 1)}
	for _, l := range literals {
		at := anchor(l.text)
		for l.at = at; l.at < at+stride; l.at++ {
			sc.add(pair(l.text[l.at:]), l)
		}
	}
	return sc
}

func (sc *scanner) add(pair uint16, l literal) {
	if sc.bucket[pair] == 0 {
		sc.bucket[pair] = uint16(len(sc.buckets))
		sc.buckets = append(sc.buckets, nil)
	}
	bucket := &sc.buckets[sc.bucket[pair]]
	*bucket = append(*bucket, l)
}

// anchor picks the three bytes of a literal that are least likely to stand in ordinary text.
func anchor(text string) int {
	best, bestScore := 0, -1
	for at := 0; at+window <= len(text); at++ {
		// The commoner of the two pairs decides how often the literal is tried in vain.
		score := rarity(text[at+1]) + min(rarity(text[at]), rarity(text[at+2]))
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

// pair is the table index of the first two bytes.
func pair(s string) uint16 {
	return uint16(s[0]|caseBit)<<8 | uint16(s[1]|caseBit)
}

// find returns what must go, in no particular order and possibly overlapping.
func (sc *scanner) find(s string) []span {
	var f finding
	for i := 0; i+1 < len(s); i += stride {
		n := sc.bucket[uint16(s[i]|caseBit)<<8|uint16(s[i+1]|caseBit)]
		if n == 0 {
			continue
		}
		bucket := sc.buckets[n]
		for k := range bucket {
			f.try(&bucket[k], s, i-bucket[k].at)
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

// try looks for the literal at from. Text that is made to have every literal look at all that
// follows is not worth more than a few passes: then what lies in an earlier span stays as it is.
func (f *finding) try(l *literal, s string, from int) {
	to := from + len(l.text)
	if from < 0 || to > len(s) || !l.same(s[from:to]) {
		return
	}
	if l.match == nil {
		f.add(span{from: from, to: to, mark: l.mark})
		return
	}
	if from < f.to && f.work > slack+4*len(s) {
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
