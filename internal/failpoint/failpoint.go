//go:build !failpoint

// Package failpoint names the places where a crash must do no harm.
//
// A normal build does nothing at them. A build with the tag "failpoint" can be told by its environment to kill itself
// at one of them, so that a test can prove what a restart finds.
package failpoint

// Hit marks a named place; it does nothing in a normal build.
func Hit(string) {}
