// Package agent supervises agent CLIs as child processes.
//
// One session is one process. An Adapter (adapter.go) knows one CLI: how it is started and what its output means. The Runner
// (runner.go) does everything that is the same for all of them: it sets up the walls, starts the program, decodes and records
// its output (session.go, record.go), enforces limits (watchdog.go) and ends it without leaving a process behind
// (process_unix.go). The shell tool of a CLI starts its commands in POSIX sessions of their own, so killing the CLI or its
// process group is not enough. The result of a session is one ops.RunResult (result.go).
package agent
