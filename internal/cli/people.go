package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// person is the name under which a command is recorded.
func person() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

func (a *app) incidentsCommand() *cobra.Command {
	c := &cobra.Command{Use: "incidents", Aliases: []string{"incident"}, Short: "Problems that need a human: list, show, take, snooze, close"}
	c.AddCommand(a.incidentsList(), a.incidentsShow(), a.incidentsSnooze(),
		a.incidentDo("ack ID", "Take an incident: no further tiers start for it, and no reminders come",
			func(ctx context.Context, s hands, id int64, reason string) (ops.Incident, error) {
				return s.Acknowledge(ctx, id, person(), reason, time.Now())
			}),
		a.incidentDo("resolve ID", "Close an incident; a cycle that waits for it ends as resolved",
			func(ctx context.Context, s hands, id int64, reason string) (ops.Incident, error) {
				return s.ResolveIncident(ctx, id, person(), reason, time.Now())
			}))
	return c
}

func (a *app) incidentsList() *cobra.Command {
	f := store.IncidentFilter{}
	var all bool
	c := &cobra.Command{
		Use: "list", Short: "List open incidents, newest first",
		RunE: func(c *cobra.Command, _ []string) error {
			f.Open = !all
			return a.looking(c.Context(), func(s journal) error {
				found, err := s.Incidents(c.Context(), f)
				if err != nil {
					return fmt.Errorf("list incidents: %w", err)
				}
				var rows []any
				for _, i := range found {
					rows = append(rows, api.IncidentRow(i))
				}
				return a.print(rows, tabbed("ID", "STATUS", "LEVEL", "ENVIRONMENT", "SERVICE", "TIMES", "OPENED", "TITLE"), func(n int) string {
					i := found[n]
					return tabbed(fmt.Sprint(i.ID), string(i.Status), string(i.Level), i.Environment, or(i.Service, "-"), fmt.Sprint(i.Occurrences),
						stamp(&i.OpenedAt), shorten(i.Title, 60))
				})
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also those that are closed")
	c.Flags().StringVar(&f.Environment, "environment", "", "only this environment")
	c.Flags().StringVar(&f.Service, "service", "", "only this service")
	c.Flags().Int64Var(&f.Before, "before", 0, "only incidents older than this id (for paging)")
	c.Flags().IntVar(&f.Limit, "limit", 50, "how many, at most 200")
	return c
}

func (a *app) incidentsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show what is known of an incident", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			return a.looking(c.Context(), func(s journal) error {
				i, err := s.Incident(c.Context(), id)
				if err != nil {
					return fmt.Errorf("read incident %d: %w", id, err)
				}
				return a.printOne(api.IncidentRow(i), func(w io.Writer) { printIncident(w, i) })
			})
		},
	}
}

func printIncident(w io.Writer, i ops.Incident) {
	fmt.Fprintf(w, "Incident #%d: %s\n", i.ID, clean(i.Title))
	fmt.Fprintf(w, "Status: %s", i.Status)
	switch {
	case i.ResolvedAt != nil:
		fmt.Fprintf(w, " by %s at %s: %s", i.ResolvedBy, stamp(i.ResolvedAt), clean(i.Resolution))
	case i.AcknowledgedAt != nil:
		fmt.Fprintf(w, " by %s at %s", i.AcknowledgedBy, stamp(i.AcknowledgedAt))
	}
	if i.SnoozedUntil != nil && i.Status == ops.IncidentSnoozed {
		fmt.Fprintf(w, " until %s", stamp(i.SnoozedUntil))
	}
	fmt.Fprintf(w, "\nEnvironment: %s   Service: %s   Seen %d times, first %s, cycles %d to %d\n",
		i.Environment, or(i.Service, "-"), i.Occurrences, stamp(&i.OpenedAt), i.FirstCycle, i.LastCycle)
	if i.Waiting != nil {
		fmt.Fprintf(w, "Cycle %d waits for the answer.\n", *i.Waiting)
	}
	r, err := i.Known()
	if err != nil {
		return
	}
	for _, x := range r.Checks {
		if x.Status != ops.Healthy {
			fmt.Fprintf(w, "  %s %s: %s %s\n", clean(x.Service), x.CheckType, x.Status, clean(x.Error))
		}
	}
	for _, part := range []struct{ name, text string }{{"Findings", r.Findings}, {"Tried", r.Tried}, {"To do", r.Recommendation}} {
		if part.text != "" {
			fmt.Fprintf(w, "%s: %s\n", part.name, clean(part.text))
		}
	}
	fmt.Fprintf(w, "Cost so far: %s\n", money(&r.CostUSD))
}

// incidentDo is a command that changes one incident.
func (a *app) incidentDo(use, short string, do func(context.Context, hands, int64, string) (ops.Incident, error)) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			return a.acting(c.Context(), func(s hands) error {
				i, err := do(c.Context(), s, id, reason)
				if err != nil {
					return fmt.Errorf("change incident %d: %w", id, err)
				}
				fmt.Fprintf(a.Stderr, "incident %d is %s\n", i.ID, i.Status)
				return a.wake(c.Context())
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

func (a *app) incidentsSnooze() *cobra.Command {
	var reason string
	var span time.Duration
	c := &cobra.Command{
		Use: "snooze ID", Short: "Leave an incident alone for a time: no further tiers, no reminders until then", Args: cobra.ExactArgs(1),
		Example: `  claudeops incidents snooze 3 --for 2h --reason "disk arrives at noon"`,
		RunE: func(c *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			if span <= 0 {
				return usage(errors.New("--for is missing: say how long, such as 2h"))
			}
			return a.acting(c.Context(), func(s hands) error {
				i, err := s.Snooze(c.Context(), id, person(), time.Now().Add(span), reason, time.Now())
				if err != nil {
					return fmt.Errorf("snooze incident %d: %w", id, err)
				}
				fmt.Fprintf(a.Stderr, "incident %d is left alone until %s\n", i.ID, stamp(i.SnoozedUntil))
				return nil
			})
		},
	}
	c.Flags().DurationVar(&span, "for", 0, "how long, such as 2h (required)")
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

func (a *app) approvalsCommand() *cobra.Command {
	c := &cobra.Command{Use: "approvals", Aliases: []string{"approval"}, Short: "Questions to a human: list, approve, deny"}
	c.AddCommand(a.approvalsList(), a.answerCommand("approve", "Say yes: exactly that step goes on, once", ops.ApprovalApproved),
		a.answerCommand("deny", "Say no: the cycle ends with your reason", ops.ApprovalDenied))
	return c
}

func (a *app) approvalsList() *cobra.Command {
	f := store.ApprovalFilter{}
	var all bool
	c := &cobra.Command{
		Use: "list", Short: "List open questions, newest first",
		RunE: func(c *cobra.Command, _ []string) error {
			if !all {
				f.Status = ops.ApprovalPending
			}
			return a.looking(c.Context(), func(s journal) error {
				found, err := s.Approvals(c.Context(), f)
				if err != nil {
					return fmt.Errorf("list approvals: %w", err)
				}
				var rows []any
				for _, x := range found {
					rows = append(rows, api.ApprovalRow(x))
				}
				return a.print(rows, tabbed("ID", "CYCLE", "STATUS", "KIND", "HANDLER", "ASKED", "EXPIRES", "BY", "WHY"), func(n int) string {
					x := found[n]
					return tabbed(fmt.Sprint(x.ID), fmt.Sprint(x.CycleID), string(x.Status), string(x.Kind), x.Handler, stamp(&x.RequestedAt),
						or(stamp(x.ExpiresAt), "never"), or(x.AnsweredBy, "-"), shorten(x.Reason, 60))
				})
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also those that are answered")
	c.Flags().StringVar(&f.Environment, "environment", "", "only this environment")
	c.Flags().Int64Var(&f.Before, "before", 0, "only questions older than this id (for paging)")
	c.Flags().IntVar(&f.Limit, "limit", 50, "how many, at most 200")
	return c
}

func (a *app) answerCommand(verb, short string, status ops.ApprovalStatus) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: verb + " ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			return a.acting(c.Context(), func(s hands) error {
				x, err := s.Answer(c.Context(), id, status, person(), reason, time.Now())
				if err != nil {
					return fmt.Errorf("%s %d: %w", verb, id, err)
				}
				fmt.Fprintf(a.Stderr, "%s is %s; cycle %d goes on\n", x.Handler, x.Status, x.CycleID)
				return a.wake(c.Context())
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

// wake tells a running daemon that a row has changed. Without one the next start finds it.
func (a *app) wake(ctx context.Context) error {
	if a.remote != nil {
		return nil // the server has done so itself
	}
	_, err := control.Wake(ctx, a.stateDir)
	switch {
	case errors.Is(err, control.ErrNoDaemon):
		fmt.Fprintln(a.Stderr, "no daemon is running; the next start goes on from here")
		return nil
	case err != nil:
		return fmt.Errorf("wake daemon: %w", err)
	}
	return nil
}
