package storetest

import (
	"testing"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func callerCases() []testCase {
	return []testCase{
		{"a request that comes again gets its answer again", requestIsAnsweredAgain},
		{"a request that was cut off can be tried again", requestIsTriedAgain},
		{"a login lasts until its end", loginLasts},
		{"one of two requests renews a login", loginIsRenewedOnce},
		{"traces begin when tracing does", tracesBegin},
	}
}

func requestIsAnsweredAgain(t *testing.T, f *Fixture) {
	r := store.Request{Caller: "ann", Key: "k", Digest: "d", At: Start}
	begin := func(r store.Request) (*store.Answer, error) { return f.Store.BeginRequest(t.Context(), r) }
	before, err := begin(r)
	must(t, err)
	equal(t, "first time", before, nil)
	_, err = begin(r)
	wantErr(t, err, store.ErrInHand)
	answer := store.Answer{Status: 201, Location: "/cycles/1", Type: "application/json", Body: []byte(`{"id":1}`)}
	must(t, f.Store.EndRequest(t.Context(), r, answer))
	before, err = begin(r)
	must(t, err)
	equal(t, "again", before, &answer)
	other := r
	other.Digest = "e"
	_, err = begin(other)
	wantErr(t, err, ops.ErrConflict)
	other.Caller = "bob"
	before, err = begin(other)
	must(t, err)
	equal(t, "another caller", before, nil)
	r.At = Start.Add(25 * time.Hour)
	before, err = begin(r)
	must(t, err)
	equal(t, "long after", before, nil)
}

func requestIsTriedAgain(t *testing.T, f *Fixture) {
	r := store.Request{Caller: "ann", Key: "k", Digest: "d", At: Start}
	_, err := f.Store.BeginRequest(t.Context(), r)
	must(t, err)
	must(t, f.Store.EndRequest(t.Context(), r, store.Answer{Status: 500}))
	before, err := f.Store.BeginRequest(t.Context(), r)
	must(t, err)
	equal(t, "after our fault", before, nil)
	r.At = Start.Add(10 * time.Minute)
	before, err = f.Store.BeginRequest(t.Context(), r)
	must(t, err)
	equal(t, "after a crash", before, nil)
}

func login(digest string) store.Login {
	return store.Login{Digest: digest, Role: access.RoleRead, BornAt: Start, RenewedAt: Start, ExpiresAt: Start.Add(time.Hour)}
}

func loginLasts(t *testing.T, f *Fixture) {
	must(t, f.Store.AddLogin(t.Context(), login("a"), "", time.Time{}))
	got, err := f.Store.Login(t.Context(), "a", Start.Add(time.Hour-time.Microsecond))
	must(t, err)
	equal(t, "login", got, login("a"))
	_, err = f.Store.Login(t.Context(), "a", Start.Add(time.Hour))
	wantErr(t, err, ops.ErrNotFound)
	must(t, f.Store.EndLogin(t.Context(), "a"))
	_, err = f.Store.Login(t.Context(), "a", Start)
	wantErr(t, err, ops.ErrNotFound)
}

func loginIsRenewedOnce(t *testing.T, f *Fixture) {
	must(t, f.Store.AddLogin(t.Context(), login("a"), "", time.Time{}))
	won := race(t, 4, ops.ErrConflict, func(i int) error {
		return f.Store.AddLogin(t.Context(), login(string(rune('b'+i))), "a", Start.Add(time.Minute))
	})
	equal(t, "renewals", won, 1)
	_, err := f.Store.Login(t.Context(), "a", Start.Add(2*time.Minute))
	wantErr(t, err, ops.ErrNotFound)
}

func tracesBegin(t *testing.T, f *Fixture) {
	f.spend(t, "home", nil, Start)
	untraced := func() ops.Untraced {
		t.Helper()
		got, err := f.Store.Untraced(t.Context(), 10)
		must(t, err)
		return got
	}
	equal(t, "before", len(untraced().Cycles), 0)
	must(t, f.Store.BeginTraces(t.Context()))
	cycle := f.spend(t, "home", nil, Start)
	must(t, f.Store.BeginTraces(t.Context()))
	got := untraced()
	equal(t, "cycles", cycleIDs(got.Cycles), []ops.CycleID{cycle})
	equal(t, "sessions", len(got.Sessions), 1)
	equal(t, "of", got.Of[cycle].ID, cycle)
	must(t, f.Store.MarkTraced(t.Context(), sessionIDs(got.Sessions), cycleIDs(got.Cycles), Start))
	must(t, f.Store.MarkTraced(t.Context(), nil, nil, Start))
	got = untraced()
	equal(t, "left", len(got.Sessions)+len(got.Cycles), 0)
}
