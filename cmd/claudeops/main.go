// Command claudeops watches services and repairs them by running agent CLIs in escalating tiers.
package main

import (
	"os"
	"path/filepath"

	"claudeops/internal/cli"
	"claudeops/internal/cli/demo"
	_ "claudeops/internal/guard/early" // the gates start often, so they run before the other packages are initialized
)

// Both can be set by the linker: a system may keep configurations elsewhere, and tests must not read the one of this machine.
var (
	version      = "dev"
	systemConfig = "/etc/claudeops/claudeops.yaml"
)

func main() {
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == demo.CtlName {
		args = append([]string{"demo", "ctl"}, args...)
	}
	os.Exit(cli.Main(args, cli.Process{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Version: version, SystemConfig: systemConfig,
	}))
}
