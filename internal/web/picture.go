package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
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
