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
				return a.queue(c.Context(), ops.NewCycle{
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
			others := a.remote != nil
			if !others {
				if others, err = a.othersAlive(c.Context(), o.Config); err != nil {
					return err
				}
			}
			if others {
				return a.queue(c.Context(), n, detach, timeout)
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

// queue queues a cycle for a daemon, here or on another host of the same database, and waits for its end.
func (a *app) queue(ctx context.Context, n ops.NewCycle, detach bool, timeout time.Duration) error {
	var id ops.CycleID
	err := a.change(ctx, func(s *client) (err error) {
		a.tellHeld(ctx, s, n.Environment)
		id, err = s.SubmitCycle(ctx, n)
		return err
	})
	if err != nil {
		return err
	}
	return a.read(ctx, func(s *client) error { return a.queued(ctx, s, id, detach, timeout) })
}

// tellHeld says what agents leave alone in an environment, before a cycle is paid. A server that is older than this program does not know.
func (a *app) tellHeld(ctx context.Context, s *client, environment string) {
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
func (a *app) queued(ctx context.Context, s *client, id ops.CycleID, detach bool, timeout time.Duration) error {
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
func (a *app) follow(ctx context.Context, s *client, id ops.CycleID) error {
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
