package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/decide/rehearse"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) rehearseCommand() *cobra.Command {
	var against, file, cycle string
	since := time.Now().AddDate(0, 0, -90)
	c := &cobra.Command{
		Use:   "rehearse --config FILE",
		Short: "Try a configuration against the recorded cycles; exit 0 no difference, 8 different",
		Long: `Takes every recorded decision again under the configuration FILE and lists what would be different: steps of cycles, decisions
about escalations, answers of the guard to tool calls. Nothing is changed, and no model is asked. Probe results, what agents said and
what people answered stay as recorded, so what follows a step that differs cannot be rehearsed.`,
		Example: `  claudeops rehearse --config new.yaml
  claudeops rehearse --config new.yaml --since 30d -o json
  claudeops rehearse --config new.yaml --against old.yaml --db copy.db   in a check of a repository`,
		RunE: func(c *cobra.Command, _ []string) error {
			span := daemon.Span{Since: since}
			if cycle != "" {
				id, err := cycleNumber(cycle)
				if err != nil {
					return err
				}
				span = daemon.Span{Cycle: ops.CycleID(id)}
			}
			return a.rehearse(c.Context(), against, file, span)
		},
	}
	c.Flags().StringVar(&against, "against", "", "compare with what this configuration would do (default: with what was done)")
	c.Flags().StringVar(&file, "db", "", "copy of the database to read (default: the database of the configuration)")
	c.Flags().StringVar(&cycle, "cycle", "", "this cycle only")
	sinceFlag(c, &since, "how far back (default 90d)")
	return a.withFlags(c, config.StateFlags)
}

func (a *app) rehearse(ctx context.Context, against, file string, span daemon.Span) error {
	after, err := a.judging(a.configPath)
	if err != nil {
		return err
	}
	var before *config.Config
	if against != "" {
		if before, err = a.judging(against); err != nil {
			return err
		}
	}
	o := a.storeOptions(after)
	if file != "" {
		o.URL, o.Path = "", file
	}
	s, err := store.OpenReadOnly(ctx, o)
	if err != nil {
		return err
	}
	if span.Cycle > 0 {
		_, err = s.Cycle(ctx, span.Cycle)
	}
	var out rehearse.Report
	if err == nil {
		out, err = daemon.Rehearse(ctx, s, before, after, span)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if err := a.printOne(out, func(w io.Writer) { a.printRehearsal(w, out) }); err != nil || out.Equal {
		return err
	}
	return quietly(exitDifferent)
}

// judging reads a configuration and checks the rules of its guard.
func (a *app) judging(file string) (*config.Config, error) {
	cfg, err := a.loadFrom(file, nil)
	if err != nil {
		return nil, err
	}
	if _, err := daemon.Rules(cfg); err != nil {
		return nil, &codeError{exitConfig, err}
	}
	return cfg, nil
}

func (a *app) printRehearsal(w io.Writer, r rehearse.Report) {
	fmt.Fprintln(w, r.Summary())
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note: "+clean(n))
	}
	for _, d := range r.Differences {
		where := fmt.Sprintf("C-%d", d.Cycle)
		if d.Step > 0 {
			where += fmt.Sprintf(" step %d", d.Step)
		}
		fmt.Fprintf(w, "\n%s  %s  %s  %s\n", where, a.screen.when(&d.At), clean(d.Environment), plural(d.Count, "time", "times"))
		if d.Command != "" {
			fmt.Fprintf(w, "  %s: %s\n", d.Tier, clean(d.Command))
		}
		fmt.Fprintf(w, "  before: %s\n  after:  %s\n", clean(d.Before), clean(d.After))
		if d.Setting != "" {
			fmt.Fprintf(w, "  because of %s\n", clean(d.Setting))
		}
		if d.CutShort {
			fmt.Fprintf(w, "  differs at step %d; what follows cannot be rehearsed\n", d.Step)
		}
	}
	if r.Others > 0 {
		fmt.Fprintf(w, "\nand %s more\n", plural(r.Others, "difference", "differences"))
	}
}
