package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Setting is one effective value of the configuration. Secrets are masked before they get here.
type Setting struct {
	Key    string
	Value  string
	Origin string // default, file:line, environment NAME, or flag --name
	Env    string
	Doc    string
}

// Wall is one protection of the operating system around agents, and whether this machine has it.
type Wall = situation.Wall

type configView struct {
	Access  *accessView // for administrators only
	Forms   []option    // what the visitor can add to the configuration
	Walls   []Wall
	Search  string
	Changed bool // show only settings that differ from the defaults
	Groups  []settingGroup
	Found   int
	All     int
	Policy  ops.Policy
}

type settingGroup struct {
	Name     string
	Settings []settingRow
	Changed  int // number of settings that differ from the defaults
	Open     bool
}

type settingRow struct {
	Setting
	Default bool
	Masked  bool
	Short   string // the beginning of a long value
}

// longValue limits the part of a value that is shown at once.
const longValue = 120

// masked replaces a secret.
const masked = "[redacted]"

// config shows the page, with what became of a form about access.
func (s *configuration) config(r *http.Request, form accessForm) (page, error) {
	view := configView{Policy: s.Environments[0].Policy, Walls: s.Walls(), Search: queried(r, "q"), All: len(s.Settings)}
	view.Changed = queried(r, "own") != ""
	if s.mayConfigure(r) {
		view.Forms = []option{
			{Word: "Add a service", Path: "/settings/services/new"}, {Word: "Add a notification target", Path: "/settings/notifications/new"},
		}
		for _, e := range s.Environments {
			path := "/settings/trust?" + url.Values{"environment": {e.Name}}.Encode()
			view.Forms = append(view.Forms, option{Word: "Trust in " + plain(e.Name), Path: path})
		}
	}
	at := map[string]int{}
	for _, raw := range s.Settings {
		setting := Setting{plain(raw.Key), plain(raw.Value), plain(raw.Origin), plain(raw.Env), docText(raw.Doc)}
		if strings.HasSuffix(setting.Origin, " "+setting.Env) {
			setting.Env = "" // the origin names it already
		}
		row := settingRow{Setting: setting, Default: setting.Origin == "default", Masked: setting.Value == masked}
		if view.Changed && row.Default || !matches(setting, view.Search) {
			continue
		}
		view.Found++
		name, _, nested := strings.Cut(setting.Key, ".")
		if !nested {
			name = "general"
		}
		n, found := at[name]
		if !found {
			n = len(view.Groups)
			at[name] = n
			view.Groups = append(view.Groups, settingGroup{Name: name})
		}
		group := &view.Groups[n]
		if !row.Default {
			group.Changed++
		}
		group.Open = view.Search != "" || view.Changed
		if short := ops.Start(row.Value, longValue); short != row.Value {
			row.Short = strings.ReplaceAll(short, ",", ", ") + "…"
			row.Value = strings.ReplaceAll(row.Value, ",", ", ")
		}
		group.Settings = append(group.Settings, row)
	}
	flash := ""
	if queried(r, "done") == "revoked" {
		flash = "The token is revoked."
	}
	var err error
	view.Access, err = s.accessView(r, form)
	return page{
		Title: "Configuration", Nav: "config", Body: view, Flash: flash,
		Static: view.Access != nil, // its forms keep what was typed
	}, err
}

func matches(setting Setting, search string) bool {
	search = strings.ToLower(search)
	return slices.ContainsFunc([]string{setting.Key, setting.Env, setting.Doc}, func(text string) bool {
		return strings.Contains(strings.ToLower(text), search)
	})
}

// docLink matches a markdown link in the documentation of a setting.
var docLink = ops.Pattern(`\[([^\]]*)\]\([^)]*\)`)

// docText is the documentation of a setting without its markup.
func docText(doc string) string {
	return plain(strings.ReplaceAll(docLink().ReplaceAllString(doc, "$1"), "`", ""))
}

func rolesOf(p ops.Policy, id string) []string { return api.Rows(p.RolesOf(id), ops.Capital) }

// agentText names the agent of a handler.
func agentText(h ops.Handler) string {
	switch {
	case h.Human():
		return "A human"
	case len(h.Command) > 0:
		return "Command " + plain(path.Base(h.Command[0]))
	}
	return plain(cmp.Or(h.Agent, h.Family))
}

// accessView is the section about tokens.
type accessView struct {
	Tokens   []store.Token
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

type lifetime struct {
	value, word string
	life        time.Duration
}

// lifetimes are the lifetimes of tokens that the page offers; zero means no end.
func lifetimes() []lifetime {
	const day = 24 * time.Hour
	return []lifetime{
		{"7d", "In 7 days", 7 * day},
		{"30d", "In 30 days", 30 * day},
		{"90d", "In 90 days", 90 * day},
		{"365d", "In a year", 365 * day},
		{"never", "Never", 0},
	}
}

// accessView returns the section for administrators, nil for others.
func (s *configuration) accessView(r *http.Request, form accessForm) (*accessView, error) {
	if !caller(r).May(access.Administer) {
		return nil, nil //nolint:nilnil // the section is not shown
	}
	view := &accessView{Made: form.made, Problem: form.problem, Fields: tokenFields(form)}
	if s.OIDC != nil {
		view.Provider = plain(s.OIDC.Name())
	}
	var err error
	view.Tokens, err = s.Store.People.Tokens(r.Context(), false)
	return view, err
}

func revokeQuestion(t store.Token) question {
	return question{
		ID: fmt.Sprintf("revoke-%d", t.ID), Button: "Revoke", Title: "Revoke token " + plain(t.Name),
		Text: "Requests with this token are refused at once, and logins with it end.", Style: "small",
		Action: "/config/tokens/" + url.PathEscape(t.Name) + "/revoke", Yes: "Revoke token", No: "Keep token", Danger: true,
	}
}

func roleChoices() []choice {
	return ops.Map(access.Roles(), func(r access.Role) choice { return choice{Value: string(r), Word: r.Title()} })
}

func tokenFields(form accessForm) []input {
	role, expires := cmp.Or(form.role, string(access.RoleResponder)), cmp.Or(form.expires, "90d")
	ends := ops.Map(lifetimes(), func(l lifetime) choice { return choice{Value: l.value, Word: l.word} })
	return []input{
		{Name: "name", Label: "Name", Value: form.name, Required: true, Max: 63, Hint: "Actions are recorded under this name."},
		{Name: "role", Label: "Role", Kind: "select", Required: true, Choices: choose(role, roleChoices()...)},
		{Name: "expires", Label: "Expires", Kind: "select", Required: true, Choices: choose(expires, ends...)},
	}
}

// makeToken makes a token and shows it once.
func (s *configuration) makeToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	form := accessForm{name: r.PostFormValue("name"), role: r.PostFormValue("role"), expires: r.PostFormValue("expires")}
	now := s.Clock()
	t := store.Token{Name: form.name, Role: form.role, CreatedAt: now, CreatedBy: s.person(r)}
	known := false
	for _, l := range lifetimes() {
		if known = known || l.value == form.expires; l.value == form.expires && l.life > 0 {
			t.ExpiresAt = ops.Ptr(now.Add(l.life))
		}
	}
	status := http.StatusUnprocessableEntity
	made, secret, err := store.Token{}, "", error(wrong{text: "Choose when the token expires. Nothing was changed."})
	if role := access.Role(form.role); known && !role.Known() {
		err = fmt.Errorf("make token %s: %q is not a role", t.Name, role)
	} else if known {
		made, secret, err = s.Store.People.AddToken(r.Context(), t)
	}
	switch {
	case store.Unavailable(err):
		s.fail(w, r, "token", err)
		return
	case errors.Is(err, ops.ErrConflict):
		status, form.problem = http.StatusConflict, "A token with this name exists. Revoke it, or choose another name."
	case err != nil:
		form.problem = plain(err.Error())
	default:
		status, form = http.StatusOK, accessForm{made: &madeToken{Name: plain(made.Name), Secret: secret}}
	}
	p, err := s.config(r, form)
	p.Status = status
	s.show(w, r, "config", "list of tokens", p, err)
}

// revokeToken ends a token.
func (s *configuration) revokeToken(r *http.Request) (string, error) {
	return "/config?done=revoked#access", s.Store.People.RevokeToken(r.Context(), r.PathValue("name"), s.person(r), s.Clock())
}
