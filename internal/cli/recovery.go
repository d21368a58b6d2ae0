package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"claudeops/internal/decide"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

func (a *app) recoveryCommand() *cobra.Command {
	c := &cobra.Command{Use: "recovery", Short: "Failure recovery: explain, schema"}
	c.AddCommand(a.recoveryExplain(), a.recoverySchema())
	return c
}

func (a *app) recoveryExplain() *cobra.Command {
	return &cobra.Command{
		Use: "explain FILE", Short: "Explain which recovery level a failure report starts at, with limits and reason",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			raw, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read failure report: %w", err)
			}
			f, report := recovery.ParseFailure(raw)
			if !report.OK() {
				for _, p := range report.Errors {
					fmt.Fprintf(a.Stderr, "%s: %s\n", args[0], p)
				}
				return fmt.Errorf("%s is not a valid failure report: see claudeops recovery schema failure", args[0])
			}
			cfg, err := a.load()
			if err != nil {
				return err
			}
			var policy ops.RecoveryPolicy
			if envs := cfg.Environments(); len(envs) > 0 {
				policy = envs[0].Policy.Recovery
			}
			rules, limits := decide.Ladder(policy)
			class := recovery.Classify(f, rules)
			return a.printOne(class, func(w io.Writer) { fmt.Fprint(w, recovery.Explain(f, rules, limits)) })
		},
	}
}

func (a *app) recoverySchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema failure|force-done", Short: "Print the JSON Schema of failure reports or of partial results", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var raw []byte
			switch args[0] {
			case "failure":
				raw = recovery.FailureSchema()
			case "force-done":
				raw = recovery.ForceDoneSchema()
			default:
				return usage(fmt.Errorf("%q is not a schema: use failure or force-done", args[0]))
			}
			_, err := a.Stdout.Write(raw)
			return err
		},
	}
}
