package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

func (a *app) handoffCommand() *cobra.Command {
	c := &cobra.Command{Use: "handoff", Short: "The handoff file: schema, validate"}
	c.AddCommand(&cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the handoff file",
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Stdout.Write(report.HandoffSchema())
			return err
		},
	}, a.handoffValidate())
	return c
}

func (a *app) handoffValidate() *cobra.Command {
	var tier int
	c := &cobra.Command{
		Use: "validate FILE", Short: "Check a handoff file; exit 1 with every error by JSON pointer", Args: cobra.ExactArgs(1),
		Example: `  claudeops handoff validate handoff.json
  claudeops handoff validate --tier 2 - < handoff.json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if tier < 0 || tier > 3 {
				return usage(fmt.Errorf("--tier is %d: use 1, 2 or 3", tier))
			}
			raw, err := a.input(args[0])
			if err != nil {
				return err
			}
			h, found := report.Handoff(raw, ops.Tier(tier))
			for _, w := range found.Warnings {
				fmt.Fprintf(a.Stderr, "%s: warning: %s\n", args[0], w)
			}
			if !found.OK() {
				for _, e := range found.Errors {
					fmt.Fprintf(a.Stderr, "%s: %s\n", args[0], e)
				}
				return quietly(exitError)
			}
			return a.printOne(h, func(w io.Writer) {
				fmt.Fprintf(w, "valid: hands %s to %s\n", plural(len(h.ServicesAffected), "service", "services"), h.RecommendedTier)
			})
		},
	}
	c.Flags().IntVar(&tier, "tier", 0, "tier that wrote the file (default: one below recommended_tier)")
	return c
}

// input reads a file, or stdin for "-".
func (a *app) input(name string) ([]byte, error) {
	if name == "-" {
		raw, err := io.ReadAll(io.LimitReader(a.Stdin, report.MaxBytes+1))
		if err != nil {
			return nil, fmt.Errorf("read stdin: %w", err)
		}
		return raw, nil
	}
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("open %s: %w", name, ops.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, report.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return raw, nil
}
