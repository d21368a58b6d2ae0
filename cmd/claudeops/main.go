// Command claudeops watches services and repairs what breaks by running agent CLIs in escalating tiers.
package main

import (
	"os"
	"path/filepath"

	"claudeops/internal/cli"
	"claudeops/internal/daemon"
	"claudeops/internal/gate/client"
	"claudeops/internal/sandbox"
)

// version is set by the linker.
var version = "dev"

func main() {
	// The gates ask many times in a session, so they come before everything else.
	switch {
	case filepath.Base(os.Args[0]) == client.ShellName:
		os.Exit(client.Shell(os.Args[1:], os.Environ(), os.Args[0], os.Stderr))
	case len(os.Args) > 1 && os.Args[1] == daemon.RelayWord:
		os.Exit(sandbox.Relay(os.Args[2:], os.Stderr))
	case len(os.Args) == 4 && os.Args[1] == "guard" && os.Args[2] == "hook":
		os.Exit(client.Hook(os.Stdin, os.Stdout, os.Stderr, os.Args[3]))
	}
	os.Exit(cli.Main(os.Args[1:], cli.Process{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Version: version,
	}))
}
