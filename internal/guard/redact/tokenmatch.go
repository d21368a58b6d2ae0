package redact

// literal makes the matcher of a shape.
func (t tokenShape) literal() literal {
	out := literal{text: t.fixed, mark: markToken, match: t.match}
	if first := t.parts[0]; first.before == "" && first.least > 0 {
		out.next = first.of.has
	}
	return out
}

// match finds the token whose fixed text is s[i:j].
func (t tokenShape) match(s string, i, j int) (from, to int, ok bool) {
	last := t.parts[len(t.parts)-1]
	if from, ok = t.begin(s, i); !ok || last.of.has('-') && isAlnum(s[i]) && !startsWord(s, from) {
		return 0, 0, false
	}
	to = j
	for _, p := range t.parts {
		if to, ok = p.match(s, to); !ok {
			return 0, 0, false
		}
	}
	if t.digit && !needDigit(s[j:to]) {
		return 0, 0, false
	}
	if last.most == 0 {
		to = run(s, to, last.of.has)
	}
	return from, to, true
}

// begin is where the token begins whose fixed text is at i.
func (t tokenShape) begin(s string, i int) (int, bool) {
	if t.lead.least == 0 {
		return i, !isAlnum(s[i]) || startsToken(s, i)
	}
	from := i
	for from > 0 && i-from < t.lead.most && t.lead.of.has(s[from-1]) {
		from--
	}
	for ; i-from >= t.lead.least; from++ {
		if startsToken(s, from) {
			return from, true
		}
	}
	return 0, false
}

// mostPart is how much of a part without an end is looked at before it counts.
const mostPart = 4096

func (p part) match(s string, i int) (to int, ok bool) {
	if len(s)-i < len(p.before) || s[i:i+len(p.before)] != p.before {
		return 0, false
	}
	i += len(p.before)
	for to = i; to < len(s) && to-i < mostPart && p.of.has(s[to]); to++ {
		if p.most > 0 && to-i >= p.most {
			return 0, false
		}
	}
	return to, to-i >= p.least
}

// startsToken reports whether a token may begin at i: no letter or digit stands before it, except those that end an escape
// sequence such as \n, %3D or a color of a terminal.
func startsToken(s string, i int) bool {
	if i == 0 || !isAlnum(s[i-1]) {
		return true
	}
	c := s[i-1]
	switch {
	case c == 'm':
		p := i - 1
		for p > 0 && (isDigit(s[p-1]) || s[p-1] == ';') {
			p--
		}
		return p > 0 && s[p-1] == '['
	case i >= 2 && s[i-2] == '\\':
		return c == 'n' || c == 'r' || c == 't' || c == 'b' || c == 'f'
	case i >= 3 && s[i-3] == '%':
		return isHex(c) && isHex(s[i-2])
	case i >= 6 && s[i-6] == '\\' && s[i-5] == 'u':
		return isHex(c) && isHex(s[i-2]) && s[i-4] == '0'
	}
	return i >= 6 && s[i-6:i] == `\u001b` // a terminal's escape without the rest
}
