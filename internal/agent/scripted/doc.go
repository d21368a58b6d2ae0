// Package scripted is an agent without a model: a player of scenarios that speaks the protocol of Claude Code and really runs its
// commands. The demo and the tutorial use it.
package scripted
