package notice

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/ops"
)

// Text is a notice as people read it.
type Text struct {
	Title string
	Body  string
}

// fact is one short line below the first.
type fact struct{ name, text string }

const (
	longestFirst = 240 // characters of the first line
	longestFact  = 160 // of each fact
	mostFacts    = 6
)

// body puts the lines together: what is wrong and what to do, a blank line, the facts. Facts without a text are left out.
func body(first string, facts ...fact) string {
	var b strings.Builder
	b.WriteString(strings.TrimLeft(line(first, longestFirst), "#>-+*=_~ "))
	n := 0
	for _, f := range facts {
		text := line(f.text, longestFact)
		if text == "" || n == mostFacts {
			continue
		}
		if n == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\n- %s: %s", f.name, text)
		n++
	}
	b.WriteString("\n")
	return b.String()
}

// line makes one plain line of a text from outside: no JSON, no control characters, and nothing that Markdown would take for a link,
// an image, code or HTML.
func line(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(ops.Prose(text), ""))
	text = strings.NewReplacer("[", "(", "]", ")", "<", "‹", ">", "›", "`", "'", "*", "·", "|", "/").Replace(text)
	return ops.Cut(strings.TrimSpace(text), limit)
}

// sentence ends a text with a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "…") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// capital starts a text with a capital letter, unless it starts with a name such as claudeops.
func capital(text string) string {
	if text == "" || strings.HasPrefix(text, "claudeops") {
		return text
	}
	r := []rune(text)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

func title(text string) string { return "Claude Ops: " + line(text, longestFact) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// span is a duration in its two largest units.
func span(d time.Duration) string {
	text := d.Round(time.Second).String()
	if d >= time.Minute {
		text = strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// share is a share of one in percent; empty where it is not known.
func share(of *float64) string {
	if of == nil {
		return ""
	}
	return Share(*of)
}

func dollars(usd float64) string {
	if usd <= 0 {
		return ""
	}
	return fmt.Sprintf("est. $%.2f", usd)
}
