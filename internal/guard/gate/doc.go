// Package gate answers the questions an agent's CLI asks before it does something. Every session has a socket of
// its own, so that tier and session are known by where a question comes in and never by what it says. There are
// two gates: the hook, before the CLI calls a tool, and the shell, before a command runs. What is answered was
// judged and recorded before; whatever goes wrong on the way is a refusal.
package gate
