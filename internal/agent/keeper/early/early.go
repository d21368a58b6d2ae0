// Package early makes the program the keeper of the sessions before anything else of it is set up, so that the keeper needs little
// memory. The package claudeops/internal/guard/early says why this works.
package early

import (
	"os"
	"syscall"

	"claudeops/internal/agent/keeper"
)

func init() { //nolint:gochecknoinits // see the package comment
	if len(os.Args) > 1 && os.Args[1] == keeper.Word {
		syscall.Exit(keeper.Main(os.Args[2:])) // nothing else is to be cleaned up
	}
}
