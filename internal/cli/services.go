package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) servicesCommand() *cobra.Command {
	c := &cobra.Command{Use: "services", Aliases: []string{"service"}, Short: "What is watched, and how it is: list, show, discover, accept"}
	c.AddCommand(a.servicesList(), a.servicesShow(), a.servicesDiscover(), a.servicesAccept())
	return c
}

func (a *app) servicesList() *cobra.Command {
	var environment, state string
	c := &cobra.Command{
		Use: "list", Short: "List services, the worst first",
		Example: `  claudeops services list
  claudeops services list --state down -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if state != "" && severity(state) < 0 {
				return usage(fmt.Errorf("--state is %q: use healthy, degraded, down or unknown", state))
			}
			found, err := a.services(c.Context(), environment)
			if err != nil {
				return fmt.Errorf("list services: %w", err)
			}
			slices.SortStableFunc(found, func(x, y api.ServiceState) int { return severity(y.State) - severity(x.State) })
			var rows []any
			var shown []api.ServiceState
			for _, x := range found {
				if state == "" || x.State == state {
					rows, shown = append(rows, x), append(shown, x)
				}
			}
			return a.print(rows, tabbed("ENVIRONMENT", "SERVICE", "STATE", "UP 24H", "CHECKED", "PROBLEM"), func(n int) string {
				x := shown[n]
				return tabbed(x.Environment, clean(x.Name), x.State, share(x.Uptime24h), or(stamp(x.CheckedAt), "never"), shorten(problem(x), 70))
			})
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "only this environment")
	c.Flags().StringVar(&state, "state", "", "only this state: healthy, degraded, down or unknown")
	return c
}

func (a *app) servicesShow() *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use: "show NAME", Short: "Show a service: its checks, its past, its cooldowns", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			x, err := a.service(c.Context(), args[0], environment)
			if err != nil {
				return fmt.Errorf("read service %s: %w; claudeops services list names them", clean(args[0]), err)
			}
			return a.printOne(x.ServiceState, func(w io.Writer) { printService(w, x) })
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "of this environment (default the first that has it)")
	return c
}

// services reads how everything is, here or at the server.
func (a *app) services(ctx context.Context, environment string) (found []api.ServiceState, err error) {
	if a.remote != nil {
		return a.remote.services(ctx, environment)
	}
	err = a.reading(ctx, func(s *store.Store, cfg *config.Config) error {
		envs, err := trusting(ctx, cfg)
		if err == nil {
			found, err = api.Services(ctx, s, envs, environment, time.Now())
		}
		return err
	})
	return found, err
}

// shownDays is how much of a service's past is shown.
const shownDays = 30

// serviceReport is what is shown of a service.
type serviceReport struct {
	api.ServiceState
	past      api.ServiceHistory
	cooldowns []api.Cooldown
}

// service reads one, here or at the server.
func (a *app) service(ctx context.Context, name, environment string) (out serviceReport, err error) {
	if a.remote != nil {
		return a.remote.service(ctx, name, environment, shownDays)
	}
	err = a.reading(ctx, func(s *store.Store, cfg *config.Config) error {
		envs, err := trusting(ctx, cfg)
		if err != nil {
			return err
		}
		now := time.Now()
		found, err := api.Services(ctx, s, envs, environment, now)
		if err != nil {
			return err
		}
		n := slices.IndexFunc(found, func(x api.ServiceState) bool { return x.Name == name })
		if n < 0 {
			return ops.ErrNotFound
		}
		out.ServiceState = found[n]
		if out.past, err = api.History(ctx, s, found[n], shownDays, now); err != nil {
			return err
		}
		cooldowns, err := s.Cooldowns(ctx, out.Environment, cfg.Guard.Limits, now)
		for _, c := range cooldowns {
			out.cooldowns = append(out.cooldowns, api.CooldownRow(out.Environment, c))
		}
		return err
	})
	return out, err
}

func printService(w io.Writer, x serviceReport) {
	fmt.Fprintf(w, "%s: %s\nEnvironment: %s   Checked: %s   Up in 24 hours: %s\n", clean(x.Name), x.State, x.Environment, or(stamp(x.CheckedAt), "never"), share(x.Uptime24h))
	for _, c := range x.Checks {
		fmt.Fprintf(w, "  %s  %s  %d ms", c.Status, clean(c.Probe), c.ResponseTimeMS)
		if c.Error != nil {
			fmt.Fprintf(w, "  %s", shorten(*c.Error, 200))
		}
		fmt.Fprintln(w)
	}
	if len(x.past.Days) > 0 {
		fmt.Fprintf(w, "%d days  %s  now   %s up (each sign is a day: # healthy, = degraded, _ down, . not checked)\n",
			shownDays, drawn(x.past.Days), share(x.past.Uptime))
	}
	for _, c := range x.cooldowns {
		if c.Service != x.Name {
			continue
		}
		fmt.Fprintf(w, "Cooldown: %s, %d left", c.Action, c.Left)
		if c.Until != nil {
			fmt.Fprintf(w, ", next possible %s", stamp(c.Until))
		}
		fmt.Fprintln(w)
	}
}

// drawn shows the worst of each day.
func drawn(days []api.ServiceDay) string {
	var b strings.Builder
	for _, d := range days {
		switch {
		case d.Down > 0:
			b.WriteByte('_')
		case d.Degraded > 0:
			b.WriteByte('=')
		case d.Healthy > 0:
			b.WriteByte('#')
		default:
			b.WriteByte('.')
		}
	}
	return b.String()
}

// severity orders states, the worst highest; -1 is no state.
func severity(state string) int {
	return slices.Index([]string{"healthy", "unknown", "degraded", "down"}, state)
}

// problem is the first thing that a check found wrong.
func problem(x api.ServiceState) string {
	for _, c := range x.Checks {
		if c.Status != string(ops.Healthy) {
			if c.Error != nil {
				return *c.Error
			}
			return c.Probe
		}
	}
	return "-"
}

// share is a part of one in percent, never rounded up to all.
func share(v *float64) string {
	switch {
	case v == nil:
		return "n/a"
	case *v == 1:
		return "100%"
	}
	return fmt.Sprintf("%.1f%%", min(99.9, 100**v))
}
