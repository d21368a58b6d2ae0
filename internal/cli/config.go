package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/decide/escalation"
)

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check and show the configuration"}
	c.AddCommand(a.configCheck(), a.configShow(), a.configSchema(), a.configReference())
	return c
}

func (a *app) configCheck() *cobra.Command {
	return a.withSettings(&cobra.Command{
		Use: "check", Short: "Check the configuration; exit 3 with file, line, key and fix",
		Example: `  claudeops config check
  claudeops config check --config /etc/claudeops/claudeops.yaml`,
		RunE: func(*cobra.Command, []string) error {
			o, err := a.options()
			if err != nil {
				return err
			}
			cfg := o.Config
			envs := cfg.Environments()
			for _, e := range envs {
				if err := escalation.Validate(e.Policy); err != nil {
					return &codeError{exitConfig, fmt.Errorf("check handlers of %s: %w", e.Name, err)}
				}
			}
			if err := daemon.Check(o); err != nil {
				return &codeError{exitConfig, err}
			}
			for _, n := range cfg.Notices {
				fmt.Fprintln(a.Stderr, "note: "+n)
			}
			for _, f := range obstacles(cfg) {
				fmt.Fprintf(a.Stderr, "note: %s: %s. %s\n", f.Check, f.Detail, f.Fix)
			}
			return a.printOne(map[string]any{"valid": true, "file": cfg.File, "environments": len(envs)}, func(w io.Writer) {
				fmt.Fprintf(w, "valid: %s, %s\n",
					or(cfg.File, "no file, environment variables and defaults"), plural(len(envs), "environment", "environments"))
			})
		},
	})
}

func (a *app) configShow() *cobra.Command {
	var origin bool
	c := a.withSettings(&cobra.Command{
		Use: "show", Short: "Show every setting; secrets are redacted",
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			header := tabbed("KEY", "VALUE")
			if origin {
				header = tabbed("KEY", "VALUE", "ORIGIN")
			}
			return printRows(a, cfg.Show(), header, func(s config.Setting) string {
				if origin {
					return tabbed(s.Key, shorten(s.Value, 80), s.Origin)
				}
				return tabbed(s.Key, shorten(s.Value, 80))
			})
		},
	})
	c.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	return c
}

func (a *app) configReference() *cobra.Command {
	return &cobra.Command{
		Use: "reference", Short: "Print the reference of all settings as Markdown", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Reference()
			if err != nil {
				return err
			}
			fmt.Fprint(a.Stdout, text)
			return nil
		},
	}
}
