package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/decide/escalation"
)

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check and show the configuration"}
	c.AddCommand(a.configCheck(), a.configShow(), a.configSchema())
	return c
}

func (a *app) configCheck() *cobra.Command {
	return a.withSettings(&cobra.Command{
		Use: "check", Short: "Check the configuration; exit 3 with file, line, key and fix",
		Example: `  claudeops config check
  claudeops config check --config /etc/claudeops/claudeops.yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := a.checkConfig(c.Context())
			if err != nil {
				return err
			}
			for _, n := range found.Notes {
				fmt.Fprintln(a.Stderr, "note: "+n)
			}
			row := map[string]any{"valid": true, "file": value(found.File), "environments": found.Environments}
			return a.printOne(row, func(w io.Writer) {
				fmt.Fprintf(w, "valid: %s, %s\n", or(value(found.File), "no file, environment variables and defaults"),
					plural(found.Environments, "environment", "environments"))
			})
		},
	})
}

// checkConfig reads and checks the configuration as it is now.
func (a *app) checkConfig(ctx context.Context) (api.ConfigCheck, error) {
	o, err := a.options()
	if err != nil {
		return api.ConfigCheck{}, err
	}
	envs := o.Config.Environments()
	for _, e := range envs {
		if err := escalation.Validate(e.Policy); err != nil {
			return api.ConfigCheck{}, &codeError{exitConfig, fmt.Errorf("check handlers of %s: %w", e.Name, err)}
		}
	}
	if err := daemon.Check(o); err != nil {
		return api.ConfigCheck{}, &codeError{exitConfig, err}
	}
	out := api.ConfigCheck{Valid: true, Environments: len(envs), Problems: []string{}, Notes: append([]string{}, o.Config.Notices...)}
	if o.Config.File != "" {
		out.File = &o.Config.File
	}
	for _, f := range append(obstacles(o.Config), a.unprobed(ctx, o.Config)...) {
		out.Notes = append(out.Notes, strings.TrimSpace(fmt.Sprintf("%s: %s. %s", f.Check, f.Detail, f.Fix)))
	}
	return out, nil
}

// configRow is the result of checkConfig for the API: problems are part of it.
func (a *app) configRow(ctx context.Context) api.ConfigCheck {
	found, err := a.checkConfig(ctx)
	if err == nil {
		return found
	}
	out := api.ConfigCheck{Problems: []string{err.Error()}, Notes: []string{}}
	var wrong *config.Error
	if errors.As(err, &wrong) {
		out.Problems = nil
		for _, p := range wrong.Problems {
			out.Problems = append(out.Problems, p.String())
		}
	}
	return out
}

func (a *app) configShow() *cobra.Command {
	var origin bool
	c := a.withSettings(&cobra.Command{
		Use: "show", Short: "Show every setting; secrets are redacted",
		RunE: a.configured(func(_ *cobra.Command, cfg *config.Config, _ []string) error {
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
		}),
	})
	c.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	return c
}

// withSettings gives a command a flag for every setting.
func (a *app) withSettings(c *cobra.Command) *cobra.Command { return a.withFlags(c, config.Flags) }

// withFlags gives a command flags for the settings that mean something to it. They are added when the command is chosen.
func (a *app) withFlags(c *cobra.Command, flags func() []config.Flag) *cobra.Command {
	a.flags[c] = flags
	return c
}

// addFlags gives the command that the arguments choose its flags. The help may be about any command.
func (a *app) addFlags(root *cobra.Command, args []string) {
	chosen, _, err := root.Find(args)
	if err != nil || chosen == root { // help, completion, or a wrong word
		a.addAllFlags(root)
		return
	}
	a.addFlagsOf(chosen)
}

func (a *app) addAllFlags(c *cobra.Command) {
	a.addFlagsOf(c)
	for _, sub := range c.Commands() {
		a.addAllFlags(sub)
	}
}

func (a *app) addFlagsOf(c *cobra.Command) {
	flags := a.flags[c]
	if flags == nil {
		return
	}
	for _, s := range flags() {
		v := &settingValue{app: a, key: s.Key, flag: s.Bool}
		f := c.Flags().VarPF(v, s.Name, "", flagDoc(s))
		if s.Bool {
			f.NoOptDefVal = "true"
		}
	}
}

// fewFlags are the settings that the help of a command shows which takes all of them.
func fewFlags() []string {
	return []string{
		"apprise-urls-file", "approval-tier", "budget-day-usd", "claude-bin", "dry-run", "interval", "listen", "max-tier",
		"repos-dir", "state-dir",
	}
}

// helpful is cobra's help. Of a command that takes every setting as a flag it shows a few; with --verbose, all.
func (a *app) helpful(root *cobra.Command) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		hidden := 0
		if len(a.hidable(c)) > 0 && !a.verbose {
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if slices.Contains(a.hidable(c), f.Name) {
					f.Hidden, hidden = true, hidden+1
				}
			})
		}
		usual(c, args)
		if hidden > 0 {
			fmt.Fprintf(c.OutOrStdout(), "\n%d more settings can be given as flags: '%s --help --verbose' lists them, and "+
				"docs/configuration.md explains them.\n", hidden, c.CommandPath())
		}
	})
}

// hidable are the flags of a command that its help leaves out.
func (a *app) hidable(c *cobra.Command) []string {
	flags := a.flags[c]
	if flags == nil || c.Flags().Lookup("interval") == nil {
		return nil
	}
	var out []string
	for _, f := range flags() {
		if !slices.Contains(fewFlags(), f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// withState lets every command below c that has no flags for settings say where the database is.
func (a *app) withState(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.withState(sub)
	}
	if !c.HasSubCommands() && a.flags[c] == nil {
		a.withFlags(c, config.StateFlags)
	}
}

// flagDoc is one line of help: the first sentence, and where else the value can come from.
func flagDoc(s config.Flag) string {
	// A word in backquotes would be taken for the name of the value.
	text, _, _ := strings.Cut(strings.ReplaceAll(s.Doc, "`", ""), ". ")
	text = strings.TrimSuffix(text, ".")
	var from []string
	if s.Env != "" {
		from = append(from, "env "+s.Env)
	}
	if s.Default != "" {
		from = append(from, "default "+s.Default)
	}
	if len(from) == 0 {
		return text
	}
	return fmt.Sprintf("%s (%s)", text, strings.Join(from, ", "))
}

// settingValue keeps what a flag was set to; the configuration checks it with everything else.
type settingValue struct {
	app  *app
	key  string
	flag bool
}

func (v *settingValue) String() string { return "" }

func (v *settingValue) Set(s string) error {
	v.app.settings[v.key] = s
	return nil
}

func (v *settingValue) Type() string {
	if v.flag {
		return "bool"
	}
	return "value"
}
