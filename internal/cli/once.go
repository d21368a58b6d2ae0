package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/cycle"
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
	var rows *client
	result, err := daemon.Once(ctx, o, n, func(s *store.Store, id ops.CycleID) {
		if rows == nil {
			rows = a.direct(s, o.Config, o.Config.Environments())
		}
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
func (a *app) printAdvice(text string) {
	if text != "" && a.output == asTable {
		fmt.Fprintf(a.Stdout, "To do: %s\n", clean(text))
	}
}

func (a *app) printCycle(c api.Cycle) error {
	err := a.printOne(c, func(w io.Writer) { printChain(w, c) })
	if err != nil {
		return fmt.Errorf("print cycle: %w", err)
	}
	return nil
}
