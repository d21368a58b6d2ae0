package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/store/db"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

// onBoth runs a test on a file and on a server, each with the options on top.
func onBoth(t *testing.T, o store.Options, test func(t *testing.T, f *storetest.Fixture)) {
	t.Helper()
	o.Clock = func() time.Time { return storetest.Start }
	for name, place := range map[string]func(t *testing.T, o *store.Options){
		"SQLite":     func(t *testing.T, o *store.Options) { t.Helper(); o.Path = newFile(t) },
		"PostgreSQL": func(t *testing.T, o *store.Options) { t.Helper(); o.URL = pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			place(t, &o)
			s, err := store.Open(t.Context(), o)
			succeeds(t, err)
			t.Cleanup(func() { closeStore(t, s) })
			test(t, storetest.NewFixture(t, s))
		})
	}
}

func TestTheMiddleOfTooMuchOutputIsDropped(t *testing.T) {
	const limit, each = 1 << 20, 1000
	onBoth(t, storetest.With(store.Options{MaxOutput: limit}), func(t *testing.T, f *storetest.Fixture) {
		session := f.RunningSession(t, "home")
		seq := int64(0)
		add := func(n int) {
			var batch []ops.Line
			for range n {
				seq++
				text := fmt.Sprintf("%d %s", seq, strings.Repeat("x", each))[:each]
				batch = append(batch, ops.Line{Seq: seq, At: storetest.Start, Text: text})
			}
			succeeds(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, batch))
		}
		add(1000)
		if gap, err := f.Store.Journal.Gap(t.Context(), session.ID); err != nil || gap != (store.Gap{}) {
			t.Fatalf("below the limit: %+v, %v", gap, err)
		}
		for range 30 {
			add(256)
			bytes, lines, marks := stored(t, f.Store, session.ID)
			if bytes > limit+1000 || bytes < limit/2 || lines[0] != 1 || lines[len(lines)-1] != seq || marks > 1 {
				t.Fatalf("%d bytes from line %d to %d, %d marks", bytes, lines[0], lines[len(lines)-1], marks)
			}
		}
		gap, err := f.Store.Journal.Gap(t.Context(), session.ID)
		succeeds(t, err)
		_, lines, marks := stored(t, f.Store, session.ID)
		if marks != 1 || gap.From != 526 || int64(len(lines)) != seq-(gap.To-gap.From) || gap.Bytes != (gap.To-gap.From+1)*each {
			t.Errorf("%d marks, %+v, %d of %d lines", marks, gap, len(lines), seq)
		}
		mark, err := f.Store.Journal.Transcript(t.Context(), session.ID, gap.From-1, 1)
		want := fmt.Sprintf("%d lines (%.1f MB) of output were dropped here", gap.To-gap.From+1, float64(gap.Bytes)/(1<<20))
		if err != nil || len(mark) != 1 || !strings.Contains(mark[0].Text, want) {
			t.Errorf("the mark is %+v, want %q", mark, want)
		}
		if n, err := f.Store.Journal.TranscriptCount(t.Context(), session.ID); err != nil || n != seq {
			t.Errorf("counted %d of %d lines, %v", n, seq, err)
		}
		// What was spooled counts too.
		seq++
		last := ops.Line{Seq: seq, At: storetest.Start, Text: strings.Repeat("y", limit/4)}
		succeeds(t, f.Store.Journal.AppendSpooled(t.Context(), storetest.Host, session.ID, []ops.Line{last}))
		if bytes, lines, _ := stored(t, f.Store, session.ID); bytes > limit+1000 || lines[len(lines)-1] != seq {
			t.Errorf("after spooled output: %d bytes up to line %d", bytes, lines[len(lines)-1])
		}
		// So does what was not stored because the disk was nearly full.
		mark1, err := store.DropMark(ops.Line{Seq: seq + 1, At: storetest.Start}, 500, 12345, "because the disk was nearly full")
		succeeds(t, err)
		succeeds(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, []ops.Line{mark1}))
		seq += 500
		if n, err := f.Store.Journal.TranscriptCount(t.Context(), session.ID); err != nil || n != seq {
			t.Errorf("counted %d of %d lines, %v", n, seq, err)
		}
		add(5000)
		f.Commit(t, f.Escalation(session, 1))
		if flaws, err := f.Store.Journal.Verify(t.Context(), true); err != nil || len(flaws) > 0 {
			t.Errorf("flaws %+v, %v", flaws, err)
		}
	})
}

// What reads the table transcript with SQL finds the whole output of a session, also after it has ended.
func TestTheLinesOfASessionStayRows(t *testing.T) {
	path := newFile(t)
	f := storetest.NewFixture(t, openFile(t, path))
	session := f.RunningSession(t, "home")
	var batch []ops.Line
	for seq := int64(1); seq <= 3000; seq++ {
		batch = append(batch, ops.Line{Seq: seq, At: storetest.Start, Text: fmt.Sprintf("%d %s", seq, strings.Repeat("x", 200))})
	}
	succeeds(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, batch))
	f.Commit(t, f.Escalation(session, 1))
	_, more, err := f.Store.Journal.RemoveOld(t.Context(), ops.RecordTranscripts, ops.Retention{}, f.At.Add(25*time.Hour))
	succeeds(t, err)
	got := text(t, raw(t, path), `SELECT COUNT(*) || ' up to ' || MAX(seq) FROM transcript`)
	if more || got != "3000 up to 3000" {
		t.Errorf("%s rows, more to remove: %t", got, more)
	}
}

// stored reads the whole output of a session.
func stored(t *testing.T, s *store.Store, id ops.SessionID) (bytes int, lines []int64, marks int) {
	t.Helper()
	for after := int64(0); ; after = lines[len(lines)-1] {
		page, err := s.Journal.Transcript(t.Context(), id, after, 1000)
		succeeds(t, err)
		for _, l := range page {
			bytes += len(l.Text)
			lines = append(lines, l.Seq)
			if strings.Contains(l.Text, `"type":"dropped"`) {
				marks++
			}
		}
		if len(page) < 1000 {
			return bytes, lines, marks
		}
	}
}

func TestARemovedOrReplacedFileIsNoticed(t *testing.T) {
	for name, fault := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".moved") },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".moved"), os.WriteFile(path, nil, 0o600))
		},
		"write-ahead log removed": func(path string) error { return os.Remove(path + "-wal") },
		"another file moved over": func(path string) error {
			return errors.Join(os.WriteFile(path+".other", nil, 0o600), os.Rename(path+".other", path))
		},
		"another log in its place": func(path string) error {
			return errors.Join(os.Remove(path+"-wal"), os.WriteFile(path+"-wal", nil, 0o600))
		},
		"folder of the file is gone": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".moved") },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", "claudeops.db")
			succeeds(t, os.Mkdir(filepath.Dir(path), 0o700))
			s, err := store.Open(t.Context(), storetest.With(store.Options{Path: path}))
			succeeds(t, err)
			succeeds(t, s.MarkOpen(t.Context()))
			f := storetest.NewFixture(t, s)
			id := f.Submit(t, "home")
			if err := s.Present(); err != nil {
				t.Fatalf("before the fault: %v", err)
			}
			succeeds(t, fault(path))
			if err := s.Present(); !errors.Is(err, store.ErrReplaced) {
				t.Errorf("it is not noticed: %v", err)
			}
			_, err = s.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home", Trigger: ops.TriggerManual, At: f.At})
			if !errors.Is(err, store.ErrReplaced) || !store.Unavailable(err) {
				t.Errorf("a write says %v", err)
			}
			rescued := filepath.Join(t.TempDir(), "rescued.db")
			succeeds(t, s.Rescue(t.Context(), rescued))
			if err := s.Close(); !errors.Is(err, store.ErrReplaced) {
				t.Errorf("closing says %v", err)
			}
			if info, err := os.Stat(rescued); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the copy has mode %v, %v", info.Mode(), err)
			}
			if c, err := openFile(t, rescued).Journal.Cycle(t.Context(), id); err != nil || c.Environment != "home" {
				t.Errorf("the copy has cycle %+v, %v", c, err)
			}
		})
	}
}

// TestDamageUnderAnOpenDatabaseIsNoticed holds that no write is acknowledged after another program has damaged the file.
func TestDamageUnderAnOpenDatabaseIsNoticed(t *testing.T) {
	size := func(path string) int64 {
		info, err := os.Stat(path)
		succeeds(t, err)
		return info.Size()
	}
	write := func(path string, at int64, text []byte) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		succeeds(t, err)
		_, err = f.WriteAt(text, at)
		succeeds(t, errors.Join(err, f.Close()))
	}
	for name, c := range map[string]struct {
		fault func(path, backup string)
		later bool // the pages behind the header are checked meanwhile
	}{
		"truncated":   {fault: func(path, _ string) { succeeds(t, os.Truncate(path, 0)) }},
		"halved":      {fault: func(path, _ string) { succeeds(t, os.Truncate(path, size(path)/2)) }},
		"overwritten": {fault: func(path, _ string) { write(path, size(path)/4, make([]byte, size(path)/2)) }, later: true},
		"a backup copied over it": {fault: func(path, backup string) {
			text, err := os.ReadFile(backup)
			succeeds(t, err)
			succeeds(t, os.WriteFile(path, text, 0o600))
		}},
	} {
		for _, unclean := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unclean %t", name, unclean), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "claudeops.db")
				s, err := store.Open(t.Context(), storetest.With(store.Options{Path: path}))
				succeeds(t, err)
				if unclean { // what a killed process leaves
					for _, ending := range []string{"", "-wal"} {
						text, err := os.ReadFile(path + ending)
						succeeds(t, err)
						succeeds(t, os.WriteFile(path+".left"+ending, text, 0o600))
					}
					succeeds(t, s.Close())
					path += ".left"
					s, err = store.Open(t.Context(), storetest.With(store.Options{Path: path}))
					succeeds(t, err)
				}
				t.Cleanup(func() { _ = s.Close() })
				succeeds(t, s.MarkOpen(t.Context()))
				backup := filepath.Join(t.TempDir(), "backup.db")
				_, err = store.BackUp(t.Context(), path, backup, false)
				succeeds(t, err)
				f := storetest.NewFixture(t, s)
				for range 20 {
					f.Submit(t, "home")
					succeeds(t, s.Present())
				}
				c.fault(path, backup)
				submit := func() error {
					_, err := s.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home", Trigger: ops.TriggerManual, At: f.At})
					return err
				}
				if c.later {
					for tick := time.NewTicker(time.Millisecond); !store.Damaged(s.Present()); <-tick.C {
						succeeds(t, t.Context().Err())
					}
				}
				for range 2 {
					if err := submit(); !store.Damaged(err) || !store.Unavailable(err) {
						t.Errorf("a write says %v", err)
					}
				}
				if err := s.Close(); !store.Damaged(err) {
					t.Errorf("closing says %v", err)
				}
			})
		}
	}
}

// TestAnOpenFileMayBeTouched checks that a touch, which leaves the content as it is, does not count as damage.
func TestAnOpenFileMayBeTouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claudeops.db")
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: path}))
	succeeds(t, err)
	f := storetest.NewFixture(t, s)
	for range 3 {
		succeeds(t, os.Chtimes(path, f.At, f.At))
		f.At = f.At.Add(time.Second)
		f.Submit(t, "home")
		succeeds(t, s.Present())
	}
	succeeds(t, s.Close())
}

func TestAFileThatIsPutBackIsUsedAgain(t *testing.T) {
	path := newFile(t)
	f := storetest.NewFixture(t, openFile(t, path))
	succeeds(t, os.Rename(path, path+".moved"))
	if err := f.Store.Present(); err == nil {
		t.Fatal("it is not noticed")
	}
	succeeds(t, os.Rename(path+".moved", path))
	f.Submit(t, "home")
}

func TestALockedOrFullDatabaseIsUnavailable(t *testing.T) {
	path := newFile(t)
	closeStore(t, openFile(t, path))
	lock, err := sql.Open("sqlite", "file:"+path)
	succeeds(t, err)
	t.Cleanup(func() { _ = lock.Close() })
	lock.SetMaxOpenConns(1)
	run(t, lock, `BEGIN EXCLUSIVE`)
	other, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10)")
	succeeds(t, err)
	t.Cleanup(func() { _ = other.Close() })
	other.SetMaxOpenConns(1)
	if _, err := other.Exec(`DELETE FROM events`); !db.Unavailable(err) {
		t.Errorf("locked: %v", err)
	}
	run(t, lock, `ROLLBACK`)
	run(t, other, `PRAGMA max_page_count = 1`) // as many as there are
	if _, err = other.Exec(`CREATE TABLE big AS SELECT zeroblob(1000000)`); !db.Unavailable(err) {
		t.Errorf("full: %v", err)
	}
	for _, err := range []error{nil, ops.ErrNotFound, ops.ErrConflict, context.Canceled, errors.New("other")} {
		if db.Unavailable(err) {
			t.Errorf("%v counts as unavailable", err)
		}
	}
}

// terminate cuts the connections of everybody else.
const terminate = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`

func TestAJudgementIsAskedAgainAfterItsConnectionWasCut(t *testing.T) {
	address := pgtest.URL(t)
	f := storetest.NewFixture(t, openServer(t, address))
	session := f.RunningSession(t, "home")
	judge := func(use string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // what a gate gives it
		defer cancel()
		_, err := f.Store.Acts.RecordGuard(ctx, f.Owner, ops.GuardRecord{
			At: storetest.Start, SessionID: session.ID, CycleID: session.CycleID, Tier: 1, Gate: ops.GateHook, ToolUseID: use, Tool: "Bash",
			Digest: use, Allowed: true,
		}, nil, nil)
		return err
	}
	t.Run("cut while nothing uses it", func(t *testing.T) {
		for n := range 5 {
			sqlOn(t, address, terminate)
			if err := judge(fmt.Sprint("idle ", n)); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("cut while it waits", func(t *testing.T) {
		holder := connect(t, address)
		if _, err := holder.Exec(t.Context(), fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, int64(db.WriteLock))); err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() { answer <- judge("waiting") }()
		for waiting := 0; waiting == 0; {
			err := holder.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()`).Scan(&waiting)
			succeeds(t, err)
		}
		if _, err := holder.Exec(t.Context(), terminate); err != nil {
			t.Fatal(err)
		}
		if _, err := holder.Exec(t.Context(), fmt.Sprintf(`SELECT pg_advisory_unlock(%d)`, int64(db.WriteLock))); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; err != nil {
			t.Error(err)
		}
	})
	t.Run("cut at any moment", func(t *testing.T) {
		cutter := connect(t, address)
		ctx, cancel := context.WithCancel(t.Context())
		var cutting sync.WaitGroup
		cutting.Go(func() {
			for n := 0; ctx.Err() == nil && n < 30; n++ {
				_, _ = cutter.Exec(t.Context(), terminate)
				<-time.After(20 * time.Millisecond)
			}
		})
		for n := range 100 {
			if err := judge(fmt.Sprint("any ", n)); err != nil {
				t.Errorf("call %d: %v", n, err)
			}
		}
		cancel()
		cutting.Wait()
	})
	var all []ops.GuardRecord
	var err error
	for range 10 { // the pool may still hold connections that were cut
		if all, err = f.Store.Acts.GuardDecisions(t.Context(), session.ID); err == nil {
			break
		}
	}
	succeeds(t, err)
	seen := map[string]int{}
	for _, g := range all {
		if seen[g.ToolUseID]++; seen[g.ToolUseID] > 1 {
			t.Errorf("%s was recorded twice", g.ToolUseID)
		}
	}
	if len(seen) != 106 {
		t.Errorf("%d of 106 calls are recorded", len(seen))
	}
}

func TestTheTimeOfTheServerDecides(t *testing.T) {
	address := pgtest.URL(t)
	open := func(ahead time.Duration) *store.Store {
		s, err := store.Open(t.Context(), storetest.With(store.Options{URL: address, Host: func() time.Time { return time.Now().Add(ahead) }}))
		succeeds(t, err)
		t.Cleanup(func() { closeStore(t, s) })
		return s
	}
	fast, slow, right := open(time.Hour), open(-time.Hour), open(0)
	for name, s := range map[string]*store.Store{"fast": fast, "slow": slow, "right": right} {
		if off := time.Since(s.Clock()); off.Abs() > 10*time.Minute {
			t.Errorf("%s tells a time that is off by %s", name, off)
		}
		owner, err := s.Journal.Enlist(t.Context(), ops.Host{Name: name, Identity: name}, time.Minute)
		succeeds(t, err)
		if _, err := s.Journal.Renew(t.Context(), owner, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	hosts, err := right.Journal.Hosts(t.Context())
	succeeds(t, err)
	want := map[string]time.Duration{"fast": time.Hour, "slow": -time.Hour, "right": 0}
	for _, h := range hosts {
		if (h.ClockAhead-want[h.Name]).Abs() > time.Second || h.ClockWrong() != (h.Name != "right") || !h.Alive {
			t.Errorf("%s is %s ahead, alive %t", h.Name, h.ClockAhead, h.Alive)
		}
	}
	// A silence of ten minutes that one host adds holds for the other.
	_, err = fast.Watch.AddSilence(t.Context(), ops.Silence{
		Environment: "home", Service: "web", Reason: "test", Author: "me", Until: fast.Clock().Add(10 * time.Minute),
	})
	succeeds(t, err)
	for name, s := range map[string]*store.Store{"slow": slow, "right": right} {
		found, err := s.Watch.SilencesSince(t.Context(), "home", s.Clock())
		if err != nil || len(found) != 1 || !found[0].Active(s.Clock()) {
			t.Errorf("%s finds %+v, %v", name, found, err)
		}
	}
	before := fast.Clock()
	for range 1000 {
		now := fast.Clock()
		if now.Before(before) {
			t.Fatal("the time runs backwards")
		}
		before = now
	}
	if _, known := openFile(t, newFile(t)).Skew(); known {
		t.Error("a file has a clock of its own")
	}
}

func TestVeryManyRowsAreWritten(t *testing.T) {
	onBoth(t, storetest.With(store.Options{}), func(t *testing.T, f *storetest.Fixture) {
		many := manyInFile
		if strings.HasSuffix(t.Name(), "PostgreSQL") {
			many = manyOnServer
		}
		var alerts []ops.Alert
		var checks []ops.Check
		var states []ops.CheckState
		var onHold []ops.Withheld
		cause := ops.Cause{Key: "k", Environment: "home", Level: ops.Down, Reason: "all are down.", Began: f.At, At: f.At}
		for i := range many {
			name := fmt.Sprintf("service-%05d", i)
			alerts = append(alerts, ops.Alert{
				Environment: "home", Source: "generic", Fingerprint: name, Status: ops.AlertFiring, Level: ops.LevelCritical, Name: "Down", Service: name,
			})
			check := ops.Check{At: f.At, Environment: "home", Purpose: ops.ProbeWatch, Service: name, Probe: "p", Type: "http", Status: ops.Down}
			checks = append(checks, check)
			states = append(states, ops.CheckState{Service: name, Probe: "p", Level: ops.Down, Since: f.At, Last: check})
			onHold = append(onHold, ops.Withheld{Service: name, Why: ops.HoldWaiting, Reason: "it waits"})
			cause.Services = append(cause.Services, name)
		}
		// A cycle that looked at one of the services.
		f.Commit(t, ops.Transition{Cycle: f.RunningSession(t, "home").CycleID, At: f.At, Step: ops.Step{Kind: ops.StepProbe}, Result: ops.Result{Checks: []ops.Check{
			{At: f.At, Purpose: ops.ProbeObserve, Service: "service-00001", Probe: "p", Type: "http", Status: ops.Down},
		}}})
		// The same alert twice in one call counts twice.
		succeeds(t, f.Store.Watch.AddAlerts(t.Context(), append(alerts, alerts[7])))
		pending, err := f.Store.Watch.PendingAlerts(t.Context(), many+1)
		if err != nil || len(pending) != many || pending[7].Count != 2 {
			t.Fatalf("%d alerts, %v", len(pending), err)
		}
		succeeds(t, f.Store.Watch.RecordResults(t.Context(), "home", checks, checks, append(states, states[3]), nil, pending))
		succeeds(t, f.Store.Watch.SaveWithheld(t.Context(), "home", onHold))
		n := ops.NewCycle{Environment: "home", Trigger: ops.TriggerProbe, At: f.At}
		if _, started, err := f.Store.Watch.OpenCause(t.Context(), cause, n, nil, nil, f.At); err != nil || !started {
			t.Fatalf("started %t, %v", started, err)
		}
		found, err := f.Store.Watch.LatestChecks(t.Context(), "home")
		if err != nil || len(found) != many {
			t.Errorf("%d latest checks, %v", len(found), err)
		}
		past, err := f.Store.Reports.Health(t.Context(), store.HealthFilter{
			Services: []string{"service-00001", fmt.Sprintf("service-%05d", many-1)}, Since: f.At.Add(-time.Hour), Until: f.At.Add(time.Second), Bucket: time.Hour,
		})
		if err != nil || len(past) != 2 || past[1].Buckets[len(past[1].Buckets)-1].Down != 2 {
			t.Errorf("health is %+v, %v", past, err)
		}
		succeeds(t, f.Store.Watch.ForgetStates(t.Context(), "home", states))
		left, err := f.Store.Watch.States(t.Context(), "home")
		if more, countErr := f.Store.Watch.CountPendingAlerts(t.Context(), 10); err != nil || countErr != nil || len(left) != 0 || more != 0 {
			t.Errorf("%d states and %d alerts are left, %v", len(left), more, err)
		}
	})
}

func succeeds(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
