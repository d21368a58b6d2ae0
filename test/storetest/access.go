package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func accessCases() []testCase {
	return []testCase{
		{"a token works until it is revoked", tokenIsRevoked},
		{"a token works until it expires", tokenExpires},
		{"a name is used by one token at a time", tokenNamesAreUnique},
		{"a login ends with its token", loginEndsWithItsToken},
		{"a login ends with its passkey", loginEndsWithItsPasskey},
		{"a login lasts until its end", loginLasts},
		{"one of two requests renews a login", loginIsRenewedOnce},
	}
}

func (f *Fixture) token(t *testing.T, name string, life time.Duration) (store.Token, string) {
	t.Helper()
	made := store.Token{Name: name, Role: access.RoleResponder, CreatedAt: Start, CreatedBy: "ann"}
	if life > 0 {
		made.ExpiresAt = ops.Ptr(Start.Add(life))
	}
	made, secret, err := f.Store.AddToken(t.Context(), made)
	must(t, err)
	return made, secret
}

func tokenIsRevoked(t *testing.T, f *Fixture) {
	made, secret := f.token(t, "phone", 0)
	got, err := f.Store.UseToken(t.Context(), secret, Start)
	must(t, err)
	equal(t, "id", got.ID, made.ID)
	equal(t, "role", got.Role, access.RoleResponder)
	for _, wrong := range []string{"", "phone", secret[1:], secret + "A", strings.ToLower(secret), store.TokenPrefix} {
		_, err := f.Store.UseToken(t.Context(), wrong, Start)
		wantErr(t, err, ops.ErrNotFound)
	}
	// Another process revokes it, and this one notices at once.
	other := f.database(t)
	must(t, other.RevokeToken(t.Context(), "phone", "bob", Start.Add(time.Minute)))
	_, err = f.Store.UseToken(t.Context(), secret, Start)
	wantErr(t, err, ops.ErrNotFound)
	works, err := f.Store.TokenWorks(t.Context(), made.ID, Start)
	must(t, err)
	equal(t, "works", works, false)
	wantErr(t, f.Store.RevokeToken(t.Context(), "phone", "bob", Start), ops.ErrNotFound)
	all, err := f.Store.Tokens(t.Context(), true)
	must(t, err)
	equal(t, "all", len(all), 1)
	equal(t, "revoked by", all[0].RevokedBy, "bob")
	open, err := f.Store.Tokens(t.Context(), false)
	must(t, err)
	equal(t, "open", len(open), 0)
}

func tokenExpires(t *testing.T, f *Fixture) {
	_, secret := f.token(t, "phone", time.Hour)
	_, err := f.Store.UseToken(t.Context(), secret, Start.Add(time.Hour-time.Microsecond))
	must(t, err)
	_, err = f.Store.UseToken(t.Context(), secret, Start.Add(time.Hour))
	wantErr(t, err, ops.ErrNotFound)
	_, _, err = f.Store.AddToken(t.Context(), store.Token{
		Name: "late", Role: access.RoleRead, CreatedAt: Start, CreatedBy: "ann", ExpiresAt: ops.Ptr(Start),
	})
	if err == nil {
		t.Error("a token that has expired was made")
	}
}

func tokenNamesAreUnique(t *testing.T, f *Fixture) {
	f.token(t, "phone", time.Hour)
	again := func(at time.Time) error {
		_, _, err := f.Store.AddToken(t.Context(), store.Token{Name: "phone", Role: access.RoleRead, CreatedAt: at, CreatedBy: "ann"})
		return err
	}
	wantErr(t, again(Start), ops.ErrConflict)
	must(t, again(Start.Add(2*time.Hour))) // the first one has expired
	must(t, f.Store.RevokeToken(t.Context(), "phone", "ann", Start.Add(2*time.Hour)))
	won := race(t, 4, ops.ErrConflict, func(int) error { return again(Start.Add(3 * time.Hour)) })
	equal(t, "made at once", won, 1)
	for _, bad := range []store.Token{
		{Name: "", Role: access.RoleRead, CreatedBy: "ann"},
		{Name: "a b", Role: access.RoleRead, CreatedBy: "ann"},
		{Name: "x", Role: "root", CreatedBy: "ann"},
		{Name: "x", CreatedBy: "ann"},
		{Name: "x", Role: access.RoleRead},
	} {
		if _, _, err := f.Store.AddToken(t.Context(), bad); err == nil {
			t.Errorf("%+v was made", bad)
		}
	}
}

func loginEndsWithItsToken(t *testing.T, f *Fixture) {
	made, _ := f.token(t, "phone", 0)
	l := login("a")
	l.TokenID, l.Name, l.Role = made.ID, "token phone", access.RoleResponder
	if seen, err := f.Store.SignedIn(t.Context()); err != nil || seen {
		t.Errorf("before anybody signed in: %v, %v", seen, err)
	}
	must(t, f.Store.AddLogin(t.Context(), l, "", time.Time{}))
	if seen, err := f.Store.SignedIn(t.Context()); err != nil || !seen {
		t.Errorf("after somebody signed in: %v, %v", seen, err)
	}
	got, err := f.Store.Login(t.Context(), "a", Start)
	must(t, err)
	equal(t, "login", got, l)
	must(t, f.Store.RevokeToken(t.Context(), "phone", "ann", Start))
	_, err = f.Store.Login(t.Context(), "a", Start)
	wantErr(t, err, ops.ErrNotFound)
}

func loginEndsWithItsPasskey(t *testing.T, f *Fixture) {
	k := store.Passkey{Name: "laptop", Role: access.RoleAdmin, CredentialID: "id", Credential: []byte(`{}`), CreatedAt: Start, CreatedBy: "ann"}
	k, err := f.Store.AddPasskey(t.Context(), k)
	must(t, err)
	_, err = f.Store.AddPasskey(t.Context(), k)
	wantErr(t, err, ops.ErrConflict)
	must(t, f.Store.UsePasskey(t.Context(), k.ID, []byte(`{"n":1}`), Start.Add(time.Minute)))
	got, err := f.Store.Passkey(t.Context(), "id")
	must(t, err)
	equal(t, "credential", string(got.Credential), `{"n":1}`)
	l := login("a")
	l.PasskeyID, l.Name, l.Role = k.ID, "passkey laptop", access.RoleAdmin
	must(t, f.Store.AddLogin(t.Context(), l, "", time.Time{}))
	_, err = f.Store.Login(t.Context(), "a", Start)
	must(t, err)
	must(t, f.Store.RemovePasskey(t.Context(), k.ID, "ann", Start))
	_, err = f.Store.Login(t.Context(), "a", Start)
	wantErr(t, err, ops.ErrNotFound)
	wantErr(t, f.Store.RemovePasskey(t.Context(), k.ID, "ann", Start), ops.ErrNotFound)
	_, err = f.Store.Passkey(t.Context(), "id")
	wantErr(t, err, ops.ErrNotFound)
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
