// Package store keeps the journal of every cycle in a database and is its only writer. Package db below it is the database
// itself; this package is what the journal means.
//
// The journal is the truth: what is not written here has not happened. These rules hold it together.
//
// One transaction per transition. The end of a session, the decision about it, its events and notices, and the intent to run the
// next session are written together or not at all (Commit).
//
// Every journal write is fenced. A process registers its host and gets a term; a cycle has the host and term that claimed it. A
// write is refused when either is no longer current, so a process that was replaced, or that lost its cycle, cannot change what
// its successor reads.
//
// The slot is an index. At most one cycle per environment is running because the database refuses a second one.
//
// People answer independently of the worker. An answer is a compare-and-set that needs no owner: the first one counts, and the
// others get an error that says who answered first. It raises the wake number of the cycle, so that neither a waiting cycle nor
// one that is about to wait misses it. Money is reserved in the transaction that starts a session, so that no two sessions spend
// the same.
//
// Writes are serialized (db.Write), with two exceptions. The output of a session, which only its owner writes, locks the row of
// its session instead, and so does taking over a running cycle (awaitOutput). The lease of a host is a single row.
//
// The database has parts over one kernel, which the files are named after: journal_ (Journal) is what a worker reads and writes, people_
// (People) what people see and answer, watch_ (Watch) what starts cycles, guard_ (Acts) what tool calls and actions may do, report_
// (Reports) what pages and metrics show. Each has at most 60 methods.
package store
