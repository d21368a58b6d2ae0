// Package claude is the adapter of Claude Code, and of programs that speak its protocol such as the built-in scripted agent.
//
// A session is one `claude -p` with stream-json output; a resumed one forks its conversation. The hook in its settings asks
// the gate before every tool call.
package claude
