package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/cycle"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a runs) runCommand() *cobra.Command {
	var environment string
	var dryRun, detach bool
	var timeout time.Duration
	c := a.anywhere(&cobra.Command{
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
			return a.once(c.Context(), o, n, timeout, nobody)
		},
	})
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one configured)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "observe only: change nothing in this cycle")
	c.Flags().BoolVar(&detach, "detach", false, "print the id of the cycle and do not wait")
	c.Flags().DurationVar(&timeout, "timeout", 0, "stop waiting after this time, exit 124 (0 = never)")
	return c
}

// queue queues a cycle for a daemon, here or on another host of the same database, and waits for its end.
func (a runs) queue(ctx context.Context, n ops.NewCycle, detach bool, timeout time.Duration) error {
	var id ops.CycleID
	err := a.change(ctx, func(s *client) error {
		a.tellHeld(ctx, s, n.Environment)
		got, err := post[struct{ ID ops.CycleID }](ctx, s, "/cycles",
			map[string]any{"environment": n.Environment, "prompt": n.Prompt, "dry_run": n.Options.DryRun})
		id = got.ID
		return err
	})
	if err != nil {
		return err
	}
	return a.read(ctx, func(s *client) error { return a.queued(ctx, s, id, detach, timeout) })
}

// tellHeld says what agents leave alone in an environment, before a cycle is paid. Where that cannot be read, the cycle starts
// all the same.
func (a runs) tellHeld(ctx context.Context, s *client, environment string) {
	held, err := items[api.Held](ctx, s, "/held", query("environment", environment), mostItems)
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
func (a runs) queued(ctx context.Context, s *client, id ops.CycleID, detach bool, timeout time.Duration) error {
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
func (a runs) follow(ctx context.Context, s *client, id ops.CycleID) error {
	line := a.newStatus()
	defer line.clear()
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
		if !ops.Pause(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

func (a runs) onceCommand() *cobra.Command {
	var environment string
	var timeout time.Duration
	c := a.withSettings(&cobra.Command{
		Use:   "once",
		Short: "Run a single cycle in the foreground",
		Long: `Runs a single cycle in the foreground and prints its sessions. A cycle that a crash left open is finished first. The exit code
says how the cycle ended: 0 healthy or resolved, 6 needs a human, 7 blocked by policy, budget or cooldown, 8 failed.`,
		Example: `  claudeops once
  claudeops once --dry-run -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := a.options()
			if err != nil {
				return err
			}
			env, err := o.Config.Environment(environment)
			if err != nil {
				return err
			}
			if err := control.Holder(o.Config.StateDir); err != nil {
				return fmt.Errorf("%w; to start a cycle there, use 'claudeops run'", err)
			}
			return a.once(c.Context(), o, ops.NewCycle{Environment: env.Name, Trigger: ops.TriggerManual}, timeout, nobody)
		},
	})
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one configured)")
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time, exit 124 (0 = never)")
	return c
}

// nobody looks on while a cycle runs.
func nobody(*store.Store) {}

// once runs a cycle in this process and reports how it ended. Whoever looks on is called when something has changed.
func (a runs) once(ctx context.Context, o daemon.Options, n ops.NewCycle, timeout time.Duration, onlooker func(*store.Store)) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	line := a.newStatus()
	if line != nil {
		o.Logger = a.quietLogger() // the status line shows the steps
	}
	var rows *client
	result, err := daemon.Once(ctx, o, n, func(s *store.Store, id ops.CycleID) {
		if rows == nil {
			rows = a.direct(s, o.Config)
		}
		onlooker(s)
		if id == 0 {
			a.tellHeld(ctx, rows, n.Environment)
		} else {
			line.show(ctx, rows, id)
		}
	})
	line.clear()
	if err != nil {
		if errors.Is(context.Cause(ctx), errTimeout) {
			return errTimeout // wherever it was cut off
		}
		if errors.Is(err, errTerminated) {
			return &codeError{exitInterrupted, err}
		}
		return err
	}
	if err := a.printCycle(api.CycleRow(result)); err != nil {
		return err
	}
	a.printAdvice(adviceOf(result))
	return quietly(exitOf(result.Status))
}

// adviceOf is what a person should do after a cycle.
func adviceOf(c store.CycleSummary) string {
	if c.Status != ops.CyclePartial && c.Status != ops.CycleFailed {
		return ""
	}
	var last *ops.Session
	if n := len(c.Sessions); n > 0 {
		last = &c.Sessions[n-1]
	}
	return cycle.Advice(last, c.Result)
}

// adviceOfReport is the same for a cycle that a server sent.
func adviceOfReport(c api.CycleReport) string {
	s := store.CycleSummary{Cycle: ops.Cycle{Status: c.Status, Result: json.RawMessage(c.Result)}}
	for _, x := range c.Sessions {
		s.Sessions = append(s.Sessions, ops.Session{
			Agent: x.Agent, Status: x.Status, Failure: ops.FailureClass(value(x.Failure)), Error: value(x.Error),
		})
	}
	return adviceOf(s)
}

// printAdvice prints it as the last line, for people only.
func (a runs) printAdvice(text string) {
	if text != "" && a.output == asTable {
		fmt.Fprintf(a.Stdout, "To do: %s\n", spoken(text))
	}
}

func (a runs) printCycle(c api.Cycle) error {
	err := a.printOne(c, func(w io.Writer) { printChain(w, c) })
	return ops.Wrapped(err, "print cycle")
}
