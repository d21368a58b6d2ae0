// Package acp is the adapter of every agent CLI that speaks the Agent Client Protocol: JSON-RPC, one message per line, on the
// standard input and output of the CLI. What differs between CLIs is a profile, which is data (profile.go).
//
// Asking for permission is optional in the protocol, so it is a way to drive a CLI and not what holds it. Each call that a CLI asks
// about is judged by the guard and allowed once, or refused. A call that ran and was not allowed ends the session. A version of a
// CLI runs only after a trial has shown that it asks (canary.go), and above Tier 1 only behind the walls of the operating system.
//
// The messages are read here and not by a library: output is read, bounded, redacted and recorded line by line by the Runner, and
// whether a call ran before it was allowed can be seen only where all messages are handled in their order.
package acp
