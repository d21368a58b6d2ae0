package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
)

func (a *app) trustCommand() *cobra.Command {
	var environment, reason string
	c := &cobra.Command{
		Use: "trust [SERVICE [LEVEL]]", Short: "Show or change how far agents may go for a service: watch, suggest, ask, repair, full",
		Example: `  claudeops trust
  claudeops trust jellyfin repair --reason "five restarts, all good"`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 2 {
				return a.change(c.Context(), func(s *client) error {
					t, err := s.SetTrust(c.Context(), environment, args[0], args[1], reason)
					if err == nil {
						fmt.Fprintf(a.Stderr, "trust in %s is %s\n", clean(t.Service), t.Level)
					}
					return err
				})
			}
			service := ""
			if len(args) == 1 {
				service = args[0]
			}
			header := tabbed("SERVICE", "TRUST", "ALLOWED", "PROPOSED", "APPROVED", "VERIFIED", "UNDONE", "REFUTED", "NEXT")
			return listRows(c.Context(), a, func(ctx context.Context, s *client) ([]api.Trust, error) {
				return s.Trusts(ctx, environment, service)
			}, header, func(t api.Trust) string {
				return tabbed(clean(t.Service), t.Level, t.Ceiling, fmt.Sprint(t.Proposed), fmt.Sprint(t.Approved), fmt.Sprint(t.Verified),
					fmt.Sprint(t.Undone), fmt.Sprint(t.Refuted), clean(value(t.Next)))
			})
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one)")
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

// Trusts lists how far services are trusted.
func (c *client) Trusts(ctx context.Context, environment, service string) ([]api.Trust, error) {
	return items[api.Trust](ctx, c, "/trust", query("environment", environment, "service", service), 0)
}

// SetTrust changes how far a service is trusted.
func (c *client) SetTrust(ctx context.Context, environment, service, level, reason string) (api.Trust, error) {
	return post[api.Trust](ctx, c, "/trust", map[string]any{"environment": environment, "service": service, "level": level, "reason": reason})
}
