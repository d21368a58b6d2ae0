// Command claudeops watches services and repairs what breaks by running agent CLIs in escalating tiers.
package main

import (
	"os"

	"claudeops/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Process{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Version: version,
	}))
}
