package cli

import (
	"github.com/spf13/cobra"

	"claudeops/internal/agent/scripted"
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
	return c
}
