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
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := a.options()
			if err != nil {
				return err
			}
			return daemon.Serve(c.Context(), o, nil)
		},
	})
}
