package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) cyclesCommand() *cobra.Command {
	c := &cobra.Command{Use: "cycles", Aliases: []string{"cycle"}, Short: "List, show and cancel cycles"}
	c.AddCommand(a.cyclesList(), a.cyclesShow(), a.cyclesCancel())
	return c
}

func (a *app) cyclesList() *cobra.Command {
	var f store.CycleFilter
	var status string
	c := &cobra.Command{
		Use: "list", Short: "List cycles, newest first",
		RunE: func(c *cobra.Command, _ []string) error {
			f.Status = ops.CycleStatus(status)
			if f.Limit < 1 || f.Limit > 200 {
				return usage(fmt.Errorf("--limit is %d: use 1 to 200", f.Limit))
			}
			return a.looking(c.Context(), func(s journal) error {
				cycles, err := s.Cycles(c.Context(), f)
				if err != nil {
					return fmt.Errorf("list cycles: %w", err)
				}
				var rows []any
				for _, x := range cycles {
					rows = append(rows, api.CycleRow(x))
				}
				return a.print(rows, tabbed("ID", "ENVIRONMENT", "TRIGGER", "STATUS", "TIERS", "COST", "STARTED", "REASON"), func(i int) string {
					x := cycles[i]
					return tabbed(fmt.Sprint(x.ID), x.Environment, string(x.Trigger), string(x.Status), tiers(x.Sessions),
						money(totalOf(x.Sessions).cost), stamp(x.StartedAt), shorten(x.Reason, 70))
				})
			})
		},
	}
	c.Flags().StringVar(&status, "status", "", "only this status")
	c.Flags().StringVar(&f.Environment, "environment", "", "only this environment")
	c.Flags().Int64Var((*int64)(&f.Before), "before", 0, "only cycles older than this id (for paging)")
	c.Flags().IntVar(&f.Limit, "limit", 20, "how many, at most 200")
	return c
}

func tiers(sessions []ops.Session) string {
	out := ""
	for _, s := range sessions {
		if out != "" {
			out += "→"
		}
		out += fmt.Sprintf("T%d", s.Tier)
	}
	return out
}

func (a *app) cyclesShow() *cobra.Command {
	var session int64
	c := &cobra.Command{
		Use: "show [ID]", Short: "Show a cycle: its chain, its decisions, its events", Args: cobra.MaximumNArgs(1),
		Example: `  claudeops cycles show 42
  claudeops cycles show --session 18    the cycle that session belongs to`,
		RunE: func(c *cobra.Command, args []string) error {
			if (len(args) == 1) == (session != 0) {
				return usage(errors.New("give the id of a cycle, or --session with the id of a session"))
			}
			return a.looking(c.Context(), func(s journal) error {
				id, err := cycleID(c.Context(), s, args, session)
				if err != nil {
					return err
				}
				loaded, err := s.Load(c.Context(), id)
				if err != nil {
					return fmt.Errorf("read cycle %d: %w", id, err)
				}
				events, err := s.Events(c.Context(), store.EventFilter{CycleID: &id, Limit: 200})
				if err != nil {
					return fmt.Errorf("read events of cycle %d: %w", id, err)
				}
				verified, err := s.Verifications(c.Context(), id)
				if err != nil {
					return fmt.Errorf("read verifications of cycle %d: %w", id, err)
				}
				return a.printOne(api.CycleDetail(loaded, verified), func(w io.Writer) {
					printChain(w, store.CycleSummary{Cycle: loaded.Cycle, Sessions: loaded.Journal.Sessions})
					printDecisions(w, loaded.Journal.Decisions)
					printLadder(w, loaded.Journal.Recoveries, verified, loaded.Cycle.Result)
					printApprovals(w, loaded.Journal.Approvals)
					if len(events) > 0 {
						fmt.Fprintln(w, "\nEvents")
					}
					for i := len(events) - 1; i >= 0; i-- {
						e := events[i]
						fmt.Fprintf(w, "  %s  %-8s  %-10s  %s\n", e.At.Local().Format("15:04:05"), e.Level, e.Kind, clean(e.Message))
					}
				})
			})
		},
	}
	c.Flags().Int64Var(&session, "session", 0, "show the cycle of this session")
	return c
}

// cycleID is the cycle a command line names, by its own id or by that of one of its sessions.
func cycleID(ctx context.Context, s journal, args []string, session int64) (ops.CycleID, error) {
	if session == 0 {
		n, err := number(args[0])
		return ops.CycleID(n), err
	}
	x, err := s.Session(ctx, ops.SessionID(session))
	if err != nil {
		return 0, fmt.Errorf("read session %d: %w", session, err)
	}
	return x.CycleID, nil
}

func (a *app) cyclesCancel() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: "cancel ID", Short: "Cancel a cycle: stop its session, start no other", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := number(args[0])
			if err != nil {
				return err
			}
			return a.acting(c.Context(), func(s hands) error { return a.cancel(c.Context(), s, ops.CycleID(n), why) })
		},
	}
	c.Flags().StringVar(&why, "reason", "cancelled from the command line", "why, for the record")
	return c
}

// cancel writes the mark and wakes whoever runs the cycle. Without a daemon the next start ends it.
func (a *app) cancel(ctx context.Context, s hands, id ops.CycleID, why string) error {
	if _, err := s.RequestCancel(ctx, id, why, time.Now()); err != nil {
		return fmt.Errorf("cancel cycle %d: %w", id, err)
	}
	if a.remote != nil {
		fmt.Fprintf(a.Stderr, "cycle %d is being cancelled\n", id)
		return nil
	}
	_, err := control.Wake(ctx, a.stateDir)
	switch {
	case errors.Is(err, control.ErrNoDaemon):
		fmt.Fprintf(a.Stderr, "cycle %d is marked; no daemon is running, so it ends at the next start\n", id)
	case err != nil:
		return fmt.Errorf("wake daemon: %w", err)
	default:
		fmt.Fprintf(a.Stderr, "cycle %d is being cancelled\n", id)
	}
	return nil
}

// writing opens the store for a command that leaves a row beside a running daemon.
func (a *app) writing(ctx context.Context, use func(*store.Store) error) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	a.stateDir = c.StateDir
	// A command never creates a database: looking first gives the clearer error.
	probe, err := store.OpenReadOnly(ctx, a.storeOptions(c))
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	if err := probe.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	s, err := store.Open(ctx, a.storeOptions(c))
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	return errors.Join(use(s), s.Close())
}
