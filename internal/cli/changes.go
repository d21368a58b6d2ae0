package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
)

func (a *app) changesCommand() *cobra.Command {
	var environment string
	since := time.Now().Add(-24 * time.Hour)
	var limit int
	c := &cobra.Command{
		Use: "changes [SERVICE]", Short: "List what changed on the hosts, newest first: containers, units, packages, clones, disks",
		Long: `Lists what hosts found different between two looks: every five minutes, and when an incident is opened. With a service, it lists
the changes of this service, of what it depends on, and those that concern every service, such as packages. What could not be seen is
named at the end.`,
		Example: `  claudeops changes
  claudeops changes jellyfin --since 2h -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			service := ""
			if len(args) == 1 {
				service = args[0]
			}
			return a.read(c.Context(), func(s *client) error {
				q := query("environment", environment, "service", service, "since", moment(since), "limit", digits(limit))
				found, err := get[api.Changes](c.Context(), s, "/changes?"+q.Encode())
				if err != nil {
					return err
				}
				return a.printOne(found, func(w io.Writer) {
					for _, x := range found.Items {
						fmt.Fprintf(w, "%s  %s  %s %s: %s\n", stamp(&x.At), clean(x.Host), x.Kind, clean(x.Subject), clean(x.Text))
					}
					if len(found.Items) == 0 {
						fmt.Fprintf(w, "Nothing that is looked at has changed since %s.\n", stamp(&since))
					}
					for _, text := range found.Unseen {
						fmt.Fprintf(w, "Not seen: %s\n", clean(text))
					}
				})
			})
		},
	}
	sinceFlag(c, &since, "list what happened since then (default 24h)")
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one)")
	c.Flags().IntVar(&limit, "limit", 50, "maximum number to list, up to 200")
	return c
}
