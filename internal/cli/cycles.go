package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a cycles) commands() *cobra.Command {
	c := &cobra.Command{Use: "cycles", Aliases: []string{"cycle"}, Short: "List, show and cancel cycles"}
	c.AddCommand(a.list(), a.show(), a.cancel())
	return c
}

func (a cycles) list() *cobra.Command {
	header := tabbed("ID", "TITLE", "STATUS", "TIERS", "COST", "STARTED", "ENVIRONMENT", "TRIGGER", "REASON")
	return newListing(a.app, "List cycles, newest first", "/cycles", header, func(x api.Cycle) string {
		return tabbed(fmt.Sprint(x.ID), shorten(x.Title, 60), x.StatusText(), tiers(x.Sessions), spent(x),
			a.screen.when(x.StartedAt), x.Environment, x.Trigger, shorten(ops.Spoken(whyNow(x)), 70))
	}).since("list cycles since then").by("status", "list this status only", wordsOf(ops.CycleStatuses())...).
		by("environment", "list this environment only").before("cycles").limit(20)
}

func tiers(sessions []api.Session) string {
	out := ""
	for _, s := range sessions {
		if out != "" {
			out += "→"
		}
		out += fmt.Sprintf("T%d", s.Tier)
	}
	return out
}

func (a cycles) show() *cobra.Command {
	var session int64
	c := a.anywhere(&cobra.Command{
		Use: "show [ID]", Short: "Show a cycle: its sessions, decisions and events", Args: cobra.MaximumNArgs(1),
		Example: `  claudeops cycles show 42
  claudeops cycles show 42 -v           with what each decision was made of
  claudeops cycles show --session 18    the cycle that session belongs to`,
		RunE: func(c *cobra.Command, args []string) error {
			if (len(args) == 1) == (session != 0) {
				return usage(errors.New("give the id of a cycle, or --session with the id of a session"))
			}
			return a.read(c.Context(), func(s *client) error {
				id, err := cycleID(c.Context(), s, args, session)
				if err != nil {
					return err
				}
				x, err := s.Cycle(c.Context(), id)
				if err != nil {
					return err
				}
				events, err := items[api.Event](c.Context(), s, "/events", query("cycle_id", digits(id)), 200)
				if err != nil {
					return err
				}
				return a.printOne(x, func(w io.Writer) {
					printStory(w, x.Story)
					printChain(w, x.Cycle)
					printDecisions(w, x.Escalations, a.verbose)
					printRecoveries(w, x)
					printApprovals(w, x.Approvals)
					if len(events) > 0 {
						fmt.Fprintln(w, "\nEvents")
					}
					for i := len(events) - 1; i >= 0; i-- {
						e := events[i]
						fmt.Fprintf(w, "  %s  %-8s  %-10s  %s\n", e.At.Local().Format("15:04:05"), e.Level, e.Kind, spoken(e.Message))
					}
				})
			})
		},
	})
	c.Flags().Int64Var(&session, "session", 0, "show the cycle of this session")
	return c
}

// cycleNumber reads the id of a cycle, also as the pages print it: C-12.
func cycleNumber(s string) (int64, error) {
	return number(strings.TrimPrefix(strings.ToUpper(s), "C-"))
}

// cycleID is the cycle a command line names, by its own id or by that of one of its sessions.
func cycleID(ctx context.Context, s *client, args []string, session int64) (ops.CycleID, error) {
	if session == 0 {
		n, err := cycleNumber(args[0])
		return ops.CycleID(n), err
	}
	x, err := s.Session(ctx, ops.SessionID(session))
	if err != nil {
		return 0, err
	}
	return ops.CycleID(x.CycleID), nil
}

func (a cycles) cancel() *cobra.Command {
	var why string
	c := a.anywhere(&cobra.Command{
		Use: "cancel ID", Short: "Cancel a cycle: stop its session and start no more", Args: cobra.ExactArgs(1),
		RunE: changeOne(a.app, func(ctx context.Context, s *client, n int64) error {
			return a.ending(ctx, fmt.Sprintf("cycle %d", n), s.ask(ctx, http.MethodPost, "/cycles/"+digits(n)+"/cancel", because(why), nil))
		}),
	})
	c.Flags().StringVar(&why, "reason", "cancelled from the command line", "why, for the record")
	return c
}

// ending wakes the daemon, which ends what was cancelled. Without a daemon the next start does.
func (a *app) ending(ctx context.Context, what string, err error) error {
	if err != nil {
		return err
	}
	if a.remote == nil {
		_, err = control.Wake(ctx, a.stateDir)
	}
	switch {
	case errors.Is(err, control.ErrNoDaemon):
		fmt.Fprintf(a.Stderr, "%s ends at the next start: no daemon is running\n", what)
	case err != nil:
		return fmt.Errorf("wake daemon: %w", err)
	default:
		fmt.Fprintf(a.Stderr, "%s is being cancelled\n", what)
	}
	return nil
}

// writing opens the store for a command that changes a row, also while a daemon is running.
func (a *app) writing(ctx context.Context, use func(*store.Store, *config.Config) error) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	a.stateDir = c.StateDir
	if process.InSession() {
		return errInSession
	}
	// A command never creates a database: reading first gives the clearer error.
	probe, err := store.OpenReadOnly(ctx, a.storeOptions(c))
	if err != nil {
		return err
	}
	if err := probe.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	s, err := store.Open(ctx, a.storeOptions(c))
	if err != nil {
		return err
	}
	if err = daemon.UseJobs(ctx, s, c); err == nil {
		err = use(s, c)
	}
	return errors.Join(err, a.audit(ctx, s, err), s.Close())
}

// audit records a change by this command, as the daemon records those of its pages and its API.
func (a *app) audit(ctx context.Context, s *store.Store, failed error) error {
	_, err := s.Journal.AddEvent(context.WithoutCancel(ctx), ops.Event{
		At: time.Now(), Level: ops.LevelInfo, Verb: ops.VerbCommandRan, Actor: ops.Person(person()),
		Detail: ops.RequestDetail{Did: shorten(a.command, 200), Failed: failed != nil},
	})
	return err
}
