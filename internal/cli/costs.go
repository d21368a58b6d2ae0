package cli

import (
	"context"
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
	"claudeops/internal/ops"
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
			f := store.CostFilter{Environment: environment, Since: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days)}
			sum, dear, err := a.costs(c.Context(), by, f, chains)
			if err != nil {
				return err
			}
			if a.output == "jsonl" {
				var lines []any
				for _, item := range sum.Items {
					lines = append(lines, item)
				}
				return a.print(lines, "", nil)
			}
			return a.printOne(sum, func(w io.Writer) { printCosts(w, sum, days, dear) })
		},
	}
	c.Flags().StringVar(&by, "by", string(store.CostByTier), "what to tell apart: tier, model, service or trigger")
	c.Flags().IntVar(&days, "days", 30, "how many days back; days begin at midnight UTC")
	c.Flags().IntVar(&chains, "chains", 5, "how many of the most expensive chains are named in the table")
	c.Flags().StringVar(&environment, "environment", "", "only this environment")
	return c
}

// costs reads what was spent, here or at the server.
func (a *app) costs(ctx context.Context, by string, f store.CostFilter, chains int) (sum api.Costs, dear []api.ChainCost, err error) {
	if a.remote != nil {
		if sum, dear, err = a.remote.costs(ctx, by, f, chains); err != nil {
			err = fmt.Errorf("sum costs: %w", err)
		}
		return sum, dear, err
	}
	err = a.reading(ctx, func(s *store.Store, cfg *config.Config) error {
		f.Until = time.Now()
		budget, err := dayBudget(cfg, f.Environment)
		if err != nil {
			return err
		}
		rows, err := s.Costs(ctx, store.CostGroup(by), f)
		if err != nil {
			return fmt.Errorf("sum costs: %w", err)
		}
		found, err := s.ExpensiveChains(ctx, f, max(1, chains))
		if err != nil {
			return fmt.Errorf("list expensive chains: %w", err)
		}
		sum = api.CostsOf(rows, by, f, budget)
		for _, row := range found[:min(len(found), chains)] {
			dear = append(dear, api.ChainCostRow(row))
		}
		return nil
	})
	return sum, dear, err
}

// dayBudget is the limit of a day in one environment or, with "", in all together; 0 where one has none.
func dayBudget(cfg *config.Config, environment string) (float64, error) {
	asked := slices.DeleteFunc(slices.Clone(cfg.Environments()), func(e ops.Environment) bool {
		return environment != "" && e.Name != environment
	})
	if len(asked) == 0 {
		return 0, usage(errors.New("no environment is called " + clean(environment)))
	}
	return api.DayBudget(asked), nil
}

func printCosts(w io.Writer, c api.Costs, days int, dear []api.ChainCost) {
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
		fmt.Fprintf(w, "  cycle %d  %s  %s, %d sessions, %s\n", d.CycleID, money(d.CostUSD), d.Status, d.Sessions, stamp(&d.CreatedAt))
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
