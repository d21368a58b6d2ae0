package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// printRows writes rows: as a table for people, or as the API sends them for programs.
func printRows[T any](a *app, rows []T, header string, line func(T) string) error {
	if rows == nil {
		rows = []T{}
	}
	switch a.output {
	case asJSON, asYAML:
		return a.encode(rows)
	case asLines:
		for _, r := range rows {
			if err := a.encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 {
		fmt.Fprintf(a.Stderr, "No %s found.\n", or(a.noun, "rows"))
		return nil
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = line(r)
	}
	_, err := io.WriteString(a.Stdout, a.screen.table(header, lines))
	return err
}

// listRows reads rows and writes them.
func listRows[T any](
	ctx context.Context, a *app, read func(ctx context.Context, s *client) ([]T, error), header string, line func(T) string,
) error {
	return a.read(ctx, func(s *client) error {
		rows, err := read(ctx, s)
		if err != nil {
			return err
		}
		return printRows(a, rows, header, line)
	})
}

// printOne writes one row.
func (a *app) printOne(row any, text func(w io.Writer)) error {
	if a.output != asTable {
		return a.encode(row)
	}
	var b bytes.Buffer
	text(&b)
	_, err := io.WriteString(a.Stdout, a.screen.paintMarks(b.String()))
	return err
}

func tabbed(cells ...string) string { return strings.Join(cells, "\t") }

// money is an estimated cost; an unreported one is not zero.
func money(usd *float64) string {
	switch {
	case usd == nil:
		return "n/a"
	case *usd > 0 && *usd < 0.005:
		return fmt.Sprintf("$%.4f", *usd)
	}
	return fmt.Sprintf("$%.2f", *usd)
}

// turns is a number of turns that may be unknown.
func turns(n *int64) string {
	if n == nil {
		return "n/a"
	}
	return plural(*n, "turn", "turns")
}

// plural is a number with its noun.
func plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// figure is a number that may be unknown.
func figure(n *int64) string {
	if n == nil {
		return "n/a"
	}
	return fmt.Sprint(*n)
}

// id is the id of another row, or nothing.
func id(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func value[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// orDash shows a text that may be missing.
func orDash(s *string) string { return or(value(s), "-") }

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func span(ms *int64) string {
	if ms == nil {
		return "n/a"
	}
	return duration(time.Duration(*ms) * time.Millisecond)
}

func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func stamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// clean replaces control characters, so that text from an agent is safe for a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) || r == 0x202e || r == 0x2066 || r == 0x2067 {
			return ' '
		}
		return r
	}, s)
}

func shorten(s string, most int) string { return ops.Cut(clean(s), most) }

func mark(s ops.SessionStatus) string {
	switch s {
	case ops.SessionCompleted:
		return "✓"
	case ops.SessionQueued:
		return "○"
	case ops.SessionRunning:
		return "●"
	case ops.SessionFailed, ops.SessionTimedOut, ops.SessionCancelled, ops.SessionInterrupted, ops.SessionPartial:
		return "✗"
	}
	return "?"
}
