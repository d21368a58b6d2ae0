// Package confine puts walls of the kernel around the process that calls it, just before that process becomes another program: no
// capabilities, no new privileges, Landlock, a seccomp filter and limits. A process that is confined this way cannot undo it, and
// everything it starts is confined too.
//
// The package uses the standard library only. The thin client of the gates imports it, and what that client imports is initialized
// before every tool call.
package confine
