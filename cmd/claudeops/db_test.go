package main_test

import (
	"bytes"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pressly/goose/v3"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
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
		{[]string{"db", "vacuum"}, 5, "is in use by"},
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

// The daemon is killed, and the log of its database is gone when it starts again.
func TestALostLogOfTheDatabaseIsSaidAtTheStart(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	must(t, d.cmd.Process.Signal(syscall.SIGKILL))
	<-d.done
	d.done <- nil
	for _, ending := range []string{"-wal", "-shm"} {
		must(t, os.Remove(filepath.Join(b.state, "claudeops.db"+ending)))
	}
	b.ready()
	contains(t, "the events", b.run("events").stdout, "the database has lost what was written between", "the end of its log is missing")
}

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

var (
	recordVersion = flag.String("record-version", "", "keep a database that this program makes")
	recordAs      = flag.String("record-as", "", "the name of the version")
)

// versions are where the databases of the last two versions are kept. `make record-release` adds one.
const versions = "testdata/versions"

const versionConfig = "services:\n  - name: jellyfin\n"

// versionPlays are two chains: one ends at Tier 3, one at a human.
func versionPlays() agenttest.Scenario {
	return plays(agenttest.Escalates(1, 0.03, "jellyfin"), agenttest.Escalates(2, 0.2, "jellyfin"), tier(3, agenttest.Healthy(0.9)))
}

// makeVersion lets another program work for a while, and keeps its database.
func makeVersion(t *testing.T, binary, name string) {
	t.Helper()
	b := emptyBox(t, versionPlays()).configured(versionConfig)
	run := func(code int, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), binary, args...)
		c.Dir, c.Env = t.TempDir(), b.env
		if out, err := c.CombinedOutput(); c.ProcessState.ExitCode() != code {
			t.Fatalf("%v exits %d: %v\n%s", args, c.ProcessState.ExitCode(), err, out)
		}
	}
	run(0, "once")
	b.env = append(b.env, "CLAUDEOPS_MAX_TIER=1")
	run(6, "once")
	run(0, "memory", "add", "--service", "jellyfin", "It starts slowly.")
	run(0, "silences", "add", "--service", "jellyfin", "--for", "100h", "--reason", "a new disk")
	run(0, "tokens", "create", "phone", "--role", "read")
	copied := filepath.Join(t.TempDir(), "copy.db")
	run(0, "db", "backup", copied)
	raw, err := os.ReadFile(copied)
	must(t, err)
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err == nil {
		err = os.WriteFile(filepath.Join(versions, name+".db.zst"), w.EncodeAll(raw, nil), 0o644) //nolint:gosec // a fixture
	}
	must(t, err)
}

// rows reads a database: by table and row, the value of each column.
func rows(t *testing.T, path string) map[string][]map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	must(t, err)
	defer func() { _ = db.Close() }() // it was read only
	all := func(query string) (out []map[string]string) {
		r, err := db.QueryContext(t.Context(), query)
		must(t, err)
		defer func() { _ = r.Close() }()
		names, err := r.Columns()
		must(t, err)
		for r.Next() {
			values := make([]any, len(names))
			for i := range values {
				values[i] = new(any)
			}
			must(t, r.Scan(values...))
			row := map[string]string{}
			for i, n := range names {
				row[n] = fmt.Sprint(*values[i].(*any))
			}
			out = append(out, row)
		}
		must(t, r.Err())
		return out
	}
	out := map[string][]map[string]string{}
	for _, table := range all(`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version'`) {
		out[table["name"]] = all(`SELECT * FROM "` + table["name"] + `"`)
	}
	return out
}

// kept names the rows that are not there any more as they were: a value changed in a column that both versions have.
func kept(before, after map[string][]map[string]string) (lost []string) {
	for table, old := range before {
		for _, row := range old {
			same := func(now map[string]string) bool {
				for name, value := range row {
					if v, ok := now[name]; ok && v != value {
						return false
					}
				}
				return true
			}
			if !slices.ContainsFunc(after[table], same) {
				lost = append(lost, fmt.Sprintf("%s: %v", table, row))
			}
		}
	}
	return lost
}

// What the last two versions stored is all there after an upgrade, and this version works with it.
func TestTheDatabasesOfTheLastTwoVersionsAreUpgraded(t *testing.T) {
	t.Parallel()
	if *recordVersion != "" {
		makeVersion(t, *recordVersion, *recordAs)
	}
	files, err := filepath.Glob(filepath.Join(versions, "*.db.zst"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the databases are %v, %v", files, err)
	}
	for _, file := range files[len(files)-2:] {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".db.zst"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			must(t, err)
			r, err := zstd.NewReader(bytes.NewReader(raw))
			must(t, err)
			defer r.Close()
			b := emptyBox(t, plays(agenttest.Healthy(0.1))).configured(versionConfig)
			path := filepath.Join(b.state, "claudeops.db")
			f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
			must(t, err)
			if _, err := r.WriteTo(f); err != nil {
				t.Fatal(err)
			}
			must(t, f.Close())
			before := rows(t, path)
			if len(before["sessions"]) < 4 || len(before["guard_decisions"]) < 4 || len(before["incidents"]) < 1 || len(before["silences"]) != 1 {
				t.Fatalf("the database has %d sessions, %d decisions, %d incidents", len(before["sessions"]), len(before["guard_decisions"]), len(before["incidents"]))
			}
			if r := b.run("db", "migrate"); r.code != 0 {
				t.Fatalf("migrate exits %d: %s", r.code, r.stderr)
			}
			if lost := kept(before, rows(t, path)); len(lost) > 0 {
				t.Errorf("lost by the upgrade:\n%s", strings.Join(lost, "\n"))
			}
			for _, step := range []struct {
				code int
				says string
				args []string
			}{
				{0, "no damage found", []string{"db", "check"}},
				{0, "resolved", []string{"cycles", "list"}},
				{0, "jellyfin", []string{"incidents", "list"}},
				{0, "tier3", []string{"sessions", "list", "-o", "json"}},
				{0, "a new disk", []string{"silences", "list"}},
				{0, "It starts slowly.", []string{"memory", "list"}},
				{0, "phone", []string{"tokens", "list"}},
			} {
				if r := b.run(step.args...); r.code != step.code || !strings.Contains(r.stdout+r.stderr, step.says) {
					t.Errorf("%v exits %d:\n%s%s", step.args, r.code, r.stdout, r.stderr)
				}
			}
			// The decisions of those versions are this one's too. The second cycle ran under another maximum, which is told.
			if r, got := b.rehearsed(versionConfig, "--cycle", "C-1"); r.code != 0 || !got.Equal || got.Counts.Steps < 3 {
				t.Errorf("rehearse exits %d: %+v\n%s%s", r.code, got.Counts, r.stdout, r.stderr)
			}
			if r, got := b.rehearsed(versionConfig); r.code != 8 || len(got.Differences) != 1 || got.Differences[0].Setting != "max_tier" || got.Counts.Unreadable > 0 {
				t.Errorf("rehearse exits %d: %+v\n%s%s", r.code, got.Counts, r.stdout, r.stderr)
			}
			d := b.ready()
			if code, said := d.post("/api/v1/cycles", map[string]any{}); code != 202 {
				t.Fatalf("submitting answers %d: %v", code, said)
			}
			d.until("a cycle of this version has ended", func() bool { return b.load(3).Cycle.Status.Ended() }) // a scheduled one may come after it, or before
			if c := b.load(3).Cycle; c.Status != ops.CycleHealthy {
				t.Errorf("the cycle is %s: %s", c.Status, c.Reason)
			}
			if code, page := d.get("/cycles/1"); code != 200 || !strings.Contains(page, "jellyfin") {
				t.Errorf("the page of the first cycle answers %d", code)
			}
			if r := b.run("status"); r.code != 0 {
				t.Errorf("status exits %d: %s%s", r.code, r.stdout, r.stderr)
			}
			if code := d.stop(); code != 0 {
				t.Errorf("serve exits %d", code)
			}
		})
	}
}
