package cli

import (
	"github.com/spf13/cobra"

	"claudeops/internal/agent/scripted"
	"claudeops/internal/mcp"
)

// agentCommand is the built-in agent: the supervisor starts it like any agent CLI.
func (a *app) agentCommand() *cobra.Command {
	c := &cobra.Command{Use: "agent", Short: "Agents built into this program", Hidden: true}
	c.AddCommand(&cobra.Command{
		Use: "scripted", Short: "Play a scenario in the protocol of Claude Code", DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return quietly(scripted.Main(c.Context(), args, a.Environ, a.Stdin, a.Stdout, a.Stderr))
		},
	})
	c.AddCommand(&cobra.Command{
		Use: "tools SOCKET", Short: "Offer the supervisor's tools to an agent, as an MCP server", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return mcp.Serve(c.Context(), mcp.Options{Socket: args[0], Environ: a.Environ, Version: a.Version})
		},
	})
	return c
}
