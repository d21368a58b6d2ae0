package main_test

import (
	"bytes"
	"database/sql"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
	"claudeops/test/phonetest"
	"claudeops/test/testtoken"
)

// A backup is made while Tier 2 works, everything else is lost, and the restored database goes on: Tier 1, which had finished,
// is not run again, and Tier 2, which had not, is told that it was interrupted.
func TestARestoredDatabaseGoesOnAndRepeatsNoFinishedTier(t *testing.T) {
	t.Parallel()
	second := tier(2, with(stubborn(true), func(p *agenttest.Play) { p.Attempt = 1 }))
	b := newBox(t, plays(agenttest.Escalates(1, 0.03, "jellyfin"), second, tier(2, agenttest.Healthy(0.4))), "CLAUDEOPS_RECOVERY=on")
	backup := filepath.Join(t.TempDir(), "backup.db")
	d := b.ready()
	d.until("Tier 2 runs", func() bool {
		if len(b.calls()) < 2 {
			return false
		}
		last := b.cycle().Journal.Last()
		return last.Tier == ops.Tier2 && last.Status == ops.SessionRunning
	})
	for _, step := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"db", "backup", backup}, 0, "no damage found"},
		{[]string{"db", "backup", backup}, 5, "--force"},
		{[]string{"db", "backup", "--force", backup}, 0, "no damage found"},
		{[]string{"db", "check"}, 0, "no damage found"},
		{[]string{"db", "check", backup}, 0, "no damage found"},
		{[]string{"db", "restore", backup}, 5, "is in use by"},
	} {
		r := b.run(step.args...)
		if r.code != step.code {
			t.Errorf("%v exits %d, want %d\n%s%s", step.args, r.code, step.code, r.stdout, r.stderr)
		}
		contains(t, "output", r.stdout+r.stderr, step.says)
	}
	must(t, d.cmd.Process.Kill())
	<-d.done
	d.done <- nil
	damage(t, filepath.Join(b.state, "claudeops.db"))
	if r := b.run("db", "check"); r.code == 0 {
		t.Errorf("a damaged database passes the check: %s", r.stdout)
	}
	if r := b.run("db", "restore", backup); r.code != 0 {
		t.Fatalf("restore exits %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(b.state, "claudeops.db.before-restore")); err != nil {
		t.Error(err)
	}
	d = b.ready()
	d.until("the cycle ends", func() bool { return b.ended(1) })
	c := b.cycle()
	tiers := map[ops.Tier]int{}
	for _, s := range c.Journal.Sessions {
		if s.Status == ops.SessionCompleted {
			tiers[s.Tier]++
		}
	}
	if c.Cycle.Status != ops.CycleResolved || tiers[1] != 1 || tiers[2] != 1 || c.Journal.Sessions[1].Status != ops.SessionInterrupted {
		t.Errorf("cycle %s (%s), sessions %+v", c.Cycle.Status, c.Cycle.Reason, c.Journal.Sessions)
	}
	first := 0
	for _, call := range b.calls() {
		if n, _ := call.Var("CLAUDEOPS_TIER"); n == "1" {
			first++
		}
	}
	if first != 1 {
		t.Errorf("Tier 1 was started %d times", first)
	}
	if r := b.run("db", "check"); r.code != 0 {
		t.Errorf("check exits %d: %s%s", r.code, r.stdout, r.stderr)
	}
	b.nothingLeft()
}

// damage writes over the middle of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	if _, err := f.WriteAt(make([]byte, info.Size()/2), info.Size()/4); err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
}

// The part of the file that holds the cycles is damaged: it is noticed by the first read of them, after the pages are up.
func TestDamageThatTheStartMeetsIsSaid(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	if code := d.stop(); code != 0 {
		t.Fatalf("stopped with %d", code)
	}
	path := filepath.Join(b.state, "claudeops.db")
	db, err := sql.Open("sqlite", path)
	must(t, err)
	var size int64
	var at []int64
	must(t, db.QueryRow(`PRAGMA page_size`).Scan(&size))
	rows, err := db.Query(`SELECT rootpage FROM sqlite_master WHERE tbl_name = 'cycles' AND rootpage > 0`)
	must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var page int64
		must(t, rows.Scan(&page))
		at = append(at, (page-1)*size)
	}
	must(t, errors.Join(rows.Err(), db.Close()))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	for _, offset := range at {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 64), offset)
		must(t, err)
	}
	must(t, f.Close())
	d = b.serve()
	d.until("it says so", func() bool {
		status, body := d.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "damaged")
	})
	d.stop()
}

// What is said when a database is lost.
const (
	damagedText = "(?i)database is damaged"
	removedText = "(?i)database file was removed or replaced"
)

// A backup is copied over the database while an agent works: nothing is acknowledged any more, the agent ends, and people are told although
// nothing can be stored.
func TestADatabaseThatIsDamagedWhileItRunsStopsEverything(t *testing.T) {
	t.Parallel()
	lostWhileItRuns(t, damagedText, func(path string, backup []byte) error { return os.WriteFile(path, backup, 0o600) })
}

// Whoever opens the file before the copy has begun to fill it finds it empty, and SQLite takes its log away.
func TestADatabaseThatIsSeenEmptyWhileItRunsStopsEverything(t *testing.T) {
	t.Parallel()
	// Whether the damage or the missing log is met first is a matter of the moment.
	lostWhileItRuns(t, damagedText+"|"+removedText, func(path string, backup []byte) error {
		err := os.Truncate(path, 0)
		change(t, path, `PRAGMA user_version`)
		return errors.Join(err, os.WriteFile(path, backup, 0o600))
	})
}

func TestADatabaseWhoseLogIsRemovedWhileItRunsStopsEverything(t *testing.T) {
	t.Parallel()
	lostWhileItRuns(t, removedText, func(path string, _ []byte) error { return os.Remove(path + "-wal") })
}

func lostWhileItRuns(t *testing.T, pattern string, lose func(path string, backup []byte) error) {
	t.Helper()
	says := regexp.MustCompile(pattern)
	ntfy := phonetest.NewNtfy(t)
	b := newBox(t, plays(withChild(agenttest.Healthy(0.01), gateFile(t))), "CLAUDEOPS_APPRISE_URLS="+ntfy.Target("homelab"), testtoken.Env)
	d, _ := b.busy()
	path, backup := filepath.Join(b.state, "claudeops.db"), filepath.Join(t.TempDir(), "backup.db")
	if r := b.run("db", "backup", backup); r.code != 0 {
		t.Fatalf("backup exits %d: %s", r.code, r.stderr)
	}
	trigger := func() int {
		code, _ := d.post("/api/v1/cycles", map[string]string{"environment": "default"})
		return code
	}
	d.until("triggers are taken", func() bool { return trigger() == http.StatusAccepted })
	text, err := os.ReadFile(backup)
	must(t, err)
	must(t, lose(path, text))
	for range 15 {
		if code := trigger(); code != http.StatusServiceUnavailable {
			t.Errorf("a trigger is answered %d", code)
		}
	}
	for _, page := range []string{"/readyz", "/", "/api/v1/incidents"} {
		if code, body := d.get(page); code != http.StatusServiceUnavailable || !says.MatchString(body) {
			t.Errorf("%s answers %d: %.200s", page, code, body)
		}
	}
	d.until("the agent has ended", func() bool { return len(b.agents()) == 0 })
	d.until("people are told", func() bool {
		return slices.ContainsFunc(ntfy.Notes("homelab"), func(n phonetest.Note) bool { return says.MatchString(n.Message) })
	})
	d.stop()
	if n := strings.Count(d.log.String(), "claudeops db restore"); n != 1 {
		t.Errorf("the log says %d times what to do\n%s", n, d.log)
	}
}

// change writes to a database as another program would.
func change(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestTheSchemaOfADatabaseIsChecked(t *testing.T) {
	t.Parallel()
	b := emptyBox(t, plays(agenttest.Healthy(0.1)))
	file := filepath.Join(b.state, "claudeops.db")
	check := func(args []string, code int, says ...string) {
		t.Helper()
		r := b.run(args...)
		if r.code != code {
			t.Errorf("%v exits %d, want %d\n%s%s", args, r.code, code, r.stdout, r.stderr)
		}
		contains(t, "output of "+strings.Join(args, " "), r.stdout+r.stderr, says...)
	}
	before := filepath.Join(t.TempDir(), "before.db")
	change(t, before, `CREATE TABLE cycles (id INTEGER PRIMARY KEY)`)
	check([]string{"db", "check", before}, 3, before+": this database is from before 0.1.0: move it away or start with an empty one")
	check([]string{"once"}, 0)
	// Below the first migration there is none, so this is the only way to be older.
	change(t, file, `UPDATE goose_db_version SET version_id = -1`)
	check([]string{"cycles", "list"}, 1, "older version")
	// An older program would see the same: a schema that it does not know.
	raise(t, file)
	for _, args := range [][]string{{"serve"}, {"once"}, {"status"}} {
		check(args, 1, "newer version of claudeops (version dev, schema 9999; this version dev knows up to schema 1)")
	}
}
