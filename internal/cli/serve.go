package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/api"
	"claudeops/internal/api/mcpserver"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
)

func (a serving) serveCommand() *cobra.Command {
	return a.withSettings(&cobra.Command{
		Use: "serve", SuggestFor: []string{"start", "restart", "up", "daemon"},
		Short: "Run the daemon: schedule, agents, web pages",
		Example: `  claudeops serve
  CLAUDEOPS_DRY_RUN=true claudeops serve --interval 10m`,
		Long: `Runs the daemon until it is stopped. The web pages and the API need a token: CLAUDEOPS_API_TOKEN, or the one that the daemon makes
at its first start (api-token in the state folder). On a terminal, a link that signs your browser in is printed; elsewhere run
'claudeops open'.

SIGTERM and SIGINT stop it. SIGHUP and 'claudeops reload' read the configuration again: a valid one is in effect at once, pages and
sessions go on, and a wrong one changes nothing. A closed terminal stops it.
systemd is told when the daemon is ready, reloads, stops and works (Type=notify, WatchdogSec=).`,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.variable("GOGC") == "" {
				debug.SetGCPercent(restingHeap) // from the start: a large configuration is read only once
			}
			o, err := a.options()
			if err != nil {
				return err
			}
			o.Service = daemon.NewService(o.Logger)
			return a.serve(c.Context(), o)
		},
	})
}

// serve runs the daemon until ctx ends.
func (a serving) serve(ctx context.Context, o daemon.Options) (err error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	asked, hangups := make(chan struct{}, 1), make(chan os.Signal, 1)
	warn := func(o daemon.Options) {
		for _, f := range obstacles(o.Config) {
			o.Logger.WarnContext(ctx, "agents may not be able to run", "check", f.Check, "problem", f.Detail, "to_do", f.Fix)
		}
	}
	o.Hangups, o.Load = asked, func() (daemon.Options, error) {
		next, err := a.options()
		if err == nil {
			warn(next)
		}
		return next, err
	}
	if attended := attached(); !attended || !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangups, syscall.SIGHUP)
		var listening sync.WaitGroup
		listening.Go(func() {
			for range hangups {
				if attended && !attached() { // its terminal was closed
					leave(errTerminated)
					continue
				}
				select {
				case asked <- struct{}{}:
				default: // it is asked to already
				}
			}
		})
		defer listening.Wait()
		defer close(hangups)
		defer signal.Stop(hangups)
	}
	return daemon.Serve(ctx, o, func(_ string, signIn daemon.SignIn) {
		a.welcome(ctx, signIn, o.Logger)
		warn(o)
	})
}

// attached reports whether the process has a terminal, which sends it SIGHUP when it is closed.
func attached() bool {
	tty, err := os.Open("/dev/tty")
	if err == nil {
		_ = tty.Close()
	}
	return err == nil
}

// restingHeap is by how much the heap of a running daemon may grow before memory is collected, in percent of what is in use. Its heap is
// small and it rests most of the time, so that collecting five times as often as usual costs little.
const restingHeap = 20

func (a serving) mcpCommand() *cobra.Command {
	var write bool
	c := a.anywhere(&cobra.Command{
		Use: "mcp", Short: "Offer the records to your own agent, as an MCP server on standard input and output",
		Long: `Starts an MCP server on standard input and output for your own agent, for example Claude Code on your laptop. Its tools read
incidents, cycles, transcripts, services, costs, the guard and the configuration of the running daemon, here or at --server. Without a
daemon they read the local database.

With --enable-write there are also tools to start a cycle, acknowledge or snooze an incident and add a silence. They need a running
daemon, and every use is recorded. No tool approves a step, clears a rate limit or changes the configuration.

Answers are cut to 48 KiB and marked as untrusted data, because agents and services wrote parts of them.`,
		Example: `  claude mcp add claudeops -- claudeops mcp
  claude mcp add claudeops -- claudeops mcp --server https://ops.example.org --token-file ~/.claudeops-token`,
		RunE: func(c *cobra.Command, _ []string) error { return a.serveMCP(c.Context(), write) },
	})
	c.Flags().BoolVar(&write, "enable-write", false, "offer the tools that start a cycle, acknowledge, snooze and silence")
	return c
}

// errNoWrite is why a tool cannot change anything.
var errNoWrite = errors.New("no daemon is running on this state folder: start it with 'claudeops serve', or name one with --server")

func (a serving) serveMCP(ctx context.Context, write bool) error {
	if process.InSession() {
		return errInSession
	}
	if a.remote == nil {
		if err := a.useDaemon(ctx); err != nil {
			return err
		}
	}
	serve := func(asked mcpserver.API) error {
		return mcpserver.Serve(ctx, mcpserver.Options{API: asked, Write: write, Version: a.Version}, a.Stdin, a.Stdout)
	}
	if a.remote != nil {
		return serve(a.remote)
	}
	a.quiet = true
	return a.read(ctx, func(c *client) error { return serve(onlyReads{c}) })
}

// onlyReads refuses changes: without a daemon, nothing would check or record them.
type onlyReads struct{ mcpserver.API }

func (o onlyReads) Ask(ctx context.Context, r mcpserver.Request) ([]byte, error) {
	if r.Method != http.MethodGet {
		return nil, errNoWrite
	}
	return o.API.Ask(ctx, r)
}

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
