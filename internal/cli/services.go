package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func (a *app) servicesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "services", Aliases: []string{"service"}, Short: "Watched services and their state: list, show, heartbeat, forget",
	}
	c.AddCommand(a.servicesList(), a.servicesShow(), a.servicesHeartbeat(), a.servicesForget())
	return c
}

func (a *app) servicesList() *cobra.Command {
	var environment, state string
	c := &cobra.Command{
		Use: "list", Short: "List services, worst state first",
		Example: `  claudeops services list
  claudeops services list --state down -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := oneOf("state", state, states()); err != nil {
				return err
			}
			return a.read(c.Context(), func(s *client) error {
				found, err := s.Services(c.Context(), environment)
				if err != nil {
					return err
				}
				found = slices.DeleteFunc(found, func(x api.ServiceState) bool { return state != "" && x.State != state })
				slices.SortStableFunc(found, func(x, y api.ServiceState) int { return severity(y.State) - severity(x.State) })
				return printRows(a, found, tabbed("ENVIRONMENT", "SERVICE", "STATE", "UP 24H", "CHECKED", "PROBLEM"), func(x api.ServiceState) string {
					return tabbed(x.Environment, clean(x.Name), x.State, share(x.Uptime24h), or(a.screen.when(x.CheckedAt), "never"),
						shorten(problem(x), 70))
				})
			})
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "list this environment only")
	c.Flags().StringVar(&state, "state", "", "list this state only: healthy, degraded, down or unknown")
	return c
}

func (a *app) servicesShow() *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use: "show NAME", Short: "Show a service: checks, history, cooldowns", Args: cobra.ExactArgs(1),
		RunE: on(a.read, func(c *cobra.Command, s *client, args []string) error {
			x, err := get[api.ServiceState](c.Context(), s,
				"/services/"+url.PathEscape(args[0])+"?"+query("environment", environment).Encode())
			if err != nil {
				return noService(c.Context(), s, args[0], environment, err)
			}
			if a.output != asTable {
				return a.printOne(x, nil)
			}
			q := query("environment", x.Environment, "days", digits(shownDays))
			past, err := get[api.ServiceHistory](c.Context(), s, "/services/"+url.PathEscape(x.Name)+"/history?"+q.Encode())
			if err != nil {
				return err
			}
			cooldowns, err := items[api.Cooldown](c.Context(), s, "/cooldowns", query("environment", x.Environment), mostItems)
			if err != nil {
				return err
			}
			printService(a.Stdout, x, past, cooldowns)
			return nil
		}),
	}
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one with this service)")
	return c
}

func (a *app) servicesHeartbeat() *cobra.Command {
	var environment, probe string
	c := &cobra.Command{
		Use: "heartbeat NAME", Short: "Make the address that a job calls when it has run; a former one no longer works", Args: cobra.ExactArgs(1),
		Example: `  claudeops services heartbeat backup
  claudeops services heartbeat backup --probe weekly -o json`,
		RunE: on(a.change, func(c *cobra.Command, s *client, args []string) error {
			made, err := post[api.HeartbeatAddress](c.Context(), s, "/services/"+url.PathEscape(args[0])+"/heartbeat",
				map[string]any{"environment": environment, "probe": probe})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "the %s of %s is called with this command; keep it now, it is not shown again\n",
				clean(made.Probe), clean(made.Service))
			return a.printOne(made, func(w io.Writer) { fmt.Fprintln(w, made.Curl) })
		}),
	}
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one)")
	c.Flags().StringVar(&probe, "probe", "", "name of the heartbeat, where the service has several")
	return c
}

func (a *app) servicesForget() *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use: "forget NAME", Short: "Remove what is kept of a service that is not configured; cycles, incidents and events stay",
		Args: cobra.ExactArgs(1), Example: `  claudeops services forget old-web`,
		RunE: on(a.change, func(c *cobra.Command, s *client, args []string) error {
			path := "/services/" + url.PathEscape(args[0]) + "?" + query("environment", environment).Encode()
			err := s.ask(c.Context(), http.MethodDelete, path, nil, nil)
			if err == nil {
				fmt.Fprintf(a.Stderr, "%s is forgotten\n", clean(args[0]))
			}
			return err
		}),
	}
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one)")
	return c
}

// noService proposes a service that exists.
func noService(ctx context.Context, s *client, name, environment string, err error) error {
	if !errors.Is(err, ops.ErrNotFound) {
		return err
	}
	var names []string
	if found, failed := s.Services(ctx, environment); failed == nil {
		for _, x := range found {
			names = append(names, clean(x.Name))
		}
	}
	return fmt.Errorf("%w%s; claudeops services list names them", err, didYouMean(name, names))
}

// shownDays is how many days of a service's history are shown.
const shownDays = 30

func printService(w io.Writer, x api.ServiceState, past api.ServiceHistory, cooldowns []api.Cooldown) {
	fmt.Fprintf(w, "%s: %s\nEnvironment: %s   Checked: %s   Up in 24 hours: %s\n",
		clean(x.Name), x.State, x.Environment, or(stamp(x.CheckedAt), "never"), share(x.Uptime24h))
	for _, c := range x.Checks {
		fmt.Fprintf(w, "  %s  %s  %d ms", c.Status, clean(c.Probe), c.ResponseTimeMS)
		if c.Error != nil {
			fmt.Fprintf(w, "  %s", shorten(*c.Error, 200))
		}
		if c.Note != nil {
			fmt.Fprintf(w, "  (%s)", *c.Note)
		}
		fmt.Fprintln(w)
	}
	for _, h := range x.Heartbeats {
		fmt.Fprintf(w, "  %s: %s\n", clean(h.Probe), lastCall(h))
		for line := range strings.Lines(value(h.Output)) {
			fmt.Fprintf(w, "    | %s\n", clean(strings.TrimRight(line, "\r\n")))
		}
	}
	if len(past.Days) > 0 {
		fmt.Fprintf(w, "%d days  %s  now   %s up (one character per day: # healthy, = degraded, _ down, . not checked)\n",
			shownDays, drawn(past.Days), share(past.Uptime))
	}
	for _, c := range cooldowns {
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

// lastCall says when a job last called, and what it said.
func lastCall(h api.Heartbeat) string {
	switch {
	case !h.Addressed:
		return "no job can call yet; claudeops services heartbeat makes its address"
	case h.StartedAt != nil:
		return "running since " + stamp(h.StartedAt)
	case h.EndedAt == nil:
		return "no call yet"
	case h.ExitCode != 0:
		return fmt.Sprintf("failed with exit code %d at %s", h.ExitCode, stamp(h.EndedAt))
	case h.Failed:
		return "failed at " + stamp(h.EndedAt)
	}
	return "last call at " + stamp(h.EndedAt)
}

// drawn shows the worst state of each day.
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

// severity orders states, the worst highest; -1 means that it is not a state.
func severity(state string) int {
	return slices.Index(states(), state)
}

// states lists the states of a service, the best first.
func states() []string { return []string{"healthy", "unknown", "degraded", "down"} }

// problem is the first problem that a check found.
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

// share is a fraction in percent; only a whole one is shown as 100%.
func share(v *float64) string {
	switch {
	case v == nil:
		return "unknown"
	case *v == 1:
		return "100%"
	}
	return fmt.Sprintf("%.1f%%", min(99.9, 100**v))
}
