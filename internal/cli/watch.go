package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// watchInterval is how often the rows of a watched cycle are read.
const watchInterval = 300 * time.Millisecond

func (a *app) cyclesWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch [ID]", Short: "Print what a cycle does until it ends or waits for a human", Args: cobra.MaximumNArgs(1),
		Long: `Prints each session and each event of a cycle as it happens, and the whole chain at the end. Without an id, the newest cycle that
has not ended is watched. Ctrl-C ends the watching, not the cycle. Exit codes are the same as for once.`,
		Example: `  claudeops cycles watch
  claudeops cycles watch 42`,
		RunE: on(a.read, func(c *cobra.Command, s *client, args []string) error {
			id, err := watched(c.Context(), s, args)
			if err != nil {
				return err
			}
			return a.watchCycle(c.Context(), s, id)
		}),
	}
}

// watched is the cycle to watch: the named one or the newest that has not ended.
func watched(ctx context.Context, s *client, args []string) (ops.CycleID, error) {
	if len(args) == 1 {
		n, err := cycleNumber(args[0])
		return ops.CycleID(n), err
	}
	open, err := unfinished(ctx, s)
	if err != nil {
		return 0, err
	}
	if len(open) == 0 {
		return 0, fmt.Errorf("no cycle is running; 'claudeops cycles list' shows the last ones: %w", ops.ErrNotFound)
	}
	return ops.CycleID(open[0].ID), nil
}

// unfinished lists the cycles that run, wait for a human or are queued.
func unfinished(ctx context.Context, s *client) ([]api.Cycle, error) {
	var out []api.Cycle
	for _, status := range []ops.CycleStatus{ops.CycleRunning, ops.CycleWaitingHuman, ops.CycleQueued} {
		found, err := s.Cycles(ctx, store.CycleFilter{Status: status, Limit: 20})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// watchCycle prints changes of a cycle. The rows of the cycle are read first, so that the events before its end are found below.
func (a *app) watchCycle(ctx context.Context, s *client, id ops.CycleID) error {
	line := a.newStatus()
	defer line.clear()
	seen := map[int64]ops.SessionStatus{}
	events := store.EventFilter{CycleID: &id, Limit: 200}
	var last int64
	for {
		x, err := s.Cycle(ctx, id)
		if err != nil {
			return stopped(ctx, err)
		}
		found, err := s.Events(ctx, events)
		if err != nil {
			return stopped(ctx, err)
		}
		line.clear()
		if a.output == asTable {
			last = a.printNews(x, found, seen, last)
		}
		if x.Status.Ended() || x.Status == ops.CycleWaitingHuman {
			if err := a.printCycle(x.Cycle); err != nil {
				return err
			}
			a.printAdvice(adviceOfReport(x))
			return quietly(exitOf(x.Status))
		}
		line.show(ctx, s, id)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(watchInterval):
		}
	}
}

// stopped is the reason why a command that waits ends.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// printNews prints sessions whose status changed and events that were not seen, and returns the newest event.
func (a *app) printNews(x api.CycleReport, events []api.Event, seen map[int64]ops.SessionStatus, last int64) int64 {
	for _, s := range x.Sessions {
		if seen[s.ID] == s.Status {
			continue
		}
		seen[s.ID] = s.Status
		at := s.EndedAt
		if at == nil {
			at = s.StartedAt
		}
		text := fmt.Sprintf("Session #%d  %s  %s  %s %s", s.ID, s.Tier, s.Model, mark(s.Status), ending(s))
		if s.CostUSD != nil {
			text += "  " + money(s.CostUSD)
		}
		fmt.Fprintf(a.Stdout, "%-8s  %s\n", timeOfDay(at), a.screen.paintMarks(text))
	}
	for i := len(events) - 1; i >= 0; i-- {
		if e := events[i]; e.ID > last {
			last = e.ID
			level := fmt.Sprintf("%-8s", e.Level)
			if a.screen.color {
				level = paint(level, tone(e.Level))
			}
			fmt.Fprintf(a.Stdout, "%-8s  %s  %s\n", timeOfDay(&e.At), level, clean(e.Message))
		}
	}
	return last
}

func timeOfDay(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format("15:04:05")
}

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

// table lays rows out in columns, and cuts the widest cells so that a row fits the screen.
func (s screen) table(header string, lines []string) string {
	rows := [][]string{strings.Split(header, "\t")}
	for _, l := range lines {
		rows = append(rows, strings.Split(l, "\t"))
	}
	widths := s.fit(widthsOf(rows))
	var b strings.Builder
	for n, row := range rows {
		line := ""
		for i, cell := range row {
			if s.width > 0 {
				cell = shorten(cell, widths[i])
			}
			padding := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell))+gap)
			if i == len(row)-1 {
				padding = ""
			}
			switch {
			case !s.color:
			case n == 0:
				cell = "\x1b[1m" + cell + "\x1b[0m"
			default:
				cell = paint(cell, tone(cell))
			}
			line += cell + padding
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
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

// fit makes the widest columns narrower until everything fits.
func (s screen) fit(widths []int) []int {
	if s.width == 0 {
		return widths
	}
	over := gap*(len(widths)-1) - s.width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= leastCell {
			break
		}
		widths[widest]--
	}
	return widths
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
