package cli

import (
	"errors"
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/store"
)

func (a *app) cooldownsCommand() *cobra.Command {
	c := &cobra.Command{Use: "cooldowns", Aliases: []string{"cooldown"}, Short: "List and clear what was reserved for repairs"}
	c.AddCommand(a.cooldownsList(), a.cooldownsClear())
	return c
}

func (a *app) cooldownsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List services with a cooldown: what is left, and when the next becomes possible",
		RunE: func(c *cobra.Command, _ []string) error {
			if a.remote != nil {
				found, err := a.remote.cooldowns(c.Context())
				if err != nil {
					return fmt.Errorf("list cooldowns: %w", err)
				}
				return a.printCooldowns(found)
			}
			return a.reading(c.Context(), func(s *store.Store, cfg *config.Config) error {
				var found []api.Cooldown
				for _, e := range cfg.Environments() {
					all, err := s.Cooldowns(c.Context(), e.Name, cfg.Guard.Limits, time.Now())
					if err != nil {
						return fmt.Errorf("list cooldowns: %w", err)
					}
					for _, x := range all {
						found = append(found, api.CooldownRow(e.Name, x))
					}
				}
				return a.printCooldowns(found)
			})
		},
	}
}

func (a *app) printCooldowns(found []api.Cooldown) error {
	var rows []any
	for _, x := range found {
		rows = append(rows, x)
	}
	return a.print(rows, tabbed("ENVIRONMENT", "SERVICE", "ACTION", "LEFT", "NEXT POSSIBLE"), func(i int) string {
		x := found[i]
		return tabbed(x.Environment, x.Service, x.Action, fmt.Sprint(x.Left), or(stamp(x.Until), "now"))
	})
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
			return a.acting(c.Context(), func(s hands) error {
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
