package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) eventsCommand() *cobra.Command {
	var level, kind, service, environment string
	var since time.Time
	var cycle int64
	var limit int
	var follow bool
	c := &cobra.Command{
		Use:   "events",
		Short: "List events, newest first",
		Example: `  claudeops events --level critical
  claudeops events --service jellyfin --since 24h
  claudeops events --follow -o jsonl`,
		RunE: func(c *cobra.Command, _ []string) error {
			f := store.EventFilter{Limit: limit, Service: service, Environment: environment, Since: since}
			var err error
			if f.Level, err = oneOf("level", level, []ops.Level{ops.LevelInfo, ops.LevelWarning, ops.LevelCritical}); err != nil {
				return err
			}
			known, err := oneOf("kind", kind, ops.EventKinds())
			if err != nil {
				return err
			}
			f.Kind = string(known)
			if cycle > 0 {
				f.CycleID = ops.Ptr(ops.CycleID(cycle))
			}
			if err := upTo200(limit); err != nil {
				return err
			}
			return a.read(c.Context(), func(s *client) error {
				events, err := s.Events(c.Context(), f)
				if err != nil {
					return err
				}
				if follow {
					return a.followEvents(c.Context(), s, f, events)
				}
				return a.printEvents(events, true)
			})
		},
	}
	c.Flags().StringVar(&level, "level", "", "list this level only: info, warning or critical")
	c.Flags().StringVar(&kind, "kind", "", "list this kind only, such as audit, escalation or guard")
	c.Flags().StringVar(&service, "service", "", "list events of this service only")
	c.Flags().StringVar(&environment, "environment", "", "list this environment only")
	sinceFlag(c, &since, "list events since then")
	c.Flags().Int64Var(&cycle, "cycle", 0, "list events of this cycle only")
	c.Flags().IntVar(&limit, "limit", 50, "maximum number to list, up to 200")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new events, oldest first")
	return c
}

func (a *app) printEvents(events []api.Event, header bool) error {
	if a.output == asTable && !header {
		for _, e := range events {
			if _, err := fmt.Fprintf(a.Stdout, "%d  %s  %-8s  %-10s  %s\n", e.ID, stamp(&e.At), e.Level, e.Kind, spoken(e.Message)); err != nil {
				return err
			}
		}
		return nil
	}
	return printRows(a, events, tabbed("ID", "AT", "LEVEL", "KIND", "CYCLE", "MESSAGE"), func(e api.Event) string {
		return tabbed(fmt.Sprint(e.ID), a.screen.when(&e.At), e.Level, string(e.Kind), id(e.CycleID), spoken(e.Message))
	})
}

// followEvents prints the newest events, oldest first, and then each new one.
func (a *app) followEvents(ctx context.Context, s *client, f store.EventFilter, batch []api.Event) error {
	if a.output != asTable {
		a.output = asLines // a list without an end is not one document
	}
	for {
		if f.After == 0 {
			slices.Reverse(batch) // only a filter with After lists the oldest first
		}
		if err := a.printEvents(batch, false); err != nil {
			return err
		}
		if len(batch) > 0 {
			f.After = batch[len(batch)-1].ID
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(300 * time.Millisecond):
		}
		var err error
		if batch, err = s.Events(ctx, f); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}
