//go:build !linux

package daemon

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// missingSystem says what a daemon lacks here.
func missingSystem() error {
	return errors.New("the daemon does not run on " + runtime.GOOS + ": it needs Linux for the walls around agents (Landlock, seccomp, control " +
		"groups, bubblewrap) and to end their processes; run it on a Linux machine, and use this program with --server URL")
}

func hideEnvironment(context.Context) error { return nil }

func uptime() time.Duration { return time.Duration(time.Now().UnixNano()) }

func machineMemory() int64 { return 0 }

// KeepCapabilities has nothing to do here.
func KeepCapabilities() error { return nil }

func heldCapabilities() []uintptr { return nil }
