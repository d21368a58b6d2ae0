//go:build !linux

// Package relay is the process in front of a session; agents run on Linux only.
package relay

// Word is the first argument that makes this program the relay of a session, Plain the next one where there is no bubblewrap.
const (
	Word  = "sandbox-relay"
	Plain = "--"
)

// Notice is the name of the file that covers what is hidden, and that lies in hidden folders.
const Notice = "NOT-VISIBLE-TO-AGENTS"
