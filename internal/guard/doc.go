// Package guard decides, before it runs, whether a tool call of an agent is allowed at the agent's tier.
//
// It is pure: no clock, no file system, no network. What it must know of the installation comes in as Facts.
//
// # How a Bash command is judged
//
//	text      refuse what shells and parsers read differently: control characters, CR, odd comments (text.go, parse.go)
//	parse     mvdan.cc/sh, printed, and parsed again: what is judged is the printed text, and that is what runs
//	walk      every simple command of the tree, with the folder and the variables it would see (walk.go, words.go, vars.go)
//	unwrap    env, timeout, sh -c, ssh, docker exec and the like: their inner command is judged too (program.go)
//	look up   program, subcommand, options and operands in the tables of tables/*.rules (table.go, call.go)
//	judge     each value and operand by its role: a file, a host, a script… (roles.go), and what tables cannot say (judge_*.go)
//	collect   the effects that a cooldown counts, by the canonical name of the service (decision.go)
//
// Each part yields the lowest tier that may do it, or a refusal. The strictest part wins; the never list and the
// product's own files come before everything else. What cannot be decided from the text alone is refused, and so is every
// program, subcommand and option that the tables do not list. The text that is handed out to run switches on the safe modes
// of programs (rules.go).
//
// The knowledge of programs is data. Guard.Page prints it for people; operators add rules of their own in YAML, each
// with examples that are checked when the file is read.
package guard
