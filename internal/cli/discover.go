package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"claudeops/internal/agent/process"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/ops"
	"claudeops/internal/watch/discover"
	"claudeops/internal/watch/probe"
)

// discoveredRow is a service that a repository defines.
type discoveredRow struct {
	Environment string `json:"environment"`
	discover.Found
	State  string   `json:"state"` // new, watched, changed, gone or configured
	Probes []string `json:"probes"`
}

// discoveredOutput is every service that was found, and what could not be used.
type discoveredOutput struct {
	Mode     config.Discovery   `json:"mode"`
	Services []discoveredRow    `json:"services"`
	Problems []discover.Problem `json:"problems"`
}

func (a *app) servicesDiscover() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use: "discover", Short: "List services that mounted repositories define, and the configuration to add",
		Long: `Reads CLAUDE-OPS.md, .claude-ops/services.yaml and the compose files of every repository in repos_dir. It executes nothing and
watches nothing: add the services you want to your configuration, or set services_discovery: trust.`,
		Example: `  claudeops services discover
  claudeops services discover -o yaml`,
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			all, err := daemon.Discover(c.Context(), cfg)
			if err != nil {
				return err
			}
			return a.printDiscovered(cfg, all)
		}),
	}, config.DiscoveryFlags)
}

func (a *app) printDiscovered(cfg *config.Config, all []daemon.Discovered) error {
	if a.output == asYAML {
		for _, d := range all {
			for _, p := range d.Problems {
				fmt.Fprintln(a.Stderr, clean(p.String()))
			}
		}
		return paste(a.Stdout, all)
	}
	out := discoveredOutput{Mode: cfg.Discovery, Services: []discoveredRow{}, Problems: []discover.Problem{}}
	for _, d := range all {
		for _, f := range d.Found {
			out.Services = append(out.Services, discoveredRowOf(cfg, d.Environment, f))
		}
		out.Problems = append(out.Problems, d.Problems...)
	}
	var failed error
	err := a.printOne(out, func(w io.Writer) {
		printFound(w, cfg, out)
		if len(out.Services) > 0 && cfg.Discovery != config.DiscoveryTrust {
			failed = paste(w, all)
		}
	})
	if err != nil {
		return err
	}
	return failed
}

func discoveredRowOf(cfg *config.Config, environment string, f discover.Found) discoveredRow {
	row := discoveredRow{Environment: environment, Found: f, State: "new", Probes: []string{}}
	switch {
	case f.Known != "":
		row.State = "configured"
	case cfg.Discovery == config.DiscoveryTrust && (f.Standing == discover.Unasked || f.Standing == discover.Trusted):
		row.State = "watched"
	case cfg.Discovery == config.DiscoveryTrust:
		row.State = string(f.Standing)
	}
	for _, p := range f.Probes {
		row.Probes = append(row.Probes, probe.Describe(p))
	}
	return row
}

func printFound(w io.Writer, cfg *config.Config, out discoveredOutput) {
	if len(out.Services) == 0 {
		if cfg.ReposDir == "" && len(out.Problems) == 0 {
			fmt.Fprintln(w, "No services found. Set repos_dir to the folder of your repositories.")
		} else {
			fmt.Fprintln(w, "No services found.")
		}
	} else {
		t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(t, tabbed("ENVIRONMENT", "SERVICE", "STATE", "PROBES", "WHERE", "WHY"))
		for _, r := range out.Services {
			fmt.Fprintln(t, tabbed(r.Environment, clean(r.Service.Name), r.State, fmt.Sprint(len(r.Probes)),
				clean(fmt.Sprintf("%s:%d", r.File, r.Line)), shorten(r.Why, 70)))
		}
		_ = t.Flush()
	}
	if len(out.Problems) > 0 {
		fmt.Fprintln(w, "\nNot used:")
	}
	for _, p := range out.Problems {
		fmt.Fprintln(w, "  "+clean(p.String()))
	}
	pending := slices.ContainsFunc(out.Services, func(r discoveredRow) bool { return unaccepted(r.State) })
	if cfg.Discovery == config.DiscoveryTrust && pending {
		fmt.Fprintln(w, "\nNew services are not watched. Changed and removed services are watched as they were accepted. "+
			"'claudeops services accept' accepts the current definitions.")
	}
}

func unaccepted(state string) bool {
	return state == string(discover.Fresh) || state == string(discover.Changed) || state == string(discover.Gone)
}

func (a *app) servicesAccept() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use: "accept [NAME…]", Short: "Accept the current service definitions of mounted repositories, of the named services or of all",
		Long: `With services_discovery: trust, services are watched as they were defined when they were accepted: at the first start, or by this
command. Later changes in a repository are listed by 'claudeops services discover' and not used until you accept them. They take effect at
the next start.`,
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, names []string) error {
			if cfg.Discovery != config.DiscoveryTrust {
				return &codeError{exitConfig, errors.New("services of repositories are not watched: set services_discovery: trust")}
			}
			if process.InSession() {
				return errInSession
			}
			all, err := daemon.AcceptServices(c.Context(), cfg, names)
			if err := errors.Join(err, a.auditIn(c.Context(), cfg, err)); err != nil {
				return err
			}
			var rows []discoveredRow
			for _, d := range all {
				for _, f := range d.Found {
					rows = append(rows, discoveredRowOf(cfg, d.Environment, f))
				}
			}
			return printRows(a, rows, tabbed("ENVIRONMENT", "SERVICE", "WAS", "WHERE"), func(r discoveredRow) string {
				return tabbed(r.Environment, clean(r.Service.Name), r.State, clean(fmt.Sprintf("%s:%d", r.File, r.Line)))
			})
		}),
	}, config.DiscoveryFlags)
}

// paste prints the configuration to add, per environment.
func paste(w io.Writer, all []daemon.Discovered) error {
	for _, d := range all {
		found := d.New()
		if len(found) == 0 {
			continue
		}
		text, err := discover.YAML(found)
		if err != nil {
			return fmt.Errorf("write services: %w", err)
		}
		fmt.Fprintf(w, "\n# Environment %s: add the services to watch to its configuration.\n%s", d.Environment, text)
	}
	return nil
}

// trusting returns the environments, with accepted services of repositories if services_discovery is trust.
func trusting(ctx context.Context, cfg *config.Config) ([]ops.Environment, error) {
	if cfg.Discovery == config.DiscoveryTrust {
		if _, err := daemon.Trust(ctx, cfg, false); err != nil {
			return nil, err
		}
	}
	return cfg.Environments(), nil
}

// didYouMean proposes the known word that is most like a wrong one, or nothing.
func didYouMean(wrong string, known []string) string {
	best, least := "", max(1, min(3, len(wrong)/2))+1
	for _, word := range known {
		if d := config.EditDistance(strings.ToLower(wrong), strings.ToLower(word)); d < least {
			best, least = word, d
		}
	}
	if best == "" && len(wrong) > 1 {
		if i := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, wrong) }); i >= 0 {
			best = known[i]
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// commandNames lists the commands below c, with their aliases.
func commandNames(c *cobra.Command) []string {
	var out []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			out = append(append(out, sub.Name()), sub.Aliases...)
		}
	}
	return out
}

// meantCommand proposes a command for a wrong word.
func meantCommand(c *cobra.Command, word string) string {
	for _, sub := range c.Commands() {
		if slices.Contains(sub.SuggestFor, word) {
			word = sub.Name()
		}
	}
	return didYouMean(word, commandNames(c))
}

// flagNames lists the flags of a command.
func flagNames(c *cobra.Command) []string {
	var out []string
	for _, set := range []*pflag.FlagSet{c.Flags(), c.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				out = append(out, "--"+f.Name)
			}
		})
	}
	return out
}

// wrongFlag says in ordinary words what is wrong with a flag.
func wrongFlag(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return usage(fmt.Errorf("--%s is %q: use %s", f.Name, invalid.GetValue(), kindOf(f.Value.Type())))
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1:
		name := "--" + unknown.GetSpecifiedName()
		if instead := removedFlag(c.CommandPath(), name); instead != "" {
			return usage(errors.New(instead))
		}
		meant := name
		if name == "--port" && c.Flags().Lookup("listen") != nil {
			meant = "--listen"
		}
		return usage(fmt.Errorf("unknown flag: %s%s\nSee '%s --help'", name, didYouMean(meant, flagNames(c)), c.CommandPath()))
	}
	return usage(err)
}

// removedCommand is a command of the last version; it says what replaces it.
func removedCommand(name, instead string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Removed", Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return usage(fmt.Errorf("%s was removed: %s", c.CommandPath(), instead))
		},
	}
}

// removedFlag says what replaces a flag of the last version, or nothing.
func removedFlag(command, flag string) string {
	switch command + " " + flag {
	case "claudeops demo --docker":
		return "demo --docker was removed: 'claudeops demo' plays an incident on a small process; " +
			"for your own containers run 'claudeops init' and then 'claudeops once --dry-run'"
	}
	return config.RemovedFlag(strings.TrimPrefix(flag, "--"))
}

// kindOf names the values that a flag takes.
func kindOf(flagType string) string {
	switch flagType {
	case "int", "int64":
		return "a whole number"
	case "duration":
		return "a duration such as 30s, 10m or 2h"
	case "float64":
		return "a number"
	case sinceType:
		return "a duration such as 2h or 7d, a date such as 2026-05-01, or a time such as 2026-05-01T15:04:05Z"
	case "bool":
		return "true or false"
	}
	return "another value"
}

// helpCommand is cobra's, except that an unknown topic is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Help about any command", Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			found, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(found), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			at := c.Root()
			for _, word := range args {
				i := slices.IndexFunc(at.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word || sub.HasAlias(word) })
				if i < 0 {
					return usage(fmt.Errorf("unknown help topic %q%s\nSee '%s --help'", word, didYouMean(word, commandNames(at)), at.CommandPath()))
				}
				at = at.Commands()[i]
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}
