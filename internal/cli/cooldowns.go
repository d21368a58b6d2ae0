package cli

import (
	"errors"
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
	"claudeops/internal/store"
)

func (a *app) cooldownsCommand() *cobra.Command {
	c := &cobra.Command{Use: "cooldowns", Aliases: []string{"cooldown"}, Short: "List and clear what was reserved for repairs"}
	c.AddCommand(a.cooldownsList(), a.cooldownsClear())
	return c
}

// cooldownRow is what programs read.
type cooldownRow struct {
	Environment string     `json:"environment"`
	Service     string     `json:"service"`
	Action      string     `json:"action"`
	Left        int        `json:"left"`
	Until       *time.Time `json:"until"`
}

func (a *app) cooldownsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List services with a cooldown: what is left, and when the next becomes possible",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.reading(c.Context(), func(s *store.Store, cfg *config.Config) error {
				var rows []any
				var found []cooldownRow
				for _, e := range cfg.Environments() {
					all, err := s.Cooldowns(c.Context(), e.Name, cfg.Guard.Limits, time.Now())
					if err != nil {
						return fmt.Errorf("list cooldowns: %w", err)
					}
					for _, x := range all {
						row := cooldownRow{Environment: e.Name, Service: x.Service, Action: x.Action, Left: x.Left}
						if !x.Until.IsZero() {
							row.Until = &x.Until
						}
						found, rows = append(found, row), append(rows, row)
					}
				}
				return a.print(rows, tabbed("ENVIRONMENT", "SERVICE", "ACTION", "LEFT", "NEXT POSSIBLE"), func(i int) string {
					x := found[i]
					return tabbed(x.Environment, x.Service, x.Action, fmt.Sprint(x.Left), or(stamp(x.Until), "now"))
				})
			})
		},
	}
}

func (a *app) cooldownsClear() *cobra.Command {
	var environment, reason string
	c := &cobra.Command{
		Use: "clear SERVICE restart|redeployment", Short: "Forget what was done to a service, with a reason; audited", Args: cobra.ExactArgs(2),
		Example: `  claudeops cooldowns clear jellyfin restart --reason "the disk was replaced"`,
		RunE: func(c *cobra.Command, args []string) error {
			if args[1] != "restart" && args[1] != "redeployment" {
				return usage(fmt.Errorf("%q is not an action: use restart or redeployment", args[1]))
			}
			if reason == "" {
				return usage(errors.New("--reason is missing: say why, for the record"))
			}
			by := "unknown"
			if u, err := user.Current(); err == nil {
				by = u.Username
			}
			return a.writing(c.Context(), func(s *store.Store) error {
				n, err := s.ClearCooldown(c.Context(), environment, args[0], args[1], reason, by, time.Now())
				if err != nil {
					return fmt.Errorf("clear cooldown of %s: %w", args[0], err)
				}
				fmt.Fprintf(a.Stderr, "%d entries no longer count\n", n)
				return nil
			})
		},
	}
	c.Flags().StringVar(&environment, "environment", "default", "which environment")
	c.Flags().StringVar(&reason, "reason", "", "why, for the record (required)")
	return c
}
