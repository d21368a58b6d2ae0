// Package cli is the command line: one file per noun, each with its commands. Data goes to stdout, everything else to
// stderr; errors become the exit codes of exit.go.
package cli
