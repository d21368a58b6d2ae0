package web

import (
	"fmt"
	"html/template"
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
	Since string // when a duration began that still grows; the script keeps it up to date
}

// moment is the time at which a page is rendered; its relative times start there.
type moment struct {
	now time.Time
}

// unknown is a figure that was not reported.
func unknown() figure { return figure{Text: "–", Exact: "Not available"} }

// stamp is a time in UTC. The script shows it in the reader's zone; both choose the layout by the same rules.
func (m moment) stamp(t time.Time) stamp {
	at, now := t.UTC(), m.now.UTC()
	layout := time.TimeOnly
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

// lasting is how long something took, or has taken so far; nil means that it has not begun or not ended.
func (m moment) lasting(from, until *time.Time, grows bool) figure {
	if from == nil {
		return unknown()
	}
	end := m.now
	if until != nil {
		end = *until
	}
	out := duration(end.Sub(*from))
	if grows {
		out.Since = from.UTC().Format(time.RFC3339)
	}
	return out
}

func duration(d time.Duration) figure { return figure{Known: true, Text: span(d), Exact: d.String()} }

// yet marks a missing figure of something that has not ended.
func (f figure) yet(ended bool) figure {
	if !f.Known && !ended {
		return figure{Text: "–", Exact: "Not known yet"}
	}
	return f
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

func dollars(usd *float64) figure {
	if usd == nil {
		return figure{Text: ops.Dollars(nil), Exact: "No cost was reported"}
	}
	exact := strconv.FormatFloat(*usd, 'f', -1, 64)
	// A sum of floats has rounding noise.
	if rounded := strconv.FormatFloat(*usd, 'f', 6, 64); len(exact) > len(rounded) {
		exact = strings.TrimRight(strings.TrimRight(rounded, "0"), ".")
	}
	return figure{Known: true, Text: ops.Dollars(usd), Exact: "$" + exact}
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

// firstLine is the first line of a text, shortened, as a title.
func firstLine(text string, limit int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return ops.Cut(plain(strings.TrimSpace(line)), limit)
}

// terminalCode matches terminal escape sequences.
var terminalCode = ops.Pattern("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")

// plain makes foreign text safe to read: it removes terminal codes and replaces characters that reorder or hide
// other text. Templates escape it for HTML.
func plain(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.IndexByte(text, '\x1b') >= 0 {
		text = terminalCode().ReplaceAllString(text, "")
	}
	return visible(text)
}

// visible replaces characters that reorder or hide other text.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\r':
			return -1
		case ops.Unseen(r):
			return '\uFFFD'
		}
		return r
	}, text)
}

// picture is a chart drawn on the server. Its numbers are a table for who cannot see it, or said by each bar that the arrow keys reach. The
// partial "picture" shows it.
type picture struct {
	ID    string // of the element; unique on its page
	Title string // also for screen readers
	SVG   template.HTML
	From  *stamp   // where its axis begins, where it has one
	Note  string   // shown below; may be empty
	Head  []string // column headings of the table; nil: none
	Rows  [][]string
	// Bars says that the arrow keys go along the bars.
	Bars bool
}

// drawing collects the elements of an SVG. All text in it is escaped; the geometry is in attributes, because the pages
// allow no inline style.
type drawing struct {
	body strings.Builder
}

// bar is a rectangle. Lengths are numbers or percentages. The title is shown on hover and may be empty; attributes must already be escaped.
type bar struct{ x, y, width, height, class, title, attributes string }

func (d *drawing) rect(b bar) {
	fmt.Fprintf(&d.body, `<rect x="%s" y="%s" width="%s" height="%s" class="%s"%s>`,
		esc(b.x), esc(b.y), esc(b.width), esc(b.height), esc(b.class), b.attributes)
	if b.title != "" {
		fmt.Fprintf(&d.body, `<title>%s</title>`, esc(b.title))
	}
	d.body.WriteString(`</rect>`)
}

// line draws a straight line.
func (d *drawing) line(x1, y1, x2, y2, class string) {
	fmt.Fprintf(&d.body, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, esc(x1), esc(y1), esc(x2), esc(y2), esc(class))
}

// text writes a label. The anchor is start, middle or end.
func (d *drawing) text(x, y, anchor, class, label string) {
	fmt.Fprintf(&d.body, `<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`,
		esc(x), esc(y), esc(anchor), esc(class), esc(label))
}

// column draws a bar of a period. Its title begins with the period.
func (d *drawing) column(b bar, from, until stamp) {
	b.title = from.Text + " to " + until.Text + ": " + b.title
	b.attributes += fmt.Sprintf(` data-begin="%s" data-end="%s"`, esc(from.ISO), esc(until.ISO))
	d.rect(b)
}

// time writes a time below a chart; day says to write the day instead of the time of day.
func (d *drawing) time(x, class string, at time.Time, day bool) {
	form, layout := "clock", "15:04"
	if day {
		form, layout = "day", "2 Jan"
	}
	fmt.Fprintf(&d.body, `<text x="%s" y="%s" text-anchor="middle" class="%s" data-time="%s" data-form="%s">%s</text>`,
		esc(x), px(chartHeight-6), esc(class), at.UTC().Format(time.RFC3339), form, at.UTC().Format(layout))
}

// svg returns the drawing with full width and the given height in pixels.
func (d *drawing) svg(height int, title string) template.HTML {
	//nolint:gosec // every value was escaped when it was written
	return template.HTML(fmt.Sprintf(`<svg class="drawing" width="100%%" height="%d" role="img" aria-label="%s"><title>%s</title>%s</svg>`,
		height, esc(title), esc(title), d.body.String()))
}

// axis returns the drawing as the axis beside another drawing, hidden from screen readers.
func (d *drawing) axis(width, height int) template.HTML {
	//nolint:gosec // every value was escaped when it was written
	return template.HTML(fmt.Sprintf(`<svg class="drawing axis" width="%d" height="%d" aria-hidden="true">%s</svg>`,
		width, height, d.body.String()))
}

func esc(text string) string { return template.HTMLEscapeString(text) }

// px is a length in an SVG.
func px(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// pc is a length in an SVG in percent of its width or height.
func pc(v float64) string { return percent(v) + "%" }

// filterRow is the search and the filters of a list, in one row. The partial "filters" shows it.
type filterRow struct {
	Action string // URL of the list
	Fields []filterField
	Hidden map[string]string // what the list keeps besides
	Clear  string            // URL of the list without filters; empty if none is set
}

// filterField is one field of a filter row.
type filterField struct {
	Kind    string // search, text, select or check
	Name    string
	Label   string
	Value   string
	Short   bool // it holds a few characters
	Choices []choice
	List    []string // suggestions for a text
	Checked bool
}

// First is the field that a phone always shows.
func (f filterRow) First() filterField { return f.Fields[0] }

// Rest are the fields that a phone shows on request.
func (f filterRow) Rest() []filterField { return f.Fields[1:] }

// Many reports whether a phone hides some of them.
func (f filterRow) Many() bool { return len(f.Fields) > 2 }

// Set is the number of filters that are set and that a phone hides.
func (f filterRow) Set() int {
	n := 0
	for _, field := range f.Rest() {
		if field.Value != "" || field.Checked {
			n++
		}
	}
	return n
}

// selected makes a select of a filter row.
func selected(name, label string, choices []choice) filterField {
	field := filterField{Kind: "select", Name: name, Label: label, Choices: choices}
	for _, c := range choices {
		if c.Chosen {
			field.Value = c.Value
		}
	}
	return field
}

// withEnvironment adds the choice of an environment if there are several.
func (f filterRow) withEnvironment(choices []choice) filterRow {
	if len(choices) > 2 {
		f.Fields = append(f.Fields, selected("environment", "Environment", choices))
	}
	return f
}

// clearing sets where the filters are cleared, if one is set.
func (f filterRow) clearing(filtered bool) filterRow {
	if filtered {
		f.Clear = f.Action
	}
	return f
}

// temporary is a folder of temporary files.
var temporary = ops.Pattern(`/tmp/(?:[-.\w]+/)+`)

// shortPaths leaves out the folders of temporary files: what a command does is told by the rest.
func shortPaths(text string) string { return temporary().ReplaceAllString(text, "") }
