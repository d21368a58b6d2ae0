package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) runCommand() *cobra.Command {
	var environment string
	var dryRun, detach bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   `run "PROMPT"`,
		Short: "Start a cycle now, with a request of your own",
		Long: `Starts a cycle whose Tier 1 is also given your text. Beside a running daemon it queues the cycle there and waits for its end;
without one it runs the cycle itself. The exit code tells how it ended, as with once.`,
		Example: `  claudeops run "jellyfin feels slow, look at its disk"
  claudeops run --detach "check the certificates"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if strings.TrimSpace(args[0]) == "" {
				return usage(errors.New("the prompt is empty: say what Tier 1 should look at"))
			}
			if a.remote != nil {
				return a.runAtServer(c.Context(), ops.NewCycle{
					Environment: environment, Prompt: args[0], Options: ops.CycleOptions{DryRun: dryRun},
				}, detach, timeout)
			}
			o, err := a.options()
			if err != nil {
				return err
			}
			if environment == "" {
				environment = o.Config.Environments()[0].Name
			}
			n := ops.NewCycle{
				Environment: environment, Trigger: ops.TriggerManual, Prompt: args[0],
				Options: ops.CycleOptions{DryRun: dryRun}, At: time.Now(),
			}
			if _, err := control.Ping(c.Context(), o.Config.StateDir); err == nil {
				return a.runBeside(c.Context(), o.Config, n, detach, timeout)
			}
			if o.Config.DatabaseURL != "" {
				if alive, err := a.othersAlive(c.Context(), o.Config); err != nil {
					return err
				} else if alive {
					return a.runBeside(c.Context(), o.Config, n, detach, timeout)
				}
			}
			if detach {
				return fmt.Errorf("detach: %w; start it with 'claudeops serve'", control.ErrNoDaemon)
			}
			return a.once(c.Context(), o, n, timeout)
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "which environment (default: the first)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "observe only in this cycle")
	c.Flags().BoolVar(&detach, "detach", false, "print the cycle's id and return at once")
	c.Flags().DurationVar(&timeout, "timeout", 0, "stop waiting after this time, exit 124 (0 = never)")
	return a.withFlags(c, config.StateFlags())
}

// runBeside queues the cycle for the daemon and waits for its end.
func (a *app) runBeside(ctx context.Context, cfg *config.Config, n ops.NewCycle, detach bool, timeout time.Duration) error {
	s, err := store.Open(ctx, a.storeOptions(cfg))
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer func() { _ = s.Close() }() // nothing is written after the row
	id, err := s.SubmitCycle(ctx, n)
	if err != nil {
		return fmt.Errorf("queue cycle: %w", err)
	}
	// On a shared database the row itself tells every host.
	if _, err := control.Wake(ctx, cfg.StateDir); err != nil && cfg.DatabaseURL == "" {
		return fmt.Errorf("wake daemon: %w", err)
	}
	return a.queued(ctx, s, id, detach, timeout)
}

// queued tells of a cycle that somebody else runs, and waits for its end unless that is not wanted.
func (a *app) queued(ctx context.Context, s journal, id ops.CycleID, detach bool, timeout time.Duration) error {
	fmt.Fprintf(a.Stderr, "cycle %d is queued; stop it with 'claudeops cycles cancel %d'\n", id, id)
	if detach {
		return a.printOne(map[string]any{"id": id, "status": ops.CycleQueued}, func(w io.Writer) { fmt.Fprintln(w, id) })
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	return a.follow(ctx, s, id)
}

// follow waits for the end of a cycle that somebody else runs. An interrupt only ends the waiting.
func (a *app) follow(ctx context.Context, s journal, id ops.CycleID) error {
	line := a.newStatus()
	defer line.clear()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		line.show(ctx, s, id)
		loaded, err := s.Load(ctx, id)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("read cycle %d: %w", id, err)
		}
		if c := loaded.Cycle; c.Status.Ended() || c.Status == ops.CycleWaitingHuman {
			line.clear()
			if err := a.printCycle(store.CycleSummary{Cycle: c, Sessions: loaded.Journal.Sessions}); err != nil {
				return err
			}
			return quietly(exitOf(c.Status))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
