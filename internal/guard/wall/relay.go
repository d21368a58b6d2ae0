//go:build linux

package wall

import (
	"io"

	"claudeops/internal/guard/wall/confine"
)

// Relay runs bubblewrap and passes signals on to the agent inside; see confine.Relay.
func Relay(args []string, stderr io.Writer) int { return confine.Relay(args, stderr) }
