package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/daemon/control"
)

func (a *app) stopCommand() *cobra.Command {
	var reason string
	c := a.anywhere(&cobra.Command{
		Use: "stop", Short: "Stop everything now, on all hosts: agents end, and nothing starts until 'claudeops resume'",
		Long: `Agents end within seconds and their cycles are cancelled. No cycle, reflex, step of a plan or update starts, on any host,
also after a restart. An action in flight ends, and an update in its watch is judged to its end. Probes, incidents and notices go on;
once and run end with exit code 7. 'claudeops resume' takes it back.`,
		Example: `  claudeops stop --reason "somebody works on the switch"`,
		Args:    cobra.NoArgs,
		RunE: on(a.change, func(c *cobra.Command, s *client, _ []string) error {
			h, err := post[api.Standstill](c.Context(), s, "/stop", because(reason))
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "everything is stopped (%s); 'claudeops resume' lets it work again\n", stamp(h.At))
			return a.wake(c.Context())
		}),
	})
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

func (a *app) resumeCommand() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "resume", Short: "Take 'claudeops stop' back: agents, reflexes, plans and updates start again", Args: cobra.NoArgs,
		RunE: on(a.change, func(c *cobra.Command, s *client, _ []string) error {
			if err := s.ask(c.Context(), http.MethodDelete, "/stop", nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, "Claude Ops works again; 'claudeops run' looks at what is still wrong")
			return a.wake(c.Context())
		}),
	})
}

func (a *app) reloadCommand() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "reload", Short: "Let the daemon read its configuration again; a wrong one changes nothing", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.remote == nil {
				if err := a.useDaemon(c.Context()); err != nil {
					return err
				}
			}
			if a.remote == nil {
				return fmt.Errorf("%w; the next start reads the configuration", control.ErrNoDaemon)
			}
			found, err := post[api.ConfigCheck](c.Context(), a.remote, "/config/reload", nil)
			if err == nil {
				fmt.Fprintf(a.Stderr, "%s is read again and in effect; sessions that run go on\n", or(value(found.File), "the environment"))
			}
			return err
		},
	})
}
