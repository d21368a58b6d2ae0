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

// restingHeap is by how much the heap of a running daemon may grow before memory is collected, in percent of what is in use. Its heap is
// small and it rests most of the time, so that collecting twice as often as usual costs little.
const restingHeap = 50

// postponeCollection keeps the garbage collector from running during the start, which would take a fifth of it. The function that it
// returns ends this. A percentage that the operator has set with GOGC is kept.
func postponeCollection() func() {
	const byDefault = 100
	usual := debug.SetGCPercent(startHeap)
	if usual == byDefault {
		usual = restingHeap
	}
	return sync.OnceFunc(func() { debug.SetGCPercent(usual) })
}
