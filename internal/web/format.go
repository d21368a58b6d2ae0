package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// stamp is a time as shown: short in the text, exact in the title and in the datetime attribute.
type stamp struct {
	Text, Exact, ISO string
	Ago              bool // the text is relative, so the script keeps it up to date
}

// figure is a number as shown. A missing number is shown as a dash, never as zero.
type figure struct {
	Known bool
	Text  string
	Exact string
}

// moment is the time at which a page is rendered; its relative times start there.
type moment struct {
	now time.Time
}

// unknown is a figure that was not reported.
func unknown() figure { return figure{Text: "–", Exact: "Not available"} }

// notYet is a figure that is not known before the end.
func notYet() figure { return figure{Text: "–", Exact: "Not known yet"} }

// stamp is a time in UTC. The script shows it in the reader's zone; both choose the layout by the same rules.
func (m moment) stamp(t time.Time) stamp {
	at, now := t.UTC(), m.now.UTC()
	layout := "15:04"
	switch {
	case at.Year() != now.Year():
		layout = "2 Jan 2006"
	case at.YearDay() != now.YearDay():
		layout = "2 Jan 15:04"
	}
	return stamp{
		Text:  at.Format(layout),
		Exact: at.Format("2006-01-02 15:04:05 MST"),
		ISO:   at.Format(time.RFC3339),
	}
}

// text is a time inside a sentence, where the script does not find it.
func (m moment) text(t time.Time) string { return m.stamp(t).Text + " UTC" }

// precise is a stamp with seconds, for logs.
func (m moment) precise(t time.Time) stamp {
	s := m.stamp(t)
	s.Text = t.UTC().Format(time.TimeOnly)
	return s
}

func (m moment) maybe(t *time.Time) *stamp {
	if t == nil {
		return nil
	}
	s := m.stamp(*t)
	return &s
}

// ago is a relative time with the exact time in the title.
func (m moment) ago(t time.Time) stamp {
	s := m.stamp(t)
	s.Ago = true
	if d := m.now.Sub(t); d < time.Minute {
		s.Text = "just now"
	} else {
		s.Text = coarse(d) + " ago"
	}
	return s
}

// until is how long it is until a time, with the exact time in the title.
func (m moment) until(t time.Time) stamp {
	s := m.stamp(t)
	s.Text = "now"
	if left := t.Sub(m.now); left > 0 {
		s.Text = "in " + span(left)
	}
	return s
}

// coarse is a duration in one unit.
func coarse(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// span is a duration in two units.
func span(d time.Duration) string {
	if d >= 9950*time.Millisecond {
		d = d.Round(time.Second)
	}
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 9950*time.Millisecond:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// dollars shows two decimals, and four for amounts below a cent.
func dollars(usd *float64) figure {
	if usd == nil {
		return unknown()
	}
	exact := strconv.FormatFloat(*usd, 'f', -1, 64)
	// A sum of floats has rounding noise.
	if rounded := strconv.FormatFloat(*usd, 'f', 6, 64); len(exact) > len(rounded) {
		exact = strings.TrimRight(strings.TrimRight(rounded, "0"), ".")
	}
	decimals := 2
	if *usd > 0 && *usd < 0.01 {
		decimals = 4
	}
	return figure{Known: true, Text: fmt.Sprintf("$%.*f", decimals, *usd), Exact: "$" + exact}
}

func count(n *int64) figure {
	if n == nil {
		return unknown()
	}
	return figure{Known: true, Text: thousands(*n), Exact: strconv.FormatInt(*n, 10)}
}

func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return sign + out.String()
}

func bytesText(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// clip returns at most limit bytes of text and never splits a character.
func clip(text string, limit int) (string, bool) {
	short := ops.Start(text, limit)
	return short, short != text
}

// firstLine is the first line of a text, shortened, as a title.
func firstLine(text string, limit int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	short, cut := clip(plain(strings.TrimSpace(line)), limit)
	if cut {
		return short + "…"
	}
	return short
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
