package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
)

func (a *app) openCommand() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use:   "open [CYCLE]",
		Short: "Print a link that signs your browser in to the web pages",
		Args:  cobra.MaximumNArgs(1),
		Long: `Asks the running daemon for a link to the web pages and prints it. Open it in your browser: it signs you in, without the token. The
link works once, within ten minutes; treat it like a password until then. With the id of a cycle it leads to the page of that cycle. The
command must run as the user of the daemon, as root, or as a member of the group claudeops, on the machine of the daemon.`,
		Example: `  claudeops open
  claudeops open 57
  xdg-open "$(claudeops open)"
  ssh ops.lan -L 8080:127.0.0.1:8080 claudeops open`,
		RunE: func(c *cobra.Command, args []string) error {
			next := ""
			if len(args) == 1 {
				id, err := number(strings.TrimPrefix(strings.ToUpper(args[0]), "C-"))
				if err != nil {
					return err
				}
				next = "&next=" + url.QueryEscape(fmt.Sprintf("/cycles/%d", id))
			}
			if process.InSession() {
				return errInSession
			}
			cfg, err := a.load()
			if err != nil {
				return err
			}
			reply, err := control.SignIn(c.Context(), cfg.StateDir)
			if errors.Is(err, control.ErrNoDaemon) {
				return fmt.Errorf("%w: %s; start it with 'claudeops serve', or name the folder with --state-dir", err, cfg.StateDir)
			}
			if err != nil {
				return err
			}
			link := reply.Link + next
			return a.printOne(map[string]string{"link": link}, func(w io.Writer) { fmt.Fprintln(w, link) })
		},
	}, config.StateFlags)
}

// welcome says how to sign in. The link is only shown on a terminal: agents may read logs.
func (a *app) welcome(h *daemon.Host, logger *slog.Logger) {
	var screen io.Writer
	switch {
	case terminal(a.Stderr):
		screen = a.Stderr
	case terminal(a.Stdout):
		screen = a.Stdout
	default:
		logger.Info("to sign in to the web pages, run 'claudeops open'")
		return
	}
	link, err := h.SignInLink(person())
	if err != nil {
		return // there are no pages
	}
	fmt.Fprintf(screen, "\n  Open %s\n  The link signs you in once, within ten minutes. Later: claudeops open\n\n", link)
}
