package cli

import (
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
					t, err := post[api.Trust](c.Context(), s, "/trust", map[string]any{
						"environment": environment, "service": args[0], "level": args[1], "reason": reason,
					})
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
			return a.read(c.Context(), func(s *client) error {
				rows, err := items[api.Trust](c.Context(), s, "/trust", query("environment", environment, "service", service), mostItems)
				if err != nil {
					return err
				}
				return printRows(a, rows, header, func(t api.Trust) string {
					return tabbed(clean(t.Service), t.Level, t.Ceiling, fmt.Sprint(t.Proposed), fmt.Sprint(t.Approved), fmt.Sprint(t.Verified),
						fmt.Sprint(t.Undone), fmt.Sprint(t.Refuted), clean(value(t.Next)))
				})
			})
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one)")
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}
