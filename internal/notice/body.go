package notice

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/ops"
)

// Text is what people are told.
type Text = ops.Text

func textOf(title, body string) Text { return Text{Title: title, Body: body} }

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
	if strings.HasPrefix(text, "claudeops") {
		return text
	}
	return ops.Capital(text)
}

func title(text string) string { return "Claude Ops: " + line(text, longestFact) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

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
	return ops.Dollars(&usd)
}

// urgent reports whether a notice must not wait: a person has to decide, or something is seriously wrong.
func urgent(n ops.Notice) bool {
	return n.Level == ops.LevelCritical || n.Kind.AsksPeople() || n.Kind == ops.NoticeTest || n.Target == ops.TargetSecond
}

// SendAt is when a notice may be sent: not within quiet hours, unless it is urgent. A time that is not after now means at once.
func SendAt(q *ops.QuietHours, n ops.Notice, now time.Time) time.Time {
	if q == nil || urgent(n) {
		return now
	}
	return quietEnd(*q, now)
}

// quietEnd is when the quiet hours end in which a time lies; the time itself outside of them.
func quietEnd(q ops.QuietHours, at time.Time) time.Time {
	local := at.In(q.Zone)
	clock := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second
	switch {
	case q.From < q.To && clock >= q.From && clock < q.To:
		return clockAt(local, 0, q.To)
	case q.From > q.To && clock >= q.From:
		return clockAt(local, 1, q.To)
	case q.From > q.To && clock < q.To:
		return clockAt(local, 0, q.To)
	}
	return at
}

// clockAt is a time of the day, some days later. It reads the clock on the wall, also on days on which it is changed.
func clockAt(local time.Time, days int, clock time.Duration) time.Time {
	y, m, d := local.Date()
	return time.Date(y, m, d+days, int(clock/time.Hour), int(clock%time.Hour/time.Minute), 0, 0, local.Location())
}
