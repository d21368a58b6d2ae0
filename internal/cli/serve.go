package cli

import (
	"runtime/debug"
	"sync"

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
			started := postponeCollection()
			defer started()
			return daemon.Serve(c.Context(), o, func(_ string, h *daemon.Host) {
				started()
				a.welcome(h, o.Logger)
				for _, f := range obstacles(o.Config) {
					o.Logger.Warn("agents may not be able to run", "check", f.Check, "problem", f.Detail, "to_do", f.Fix)
				}
			})
		},
	})
}

// startHeap is how much the start may allocate, in percent of the runtime's smallest heap of 4 MB, before memory is collected. The daemon
// frees what is left over when it has started.
const startHeap = 1000

// postponeCollection keeps the garbage collector from running during the start, which would take a fifth of it. The function that it
// returns ends this.
func postponeCollection() func() {
	usual := debug.SetGCPercent(startHeap)
	return sync.OnceFunc(func() { debug.SetGCPercent(usual) })
}
