package storetest

import (
	"slices"
	"strings"
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
		{"changes of access are recorded", changesOfAccessAreRecorded},
		{"a login lasts until its end", loginLasts},
		{"one of two requests renews a login", loginIsRenewedOnce},
	}
}

func (f *Fixture) token(t *testing.T, name string, life time.Duration) (store.Token, string) {
	t.Helper()
	made := store.Token{Name: name, Role: string(access.RoleResponder), CreatedAt: Start, CreatedBy: "ann"}
	if life > 0 {
		made.ExpiresAt = ops.Ptr(Start.Add(life))
	}
	made, secret, err := f.Store.People.AddToken(t.Context(), made)
	must(t, err)
	return made, secret
}

func tokenIsRevoked(t *testing.T, f *Fixture) {
	made, secret := f.token(t, "phone", 0)
	got, err := f.Store.People.UseToken(t.Context(), secret, Start)
	must(t, err)
	equal(t, "id", got.ID, made.ID)
	equal(t, "role", got.Role, string(access.RoleResponder))
	for _, wrong := range []string{"", "phone", secret[1:], secret + "A", strings.ToLower(secret), store.TokenPrefix} {
		_, err := f.Store.People.UseToken(t.Context(), wrong, Start)
		wantErr(t, err, ops.ErrNotFound)
	}
	// Another process revokes it, and this one notices at once.
	other := f.database(t)
	must(t, other.People.RevokeToken(t.Context(), "phone", "bob", Start.Add(time.Minute)))
	_, err = f.Store.People.UseToken(t.Context(), secret, Start)
	wantErr(t, err, ops.ErrNotFound)
	works, err := f.Store.People.TokenWorks(t.Context(), made.ID, Start)
	must(t, err)
	equal(t, "works", works, false)
	wantErr(t, f.Store.People.RevokeToken(t.Context(), "phone", "bob", Start), ops.ErrNotFound)
	all, err := f.Store.People.Tokens(t.Context(), true)
	must(t, err)
	equal(t, "all", len(all), 1)
	equal(t, "revoked by", all[0].RevokedBy, "bob")
	open, err := f.Store.People.Tokens(t.Context(), false)
	must(t, err)
	equal(t, "open", len(open), 0)
}

func tokenExpires(t *testing.T, f *Fixture) {
	_, secret := f.token(t, "phone", time.Hour)
	_, err := f.Store.People.UseToken(t.Context(), secret, Start.Add(time.Hour-time.Microsecond))
	must(t, err)
	_, err = f.Store.People.UseToken(t.Context(), secret, Start.Add(time.Hour))
	wantErr(t, err, ops.ErrNotFound)
	_, _, err = f.Store.People.AddToken(t.Context(), store.Token{
		Name: "late", Role: string(access.RoleRead), CreatedAt: Start, CreatedBy: "ann", ExpiresAt: ops.Ptr(Start),
	})
	if err == nil {
		t.Error("a token that has expired was made")
	}
}

func tokenNamesAreUnique(t *testing.T, f *Fixture) {
	f.token(t, "phone", time.Hour)
	again := func(at time.Time) error {
		_, _, err := f.Store.People.AddToken(t.Context(), store.Token{Name: "phone", Role: string(access.RoleRead), CreatedAt: at, CreatedBy: "ann"})
		return err
	}
	wantErr(t, again(Start), ops.ErrConflict)
	must(t, again(Start.Add(2*time.Hour))) // the first one has expired
	must(t, f.Store.People.RevokeToken(t.Context(), "phone", "ann", Start.Add(2*time.Hour)))
	won := race(t, 4, ops.ErrConflict, func(int) error { return again(Start.Add(3 * time.Hour)) })
	equal(t, "made at once", won, 1)
	for _, bad := range []store.Token{
		{Name: "", Role: string(access.RoleRead), CreatedBy: "ann"},
		{Name: "a b", Role: string(access.RoleRead), CreatedBy: "ann"},
		{Name: "x", CreatedBy: "ann"},
		{Name: "x", Role: string(access.RoleRead)},
	} {
		if _, _, err := f.Store.People.AddToken(t.Context(), bad); err == nil {
			t.Errorf("%+v was made", bad)
		}
	}
}

func loginEndsWithItsToken(t *testing.T, f *Fixture) {
	made, _ := f.token(t, "phone", 0)
	l := login("a")
	l.TokenID, l.Name, l.Role = made.ID, "token phone", string(access.RoleResponder)
	if seen, err := f.Store.People.SignedIn(t.Context()); err != nil || seen {
		t.Errorf("before anybody signed in: %v, %v", seen, err)
	}
	must(t, f.Store.People.AddLogin(t.Context(), l, "", time.Time{}))
	if seen, err := f.Store.People.SignedIn(t.Context()); err != nil || !seen {
		t.Errorf("after somebody signed in: %v, %v", seen, err)
	}
	got, err := f.Store.People.Login(t.Context(), "a", Start)
	must(t, err)
	equal(t, "login", got, l)
	must(t, f.Store.People.RevokeToken(t.Context(), "phone", "ann", Start))
	_, err = f.Store.People.Login(t.Context(), "a", Start)
	wantErr(t, err, ops.ErrNotFound)
}

func login(digest string) store.Login {
	return store.Login{Digest: digest, Role: string(access.RoleRead), BornAt: Start, RenewedAt: Start, ExpiresAt: Start.Add(time.Hour)}
}

func loginLasts(t *testing.T, f *Fixture) {
	must(t, f.Store.People.AddLogin(t.Context(), login("a"), "", time.Time{}))
	got, err := f.Store.People.Login(t.Context(), "a", Start.Add(time.Hour-time.Microsecond))
	must(t, err)
	equal(t, "login", got, login("a"))
	_, err = f.Store.People.Login(t.Context(), "a", Start.Add(time.Hour))
	wantErr(t, err, ops.ErrNotFound)
	must(t, f.Store.People.EndLogin(t.Context(), "a"))
	_, err = f.Store.People.Login(t.Context(), "a", Start)
	wantErr(t, err, ops.ErrNotFound)
}

func loginIsRenewedOnce(t *testing.T, f *Fixture) {
	must(t, f.Store.People.AddLogin(t.Context(), login("a"), "", time.Time{}))
	won := race(t, 4, ops.ErrConflict, func(i int) error {
		return f.Store.People.AddLogin(t.Context(), login(string(rune('b'+i))), "a", Start.Add(time.Minute))
	})
	equal(t, "renewals", won, 1)
	_, err := f.Store.People.Login(t.Context(), "a", Start.Add(2*time.Minute))
	wantErr(t, err, ops.ErrNotFound)
}

// did records that somebody did something.
func (f *Fixture) did(t *testing.T, what string, cycle *ops.CycleID, at time.Time) {
	t.Helper()
	_, err := f.Store.Journal.AddEvent(t.Context(), ops.Event{At: at, CycleID: cycle, Level: ops.LevelInfo, Verb: ops.VerbRequestDone, Reason: what})
	must(t, err)
}

// audits are the records of what people did, oldest first.
func (f *Fixture) audits(t *testing.T) (out []string) {
	t.Helper()
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventAudit), Limit: 50})
	must(t, err)
	for _, e := range slices.Backward(events) {
		out = append(out, e.Message.Words())
	}
	return out
}

func changesOfAccessAreRecorded(t *testing.T, f *Fixture) {
	f.did(t, "ann did this", nil, Start)
	_, err := f.Store.Journal.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Verb: ops.VerbAgentReported, Reason: "not a person"})
	must(t, err)
	f.token(t, "phone", 0)
	must(t, f.Store.People.RevokeToken(t.Context(), "phone", "ann", Start))
	equal(t, "records", f.audits(t), []string{
		"ann did this", "ann made the token phone with the role responder, without an end", "ann revoked the token phone",
	})
}

// auditGoesWithItsCycle removes old records: an unfinished cycle keeps its own.
func auditGoesWithItsCycle(t *testing.T, f *Fixture) {
	f.did(t, "ann did this", nil, Start)
	cycle := f.Claim(t, "home").Cycle.ID
	f.did(t, "ann started the cycle", &cycle, Start)
	f.did(t, "ann did more", nil, Start)
	later := Start.Add(2 * aDay)
	f.did(t, "bob did something new", nil, later)
	f.remove(t, ops.RecordEvents, forADay(), later)
	equal(t, "left", f.audits(t), []string{"ann started the cycle", "bob did something new"})
}
