// Command claudeops watches services and repairs them by running agent CLIs in escalating tiers.
package main

import (
	"os"

	"claudeops/internal/cli"
	_ "claudeops/internal/guard/early" // the gates start often, so they run before the other packages are initialized
)

// Both can be set by the linker: a system may keep configurations elsewhere, and tests must not read the one of this machine.
var (
	version      = "dev"
	systemConfig = "/etc/claudeops/claudeops.yaml"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Process{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Version: version, SystemConfig: systemConfig,
	}))
}
