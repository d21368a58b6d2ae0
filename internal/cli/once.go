package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/daemon"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) onceCommand() *cobra.Command {
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
			return a.once(c.Context(), o, ops.NewCycle{Environment: env.Name, Trigger: ops.TriggerManual}, timeout)
		},
	})
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one configured)")
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time, exit 124 (0 = never)")
	return c
}

// once runs a cycle in this process and reports how it ended.
func (a *app) once(ctx context.Context, o daemon.Options, n ops.NewCycle, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	line := a.newStatus()
	if line != nil {
		o.Logger = a.quietLogger() // the status line shows the steps
	}
	result, err := daemon.Once(ctx, o, n, func(s *store.Store, id ops.CycleID) { line.show(ctx, &local{store: s, cfg: o.Config}, id) })
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
	return quietly(exitOf(result.Status))
}

func (a *app) printCycle(c api.Cycle) error {
	err := a.printOne(c, func(w io.Writer) { printChain(w, c) })
	if err != nil {
		return fmt.Errorf("print cycle: %w", err)
	}
	return nil
}
