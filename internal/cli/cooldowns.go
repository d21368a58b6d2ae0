package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
)

func (a *app) cooldownsCommand() *cobra.Command {
	c := &cobra.Command{Use: "cooldowns", Aliases: []string{"cooldown"}, Short: "List and clear repair rate limits"}
	c.AddCommand(a.cooldownsList(), a.cooldownsClear())
	return c
}

func (a *app) cooldownsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List services that were restarted or redeployed recently, with how often it is still allowed",
		RunE: func(c *cobra.Command, _ []string) error {
			header := tabbed("ENVIRONMENT", "SERVICE", "ACTION", "LEFT", "NEXT POSSIBLE")
			return listRows(c.Context(), a, func(ctx context.Context, s *client) ([]api.Cooldown, error) {
				return s.Cooldowns(ctx, "")
			}, header, func(x api.Cooldown) string {
				return tabbed(x.Environment, x.Service, x.Action, fmt.Sprint(x.Left), or(a.screen.when(x.Until), "now"))
			})
		},
	}
}

func (a *app) cooldownsClear() *cobra.Command {
	var environment, reason string
	c := &cobra.Command{
		Use: "clear SERVICE restart|redeployment|ACTION", Short: "Reset the rate limit of a service; recorded with your reason",
		Long:    "Resets a rate limit of a service: that of restarts, of redeployments, or of an action that has a cooldown of its own.",
		Args:    cobra.ExactArgs(2),
		Example: `  claudeops cooldowns clear jellyfin restart --reason "the disk was replaced"`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.change(c.Context(), func(s *client) error {
				n, err := s.ClearCooldown(c.Context(), environment, args[0], args[1], reason)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "%s no longer counted\n", plural(n, "entry is", "entries are"))
				return nil
			})
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "environment of the service (default: the first one configured)")
	c.Flags().StringVar(&reason, "reason", "", "why, for the record (required)")
	return c
}
