package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/store"
)

func (a *app) costsCommand() *cobra.Command {
	var by, environment string
	var days, most int
	c := &cobra.Command{
		Use: "costs", Aliases: []string{"cost"}, Short: "Show the estimated cost per day",
		Example: `  claudeops costs
  claudeops costs --by model --days 7
  claudeops costs --by service -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := oneOf("by", by, store.CostGroups()); err != nil {
				return err
			}
			switch {
			case days < 1 || days > 3650:
				return usage(fmt.Errorf("--days is %d: use 1 to 3650", days))
			case most < 0 || most > 200:
				return usage(fmt.Errorf("--cycles is %d: use 0 to 200", most))
			}
			since := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days).Format(time.RFC3339)
			return a.read(c.Context(), func(s *client) error {
				sum, err := get[api.Costs](c.Context(), s, "/costs?"+query("by", by, "environment", environment, "since", since).Encode())
				if err != nil {
					return err
				}
				switch a.output {
				case asJSON, asYAML:
					return a.printOne(sum, nil)
				case asLines:
					return printRows(a, sum.Items, "", nil)
				}
				var expensive []api.CycleCost
				if most > 0 {
					expensive, err = items[api.CycleCost](c.Context(), s, "/costs/chains", query("environment", environment, "since", since), most)
					if err != nil {
						return err
					}
				}
				printCosts(a.Stdout, sum, days, expensive)
				return nil
			})
		},
	}
	c.Flags().StringVar(&by, "by", string(store.CostByTier), "group by tier, model, service or trigger")
	c.Flags().IntVar(&days, "days", 30, "number of days to show; days begin at midnight UTC")
	c.Flags().IntVar(&most, "cycles", 5, "number of most expensive cycles to list below the table")
	c.Flags().IntVar(&most, "chains", 5, "")
	_ = c.Flags().MarkDeprecated("chains", "use --cycles") // fails only for a flag that does not exist
	c.Flags().StringVar(&environment, "environment", "", "show this environment only")
	return c
}

func printCosts(w io.Writer, c api.Costs, days int, expensive []api.CycleCost) {
	if len(c.Items) == 0 {
		fmt.Fprintf(w, "No cost recorded in the last %s.\n", plural(days, "day", "days"))
		return
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, tabbed("DAY (UTC)", strings.ToUpper(c.By), "EST. COST", "SESSIONS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE"))
	for _, i := range c.Items {
		fmt.Fprintln(t, tabbed(i.Day, costKey(c.By, i.Key), money(i.CostUSD), fmt.Sprint(i.Sessions),
			figure(i.InputTokens), figure(i.OutputTokens), figure(i.CacheReadTokens), figure(i.CacheWriteTokens)))
	}
	_ = t.Flush() // it goes to the writer of the command, which reports its own errors
	fmt.Fprintf(w, "\nTotal of %s: %s in %s", plural(days, "day", "days"), money(c.TotalUSD), plural(c.Sessions, "session", "sessions"))
	if c.UnknownCosts > 0 {
		fmt.Fprintf(w, ", %d of them without a reported cost", c.UnknownCosts)
	}
	fmt.Fprintln(w)
	if c.BudgetDayUSD > 0 {
		fmt.Fprintf(w, "Budget per day: %s\n", money(&c.BudgetDayUSD))
	}
	if len(expensive) > 0 {
		fmt.Fprintln(w, "\nMost expensive cycles:")
	}
	for _, d := range expensive {
		fmt.Fprintf(w, "  cycle %d  %s  %s, %s, %s\n",
			d.CycleID, money(d.CostUSD), d.Status, plural(d.Sessions, "session", "sessions"), stamp(&d.CreatedAt))
	}
	fmt.Fprintln(w, "\nFigures are list-price estimates from the agent CLI, not a bill.")
}

func costKey(by, key string) string {
	switch {
	case key == "":
		return "-"
	case by == string(store.CostByTier):
		return "Tier " + key
	}
	return shorten(key, 60)
}
