package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

// lived is a file with a row in every table, among them texts that are hard to carry.
func lived(t *testing.T) string {
	t.Helper()
	path := filled(t)
	db := raw(t, path)
	const at = `'2026-03-14T11:00:00.000000Z'`
	runAll(t, db, []string{
		`INSERT INTO store_state (name, value) VALUES ('open', 'x'), ('kept', 'y')`,
		`INSERT INTO probe_states (environment, service, probe, level, since, state) VALUES ('home', 'web', 'http', 'healthy', ` + at + `, '{}')`,
		`INSERT INTO duties (name, host, term, expires_at) VALUES ('people', 'host-a', 1, '2026-03-14T11:00:00.000000Z')`,
		// A redeployment: the first half refers to the row that closes it, which comes later.
		`INSERT INTO cooldown_actions (environment, service, action, half, cycle_id, session_id, status, counts, reserved_at)
			VALUES ('home', 'db', 'redeployment', 'open', 1, 2, 'closed', TRUE, ` + at + `)`,
		`INSERT INTO cooldown_actions (environment, service, action, half, cycle_id, session_id, status, counts, covered_by, reserved_at)
			VALUES ('home', 'db', 'redeployment', 'close', 1, 2, 'covered', FALSE, 2, ` + at + `)`,
		`UPDATE cooldown_actions SET closed_by = 3 WHERE id = 2`,
		// A number that was given to a row that is gone.
		`INSERT INTO memories (environment, category, service, observation, confidence, created_at, updated_at)
			VALUES ('home', 'x', 'y', 'z', 0.5, ` + at + `, ` + at + `)`,
		`DELETE FROM memories WHERE id = 2`,
		`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
			INSERT INTO transcript (session_id, seq, at, line) SELECT 3, i, ` + at + `, 'line ' || i FROM n`,
		`UPDATE sessions SET transcript_lines = 6 WHERE id = 2`,
	})
	for i, line := range []string{
		"", "ünïcödé 🙂", "two\nlines", `quote ' " \ ? $1 %s`, strings.Repeat("long ", 100_000),
		"\x1b[31mred\x1b[0m",
	} {
		run(t, db, `INSERT INTO transcript (session_id, seq, at, line) VALUES (2, ?, `+at+`, ?)`, i, line)
	}
	succeeds(t, db.Close())
	return path
}

func copyAll(t *testing.T, from, to *store.Store) []store.Copied {
	t.Helper()
	seen := map[string]int64{}
	copied, err := store.Copy(t.Context(), from, to, func(table string, rows int64) { seen[table] = rows })
	succeeds(t, err)
	for _, c := range copied {
		if seen[c.Table] != c.Rows {
			t.Errorf("of %s %d rows were told and %d copied", c.Table, seen[c.Table], c.Rows)
		}
	}
	return copied
}

func TestACopyGoesToPostgreSQLAndBack(t *testing.T) {
	path := lived(t)
	first := openFile(t, path)
	server := openServer(t, pgtest.URL(t))
	there := copyAll(t, first, server)
	back := openFile(t, filepath.Join(t.TempDir(), "back.db"))
	returned := copyAll(t, server, back)
	if !slices.Equal(there, returned) {
		t.Errorf("there %+v\nback  %+v", there, returned)
	}
	var rows int64
	for _, c := range there {
		rows += c.Rows
		if c.Rows == 0 || len(c.Hash) != 64 {
			t.Errorf("%+v", c)
		}
	}
	if rows < 1200 {
		t.Errorf("%d rows in all", rows)
	}
	want := journalText(t, first)
	for name, s := range map[string]*store.Store{"PostgreSQL": server, "back on SQLite": back} {
		sound(t, s)
		if got := journalText(t, s); got != want {
			t.Errorf("%s reads\n%s\nwant\n%s", name, got, want)
		}
		// A number is never given twice.
		id, err := s.People.AddMemory(t.Context(), ops.Memory{Environment: "home", Category: "x", Observation: "new"})
		if err != nil || id != 3 {
			t.Errorf("%s: the next memory is %d, %v", name, id, err)
		}
		goesOn(t, s)
	}
}

// journalText is what several reads tell.
func journalText(t *testing.T, s *store.Store) string {
	t.Helper()
	var out []any
	for id := ops.CycleID(1); id <= 2; id++ {
		c, err := s.Journal.Load(t.Context(), id)
		succeeds(t, err)
		out = append(out, c)
	}
	events, err := s.Journal.Events(t.Context(), store.EventFilter{})
	succeeds(t, err)
	lines, err := s.Journal.Transcript(t.Context(), 1, 0, 1000)
	succeeds(t, err)
	cooldowns, err := s.Acts.Cooldowns(t.Context(), "home", []ops.CooldownLimit{{Action: "restart", Count: 2, Window: 100 * time.Hour}},
		storetest.Start)
	succeeds(t, err)
	raw, err := json.MarshalIndent(append(out, events, lines, cooldowns), "", " ")
	succeeds(t, err)
	return string(raw)
}

func TestACopyFillsOnlyWhatIsEmpty(t *testing.T) {
	from := openFile(t, lived(t))
	address := pgtest.URL(t)
	for name, to := range map[string]*store.Store{"SQLite": openFile(t, newFile(t)), "PostgreSQL": openServer(t, address)} {
		storetest.NewFixture(t, to)
		before := len(mustHosts(t, to))
		_, err := store.Copy(t.Context(), from, to, func(string, int64) {})
		if !errors.Is(err, ops.ErrConflict) || !strings.Contains(err.Error(), "hosts") {
			t.Errorf("%s: error is %v", name, err)
		}
		if after := len(mustHosts(t, to)); after != before {
			t.Errorf("%s: %d hosts before, %d after", name, before, after)
		}
	}
}

func mustHosts(t *testing.T, s *store.Store) []ops.Host {
	t.Helper()
	hosts, err := s.Journal.Hosts(t.Context())
	succeeds(t, err)
	return hosts
}

func TestACopyThatIsCutLeavesNothing(t *testing.T) {
	from := openFile(t, lived(t))
	for name, to := range map[string]*store.Store{"SQLite": openFile(t, newFile(t)), "PostgreSQL": openServer(t, pgtest.URL(t))} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := store.Copy(ctx, from, to, func(table string, _ int64) {
			if table == "transcript" {
				cancel()
			}
		})
		if err == nil {
			t.Errorf("%s: a copy that was cut says nothing", name)
		}
		if n := len(mustHosts(t, to)); n > 0 {
			t.Errorf("%s: %d hosts are left", name, n)
		}
		copyAll(t, from, to)
	}
}

// What a PostgreSQL text cannot hold is marked there, and said so.
func TestACopyTellsWhatCannotBeCarried(t *testing.T) {
	const at = `'2026-03-14T11:00:00.000000Z'`
	path := lived(t)
	db := raw(t, path)
	run(t, db, `INSERT INTO transcript (session_id, seq, at, line) VALUES (2, 100, `+at+`, ?), (2, 101, `+at+`, ?)`, "zero \x00 byte",
		"bad \xff byte")
	run(t, db, `UPDATE sessions SET transcript_lines = 8 WHERE id = 2`)
	server := openServer(t, pgtest.URL(t))
	copied := copyAll(t, openFile(t, path), server)
	i := slices.IndexFunc(copied, func(c store.Copied) bool { return c.Table == "transcript" })
	if copied[i].Replaced != 2 {
		t.Errorf("replaced %d texts", copied[i].Replaced)
	}
	lines, err := server.Journal.Transcript(t.Context(), 2, 99, 10)
	if err != nil || len(lines) != 2 || !strings.Contains(lines[0].Text, "\uFFFD") {
		t.Errorf("lines %v, %v", lines, err)
	}
}

// A table that is not copied would be lost.
func TestEveryTableIsCopied(t *testing.T) {
	copied := copyAll(t, openFile(t, newFile(t)), openFile(t, newFile(t)))
	for table := range tableCounts(t, raw(t, newFile(t))) {
		if table != "goose_db_version" && !slices.ContainsFunc(copied, func(c store.Copied) bool { return c.Table == table }) {
			t.Errorf("%s is not copied", table)
		}
	}
}
