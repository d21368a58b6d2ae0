//go:build !failpoint

// Package failpoint marks the points where a crash must do no harm.
//
// A normal build does nothing there. In a build with the tag "failpoint", the environment can select a point at which the
// process kills itself, so that a test can check the next start.
package failpoint

import "time"

// Hit marks a failpoint; it does nothing in a normal build. The parts of the name are passed separately, so that a normal
// build does not join them.
func Hit(...string) {}

// Clock returns the clock; a test build can shift it.
func Clock(clock func() time.Time) func() time.Time { return clock }

// Wait returns the duration; a test build can shorten it by name.
func Wait(_ string, d time.Duration) time.Duration { return d }
