package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// writing appends lines to a session until it is stopped; it returns how many are safe.
func writing(t *testing.T, f *storetest.Fixture, session ops.SessionID) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var safe int64
	wg.Go(func() {
		for ctx.Err() == nil {
			var lines []ops.Line
			for range 50 {
				safe++
				lines = append(lines, ops.Line{Seq: safe, At: storetest.Start, Text: strings.Repeat("x", 500)})
			}
			if err := f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session, lines); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() int64 {
		cancel()
		wg.Wait()
		return safe
	}
}

func sound(t *testing.T, s *store.Store) {
	t.Helper()
	flaws, err := s.Journal.Verify(t.Context(), true)
	if err != nil || len(flaws) > 0 {
		t.Errorf("flaws %+v, %v", flaws, err)
	}
}

func TestABackupBesideAWriterIsWhole(t *testing.T) {
	path := newFile(t)
	f := storetest.NewFixture(t, openFile(t, path))
	session := f.RunningSession(t, "home")
	stop := writing(t, f, session.ID)
	var backups []string
	for range 3 {
		target := filepath.Join(t.TempDir(), "backup.db")
		b, err := store.BackUp(t.Context(), path, target, false)
		succeeds(t, err)
		info, err := os.Stat(target)
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() != b.Bytes || b.Path != target {
			t.Errorf("backup is %+v, file %v, %v", b, info, err)
		}
		backups = append(backups, target)
	}
	safe := stop()
	before := int64(-1)
	for _, b := range backups {
		if got := text(t, raw(t, b), `PRAGMA auto_vacuum`); got != "2" {
			t.Errorf("auto_vacuum of the copy is %s", got)
		}
		s := openFile(t, b)
		sound(t, s)
		lines, err := s.Journal.Transcript(t.Context(), session.ID, 0, 1<<20)
		succeeds(t, err)
		n := int64(len(lines))
		if count, err := s.Journal.TranscriptCount(t.Context(), session.ID); err != nil || count != n || n < before || n > safe {
			t.Errorf("%d lines, %d counted, %d before and %d at the end, %v", n, count, before, safe, err)
		}
		before = n
	}
	if left := text(t, raw(t, path), `PRAGMA integrity_check`); left != "ok" {
		t.Errorf("the database itself: %s", left)
	}
}

func TestABackupReplacesNothingUnasked(t *testing.T) {
	path := newFile(t)
	dir := t.TempDir()
	target := filepath.Join(dir, "backup.db")
	succeeds(t, os.WriteFile(target, []byte("mine"), 0o644))
	link := filepath.Join(dir, "link")
	succeeds(t, os.Symlink(path, link))
	for _, tt := range []struct {
		name, from, to string
		replace        bool
		want           error
	}{
		{"a file", path, target, false, ops.ErrConflict},
		{"a folder", path, dir, true, ops.ErrConflict},
		{"the database", path, path, true, ops.ErrConflict},
		{"the database by another name", path, link, true, ops.ErrConflict},
		{"no database", filepath.Join(dir, "none"), filepath.Join(dir, "new"), false, ops.ErrNotFound},
		{"no folder", path, filepath.Join(dir, "none", "new"), false, os.ErrNotExist},
		{"no journal", target, filepath.Join(dir, "new"), false, store.ErrCorrupt},
	} {
		if _, err := store.BackUp(t.Context(), tt.from, tt.to, tt.replace); !errors.Is(err, tt.want) {
			t.Errorf("%s: error is %v, want %v", tt.name, err, tt.want)
		}
	}
	if raw, err := os.ReadFile(target); err != nil || string(raw) != "mine" {
		t.Errorf("the file holds %q, %v", raw, err)
	}
	if _, err := store.BackUp(t.Context(), path, target, true); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the replaced file: %v, %v", info, err)
	}
	entries, err := os.ReadDir(dir)
	succeeds(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestARestoreKeepsWhatWasThere(t *testing.T) {
	path := newFile(t)
	f := storetest.NewFixture(t, openFile(t, path))
	first := f.Claim(t, "home").Cycle.ID
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := store.BackUp(t.Context(), path, backup, false); err != nil {
		t.Fatal(err)
	}
	later := f.Claim(t, "office").Cycle.ID
	// As after a kill: the last rows are in the log only.
	left := filepath.Join(t.TempDir(), "claudeops.db")
	for _, side := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + side)
		succeeds(t, err)
		succeeds(t, os.WriteFile(left+side, b, 0o600))
	}
	for n, want := range []string{left + ".before-restore", left + ".before-restore-2"} {
		kept, err := store.Restore(t.Context(), backup, left)
		if err != nil || kept != want {
			t.Fatalf("kept %q, want %q: %v", kept, want, err)
		}
		s := openFile(t, left)
		sound(t, s)
		if _, err := s.Journal.Cycle(t.Context(), first); err != nil {
			t.Error(err)
		}
		if _, err := s.Journal.Cycle(t.Context(), later); !errors.Is(err, ops.ErrNotFound) {
			t.Errorf("a cycle from after the backup: %v", err)
		}
		closeStore(t, s)
		if n == 0 {
			if _, err := openFile(t, kept).Journal.Cycle(t.Context(), later); err != nil {
				t.Errorf("what was kept has lost a row: %v", err)
			}
		}
	}
	if info, err := os.Stat(left); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the database: %v, %v", info, err)
	}
	if _, err := os.Stat(backup); err != nil {
		t.Errorf("the backup itself is gone: %v", err)
	}
}

func TestARestoreIntoAnEmptyFolder(t *testing.T) {
	backup := newFile(t)
	target := filepath.Join(t.TempDir(), "claudeops.db")
	succeeds(t, os.WriteFile(target+"-wal", []byte("of another life"), 0o600))
	if kept, err := store.Restore(t.Context(), backup, target); err != nil || kept != "" {
		t.Fatalf("kept %q, %v", kept, err)
	}
	storetest.NewFixture(t, openFile(t, target)).Claim(t, "home")
}

func TestADamagedBackupIsNotRestored(t *testing.T) {
	changed := func(statement string) string {
		path := newFile(t)
		db := raw(t, path)
		run(t, db, statement)
		if err := db.Close(); err != nil { // which empties the log
			t.Fatal(err)
		}
		return path
	}
	damaged := newFile(t)
	overwrite(t, damaged, size(t, damaged)/2, 20*4096)
	newer := changed(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)`)
	stray := changed(`PRAGMA foreign_keys = OFF; INSERT INTO approvals (cycle_id, tier, handler, status, requested_at)
		VALUES (77, 2, 'x', 'denied', 'y')`)
	half := newFile(t)
	run(t, raw(t, half), `INSERT INTO store_state (name, value) VALUES ('x', 'y')`)
	empty := filepath.Join(t.TempDir(), "empty.db")
	succeeds(t, os.WriteFile(empty, nil, 0o600))
	path := newFile(t)
	f := storetest.NewFixture(t, openFile(t, path))
	id := f.Claim(t, "home").Cycle.ID
	for name, tt := range map[string]struct {
		backup string
		want   error
	}{
		"damaged": {damaged, store.ErrCorrupt}, "newer": {newer, store.ErrNewer}, "a stray row": {stray, store.ErrCorrupt},
		"empty": {empty, store.ErrCorrupt}, "missing": {"/nowhere/backup.db", ops.ErrNotFound}, "itself": {path, ops.ErrConflict},
		"without its log": {half, ops.ErrConflict},
	} {
		if kept, err := store.Restore(t.Context(), tt.backup, path); !errors.Is(err, tt.want) || kept != "" {
			t.Errorf("%s: kept %q, error is %v, want %v", name, kept, err, tt.want)
		}
	}
	if _, err := f.Store.Journal.Cycle(t.Context(), id); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*restore*")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Each of these breaks one rule of the journal, and exactly that one is named.
func TestEveryBrokenRuleIsFound(t *testing.T) {
	const at = `'2026-03-14T12:00:00.000000Z'`
	for rule, breaks := range map[string]string{
		"a cycle that has ended runs nothing":  `UPDATE sessions SET status = 'running', ended_at = NULL WHERE id = 1`,
		"a cycle that has ended plans nothing": `UPDATE sessions SET status = 'queued', ended_at = NULL WHERE id = 1`,
		"one cycle of an environment runs at a time": `DROP INDEX idx_cycles_running; UPDATE cycles SET environment = 'home'
			WHERE status = 'running'`,
		"one session of a cycle runs at a time": `INSERT INTO sessions (cycle_id, environment, attempt, tier, permissions, handler, key,
			status, context_mode, created_at, started_at) SELECT cycle_id, environment, 9, tier, permissions, handler, 'other', status, context_mode, created_at,
			started_at FROM sessions WHERE status = 'running' LIMIT 1`,
		"a running cycle has an owner":              `UPDATE cycles SET owner = NULL WHERE id = 2`,
		"what has ended says when":                  `UPDATE cycles SET ended_at = NULL WHERE id = 1`,
		"a session that ran says from when to when": `UPDATE sessions SET ended_at = NULL WHERE id = 1`,
		"a chain stays within its cycle":            `UPDATE sessions SET parent_session_id = 1 WHERE id = 2`,
		"a decision is about a session of its cycle": `INSERT INTO escalations (cycle_id, session_id, source_handler, target_handler, reason,
			depth, max_depth, target_validated, self_escalation_rejected, process_mode, manager_present, path, decision, at)
			VALUES (2, 1, 'a', 'b', 'c', 1, 2, TRUE, TRUE, 'd', FALSE, '[]', 'e', ` + at + `)`,
		"nobody is asked about what has ended": `INSERT INTO approvals (cycle_id, tier, handler, status, requested_at)
			VALUES (1, 2, 'x', 'pending', ` + at + `)`,
		"a resolved incident says when": `INSERT INTO incidents (environment, title, level, status, opened_at, updated_at)
			VALUES ('home', 'x', 'info', 'resolved', ` + at + `, ` + at + `)`,
		"output belongs to a session":                  `INSERT INTO transcript (session_id, seq, at, line) VALUES (99, 1, ` + at + `, 'x')`,
		"a transcript has all its lines":               `DELETE FROM transcript WHERE session_id = 1 AND seq = 1`,
		"the costs of a day are those of its sessions": `UPDATE cost_days SET input_reported = 1`,
		"the cost of a cycle is that of its sessions":  `UPDATE cycle_cost_days SET cost = cost + 1`,
		"every referenced row exists":                  `PRAGMA foreign_keys = OFF; UPDATE sessions SET parent_session_id = 99 WHERE id = 1`,
		"what was taken down and brought up again belongs together": `INSERT INTO cooldown_actions (environment, service, action, cycle_id,
			session_id, status, counts, reserved_at, covered_by)
			VALUES ('home', 'web', 'x', 1, 1, 'reserved', TRUE, ` + at + `, NULL), ('home', 'web', 'x', 2, 2, 'reserved', TRUE, ` + at + `, 1)`,
	} {
		t.Run(rule, func(t *testing.T) {
			path := newFile(t)
			s := openFile(t, path)
			f := storetest.NewFixture(t, s)
			session := f.RunningSession(t, "home")
			if err := s.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, []ops.Line{
				{Seq: 1, At: storetest.Start, Text: "x"},
				{Seq: 2, At: storetest.Start, Text: "y"},
			}); err != nil {
				t.Fatal(err)
			}
			ended := f.Ended(session, 0.1)
			f.Commit(t, ops.Transition{
				Cycle: session.CycleID, At: f.At, Result: ops.Result{Session: &ended},
				Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy},
			})
			f.RunningSession(t, "home")
			f.RunningSession(t, "office")
			sound(t, s)
			db := raw(t, path)
			db.SetMaxOpenConns(1)
			for statement := range strings.SplitSeq(breaks, "; ") {
				run(t, db, statement)
			}
			flaws, err := s.Journal.Verify(t.Context(), true)
			succeeds(t, err)
			var found []string
			for _, f := range flaws {
				if f.Detail == "" {
					t.Errorf("%q says nothing", f.Check)
				}
				found = append(found, f.Check)
			}
			if !slices.Contains(found, rule) {
				t.Errorf("found %+v", flaws)
			}
		})
	}
}

func TestVerifyTellsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claudeops.db")
	s := grown(t, path)
	closeStore(t, s)
	overwrite(t, path, 3*4096, 4*4096)
	opened, err := store.OpenReadOnly(t.Context(), storetest.With(store.Options{Path: path, Clock: func() time.Time { return storetest.Start }}))
	if errors.Is(err, store.ErrCorrupt) {
		return // found even earlier
	}
	succeeds(t, err)
	defer closeStore(t, opened)
	for _, full := range []bool{false, true} {
		flaws, err := opened.Journal.Verify(t.Context(), full)
		if err != nil || len(flaws) == 0 || flaws[0].Check != "the file is not damaged" {
			t.Errorf("full %v: %+v, %v", full, flaws, err)
		}
	}
}
