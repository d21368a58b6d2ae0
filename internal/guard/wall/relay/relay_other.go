//go:build !linux

// Package relay is the process in front of bubblewrap, which only Linux has.
package relay

// Word is the first argument that makes this program the relay of a sandbox.
const Word = "sandbox-relay"
