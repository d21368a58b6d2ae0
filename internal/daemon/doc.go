// Package daemon builds the parts and owns their lifetimes. A Host is everything that works on one state folder:
// Serve runs it until it is asked to stop, Once runs a single cycle.
package daemon
