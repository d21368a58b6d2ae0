// Package store keeps the journal of every cycle in a database and is its only writer.
//
// The journal is the truth: what is not written here has not happened. Three rules hold it together.
//
// One transaction per transition. The end of a session, the decision about it, the events and notices that tell of it
// and the intent to run the next session are written together or not at all.
//
// Every journal write is fenced. A process registers its host and gets a term; a cycle carries the host and term that
// claimed it. A write is refused when either is no longer current, so a process that was replaced, or that lost its
// cycle, cannot change what its successor reads.
//
// The slot is an index. At most one cycle per environment is running because the database refuses a second one.
//
// People answer beside the worker. An answer is a compare-and-set that needs no owner: the first one counts, and the others
// learn whose it was. It raises the wake number of the cycle, so that neither a waiting cycle nor one that is just about to
// wait misses it. Money is reserved in the transaction that starts a session, so no two sessions spend the same.
//
// Writes go through a single connection, reads through a small pool of their own. Inside an open write transaction only
// the transaction may be used: asking the writer's pool for a second connection would wait for ever.
//
// There are two databases and one text. The journal lives in a SQLite file, or on a PostgreSQL server that several hosts share;
// what differs is the dialect. On a server every write takes one lock first, as the file does by nature: ids grow in the order
// of commits, so that who reads "after N" misses nothing, and what is counted before it is given out is counted exactly. Two
// kinds of writes go beside it. Output of a session, which only its owner writes, takes the row of its session instead, and
// so does everybody who takes a running cycle over (awaitOutput). And the leases of hosts, each a single row.
package store
