package main_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"

	"claudeops/test/agenttest"
)

// oldDatabase makes the database that a release with that schema would have left.
func oldDatabase(t *testing.T, path string, schema int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer func() { _ = db.Close() }()
	files := os.DirFS(filepath.Join("..", "..", "internal", "store", "migrations"))
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err == nil {
		_, err = p.UpTo(t.Context(), schema)
	}
	must(t, err)
}

func TestAnOldDatabaseIsCheckedBackedUpAndMigrated(t *testing.T) {
	t.Parallel()
	b := emptyBox(t, plays(agenttest.Healthy(0.1)))
	file := filepath.Join(b.state, "claudeops.db")
	backup := filepath.Join(b.state, "backups", "claudeops-schema-00016.db")
	oldDatabase(t, file, 16)
	for _, step := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"db", "migrate", "--check"}, 5, "00019_costs\n"},
		{[]string{"db", "migrate", "--check"}, 5, "is backed up to " + backup},
		{[]string{"db", "migrate", "--check", "-o", "json"}, 5, `"schema": 16`},
		{[]string{"cycles", "list"}, 1, "older version"},
		{[]string{"db", "migrate"}, 0, "is in " + backup},
		{[]string{"db", "migrate", "--check"}, 0, "nothing to migrate"},
		{[]string{"cycles", "list"}, 0, ""},
		{[]string{"db", "check", backup}, 0, "schema 16, no damage found"},
		{[]string{"db", "restore", backup}, 0, "is restored"},
		{[]string{"db", "migrate", "--check"}, 5, "schema 16"},
		{[]string{"once"}, 0, "backed up before its migration"},
	} {
		r := b.run(step.args...)
		if r.code != step.code {
			t.Errorf("%v exits %d, want %d\n%s%s", step.args, r.code, step.code, r.stdout, r.stderr)
		}
		contains(t, "output", r.stdout+r.stderr, step.says)
	}
	// An older program would see the same: a schema that it does not know.
	raise(t, file)
	for _, args := range [][]string{{"db", "migrate", "--check"}, {"serve"}, {"once"}, {"status"}} {
		r := b.run(args...)
		if r.code != 1 {
			t.Errorf("%v exits %d\n%s", args, r.code, r.stderr)
		}
		contains(t, "output of "+args[0], r.stderr, "newer version of claudeops (version dev, schema 9999; this version dev knows up to schema")
	}
}
