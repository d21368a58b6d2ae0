// Package daemon puts the parts together and owns their lives. A Host is everything that works on one state folder:
// Serve runs it until it is told to stop, Once takes it through a single cycle.
package daemon
