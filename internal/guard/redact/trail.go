package redact

// trail is one way to write a configured secret, as a list of units with anything between them that notations and line breaks
// put there: the bytes of a hex dump, the characters of wrapped base64. The scanner finds a few neighbouring units, and the
// trail is followed from there in both directions, so that a secret is found that is split over lines or partly cut off.
type trail struct {
	units []string
	width int // bytes of the secret, or characters of its base64, per unit
	fold  bool
	whole bool // a unit has no digit beside it
	// plain is the secret itself. A part of it may be an ordinary word, so more of it must be there.
	plain bool
	// fills reports whether a byte may stand between two units.
	fills func(c byte) bool
}

const (
	// mostFill is how many bytes may stand between two units on one line.
	mostFill = 8
	// mostGutter is how many bytes may stand before and after a line break: the columns of a hex dump beside the bytes.
	mostGutter = 72
	// resumeUnits is how many units must follow each other behind a line break.
	resumeUnits = 4
	leastPiece  = 6
	// mostPending is how many unfinished secrets a line may leave to the next one: each column of a hex dump has one.
	mostPending = 4
)

// piece is the part of a trail that was found.
type piece struct {
	from, to    int // in the text
	first, last int // units; last is behind the piece
}

// follow returns the part of the trail around the unit at p.
func (t *trail) follow(s string, p, unit int) (piece, bool) {
	if !t.is(s, p, unit) {
		return piece{}, false
	}
	out := piece{}
	out.to, out.last = t.forward(s, p, unit)
	out.from, out.first = t.backward(s, p, unit)
	return out, t.enough(s, out)
}

func (t *trail) is(s string, p, unit int) bool {
	u := t.units[unit]
	if p < 0 || len(s)-p < len(u) {
		return false
	}
	for i := range len(u) {
		c := s[p+i]
		if t.fold && 'A' <= c && c <= 'Z' {
			c |= caseBit
		}
		if c != u[i] {
			return false
		}
	}
	return !t.whole || (p == 0 || !isDigit(s[p-1])) && (p+len(u) == len(s) || !isDigit(s[p+len(u)]))
}

// forward follows the trail from the unit at p and returns the place behind it and the number of the unit that is not there.
func (t *trail) forward(s string, p, unit int) (int, int) {
	for {
		p += len(t.units[unit])
		unit++
		if unit == len(t.units) {
			return p, unit
		}
		next, ok := t.next(s, p, unit)
		if !ok {
			next, ok = t.resume(s, p, unit)
		}
		if !ok {
			return p, unit
		}
		p = next
	}
}

// next returns where the unit begins that comes at p or behind a short filling.
func (t *trail) next(s string, p, unit int) (int, bool) {
	for end := p + mostFill; ; {
		if t.is(s, p, unit) {
			return p, true
		}
		step := t.filling(s, p)
		if step == 0 || p+step > end {
			return 0, false
		}
		p += step
	}
}

// filling is the length of one thing at p that is no unit: a byte or the escape of a line break.
func (t *trail) filling(s string, p int) int {
	if p >= len(s) {
		return 0
	}
	if s[p] == '\\' {
		q := run(s, p, func(c byte) bool { return c == '\\' })
		if q < len(s) && (s[q] == 'n' || s[q] == 'r' || s[q] == 't') {
			return q + 1 - p
		}
	}
	if t.fills(s[p]) {
		return 1
	}
	return 0
}

// resume returns where the trail goes on behind the next line break.
func (t *trail) resume(s string, p, unit int) (int, bool) {
	end := min(len(s), p+mostGutter)
	for p < end && !breaksLine(s, p) {
		p++
	}
	if p == end {
		return 0, false
	}
	for end = min(len(s), p+mostGutter); p < end; p++ {
		if t.runs(s, p, unit) {
			return p, true
		}
	}
	return 0, false
}

// runs reports whether several units follow each other from p.
func (t *trail) runs(s string, p, unit int) bool {
	most := min(resumeUnits, len(t.units)-unit)
	for n := range most {
		next, ok := p, t.is(s, p, unit+n)
		if n > 0 && !ok {
			next, ok = t.next(s, p, unit+n)
		}
		if !ok {
			return false
		}
		p = next + len(t.units[unit+n])
	}
	return true
}

// breaksLine reports whether a line break, real or escaped, is at p.
func breaksLine(s string, p int) bool {
	return s[p] == '\n' || s[p] == 'n' && p > 0 && s[p-1] == '\\'
}

// backward follows the trail from the unit at p towards its beginning and returns the place and number of the first unit.
func (t *trail) backward(s string, p, unit int) (int, int) {
	for unit > 0 {
		before, ok := t.previous(s, p, unit-1)
		if !ok {
			before, ok = t.resumeBefore(s, p, unit-1)
		}
		if !ok {
			break
		}
		p = before
		unit--
	}
	return p, unit
}

// previous returns where the unit begins that ends at p or before a short filling.
func (t *trail) previous(s string, p, unit int) (int, bool) {
	size := len(t.units[unit])
	for end := p - mostFill; ; p-- {
		if t.is(s, p-size, unit) {
			return p - size, true
		}
		if p <= 0 || p <= end {
			return 0, false
		}
		if c := s[p-1]; !t.fills(c) && (p < 2 || s[p-2] != '\\' || c != 'n' && c != 'r' && c != 't') {
			return 0, false
		}
	}
}

// resumeBefore returns where the unit begins before the last line break.
func (t *trail) resumeBefore(s string, p, unit int) (int, bool) {
	end := max(0, p-mostGutter)
	for p--; p >= end && !breaksLine(s, p); p-- {
	}
	if p < end {
		return 0, false
	}
	size := len(t.units[unit])
	for end = max(0, p-mostGutter); p-size >= end; p-- {
		if t.is(s, p-size, unit) && t.runsBefore(s, p-size, unit) {
			return p - size, true
		}
	}
	return 0, false
}

func (t *trail) runsBefore(s string, p, unit int) bool {
	for n := 1; n < resumeUnits && unit-n >= 0; n++ {
		before, ok := t.previous(s, p, unit-n)
		if !ok {
			return false
		}
		p = before
	}
	return true
}

// enough reports whether a piece of the secret gives it away.
func (t *trail) enough(s string, p piece) bool {
	n, all := (p.last-p.first)*t.width, len(t.units)*t.width
	if n == all {
		return true
	}
	if n < leastPiece {
		return false
	}
	starts, ends := lineStarts(s, p.from), lineEnds(s, p.to)
	plain := t.plain && p.to-p.from == n // with something between its characters it is no ordinary text
	switch {
	case plain && allLetters(s[p.from:p.to]):
		// A word may be a part of a secret by chance.
		return 4*n >= 3*all || starts && ends && 2*n >= all
	case starts && ends && 8*n >= all:
		return true
	case (ends && p.first == 0 || starts && p.last == len(t.units)) && 3*n >= all:
		return true
	case plain && (starts || ends):
		return 4*n >= 3*all || n >= 12
	case plain:
		return 4*n >= 3*all || n >= 24
	}
	return n >= 12 || n >= 8 && 2*n >= all
}

func allLetters(s string) bool { return run(s, 0, letters.has) == len(s) }

// lineStarts reports whether only punctuation stands between the beginning of the line and p.
func lineStarts(s string, p int) bool {
	for ; p > 0; p-- {
		if breaksLine(s, p-1) {
			return true
		}
		if isAlnum(s[p-1]) {
			return false
		}
	}
	return true
}

// lineEnds reports whether only punctuation stands between p and the end of the line.
func lineEnds(s string, p int) bool {
	for ; p < len(s); p++ {
		if s[p] == '\n' || s[p] == '\\' && p+1 < len(s) && s[p+1] == 'n' {
			return true
		}
		if isAlnum(s[p]) {
			return false
		}
	}
	return true
}

// pending is a secret of which a part ended a line; the next line may hold the rest.
type pending struct {
	trail *trail
	unit  int
}

// rest finds the rest of the secret at the beginning of a line.
func (o pending) rest(s string) (piece, bool) {
	t := o.trail
	few := len(t.units)-o.unit < resumeUnits
	for p := 0; p < len(s) && p < mostGutter; p++ {
		if t.runs(s, p, o.unit) {
			out := piece{from: p, first: o.unit}
			out.to, out.last = t.forward(s, p, o.unit)
			return out, true
		}
		if few && isAlnum(s[p]) {
			break // so little is found only where it must be
		}
	}
	return piece{}, false
}
