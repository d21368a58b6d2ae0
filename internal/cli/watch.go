package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

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
		RunE: func(c *cobra.Command, args []string) error {
			return a.read(c.Context(), func(s *client) error {
				id, err := watched(c.Context(), s, args)
				if err != nil {
					return err
				}
				return a.watchCycle(c.Context(), s, id)
			})
		},
	}
}

// watched is the cycle to watch: the named one or the newest that has not ended.
func watched(ctx context.Context, s *client, args []string) (ops.CycleID, error) {
	if len(args) == 1 {
		n, err := number(args[0])
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
