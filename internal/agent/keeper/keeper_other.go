//go:build !linux

package keeper

import "time"

// Agents run on Linux only, so elsewhere there is nothing to keep.
func ignoreSignals() {}

func uptime() time.Duration { return time.Duration(time.Now().UnixNano()) }
