package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/store"
)

func (a *app) costsCommand() *cobra.Command {
	var by, environment string
	var days, chains int
	c := &cobra.Command{
		Use: "costs", Aliases: []string{"cost"}, Short: "Show what was spent per day, as the agent CLI estimates it",
		Example: `  claudeops costs
  claudeops costs --by model --days 7
  claudeops costs --by service -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			group := store.CostGroup(by)
			switch {
			case !slices.Contains(store.CostGroups(), group):
				return usage(fmt.Errorf("--by is %q: use tier, model, service or trigger", by))
			case days < 1 || days > 3650:
				return usage(fmt.Errorf("--days is %d: use 1 to 3650", days))
			case chains < 0 || chains > 200:
				return usage(fmt.Errorf("--chains is %d: use 0 to 200", chains))
			}
			return a.reading(c.Context(), func(s *store.Store, cfg *config.Config) error {
				now := time.Now()
				f := store.CostFilter{Environment: environment, Until: now, Since: now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days)}
				rows, err := s.Costs(c.Context(), group, f)
				if err != nil {
					return fmt.Errorf("sum costs: %w", err)
				}
				dear, err := s.ExpensiveChains(c.Context(), f, max(1, chains))
				if err != nil {
					return fmt.Errorf("list expensive chains: %w", err)
				}
				budget, err := dayBudget(cfg, environment)
				if err != nil {
					return err
				}
				sum := api.CostsOf(rows, by, f, budget)
				if a.output == "jsonl" {
					var lines []any
					for _, item := range sum.Items {
						lines = append(lines, item)
					}
					return a.print(lines, "", nil)
				}
				return a.printOne(sum, func(w io.Writer) { printCosts(w, sum, days, dear[:min(len(dear), chains)]) })
			})
		},
	}
	c.Flags().StringVar(&by, "by", string(store.CostByTier), "what to tell apart: tier, model, service or trigger")
	c.Flags().IntVar(&days, "days", 30, "how many days back; days begin at midnight UTC")
	c.Flags().IntVar(&chains, "chains", 5, "how many of the most expensive chains are named in the table")
	c.Flags().StringVar(&environment, "environment", "", "only this environment")
	return c
}

// dayBudget is the limit of a day in one environment or, with "", in all together; 0 where one has none.
func dayBudget(cfg *config.Config, environment string) (float64, error) {
	sum, found := 0.0, environment == ""
	for _, e := range cfg.Environments() {
		if environment != "" && e.Name != environment {
			continue
		}
		found = true
		if e.Policy.BudgetDayUSD == 0 {
			return 0, nil
		}
		sum += e.Policy.BudgetDayUSD
	}
	if !found {
		return 0, usage(errors.New("no environment is called " + clean(environment)))
	}
	return sum, nil
}

func printCosts(w io.Writer, c api.Costs, days int, dear []store.ChainCost) {
	if len(c.Items) == 0 {
		fmt.Fprintf(w, "No cost recorded in the last %d days.\n", days)
		return
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, tabbed("DAY (UTC)", strings.ToUpper(c.By), "EST. COST", "SESSIONS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE"))
	for _, i := range c.Items {
		fmt.Fprintln(t, tabbed(i.Day, costKey(c.By, i.Key), money(i.CostUSD), fmt.Sprint(i.Sessions),
			figure(i.InputTokens), figure(i.OutputTokens), figure(i.CacheReadTokens), figure(i.CacheWriteTokens)))
	}
	_ = t.Flush() // it goes to the writer of the command, which reports its own errors
	fmt.Fprintf(w, "\nTotal of %d days: %s in %d sessions", days, money(c.TotalUSD), c.Sessions)
	if c.UnknownCosts > 0 {
		fmt.Fprintf(w, ", %d of them told no cost", c.UnknownCosts)
	}
	fmt.Fprintln(w)
	if c.BudgetDayUSD > 0 {
		fmt.Fprintf(w, "Budget of a day: %s\n", money(&c.BudgetDayUSD))
	}
	if len(dear) > 0 {
		fmt.Fprintln(w, "\nMost expensive chains:")
	}
	for _, d := range dear {
		fmt.Fprintf(w, "  cycle %d  %s  %s, %d sessions, %s\n", d.ID, money(d.USD), d.Status, d.Sessions, stamp(&d.CreatedAt))
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

func figure(n *int64) string {
	if n == nil {
		return "n/a"
	}
	return fmt.Sprint(*n)
}
