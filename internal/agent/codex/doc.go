// Package codex is the adapter of the Codex CLI.
//
// A session is one `codex exec --json`, a resumed one `codex exec fork`: the conversation it continues stays as it was, as
// with Claude Code. The program has no decision hook that could be relied on, so what holds a session to its tier is the
// operating system (layers.go): at Tier 1 and in a dry run Codex's own read-only sandbox, which is tried first, unless our
// walls have Landlock; above, our own bubblewrap wall. Where that layer is not there, nothing is started. Behind our walls
// the shells that Codex starts are the gate, so that the guard judges its commands.
//
// Codex tells tokens of the whole conversation and no cost. The share of a run is the difference to what the record of the
// continued conversation says (record.go, usage.go), its cost comes from a table of prices.
package codex
