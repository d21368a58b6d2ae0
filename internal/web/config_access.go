package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// accessView is the section about tokens and passkeys.
type accessView struct {
	Tokens   []tokenRow
	Passkeys []passkeyRow
	Roles    []choice
	Made     *madeToken
	Problem  string
	Fields   []input
	Provider string // the identity provider; empty without one
}

// accessForm is what became of a form of the section.
type accessForm struct {
	made    *madeToken
	problem string
	name    string
	role    string
	expires string
}

// madeToken is a token that was just made: only this page shows its secret.
type madeToken struct {
	Name, Secret string
}

type tokenRow struct {
	Name    string
	Role    string
	Badge   badge
	Expires *stamp // nil: never
	Used    *stamp // nil: never
	Made    stamp
	By      string
	Revoke  question
}

// lifetimes are the lifetimes of tokens that the page offers; zero means no end.
func lifetimes() []struct {
	value, word string
	life        time.Duration
} {
	const day = 24 * time.Hour
	return []struct {
		value, word string
		life        time.Duration
	}{
		{"7d", "In 7 days", 7 * day},
		{"30d", "In 30 days", 30 * day},
		{"90d", "In 90 days", 90 * day},
		{"365d", "In a year", 365 * day},
		{"never", "Never", 0},
	}
}

// accessView returns the section for administrators, nil for others.
func (s *server) accessView(r *http.Request, form accessForm) (*accessView, error) {
	if !caller(r).May(access.Administer) {
		return nil, nil //nolint:nilnil // the section is not shown
	}
	found, err := s.Store.Tokens(r.Context(), false)
	if err != nil {
		return nil, err
	}
	m := moment{s.Clock()}
	view := &accessView{Made: form.made, Problem: form.problem, Fields: tokenFields(form)}
	if s.OIDC != nil {
		view.Provider = plain(s.OIDC.Name())
	}
	keys, err := s.Store.Passkeys(r.Context())
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		view.Passkeys = append(view.Passkeys, m.passkey(k))
	}
	view.Roles = choose(string(access.RoleAdmin), roleChoices()...)
	for _, t := range found {
		view.Tokens = append(view.Tokens, m.token(t))
	}
	return view, nil
}

func (m moment) token(t store.Token) tokenRow {
	name := plain(t.Name)
	row := tokenRow{
		Name: name, Role: t.Role.Title(), Badge: badge{"ok", "circle-check", "Works"}, Expires: m.maybe(t.ExpiresAt), Used: m.maybe(t.LastUsedAt),
		Made: m.stamp(t.CreatedAt), By: plain(t.CreatedBy),
		Revoke: question{
			ID: fmt.Sprintf("revoke-%d", t.ID), Button: "Revoke", Title: "Revoke token " + name,
			Text: "Requests with this token are refused at once, and logins with it end.", Style: "small",
			Action: "/config/tokens/" + url.PathEscape(t.Name) + "/revoke", Yes: "Revoke token", No: "Keep token", Danger: true,
		},
	}
	if !t.Works(m.now) {
		row.Badge = badge{"unknown", "clock", "Expired"}
	}
	return row
}

func roleChoices() []choice {
	var out []choice
	for _, r := range access.Roles() {
		out = append(out, choice{Value: string(r), Word: r.Title()})
	}
	return out
}

func tokenFields(form accessForm) []input {
	role, expires := form.role, form.expires
	if role == "" {
		role = string(access.RoleResponder)
	}
	if expires == "" {
		expires = "90d"
	}
	var ends []choice
	for _, l := range lifetimes() {
		ends = append(ends, choice{Value: l.value, Word: l.word})
	}
	return []input{
		{Name: "name", Label: "Name", Value: form.name, Required: true, Max: 63, Hint: "Actions are recorded under this name."},
		{Name: "role", Label: "Role", Kind: "select", Required: true, Choices: choose(role, roleChoices()...)},
		{Name: "expires", Label: "Expires", Kind: "select", Required: true, Choices: choose(expires, ends...)},
	}
}

// makeToken makes a token and shows it once.
func (s *server) makeToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	form := accessForm{name: r.PostFormValue("name"), role: r.PostFormValue("role"), expires: r.PostFormValue("expires")}
	now := s.Clock()
	t := store.Token{Name: form.name, Role: access.Role(form.role), CreatedAt: now, CreatedBy: s.person(r)}
	known := false
	for _, l := range lifetimes() {
		if known = known || l.value == form.expires; l.value == form.expires && l.life > 0 {
			t.ExpiresAt = ops.Ptr(now.Add(l.life))
		}
	}
	if !known {
		form.problem = "Choose when the token expires. Nothing was changed."
		s.showConfig(w, r, http.StatusUnprocessableEntity, form)
		return
	}
	made, secret, err := s.Store.AddToken(r.Context(), t)
	switch {
	case store.Unavailable(err):
		s.fail(w, r, "token", err)
		return
	case errors.Is(err, ops.ErrConflict):
		form.problem = "A token with this name exists. Revoke it, or choose another name."
		s.showConfig(w, r, http.StatusConflict, form)
		return
	case err != nil:
		form.problem = plain(err.Error())
		s.showConfig(w, r, http.StatusUnprocessableEntity, form)
		return
	}
	s.showConfig(w, r, http.StatusOK, accessForm{made: &madeToken{Name: plain(made.Name), Secret: secret}})
}

// revokeToken ends a token.
func (s *server) revokeToken(w http.ResponseWriter, r *http.Request) {
	if err := s.Store.RevokeToken(r.Context(), r.PathValue("name"), s.person(r), s.Clock()); err != nil {
		s.fail(w, r, "token", err)
		return
	}
	http.Redirect(w, r, "/config?done=revoked#access", http.StatusSeeOther)
}

// accessDone is what a form of the section did.
func accessDone(word string) string {
	switch word {
	case "revoked":
		return "The token is revoked."
	case "passkey-removed":
		return "The passkey is removed."
	case "passkey-added":
		return "The passkey is added."
	}
	return ""
}
