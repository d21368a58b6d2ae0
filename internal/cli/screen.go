package cli

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"claudeops/internal/ops"

	"golang.org/x/term"
)

// screen is what the output is shown on. The zero value is a file or a pipe: no colors, any width, whole times.
type screen struct {
	width int  // columns; 0 means any
	color bool // colors may be used
	now   time.Time
}

// screenOf describes the terminal behind a writer.
func screenOf(w io.Writer, noColor bool, environ []string) screen {
	if !terminal(w) {
		return screen{}
	}
	s := screen{color: !noColor, now: time.Now()}
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.width = width
		}
	}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb" {
			s.color = false
		}
	}
	return s
}

// when shows a time in a table: how long ago on a terminal, else the time itself.
func (s screen) when(t *time.Time) string {
	if t == nil || s.now.IsZero() {
		return stamp(t)
	}
	d := s.now.Sub(*t)
	switch {
	case d < 0 && d > -time.Second, d >= 0 && d < time.Second:
		return "now"
	case d < 0:
		return "in " + roughly(-d)
	}
	return roughly(d) + " ago"
}

// roughly is a duration in its largest unit.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d/day))
}

const (
	gap       = 2  // columns between cells
	leastCell = 12 // no cell is cut to fewer columns
)

// table lays rows out in columns. On a terminal it leaves out what says nothing, cuts the widest cells so that a row fits, and puts the
// last columns below their row where that is not enough.
func (s screen) table(header string, lines []string) string {
	rows := [][]string{strings.Split(header, "\t")}
	for _, l := range lines {
		rows = append(rows, strings.Split(l, "\t"))
	}
	rows = s.telling(rows)
	beside := len(rows[0])
	widths, fits := s.fit(widthsOf(rows))
	for ; !fits && beside > 2; widths, fits = s.fit(widthsOf(left(rows, beside))) {
		beside--
	}
	var b strings.Builder
	for n, row := range rows {
		b.WriteString(s.row(row[:beside], widths, n == 0))
		for i := beside; i < len(row) && n > 0; i++ {
			if !blank(row[i]) {
				const indent = "      "
				text := strings.ToLower(rows[0][i]) + ": " + row[i]
				b.WriteString(indent + strings.Join(wrapped(text, s.width-len(indent)), "\n"+indent) + "\n")
			}
		}
	}
	return b.String()
}

// row is one line of a table.
func (s screen) row(cells []string, widths []int, header bool) string {
	line := ""
	for i, cell := range cells {
		if s.width > 0 {
			cell = shorten(cell, widths[i])
		}
		padding := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell))+gap)
		if i == len(cells)-1 {
			padding = ""
		}
		switch {
		case !s.color:
		case header:
			cell = "\x1b[1m" + cell + "\x1b[0m"
		default:
			cell = paint(cell, tone(cell))
		}
		line += cell + padding
	}
	return strings.TrimRight(line, " ") + "\n"
}

// telling are the columns that tell a person something: one that is blank in every row does not, nor does the only environment.
func (s screen) telling(rows [][]string) [][]string {
	if s.width == 0 || len(rows) == 1 {
		return rows
	}
	out := make([][]string, len(rows))
	for i, title := range rows[0] {
		silent := true
		for _, row := range rows[1:] {
			only := strings.HasPrefix(title, "ENVIRONMENT") && row[i] == rows[1][i]
			silent = silent && (blank(row[i]) || only)
		}
		for n, row := range rows {
			if !silent || i == 0 {
				out[n] = append(out[n], row[i])
			}
		}
	}
	return out
}

// blank reports whether a cell stands for nothing.
func blank(cell string) bool { return slices.Contains([]string{"", "-", "–", "unknown"}, cell) }

// left are the first columns.
func left(rows [][]string, columns int) [][]string {
	return ops.Map(rows, func(row []string) []string { return row[:columns] })
}

func widthsOf(rows [][]string) []int {
	var out []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(out) {
				out = append(out, 0)
			}
			out[i] = max(out[i], utf8.RuneCountInString(cell))
		}
	}
	return out
}

// fit makes the widest columns narrower until everything fits, if it does.
func (s screen) fit(widths []int) (narrower []int, fits bool) {
	if s.width == 0 {
		return widths, true
	}
	over := gap*(len(widths)-1) - s.width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= leastCell {
			return widths, false
		}
		widths[widest]--
	}
	return widths, true
}

// The colors of a terminal, as its own theme shows them.
const (
	green  = "32"
	yellow = "33"
	red    = "31"
	blue   = "36"
)

func paint(text, color string) string {
	if color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// tone is the color of a cell that holds nothing but a state.
func tone(cell string) string {
	word := cell
	if _, after, marked := strings.Cut(cell, " "); marked && utf8.RuneCountInString(cell)-utf8.RuneCountInString(after) == 2 {
		word = after
	}
	switch word {
	case "healthy", "completed", "resolved", "approved", "alive", "sent", "ok", "✓":
		return green
	case "running", "queued", "info":
		return blue
	case "degraded", "waiting_human", "pending", "warning", "acknowledged", "snoozed", "partial", "draining", "suppressed", "interrupted",
		"needs_human", "blocked", "open", "!":
		return yellow
	case "down", "failed", "timed_out", "critical", "dead", "denied", "lost", "✗":
		return red
	}
	return ""
}

// paintMarks colors the words behind the marks of a text.
func (s screen) paintMarks(text string) string {
	if !s.color {
		return text
	}
	return regexp.MustCompile(`[✓✗●○] [a-z_]+`).ReplaceAllStringFunc(text, func(found string) string {
		mark, _, _ := strings.Cut(found, " ")
		return paint(found, map[string]string{"✓": green, "✗": red, "●": blue, "○": blue}[mark])
	})
}
