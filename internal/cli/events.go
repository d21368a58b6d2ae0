package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func (a events) command() *cobra.Command {
	l := newListing(a.app, "List events, newest first", "/events", eventHeader, a.row)
	l.Use, l.Example = "events", `  claudeops events --level critical
  claudeops events --service jellyfin --since 24h
  claudeops events --follow -o jsonl`
	levels := wordsOf([]ops.Level{ops.LevelInfo, ops.LevelWarning, ops.LevelCritical})
	l.by("level", "list this level only: info, warning or critical", levels...).
		by("kind", "list this kind only, such as audit, escalation or guard", wordsOf(ops.EventKinds())...).
		by("service", "list events of this service only").by("environment", "list this environment only").since("list events since then")
	cycle := l.Flags().Int64("cycle", 0, "list events of this cycle only")
	follow := l.Flags().BoolP("follow", "f", false, "keep printing new events, oldest first")
	l.filters = append(l.filters, func(q url.Values) error {
		set(q, "cycle_id", strings.TrimPrefix(digits(*cycle), "0"))
		if *follow {
			l.instead = func(ctx context.Context, s *client, q url.Values) error { return a.follow(ctx, s, q, *l.most) }
		}
		return nil
	})
	return l.limit(50)
}

// logsCommand prints the same rows as events in the order in which they came to pass.
func (a events) logsCommand() *cobra.Command {
	var follow bool
	var limit int
	c := a.anywhere(&cobra.Command{
		Use: "logs", Short: "Print what happened, oldest first; -f follows it",
		Example: `  claudeops logs -f`,
		RunE: on(a.read, func(c *cobra.Command, s *client, _ []string) error {
			if err := upTo200(limit); err != nil {
				return err
			}
			if follow {
				return a.follow(c.Context(), s, url.Values{}, limit)
			}
			events, err := items[api.Event](c.Context(), s, "/events", url.Values{}, limit)
			if err != nil {
				return err
			}
			slices.Reverse(events)
			if len(events) == 0 {
				return printRows(a.app, events, eventHeader, a.row)
			}
			return a.printLog(events)
		}),
	})
	c.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing what happens")
	c.Flags().IntVarP(&limit, "limit", "n", 50, "how many lines to begin with, up to 200")
	return c
}

const eventHeader = "ID\tAT\tLEVEL\tKIND\tCYCLE\tMESSAGE"

func (a events) row(e api.Event) string {
	return tabbed(fmt.Sprint(e.ID), a.screen.when(&e.At), e.Level, string(e.Kind), id(e.CycleID), spoken(e.Message))
}

// printLog prints events that go on: there is no table to lay out.
func (a events) printLog(events []api.Event) error {
	if a.output != asTable {
		return printRows(a.app, events, "", nil)
	}
	for _, e := range events {
		if _, err := fmt.Fprintf(a.Stdout, "%d  %s  %-8s  %-10s  %s\n", e.ID, stamp(&e.At), e.Level, e.Kind, spoken(e.Message)); err != nil {
			return err
		}
	}
	return nil
}

// followEvents prints the newest events, oldest first, and then each new one.
func (a events) follow(ctx context.Context, s *client, q url.Values, most int) error {
	if a.output != asTable {
		a.output = asLines // a list without an end is not one document
	}
	for {
		batch, err := items[api.Event](ctx, s, "/events", maps.Clone(q), most)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !q.Has("after") {
			slices.Reverse(batch) // only with it the oldest is the first
		}
		if err := a.printLog(batch); err != nil {
			return err
		}
		if len(batch) > 0 {
			q.Set("after", digits(batch[len(batch)-1].ID))
		}
		if !ops.Pause(ctx, 300*time.Millisecond) {
			return nil
		}
	}
}

func (a *app) changesCommand() *cobra.Command {
	var environment string
	since := time.Now().Add(-24 * time.Hour)
	var limit int
	c := a.anywhere(&cobra.Command{
		Use: "changes [SERVICE]", Short: "List what changed on the hosts, newest first: containers, units, packages, clones, disks",
		Long: `Lists what hosts found different between two looks: every five minutes, and when an incident is opened. With a service, it lists
the changes of this service, of what it depends on, and those that concern every service, such as packages. What could not be seen is
named at the end.`,
		Example: `  claudeops changes
  claudeops changes jellyfin --since 2h -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			service := ""
			if len(args) == 1 {
				service = args[0]
			}
			return a.read(c.Context(), func(s *client) error {
				q := query("environment", environment, "service", service, "since", moment(since), "limit", digits(limit))
				found, err := get[api.Changes](c.Context(), s, "/changes?"+q.Encode())
				if err != nil {
					return err
				}
				return a.printOne(found, func(w io.Writer) {
					for _, x := range found.Items {
						fmt.Fprintf(w, "%s  %s  %s %s: %s\n", stamp(&x.At), clean(x.Host), x.Kind, clean(x.Subject), clean(x.Text))
					}
					if len(found.Items) == 0 {
						fmt.Fprintf(w, "Nothing that is looked at has changed since %s.\n", stamp(&since))
					}
					for _, text := range found.Unseen {
						fmt.Fprintf(w, "Not seen: %s\n", clean(text))
					}
				})
			})
		},
	})
	sinceFlag(c, &since, "list what happened since then (default 24h)")
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one)")
	c.Flags().IntVar(&limit, "limit", 50, "maximum number to list, up to 200")
	return c
}

func (a memories) commands() *cobra.Command {
	c := &cobra.Command{Use: "memory", Aliases: []string{"memories"}, Short: "Notes that later sessions are given: list, add, rm"}
	c.AddCommand(a.list(), a.add(), a.remove())
	return c
}

func (a memories) list() *cobra.Command {
	header := tabbed("ID", "CATEGORY", "SERVICE", "CONFIDENCE", "SOURCE", "EXPIRES", "OBSERVATION")
	return newListing(a.app, "List memories, newest first", "/memories", header, func(m api.Memory) string {
		return tabbed(fmt.Sprint(m.ID), m.Category, orDash(m.Service), fmt.Sprintf("%.0f%%", 100*m.Confidence), m.Source,
			or(a.screen.when(m.ExpiresAt), "never"), shorten(m.Observation, 90))
	}).by("environment", "list this environment only").by("service", "list this service only").by("category", "list this category only").
		all("include expired memories", "all", "", "true").limit(50)
}

func (a memories) add() *cobra.Command {
	var m ops.Memory
	var keep time.Duration
	c := a.anywhere(&cobra.Command{
		Use: "add TEXT", Short: "Add a memory", Args: cobra.ExactArgs(1),
		Example: `  claudeops memory add --service jellyfin "the first start after an upgrade takes ten minutes"`,
		RunE: on(a.change, func(c *cobra.Command, s *client, args []string) error {
			body := map[string]any{
				"environment": m.Environment, "category": m.Category, "service": m.Service, "observation": args[0], "confidence": m.Confidence,
			}
			if keep > 0 {
				body["expires_at"] = time.Now().Add(keep)
			}
			added, err := post[api.Memory](c.Context(), s, "/memories", body)
			if err == nil {
				fmt.Fprintf(a.Stderr, "memory %d added\n", added.ID)
			}
			return err
		}),
	})
	c.Flags().StringVar(&m.Environment, "environment", "", "environment it is about (default: the first one configured)")
	c.Flags().StringVar(&m.Service, "service", "", "service it is about")
	c.Flags().StringVar(&m.Category, "category", "note", "kind of knowledge, one word")
	c.Flags().Float64Var(&m.Confidence, "confidence", 0.9, "confidence, 0 to 1")
	c.Flags().DurationVar(&keep, "for", 0, "how long to keep it, such as 720h (default: no expiry)")
	return c
}

func (a memories) remove() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "rm ID", Short: "Delete a memory", Args: cobra.ExactArgs(1),
		RunE: changeOne(a.app, func(ctx context.Context, s *client, id int64) error {
			err := s.ask(ctx, http.MethodDelete, "/memories/"+digits(id), nil, nil)
			if err == nil {
				fmt.Fprintf(a.Stderr, "memory %d deleted\n", id)
			}
			return err
		}),
	})
}
