package web

import (
	"cmp"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
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
	Access   *accessView // for administrators only
	Walls    []Wall
	Search   string
	Changed  bool // show only settings that differ from the defaults
	Groups   []settingGroup
	Found    int
	All      int
	Hosts    []hostRow
	Handlers []handlerRow
	Routes   []routeRow
	DryRun   bool
	MaxTier  ops.Tier
	Approval string
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

type handlerRow struct {
	ID          string
	Tier        ops.Tier
	Title       string
	Human       bool
	Agent       string
	Model       string
	Permissions string
	Roles       string
	HandsTo     string
	Fallback    string
	Above       bool // above the maximum tier
}

// routeRow is one escalation route.
type routeRow struct {
	From, To string
	Kind     string
	Note     string
}

// longValue limits the part of a value that is shown at once.
const longValue = 120

// masked replaces a secret.
const masked = "[redacted]"

func (s *server) config(w http.ResponseWriter, r *http.Request) {
	s.showConfig(w, r, http.StatusOK, accessForm{})
}

// showConfig shows the page, with what became of a form about access.
func (s *server) showConfig(w http.ResponseWriter, r *http.Request, status int, form accessForm) {
	view := configView{Walls: s.Walls(), Search: queried(r, "q"), Changed: queried(r, "own") != "", All: len(s.Settings)}
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
		group.Open = view.Search != "" || view.Changed || group.Changed > 0
		if short, cut := clip(row.Value, longValue); cut {
			row.Short = strings.ReplaceAll(short, ",", ", ") + "…"
			row.Value = strings.ReplaceAll(row.Value, ",", ", ")
		}
		group.Settings = append(group.Settings, row)
	}
	view.addPolicy(s.Environments[0].Policy)
	var err error
	if view.Hosts, err = s.hosts(r.Context()); err != nil {
		s.fail(w, r, "list of hosts", err)
		return
	}
	if view.Access, err = s.accessView(r, form); err != nil {
		s.fail(w, r, "list of tokens", err)
		return
	}
	s.render(w, r, status, "config", page{
		Title: "Configuration", Nav: "config", Body: view, Flash: accessDone(queried(r, "done")), Passkeys: view.Access != nil,
		Static: view.Access != nil, // its forms keep what was typed
	})
}

func matches(setting Setting, search string) bool {
	search = strings.ToLower(search)
	for _, text := range []string{setting.Key, setting.Env, setting.Doc} {
		if strings.Contains(strings.ToLower(text), search) {
			return true
		}
	}
	return false
}

// docLink matches a markdown link in the documentation of a setting.
var docLink = ops.Pattern(`\[([^\]]*)\]\([^)]*\)`)

// docText is the documentation of a setting without its markup.
func docText(doc string) string {
	return plain(strings.ReplaceAll(docLink().ReplaceAllString(doc, "$1"), "`", ""))
}

// addPolicy adds the handlers and their routes. They are the same in every environment.
func (v *configView) addPolicy(p ops.Policy) {
	v.DryRun, v.MaxTier = p.DryRun, p.MaxTier
	if p.ApprovalTier > 0 {
		v.Approval = fmt.Sprintf("%s and above start only after a human approves.", p.ApprovalTier)
	}
	for _, h := range p.Handlers {
		row := handlerRow{
			ID: plain(h.ID), Tier: h.Tier, Title: h.Tier.Title(), Human: h.Human(), Agent: agentText(h), Model: plain(h.Model),
			Permissions: h.May().Title(), Roles: strings.Join(rolesOf(p, h.ID), ", "), HandsTo: plain(strings.Join(h.HandsTo, ", ")),
			Fallback: plain(strings.Join(h.Fallback, ", ")),
			Above:    h.Tier > p.MaxTier && !h.Human() && p.MaxTier > 0,
		}
		if row.Human {
			row.Permissions = "Everything"
		}
		v.Handlers = append(v.Handlers, row)
		for _, to := range h.HandsTo {
			v.Routes = append(v.Routes, routeRow{plain(h.ID), plain(to), "escalates to", routeNote(p, h.ID, to)})
		}
		for _, to := range h.Fallback {
			v.Routes = append(v.Routes, routeRow{plain(h.ID), plain(to), "falls back to", ""})
		}
	}
}

func rolesOf(p ops.Policy, id string) []string {
	var out []string
	roles := []struct{ word, id string }{{"Entry", p.Entry}, {"Manager", p.Manager}, {"Planner", p.Planner}, {"Judge", p.Judge}}
	for _, role := range roles {
		if role.id == id {
			out = append(out, role.word)
		}
	}
	if slices.ContainsFunc(p.Handlers, func(h ops.Handler) bool { return slices.Contains(h.Fallback, id) }) {
		out = append(out, "Fallback")
	}
	return out
}

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

// routeNote lists the conditions of a route.
func routeNote(p ops.Policy, from, to string) string {
	route := p.RouteOf(from, to)
	target, _ := p.Handler(to)
	var notes []string
	if !target.Human() && (route.Approval || p.ApprovalTier > 0 && target.Tier >= p.ApprovalTier) {
		notes = append(notes, "after approval")
	}
	if route.Independence != "" && route.Independence != ops.IndependenceNone {
		notes = append(notes, strings.ReplaceAll(string(route.Independence), "_", " "))
	}
	if route.Mode != "" {
		notes = append(notes, "by "+string(route.Mode))
	}
	return strings.Join(notes, ", ")
}
