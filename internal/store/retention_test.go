package store_test

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

func TestRetentionOnSQLite(t *testing.T) {
	storetest.RunRetention(t, func(t *testing.T) *store.Store {
		t.Helper()
		return openFile(t, newFile(t))
	})
}

func TestRetentionOnPostgreSQL(t *testing.T) {
	address := pgtest.URL(t)
	openServer(t, address)
	beside := connect(t, address)
	storetest.RunRetention(t, func(t *testing.T) *store.Store {
		t.Helper()
		emptyDatabase(t, beside)
		return openServer(t, address)
	})
}

// grown is a file with a large transcript, and the session whose it is.
func grown(t *testing.T, path string) *store.Store {
	t.Helper()
	s := openFile(t, path)
	f := storetest.NewFixture(t, s)
	session := f.RunningSession(t, "home")
	lines := make([]ops.Line, 30_000)
	noise := make([]byte, 750)
	for i := range lines { // which can hardly be compressed
		_, _ = rand.Read(noise)
		lines[i] = ops.Line{Seq: int64(i), At: storetest.Start, Text: base64.StdEncoding.EncodeToString(noise)}
	}
	succeeds(t, s.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, lines))
	ended := f.Ended(session, 0.1)
	f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: f.At, Result: ops.Result{Session: &ended},
		Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy},
	})
	keep := ops.Retention{Transcripts: time.Hour}
	for {
		_, more, err := s.Journal.RemoveOld(t.Context(), ops.RecordTranscripts, keep, storetest.Start.Add(24*time.Hour))
		succeeds(t, err)
		if !more {
			return s
		}
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	succeeds(t, err)
	return info.Size()
}

func TestFreeSpaceIsGivenBackInSmallParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claudeops.db")
	s := grown(t, path)
	var freed int64
	parts := 0
	for {
		n, err := s.Journal.GiveBack(t.Context())
		succeeds(t, err)
		if n == 0 {
			break
		}
		freed, parts = freed+n, parts+1
	}
	if parts < 5 || freed < 10<<20 {
		t.Fatalf("%d bytes in %d parts", freed, parts)
	}
	run(t, raw(t, path), `PRAGMA wal_checkpoint(TRUNCATE)`)
	if got := size(t, path); got > 12<<20 {
		t.Errorf("the file has still %d bytes", got)
	}
	if err := s.QuickCheck(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAServerFreesItsOwnSpace(t *testing.T) {
	s := openServer(t, pgtest.URL(t))
	if n, err := s.Journal.GiveBack(t.Context()); n != 0 || err != nil {
		t.Errorf("gave back %d, %v", n, err)
	}
}
