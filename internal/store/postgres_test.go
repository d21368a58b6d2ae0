package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/store/db"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

func TestConformanceOnPostgreSQL(t *testing.T) {
	var only []string
	if testing.Short() { // where the databases differ; the statements of the other suites are the same text
		only = []string{"claim", "fence", "commit", "host"}
	}
	storetest.Run(t, freshServer(t), only...)
}

// TestHostsAtOnceOnPostgreSQL: see TestHostsAtOnceOnSQLite.
func TestHostsAtOnceOnPostgreSQL(t *testing.T) { storetest.Run(t, freshServer(t), "hosts at once") }

func freshServer(t *testing.T) func(t *testing.T) storetest.Database {
	t.Helper()
	address := pgtest.URL(t)
	closeStore(t, openServer(t, address)) // migrates it
	beside := connect(t, address)
	return func(t *testing.T) storetest.Database {
		t.Helper()
		emptyDatabase(t, beside)
		return func(t *testing.T) *store.Store {
			t.Helper()
			return openServer(t, address)
		}
	}
}

// emptyDatabase removes all rows and lets ids begin anew: much faster than making another database.
func emptyDatabase(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	_, err := conn.Exec(t.Context(), `SET session_replication_role = replica; -- no foreign keys
		DO $$ DECLARE name TEXT; BEGIN
			FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('goose_db_version', 'meta') LOOP
				EXECUTE format('DELETE FROM %I', name);
			END LOOP;
			FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND sequencename NOT LIKE 'goose%' LOOP
				PERFORM setval(format('%I', name)::regclass, 1, FALSE);
			END LOOP;
		END $$`)
	succeeds(t, err)
}

// openServer opens a store that is closed with the test.
func openServer(tb testing.TB, address string) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), storetest.With(store.Options{
		URL: address, Clock: func() time.Time { return storetest.Start },
		Uptime: func() (string, time.Duration) { return "", 0 }, // the time that a test gives is the time
	}))
	succeeds(tb, err)
	tb.Cleanup(func() { closeStore(tb, s) })
	return s
}

// sqlOn runs a statement beside the store.
func sqlOn(tb testing.TB, address, statement string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context()) // also within a cleanup
	conn, err := pgx.Connect(ctx, address)
	succeeds(tb, err)
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// refusesServer checks that a database cannot be opened, and that the message names it, without its password, and says what
// to do.
func refusesServer(t *testing.T, address, advice string) {
	t.Helper()
	_, err := store.Open(t.Context(), storetest.With(store.Options{URL: address}))
	if err == nil {
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), advice) {
		t.Errorf("%q does not say %q", err, advice)
	}
	if !strings.HasPrefix(err.Error(), "open database") && !errors.Is(err, store.ErrUnmarked) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the message is %q", err)
	}
}

// withUser is an address with another user, and a password that no message may show.
func withUser(tb testing.TB, address, user string) string {
	tb.Helper()
	u, err := url.Parse(address)
	succeeds(tb, err)
	u.User = url.UserPassword(user, "s3cret")
	return u.String()
}

func TestAServerThatCannotBeUsedSaysWhatToDo(t *testing.T) {
	address := pgtest.URL(t)
	u, err := url.Parse(address)
	succeeds(t, err)
	t.Run("no such database", func(t *testing.T) {
		u := *u
		u.Path = "/nowhere"
		refusesServer(t, withUser(t, u.String(), "postgres"), "CREATE DATABASE nowhere")
	})
	t.Run("no such user", func(t *testing.T) {
		refusesServer(t, withUser(t, address, "nobody"), "check the user and the password")
	})
	t.Run("nobody listens", func(t *testing.T) {
		u := *u
		u.Host = "127.0.0.1:1"
		refusesServer(t, withUser(t, u.String(), "postgres"), "that the server runs")
	})
	t.Run("not permitted", func(t *testing.T) {
		role := "r" + strings.ToLower(rand.Text())
		sqlOn(t, address, "CREATE ROLE "+role+" LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
		t.Cleanup(func() { sqlOn(t, address, "DROP ROLE "+role) })
		refusesServer(t, withUser(t, address, role), "GRANT")
	})
	for name, address := range map[string]string{
		"no address":    "postgres://user:s3cret%zz@host/name",
		"bad port":      "postgres://user:s3cret@host:port/name",
		"bad option":    "postgres://user:s3cret@host/name?sslmode=s3cret",
		"other service": "mysql://user:s3cret@host/name",
	} {
		t.Run(name, func(t *testing.T) { refusesServer(t, address, "postgres://") })
	}
	if _, err := store.Open(t.Context(), storetest.With(store.Options{URL: address, Path: "x"})); err == nil {
		t.Error("a path and an address were accepted together")
	}
}

func TestADatabaseWithoutOurMarkIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		sql  string
		want error
	}{
		"our tables":                   {`CREATE TABLE cycles (id INT)`, store.ErrUnmarked},
		"another program's":            {`CREATE TABLE customers (id INT); CREATE TABLE meta (name TEXT)`, store.ErrUnmarked},
		"another program's migrations": {`CREATE TABLE goose_db_version (version_id BIGINT); INSERT INTO goose_db_version VALUES (5)`, store.ErrUnmarked},
		"another mark":                 {`CREATE TABLE meta (application_id BIGINT); INSERT INTO meta VALUES (5)`, store.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			address := pgtest.URL(t)
			sqlOn(t, address, tt.sql)
			refusesServer(t, address, tt.want.Error())
			_, err := store.OpenReadOnly(t.Context(), storetest.With(store.Options{URL: address}))
			if !errors.Is(err, tt.want) {
				t.Errorf("read-only: error is %v, want %v", err, tt.want)
			}
		})
	}
	t.Run("a job queue is none", func(t *testing.T) {
		address := pgtest.URL(t)
		sqlOn(t, address, `CREATE TABLE river_job (id INT)`)
		openServer(t, address)
	})
}

func TestSchemaOnAServerIsOurs(t *testing.T) {
	address := pgtest.URL(t)
	if _, err := store.OpenReadOnly(t.Context(), storetest.With(store.Options{URL: address})); !errors.Is(err, ops.ErrNotFound) {
		t.Errorf("empty, read-only: error is %v, want %v", err, ops.ErrNotFound)
	}
	closeStore(t, openServer(t, address))
	reader, err := store.OpenReadOnly(t.Context(), storetest.With(store.Options{URL: address}))
	succeeds(t, err)
	if _, err := reader.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home"}); err == nil {
		t.Error("a read-only store wrote")
	}
	if _, err := reader.Reports.Cycles(t.Context(), store.CycleFilter{}); err != nil {
		t.Error(err)
	}
	closeStore(t, reader)
	sqlOn(t, address, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, TRUE)`)
	refusesServer(t, address, "install that version")
	sqlOn(t, address, `UPDATE goose_db_version SET version_id = -1`)
	if _, err := store.OpenReadOnly(t.Context(), storetest.With(store.Options{URL: address})); !errors.Is(err, store.ErrOlder) {
		t.Errorf("older, read-only: error is %v, want %v", err, store.ErrOlder)
	}
}

func TestManyHostsMayMigrateAtOnce(t *testing.T) {
	address := pgtest.URL(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := store.Open(t.Context(), storetest.With(store.Options{URL: address}))
			if err != nil {
				t.Error(err)
				return
			}
			closeStore(t, s)
		})
	}
	wg.Wait()
	storetest.NewFixture(t, openServer(t, address)).Claim(t, "home")
}

// Texts are compared by their bytes, whatever the language of the database.
func TestTextsSortByTheirBytes(t *testing.T) {
	address := pgtest.URL(t)
	f := storetest.NewFixture(t, openServer(t, address))
	var unsorted int
	conn := connect(t, address)
	err := conn.QueryRow(t.Context(), `SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'public'
		AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'`).Scan(&unsorted)
	if err != nil || unsorted > 0 {
		t.Errorf("%d texts are sorted by a language (%v)", unsorted, err)
	}
	withheld := []ops.Withheld{{Service: "A-b"}, {Service: "B"}, {Service: "_"}, {Service: "a"}, {Service: "ab"}}
	succeeds(t, f.Store.Watch.SaveWithheld(t.Context(), "home", withheld))
	got, err := f.Store.Watch.Withheld(t.Context(), "home")
	if err != nil || !slices.Equal(got, withheld) {
		t.Errorf("read back as %v (%v)", got, err)
	}
}

func TestListenHearsOtherHosts(t *testing.T) {
	address := pgtest.URL(t)
	here, elsewhere := openServer(t, address), openServer(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan struct{}, 100)
	ended := make(chan error, 1)
	go func() { ended <- here.Listen(ctx, func(ops.Reach) { heard <- struct{}{} }) }()
	wait := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Fatalf("nothing was heard after %s", what)
		}
	}
	silent := func(what string) {
		t.Helper()
		select {
		case <-heard:
			t.Errorf("something was heard after %s", what)
		case <-time.After(300 * time.Millisecond):
		}
	}
	wait("the connection was made")
	f := storetest.NewFixture(t, here)
	session := f.RunningSession(t, "home")
	silent("own writes")
	if _, err := elsewhere.Journal.RequestCancel(t.Context(), session.CycleID, "enough", storetest.Start); err != nil {
		t.Fatal(err)
	}
	wait("a cancel elsewhere")
	succeeds(t, elsewhere.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, []ops.Line{{Seq: 1, At: storetest.Start, Text: "x"}}))
	wait("output elsewhere")
	silent("that")

	// Once more when the connection broke, because something may have been missed.
	sqlOn(t, address, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	wait("a lost connection")
	if _, err := elsewhere.Journal.RequestCancel(t.Context(), session.CycleID, "enough", storetest.Start); err != nil {
		t.Fatal(err)
	}
	wait("a cancel after that")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A host that stands still inside a transaction must not hold up the others for long.
func TestAHostThatStandsStillLosesItsLock(t *testing.T) {
	address := pgtest.URL(t)
	f := storetest.NewFixture(t, openServer(t, address))
	frozen := connect(t, address)
	for _, statement := range []string{
		`SET idle_in_transaction_session_timeout = 1000`, `BEGIN`, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, db.WriteLock),
	} {
		if _, err := frozen.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	started := time.Now()
	f.Submit(t, "home")
	if took := time.Since(started); took < 500*time.Millisecond {
		t.Errorf("it did not wait: %s", took)
	}
}

func TestEndingAProcessGivesUpItsConnections(t *testing.T) {
	address := pgtest.URL(t)
	s := openServer(t, address)
	if s.Pool() == nil || openFile(t, newFile(t)).Pool() != nil {
		t.Error("the pool of a server, and none of a file, is given out")
	}
	if err := s.MarkOpen(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.QuickCheck(t.Context()); err != nil {
		t.Error(err)
	}
	closeStore(t, s)
	again := openServer(t, address)
	if again.UncleanStop() {
		t.Error("a server's database looks as if it had been left open")
	}
	closeStore(t, again)
	// The server's side of a connection ends a moment after ours.
	conn := connect(t, address)
	for begun := time.Now(); ; <-time.After(20 * time.Millisecond) {
		var open int
		err := conn.QueryRow(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'claudeops'`).Scan(&open)
		if err == nil && open == 0 {
			break
		}
		if err != nil || time.Since(begun) > time.Minute {
			t.Fatalf("%d connections are left (%v)", open, err)
		}
	}
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	succeeds(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func TestAServerThatComesBackIsUsedAgain(t *testing.T) {
	server := pgtest.New(t)
	f := storetest.NewFixture(t, openServer(t, server.Database(t)))
	heard := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { _ = f.Store.Listen(ctx, func(ops.Reach) { heard <- struct{}{} }) })
	defer listening.Wait()
	defer cancel()
	<-heard
	f.Submit(t, "home")
	succeeds(t, server.Stop(t.Context()))
	for what, try := range map[string]func() error{
		"write": func() error {
			_, err := f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home"})
			return err
		},
		"read":     func() error { _, err := f.Store.Journal.Unfinished(t.Context()); return err },
		"snapshot": func() error { _, err := f.Store.Reports.Work(t.Context()); return err },
	} {
		started := time.Now()
		if err := try(); err == nil {
			t.Errorf("a %s succeeded without a server", what)
		}
		if took := time.Since(started); took > time.Minute {
			t.Errorf("a %s without a server took %s", what, took)
		}
	}
	succeeds(t, server.Resume(t.Context()))
	f.Submit(t, "home")
	got, err := f.Store.Journal.Unfinished(t.Context())
	if err != nil || len(got) != 2 {
		t.Errorf("%d cycles are left (%v)", len(got), err)
	}
	select {
	case <-heard:
	case <-time.After(time.Minute):
		t.Error("it is not listened again")
	}
}

// Output of a program may hold what no text of the server can.
func TestAnyOutputIsStored(t *testing.T) {
	f := storetest.NewFixture(t, openServer(t, pgtest.URL(t)))
	session := f.RunningSession(t, "home")
	lines := []ops.Line{{Seq: 1, At: storetest.Start, Text: "a\x00b\xffc"}, {Seq: 2, At: storetest.Start, Text: "what is left ✓"}}
	succeeds(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, lines))
	if lines[0].Text != "a\x00b\xffc" {
		t.Error("the caller's line was changed")
	}
	got, err := f.Store.Journal.Transcript(t.Context(), session.ID, 0, 0)
	if err != nil || len(got) != 2 || got[0].Text != "a\uFFFDb\uFFFDc" || got[1].Text != lines[1].Text {
		t.Errorf("read back as %+v (%v)", got, err)
	}
}

func TestALockedDatabaseSaysSo(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	f := storetest.NewFixture(t, openServer(t, address))
	holder := connect(t, address)
	if _, err := holder.Exec(t.Context(), fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, db.WriteLock)); err != nil {
		t.Fatal(err)
	}
	_, err := f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home"})
	if err == nil || !strings.Contains(err.Error(), "pg_stat_activity") {
		t.Errorf("the error is %v", err)
	}
	if _, err := f.Store.Journal.Unfinished(t.Context()); err != nil {
		t.Errorf("a reader waits for the writer: %v", err)
	}
}
