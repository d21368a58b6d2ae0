package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func auditCases() []testCase {
	return []testCase{
		{"audit records form a chain", auditIsAChain},
		{"processes that write at the same time form one chain", auditIsOneChain},
	}
}

// did records that somebody did something.
func (f *Fixture) did(t *testing.T, what string, cycle *ops.CycleID, at time.Time) {
	t.Helper()
	_, err := f.Store.AddEvent(t.Context(), ops.Event{At: at, CycleID: cycle, Level: ops.LevelInfo, Kind: ops.EventAudit, Message: what})
	must(t, err)
}

// wholeChain checks the chain and returns how many records it has.
func wholeChain(t *testing.T, s *store.Store) int64 {
	t.Helper()
	got, err := s.VerifyAudit(t.Context(), store.AuditMark{})
	must(t, err)
	if got.Problem != "" {
		t.Fatalf("record %d: %s", got.BrokenID, got.Problem)
	}
	return got.Records
}

func auditIsAChain(t *testing.T, f *Fixture) {
	equal(t, "none", wholeChain(t, f.Store), 0)
	f.did(t, "ann did this", nil, Start)
	_, err := f.Store.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Kind: ops.EventAgent, Message: "not a person"})
	must(t, err)
	f.did(t, "a text with \x00, \xff, \u2028 and \"quotes\"", nil, Start)
	must(t, f.Store.TrustCommit(t.Context(), "host", "/srv/repo", "abc", "ann", Start))
	f.token(t, "phone", 0)
	must(t, f.Store.RevokeToken(t.Context(), "phone", "ann", Start))
	equal(t, "records", wholeChain(t, f.database(t)), 5)
}

func auditIsOneChain(t *testing.T, f *Fixture) {
	const hosts, each = 4, 10
	var running sync.WaitGroup
	for host := range hosts {
		s := f.database(t)
		running.Go(func() {
			for n := range each {
				_, err := s.AddEvent(t.Context(), ops.Event{
					Environment: fmt.Sprint(host), Level: ops.LevelInfo, Kind: ops.EventAudit, Message: fmt.Sprintf("host %d did %d", host, n),
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	equal(t, "records", wholeChain(t, f.Store), hosts*each)
}

// auditGoesInOrder removes old records: an unfinished cycle keeps its own and all that follow, so that no gap is left.
func auditGoesInOrder(t *testing.T, f *Fixture) {
	for n := range 3 {
		f.did(t, fmt.Sprintf("ann did %d", n), nil, Start)
	}
	cycle := f.Claim(t, "home").Cycle.ID
	f.did(t, "ann started the cycle", &cycle, Start)
	f.did(t, "ann did more", nil, Start)
	later := Start.Add(2 * aDay)
	f.did(t, "bob did something new", nil, later)
	f.remove(t, ops.RecordEvents, forADay(), later)
	equal(t, "left", wholeChain(t, f.Store), 3)
	f.did(t, "carol came later", nil, later.Add(aDay))
	equal(t, "after one more", wholeChain(t, f.Store), 4)
}
