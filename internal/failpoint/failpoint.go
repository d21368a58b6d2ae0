//go:build !failpoint

// Package failpoint names the places where a crash must do no harm.
//
// A normal build does nothing at them. A build with the tag "failpoint" can be told by its environment to kill itself
// at one of them, so that a test can prove what a restart finds.
package failpoint

import "time"

// Hit marks a named place; it does nothing in a normal build. The parts of the name are given apart, so that nothing is
// put together where nobody reads it.
func Hit(...string) {}

// Clock returns the clock; a test build can set it forward and back.
func Clock(clock func() time.Time) func() time.Time { return clock }

// Wait returns how long something is waited for; a test build can shorten it by name.
func Wait(_ string, d time.Duration) time.Duration { return d }
