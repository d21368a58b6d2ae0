package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

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
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			all, err := daemon.Discover(c.Context(), cfg)
			if err != nil {
				return err
			}
			return a.printDiscovered(cfg, all)
		},
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
		RunE: func(c *cobra.Command, names []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
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
		},
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
