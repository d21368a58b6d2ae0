package redact

import (
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"html"
	"slices"
	"strings"
)

const (
	// leastTrail is the length from which a secret is followed through notations and line breaks.
	leastTrail = 8
	// longTrail is the length from which a secret is found by fewer of its parts.
	longTrail = 48
)

// anchorOf is a text by which the scanner finds a trail: some of its units and what stands between them.
type anchorOf struct {
	text string
	skip int // bytes before the first unit
	unit int // the number of the first unit
}

// trails are the ways to write a secret that put something between its parts.
func trails(value string) []literal {
	if len(value) < leastTrail {
		return nil
	}
	var out []literal
	add := func(t *trail, anchors []anchorOf) {
		for _, a := range anchors {
			out = append(out, literal{text: a.text, fold: t.fold, mark: markSecret, trail: t, unit: a.unit, skip: a.skip})
		}
	}
	plain := &trail{width: 1, units: chars(value), plain: true, fills: notAlnum}
	add(plain, plain.anchors(4, 5, "", "")) // four units, one in five places: no eight units are without
	for _, between := range []string{" ", "   ", "-", ".", ",", ":", `\n`, ", "} {
		add(plain, plain.anchors(4, 6, "", between))
	}
	for _, text := range slices.Compact(alignedForms(value)) {
		t := &trail{width: 1, units: chars(text), fills: notBase64}
		size, step := 4, 5
		if len(text) >= longTrail {
			size, step = 6, 11
		}
		add(t, t.anchors(size, step, "", ""))
	}
	for _, text := range base32Forms(value) {
		t := &trail{width: 1, units: chars(strings.ToLower(text)), fold: true, fills: notAlnum}
		add(t, t.anchors(5, 8, "", ""))
	}
	for _, text := range []string{reversed(value), rot13(value)} {
		t := &trail{width: 1, units: chars(text), plain: true, fills: func(byte) bool { return false }}
		add(t, t.anchors(4, 5, "", ""))
	}
	for _, n := range byteNotations(value) {
		for _, a := range n.between {
			add(n.trail, n.trail.anchors(n.size, n.step, a.before, a.between))
		}
	}
	return out
}

// notation writes each byte as a number.
type notation struct {
	trail      *trail
	size, step int
	between    []separators
}

type separators struct{ before, between string }

// byteNotations are the value in hex, octal and decimal as programs print it.
func byteNotations(value string) []notation {
	hexTrail := &trail{width: 1, units: each(value, "%02x"), fold: true, fills: fillsHex}
	octal := &trail{width: 1, units: each(value, "%03o"), whole: true, fills: notAlnum}
	decimal := &trail{width: 1, units: each(value, "%d"), whole: true, fills: func(c byte) bool { return notAlnum(c) || c == '0' }}
	out := []notation{
		{trail: hexTrail, size: 3, step: 6, between: []separators{
			{}, {between: " "}, {between: ":"}, {between: "-"}, {between: ", 0x"}, {between: ",0x"}, {between: " 0x"},
		}},
		{trail: hexTrail, size: 2, step: 5, between: []separators{
			{"%", "%"}, {"x", `\x`}, {"x", `\\x`}, {"u00", `\u00`}, {"u00", `\\u00`}, {"#x", ";&#x"}, {"=", "="}, {"u{", `}\u{`},
		}},
		{trail: octal, size: 3, step: 6, between: []separators{{between: " "}, {between: `\`}, {between: `\\`}}},
		{trail: decimal, size: 3, step: 6, between: []separators{{between: " "}, {between: ", "}, {between: ","}, {"#", ";&#"}}},
	}
	// Words of two bytes: xxd prints them in order, od -x and hexdump with the second byte first.
	for _, start := range []int{0, 1} {
		words := &trail{width: 2, units: wordUnits(value, start, false), fold: true, fills: fillsHex}
		swapped := &trail{width: 2, units: wordUnits(value, start, true), fold: true, fills: fillsHex}
		for _, t := range []*trail{words, swapped} {
			out = append(out, notation{trail: t, size: 2, step: 3, between: []separators{{between: " "}}})
		}
	}
	return out
}

// anchors picks size units at every step-th place, with the given texts before and between them.
func (t *trail) anchors(size, step int, before, between string) []anchorOf {
	var out []anchorOf
	last := len(t.units) - size
	for unit := 0; last >= 0; unit += step {
		unit = min(unit, last)
		text := before + strings.Join(t.units[unit:unit+size], between)
		out = append(out, anchorOf{text: text, skip: len(before), unit: unit})
		if unit == last {
			break
		}
	}
	return out
}

func chars(text string) []string {
	out := make([]string, len(text))
	for i := range out {
		out[i] = text[i : i+1]
	}
	return out
}

func each(value, format string) []string {
	out := make([]string, len(value))
	for i := range out {
		out[i] = fmt.Sprintf(format, value[i])
	}
	return out
}

func wordUnits(value string, start int, swap bool) []string {
	var out []string
	for i := start; i+1 < len(value); i += 2 {
		first, second := value[i], value[i+1]
		if swap {
			first, second = second, first
		}
		out = append(out, fmt.Sprintf("%02x%02x", first, second))
	}
	return out
}

func notAlnum(c byte) bool  { return !isAlnum(c) }
func notBase64(c byte) bool { return !isWord(c) && c != '+' && c != '/' }
func fillsHex(c byte) bool  { return !isAlnum(c) || c == '0' || c|caseBit == 'x' || c|caseBit == 'u' }

// alignedForms are the parts of a base64 text that the value alone decides, and those of base64 in base64.
func alignedForms(value string) []string {
	var out []string
	for lead := range 3 {
		padded := append(make([]byte, lead), value...)
		first, last := (lead*8+5)/6, len(padded)*8/6
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			out = append(out, enc.EncodeToString(padded)[first:last])
		}
	}
	twice := base64.StdEncoding.EncodeToString([]byte(value))
	return append(out, base64.RawStdEncoding.EncodeToString([]byte(twice))[:len(twice)*8/6])
}

// base32Forms are the same for base32, for each of the five places the value can have in a group.
func base32Forms(value string) []string {
	out := make([]string, 0, 6)
	for lead := range 5 {
		padded := append(make([]byte, lead), value...)
		first, last := (lead*8+4)/5, len(padded)*8/5
		out = append(out, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(padded)[first:last])
	}
	return append(out, base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(value))[:len(value)*8/5])
}

func reversed(value string) string {
	b := []byte(value)
	slices.Reverse(b)
	return string(b)
}

func rot13(value string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case 'A' <= r && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, value)
}

// htmlForms are the value in the text of a page.
func htmlForms(value string) []string {
	escaped := html.EscapeString(value)
	return []string{
		escaped,
		strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;").Replace(escaped),
		strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#x27;").Replace(escaped),
		strings.ReplaceAll(escaped, "&#34;", `"`),
	}
}

// quotedForms are the value as shells and printf %q write it.
func quotedForms(value string) []string {
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c < 0x80 && !isWord(c) && strings.IndexByte("./:@%+=,", c) < 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(value[i])
	}
	out := []string{b.String()}
	for _, quote := range []string{`'\''`, `'"'"'`, "''"} {
		out = append(out, strings.ReplaceAll(value, "'", quote))
	}
	return out
}
