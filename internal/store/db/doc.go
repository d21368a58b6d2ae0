// Package db is the database kernel below the journal. It opens a SQLite file or a database on a PostgreSQL server, runs
// transactions, migrates the schema, encodes values, and backs up, restores, copies and checks whole databases.
//
// It knows tables only through the Schema that it is given. Queries are written once, with ? for each argument and in SQL that
// both databases accept; what differs between them is in the dialect.
//
// Writes go through a single connection, reads through a small pool. Inside a write transaction use only that transaction: asking
// the writer's pool for a second connection never returns.
//
// On a server, Write takes one lock first, as SQLite does by itself. Ids therefore grow in the order of commits, so that a
// reader of "after N" misses no row, and a count that is read before a reservation is exact. WriteUnordered and WriteUrgent skip
// that lock.
package db
