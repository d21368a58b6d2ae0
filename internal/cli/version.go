package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version",
		RunE: func(*cobra.Command, []string) error {
			return a.printOne(map[string]string{"version": a.Version, "go": runtime.Version()}, func(w io.Writer) {
				fmt.Fprintf(w, "claudeops %s (%s)\n", a.Version, runtime.Version())
			})
		},
	}
}
