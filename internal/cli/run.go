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
	"claudeops/internal/daemon"
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
		Short: "Start a cycle now with your own prompt",
		Long: `Starts a cycle and adds your text to the prompt of Tier 1. If a daemon is running, the cycle is queued there and the command
waits for its end. Otherwise the command runs the cycle itself. Before that it says what agents leave alone there, such as a silenced
service or an acknowledged incident; the cycle runs all the same. Exit codes are the same as for once.`,
		Example: `  claudeops run "jellyfin feels slow, look at its disk"
  claudeops run --detach "check the certificates"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if strings.TrimSpace(args[0]) == "" {
				return usage(errors.New("the prompt is empty: say what Tier 1 should check"))
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
			env, err := o.Config.Environment(environment)
			if err != nil {
				return err
			}
			n := ops.NewCycle{
				Environment: env.Name, Trigger: ops.TriggerManual, Prompt: args[0],
				Options: ops.CycleOptions{DryRun: dryRun},
			}
			if err := a.useDaemon(c.Context()); err != nil {
				return err
			}
			if a.remote != nil {
				return a.runAtServer(c.Context(), n, detach, timeout)
			}
			if o.Config.DatabaseURL != "" {
				if alive, err := a.othersAlive(c.Context(), o.Config); err != nil {
					return err
				} else if alive {
					return a.runAtDaemon(c.Context(), o.Config, n, detach, timeout)
				}
			}
			if detach {
				return fmt.Errorf("detach: %w; start it with 'claudeops serve'", control.ErrNoDaemon)
			}
			return a.once(c.Context(), o, n, timeout)
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one configured)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "observe only: change nothing in this cycle")
	c.Flags().BoolVar(&detach, "detach", false, "print the id of the cycle and do not wait")
	c.Flags().DurationVar(&timeout, "timeout", 0, "stop waiting after this time, exit 124 (0 = never)")
	return a.withFlags(c, config.StateFlags)
}

// runAtServer queues a cycle at the server and waits for its end.
func (a *app) runAtServer(ctx context.Context, n ops.NewCycle, detach bool, timeout time.Duration) error {
	a.tellHeld(ctx, a.remote, n.Environment)
	id, err := a.remote.SubmitCycle(ctx, n)
	if err != nil {
		return err
	}
	return a.queued(ctx, a.remote, id, detach, timeout)
}

// runAtDaemon queues the cycle for a daemon on another host of the same database and waits for its end.
func (a *app) runAtDaemon(ctx context.Context, cfg *config.Config, n ops.NewCycle, detach bool, timeout time.Duration) error {
	s, err := store.Open(ctx, a.storeOptions(cfg))
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // nothing is written after the row
	if err := daemon.UseJobs(ctx, s, cfg); err != nil {
		return err
	}
	a.tellHeld(ctx, &local{store: s, cfg: cfg}, n.Environment)
	id, err := s.SubmitCycle(ctx, n)
	if err := errors.Join(err, a.audit(ctx, s, err)); err != nil {
		return err
	}
	// On a shared database every host hears of the row itself.
	if _, err := control.Wake(ctx, cfg.StateDir); err != nil && cfg.DatabaseURL == "" {
		return fmt.Errorf("wake daemon: %w", err)
	}
	return a.queued(ctx, &local{store: s, cfg: cfg}, id, detach, timeout)
}

// tellHeld says what agents leave alone in an environment, before a cycle is paid. A server that is older than this program does not know.
func (a *app) tellHeld(ctx context.Context, s heldReader, environment string) {
	held, err := s.Held(ctx, environment)
	if err != nil {
		a.logger().DebugContext(ctx, "what is held back could not be read", "error", err)
		return
	}
	for _, h := range held {
		fmt.Fprintf(a.Stderr, "held back: %s\n", clean(h.Reason))
	}
	if len(held) > 0 {
		fmt.Fprintln(a.Stderr, "agents change nothing there; the cycle runs all the same, and Tier 1 is paid")
	}
}

// queued reports a cycle that was queued and, unless detached, waits for its end.
func (a *app) queued(ctx context.Context, s cycleFollower, id ops.CycleID, detach bool, timeout time.Duration) error {
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

// follow waits for the end of a cycle that a daemon runs. An interrupt ends the waiting, not the cycle.
func (a *app) follow(ctx context.Context, s cycleFollower, id ops.CycleID) error {
	line := a.newStatus()
	defer line.clear()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		line.show(ctx, s, id)
		x, err := s.Cycle(ctx, id)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if x.Status.Ended() || x.Status == ops.CycleWaitingHuman {
			line.clear()
			if err := a.printCycle(x.Cycle); err != nil {
				return err
			}
			a.printAdvice(adviceOfReport(x))
			return quietly(exitOf(x.Status))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
