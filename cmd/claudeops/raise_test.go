package main_test

import (
	"database/sql"
	"os"
	"testing"

	_ "modernc.org/sqlite" // the driver
)

// raise makes a database look as if a later version had written it.
func raise(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`); err != nil {
		t.Fatal(err)
	}
}

// forget takes away what is known of the records of conversations, so that only the CLI itself can refuse one.
func forget(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(`UPDATE sessions SET conversation_path = NULL, conversation_sha = NULL`); err != nil {
		t.Fatal(err)
	}
}

// stateFolder is a state folder whose path leaves room for a socket, and which another user can reach.
func stateFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "co") //nolint:usetesting // the path of t.TempDir is too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
