package cli

import (
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
	c := &cobra.Command{Use: "services", Aliases: []string{"service"}, Short: "What is watched, and how it is: list, show, discover"}
	c.AddCommand(a.servicesList(), a.servicesShow(), a.servicesDiscover())
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
			return a.reading(c.Context(), func(s *store.Store, cfg *config.Config) error {
				envs, err := trusting(c.Context(), cfg)
				if err != nil {
					return err
				}
				found, err := api.Services(c.Context(), s, envs, environment, time.Now())
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
			return a.reading(c.Context(), func(s *store.Store, cfg *config.Config) error {
				envs, err := trusting(c.Context(), cfg)
				if err != nil {
					return err
				}
				found, err := api.Services(c.Context(), s, envs, environment, time.Now())
				if err != nil {
					return fmt.Errorf("read service %s: %w", args[0], err)
				}
				n := slices.IndexFunc(found, func(x api.ServiceState) bool { return x.Name == args[0] })
				if n < 0 {
					return fmt.Errorf("read service %s: %w; claudeops services list names them", clean(args[0]), ops.ErrNotFound)
				}
				x := found[n]
				past, err := s.Health(c.Context(), store.HealthFilter{
					Environment: x.Environment, Since: time.Now().AddDate(0, 0, -30), Until: time.Now(), Bucket: 24 * time.Hour,
				})
				if err != nil {
					return fmt.Errorf("read health of %s: %w", args[0], err)
				}
				cooldowns, err := s.Cooldowns(c.Context(), x.Environment, cfg.Guard.Limits, time.Now())
				if err != nil {
					return fmt.Errorf("read cooldowns of %s: %w", args[0], err)
				}
				return a.printOne(x, func(w io.Writer) { printService(w, x, past, cooldowns) })
			})
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "of this environment (default the first that has it)")
	return c
}

func printService(w io.Writer, x api.ServiceState, past []store.ServiceHealth, cooldowns []ops.Cooldown) {
	fmt.Fprintf(w, "%s: %s\nEnvironment: %s   Checked: %s   Up in 24 hours: %s\n", clean(x.Name), x.State, x.Environment, or(stamp(x.CheckedAt), "never"), share(x.Uptime24h))
	for _, c := range x.Checks {
		fmt.Fprintf(w, "  %s  %s  %d ms", c.Status, clean(c.Probe), c.ResponseTimeMS)
		if c.Error != nil {
			fmt.Fprintf(w, "  %s", shorten(*c.Error, 200))
		}
		fmt.Fprintln(w)
	}
	for _, h := range past {
		if h.Environment != x.Environment || h.Service != x.Name {
			continue
		}
		up := "n/a"
		if v, known := h.Uptime(); known {
			up = share(&v)
		}
		fmt.Fprintf(w, "30 days  %s  now   %s up (each sign is a day: # healthy, = degraded, _ down, . not checked)\n", drawn(h.Buckets), up)
	}
	for _, c := range cooldowns {
		if c.Service != x.Name {
			continue
		}
		fmt.Fprintf(w, "Cooldown: %s, %d left", c.Action, c.Left)
		if !c.Until.IsZero() {
			fmt.Fprintf(w, ", next possible %s", stamp(&c.Until))
		}
		fmt.Fprintln(w)
	}
}

func drawn(buckets []store.HealthBucket) string {
	var b strings.Builder
	for _, x := range buckets {
		b.WriteString(map[ops.Health]string{ops.Healthy: "#", ops.Degraded: "=", ops.Down: "_", "": "."}[x.Worst()])
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
