package cli

import (
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/api/mcpserver"
	"claudeops/internal/config"
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
		return serve(a.remote.tools())
	}
	a.quiet = true
	return a.read(ctx, func(c *client) error { return serve(onlyReads{c.tools()}) })
}

// onlyReads refuses to change anything: there is no daemon that would check and record it.
type onlyReads struct{ mcpserver.API }

func (o onlyReads) Ask(ctx context.Context, r mcpserver.Request) ([]byte, error) {
	if r.Method != http.MethodGet {
		return nil, errNoWrite
	}
	return o.API.Ask(ctx, r)
}

// tools is the API as the tools of an agent ask it.
func (c *client) tools() mcpserver.Remote {
	return mcpserver.Remote{Base: c.base, Token: c.token, Client: c.http, Most: mostAnswer}
}
