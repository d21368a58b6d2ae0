package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// picture is a chart drawn on the server, with its numbers as a table under "View as table". The partial "picture"
// shows it.
type picture struct {
	ID    string // of the element; unique on its page
	Title string // also for screen readers
	SVG   template.HTML
	Note  string   // shown below; may be empty
	Head  []string // column headings of the table
	Rows  [][]string
	At    [][]stamp // the times at the beginning of each row, before its other cells; nil if there are none
	// Bars says that the arrow keys go along the bars.
	Bars bool
}

// drawing collects the elements of an SVG. All text in it is escaped; the geometry is in attributes, because the pages
// allow no inline style.
type drawing struct {
	body strings.Builder
}

// rect draws a rectangle. Lengths are numbers or percentages. The title is shown on hover and may be empty.
func (d *drawing) rect(x, y, width, height, class, title string) {
	d.bar(x, y, width, height, class, title, "")
}

// bar draws a rectangle with extra attributes, which must already be escaped.
func (d *drawing) bar(x, y, width, height, class, title, attributes string) {
	fmt.Fprintf(&d.body, `<rect x="%s" y="%s" width="%s" height="%s" class="%s"%s>`,
		esc(x), esc(y), esc(width), esc(height), esc(class), attributes)
	if title != "" {
		fmt.Fprintf(&d.body, `<title>%s</title>`, esc(title))
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
func (d *drawing) column(x, y, width, height, class string, from, until stamp, text, attributes string) {
	d.bar(x, y, width, height, class, from.Text+" to "+until.Text+": "+text,
		fmt.Sprintf(` data-begin="%s" data-end="%s"%s`, esc(from.ISO), esc(until.ISO), attributes))
}

// time writes a time as a label; day says to write the day instead of the time of day.
func (d *drawing) time(x, y, anchor, class string, at time.Time, day bool) {
	form, layout := "clock", "15:04"
	if day {
		form, layout = "day", "2 Jan"
	}
	fmt.Fprintf(&d.body, `<text x="%s" y="%s" text-anchor="%s" class="%s" data-time="%s" data-form="%s">%s</text>`,
		esc(x), esc(y), esc(anchor), esc(class), at.UTC().Format(time.RFC3339), form, at.UTC().Format(layout))
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
