package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/act"
	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// takenWithin is how long a daemon may take to begin with a request.
	takenWithin = 10 * time.Second
	actionPoll  = 300 * time.Millisecond
	undoRounds  = 400 // of polls in which the supervisor may undo what made things worse
)

func (a *app) actionsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "actions", Aliases: []string{"action"}, Short: "What the supervisor can do to services: list, history, show, run, undo, trust",
	}
	c.AddCommand(a.actionsList(), a.actionsHistory(),
		show(a, "Show a run: who, why, what ran, and the services before and after", "/actions/runs/%d", printRun),
		a.actionsRun(), a.actionsUndo(), a.actionsTrust())
	return c
}

func (a *app) actionsList() *cobra.Command {
	header := tabbed("ENVIRONMENT", "SERVICE", "ACTION", "TIER", "APPROVAL", "RUNS", "UNDO")
	return newListing(a, "list", "List the actions of the services", "/actions", header, func(x api.Action) string {
		approval := map[bool]string{false: "no", true: "yes"}[x.Approval]
		return tabbed(x.Environment, x.Service, x.Name, fmt.Sprint(x.Tier), approval, shorten(x.Does, 60), shorten(x.Undo, 40))
	}).by("environment", "list this environment only").by("service", "list this service only").Command
}

func (a *app) actionsHistory() *cobra.Command {
	header := tabbed("ID", "SERVICE", "ACTION", "STATUS", "BY", "CYCLE", "ASKED", "WHY")
	return newListing(a, "history", "List runs of actions, newest first", "/actions/runs", header, func(x api.ActionRun) string {
		name := x.Action
		if x.UndoOf != nil {
			name = fmt.Sprintf("undo of %d", *x.UndoOf)
		}
		return tabbed(fmt.Sprint(x.ID), x.Service, name, string(x.Status), clean(x.By), or(id(x.CycleID), "-"),
			a.screen.when(&x.RequestedAt), shorten(x.Why, 60))
	}).by("environment", "list this environment only").by("service", "list this service only").before("runs").limit(50)
}

func printRun(w io.Writer, x api.ActionRun) {
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-9s %s\n", name+":", text)
		}
	}
	what := x.Action + " of " + x.Service
	if x.UndoOf != nil {
		what = fmt.Sprintf("undo of action %d (%s)", *x.UndoOf, what)
	}
	line("action", fmt.Sprintf("%d: %s", x.ID, what))
	line("status", string(x.Status))
	line("runs", clean(x.Does))
	line("by", clean(x.By))
	line("why", clean(x.Why))
	line("commit", value(x.Commit))
	line("started", stamp(x.StartedAt))
	line("ended", stamp(x.EndedAt))
	line("before", healthLine(x.Before))
	line("after", healthLine(x.After))
	if x.UndoneBy != nil {
		line("undone", fmt.Sprintf("by action %d", *x.UndoneBy))
	}
	line("error", clean(value(x.Error)))
	if out := value(x.Output); out != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimRight(clean(out), "\n"))
	}
}

func healthLine(all []api.ServiceHealth) string {
	var parts []string
	for _, h := range all {
		text := h.Service + " " + h.Status
		if h.Error != nil {
			text += " (" + clean(*h.Error) + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func (a *app) actionsRun() *cobra.Command {
	var environment, branch, why string
	c := &cobra.Command{
		Use: "run SERVICE ACTION", Short: "Run an action now; the daemon checks and runs it", Args: cobra.ExactArgs(2),
		Example: `  claudeops actions run jellyfin restart --why "the web page hangs"`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.request(c.Context(), func(s *client) (api.ActionRun, error) {
				return s.RunAction(c.Context(), environment, args[0], args[1], branch, why)
			})
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "environment of the service (default: the first)")
	c.Flags().StringVar(&branch, "branch", "", "branch to push")
	c.Flags().StringVar(&why, "why", "", "why it is needed, for the record (required)")
	return c
}

func (a *app) actionsUndo() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: "undo ID", Short: "Undo a run that has a way back", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			return a.request(c.Context(), func(s *client) (api.ActionRun, error) {
				return post[api.ActionRun](c.Context(), s, "/actions/runs/"+digits(id)+"/undo", map[string]any{"why": why})
			})
		},
	}
	c.Flags().StringVar(&why, "why", "", "why it is undone, for the record (required)")
	return c
}

// request asks the daemon for a run and waits for its end.
func (a *app) request(ctx context.Context, ask func(*client) (api.ActionRun, error)) error {
	var run api.ActionRun
	err := a.change(ctx, func(s *client) error {
		var err error
		if run, err = ask(s); err != nil {
			return err
		}
		if err := a.wake(ctx); err != nil {
			return err
		}
		run, err = follow(ctx, s, run)
		return err
	})
	if err != nil {
		return err
	}
	if err := a.printOne(run, func(w io.Writer) { printRun(w, run) }); err != nil {
		return err
	}
	switch run.Status {
	case ops.ActionDone:
		return nil
	case ops.ActionRefused:
		return quietly(exitBlocked)
	case ops.ActionRequested, ops.ActionStarted, ops.ActionFailed, ops.ActionUndone, ops.ActionInterrupted:
	}
	return quietly(exitFailed)
}

// follow waits until a run has ended. A request that no daemon takes is withdrawn: it must not run at an unexpected time.
func follow(ctx context.Context, s *client, run api.ActionRun) (api.ActionRun, error) {
	tick := time.NewTicker(actionPoll)
	defer tick.Stop()
	late := time.NewTimer(takenWithin)
	defer late.Stop()
	known, err := s.Actions(ctx, run.Environment, run.Service)
	if err != nil {
		return run, err
	}
	back := slices.ContainsFunc(known, func(a api.Action) bool { return a.Name == run.Action && a.Undoable })
	for rounds := 0; !run.Status.Ended() || back && awaitsUndo(run) && rounds < undoRounds; {
		if run.Status.Ended() {
			rounds++
		}
		select {
		case <-ctx.Done():
			return run, context.Cause(ctx)
		case <-late.C:
			if run.Status != ops.ActionRequested {
				continue
			}
			if err := s.WithdrawAction(ctx, run.ID, "no daemon took the request"); err == nil {
				return run, errors.New("no daemon took the request: start it with 'claudeops serve' and ask again")
			}
		case <-tick.C:
		}
		if run, err = s.ActionRun(ctx, run.ID); err != nil {
			return run, err
		}
	}
	return run, nil
}

// awaitsUndo reports whether a run made something worse: if there is a way back, the supervisor takes it next.
func awaitsUndo(run api.ActionRun) bool {
	rank := map[string]int{string(ops.Healthy): 0, string(ops.Degraded): 1, string(ops.Down): 2}
	before := map[string]int{}
	for _, s := range run.Before {
		before[s.Service] = rank[s.Status]
	}
	worse := slices.ContainsFunc(run.After, func(s api.ServiceHealth) bool { return rank[s.Status] > before[s.Service] })
	return worse && (run.Status == ops.ActionDone || run.Status == ops.ActionFailed) && run.UndoOf == nil
}

// actionsTrust works on the clones of this machine, so it is local only.
func (a *app) actionsTrust() *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use: "trust REPOSITORY COMMIT", Short: "Approve the commit that is checked out in a repository, so that actions use it",
		Long: `Actions read compose files and playbooks from the newest commit that no agent made. This command approves a commit that an agent
made. Look at it first: what it holds runs outside the sandbox. The commit must be the one that is checked out.`,
		Args: cobra.ExactArgs(2), Example: `  claudeops actions trust homelab 1f0c2e9`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.writing(c.Context(), func(s *store.Store, cfg *config.Config) error {
				e, err := cfg.Environment(environment)
				if err != nil {
					return err
				}
				if e.ReposDir == "" || args[0] != filepath.Base(args[0]) || strings.HasPrefix(args[0], ".") {
					return usage(fmt.Errorf("%q is not a folder of repos_dir", args[0]))
				}
				commits := &act.Commits{Trust: s, Host: cfg.Host.Name, Dir: filepath.Join(cfg.StateDir, "actions"), Clock: time.Now}
				commit, err := commits.Approve(c.Context(), e, args[0], args[1], person())
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "actions use commit %.12s of %s from now on\n", commit, args[0])
				return nil
			})
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "environment of the repository (default: the first)")
	return c
}
