// Package agent runs agent CLIs as supervised child processes.
//
// One session is one process. Its standard output is decoded while it runs (stream.go), every line
// is redacted and handed to a recorder in batches (record.go), limits are watched (watchdog.go), and
// however it ends, nothing of it is left behind (process_unix.go): the CLI's shell tool puts its
// commands into POSIX sessions of their own, so neither killing the CLI nor its process group is
// enough. What became of it all is said in one ops.RunResult.
package agent
