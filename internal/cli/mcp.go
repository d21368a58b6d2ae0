package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/api"
	"claudeops/internal/api/mcpserver"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/guard"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) mcpCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{
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
	}
	c.Flags().BoolVar(&write, "enable-write", false, "offer the tools that start a cycle, acknowledge, snooze and silence")
	return a.withFlags(c, config.StateFlags)
}

// errNoWrite is why a tool cannot change anything.
var errNoWrite = errors.New("no daemon is running on this state folder: start it with 'claudeops serve', or name one with --server")

func (a *app) serveMCP(ctx context.Context, write bool) error {
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
	return a.reading(ctx, func(s *store.Store, cfg *config.Config) error {
		envs, err := trusting(ctx, cfg)
		if err != nil {
			return err
		}
		judge := sync.OnceValues(func() (*guard.Guard, error) { return daemon.NewJudge(cfg) })
		return serve(onlyReads{mcpserver.Direct{Handler: api.New(api.Options{
			Store: s, Control: noDaemon{}, Logger: slog.New(slog.DiscardHandler), Clock: s.Clock, Version: a.Version, Environments: envs,
			Guard: daemon.Explainer(cfg, judge), CheckConfig: a.configRow,
		})}})
	})
}

// onlyReads refuses to change anything: there is no daemon that would check and record it.
type onlyReads struct{ mcpserver.API }

func (o onlyReads) Ask(ctx context.Context, r mcpserver.Request) ([]byte, error) {
	if r.Method != http.MethodGet {
		return nil, errNoWrite
	}
	return o.API.Ask(ctx, r)
}

// noDaemon is the control of a supervisor that does not run.
type noDaemon struct{}

func (noDaemon) Submit(context.Context, ops.NewCycle) (ops.CycleID, error) { return 0, errNoWrite }
func (noDaemon) Cancel(context.Context, ops.CycleID, string) error         { return errNoWrite }
func (noDaemon) Wake(ops.CycleID)                                          {}

// Ask sends the request of a tool to the server.
func (c *client) Ask(ctx context.Context, r mcpserver.Request) ([]byte, error) {
	q, err := mcpserver.NewRequest(ctx, c.base, r)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(q)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	return mcpserver.Answer(answer.StatusCode, text)
}
