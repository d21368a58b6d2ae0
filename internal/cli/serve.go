package cli

import (
	"github.com/spf13/cobra"

	"claudeops/internal/daemon"
)

func (a *app) serveCommand() *cobra.Command {
	return a.withSettings(&cobra.Command{
		Use:   "serve",
		Short: "Run the daemon: schedule, agents, web pages",
		Example: `  claudeops serve
  CLAUDEOPS_DRY_RUN=true claudeops serve --interval 10m`,
		Long: `Runs the daemon until it is stopped. The web pages and the API need a token: CLAUDEOPS_API_TOKEN, or the one that the daemon makes
at its first start (api-token in the state folder). On a terminal, a link that signs your browser in is printed; elsewhere run
'claudeops open'.`,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := a.options()
			if err != nil {
				return err
			}
			return daemon.Serve(c.Context(), o, func(_ string, h *daemon.Host) {
				a.welcome(h, o.Logger)
				for _, f := range obstacles(o.Config) {
					o.Logger.Warn("agents may not be able to run", "check", f.Check, "problem", f.Detail, "to_do", f.Fix)
				}
			})
		},
	})
}
