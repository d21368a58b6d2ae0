package config

import (
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

func noticeSettings() []setting {
	return []setting{
		{
			key: "notify.second_urls", env: "CLAUDEOPS_APPRISE_SECOND_URLS", kind: appriseKind(), secret: true, shown: "the first ones",
			doc: "Who is told when nobody answers the reminders.",
		},
		{
			key: "notify.routes", structured: true, kind: kind{name: "list"},
			doc: "Other targets for certain notices. See [Notices](#notices).",
		},
		{
			key: "web.public_url", env: "CLAUDEOPS_PUBLIC_URL", kind: webURLKind(),
			doc: "Address under which people reach the pages; notices then carry links.",
		},
	}
}

func noticeRouteFields() []field {
	return []field{
		{name: "name", doc: "What it is called. Required."},
		{name: "level", def: "any", doc: "The lowest level it takes: `info`, `warning` or `critical`."},
		{name: "services", def: "any", doc: "Which services; `*` stands for any text."},
		{name: "kinds", def: "any", doc: "Which notices: " + quoted(noticeKinds()) + ". Only a route that names `escalated` gets it."},
		{name: "environment", def: "any", doc: "Which environment."},
		{name: "urls", doc: "Apprise URLs that get what matches, instead of `notify.apprise_urls`; an empty list tells nobody."},
		{name: "urls_file", doc: "File that holds them."},
	}
}

func noticeKinds() []string {
	var out []string
	for _, k := range ops.NoticeKinds() {
		out = append(out, string(k))
	}
	return out
}

// noticeKind is a list of kinds of notices. A slip in one would send what it means elsewhere, unnoticed.
func noticeKind() kind {
	one := choiceKind("a kind of notice", noticeKinds()...)
	return kind{name: "kinds", list: true, parse: func(p places, v raw) (any, []fault) {
		var out []string
		var faults []fault
		for _, e := range v.entries(strings.Fields) {
			if _, bad := one.parse(p, e); bad != nil {
				faults = append(faults, bad...)
			}
			out = append(out, e.text)
		}
		return out, faults
	}}
}

func quoted(words []string) string { return "`" + strings.Join(words, "`, `") + "`" }

func (l *loader) noticeRoutes() []ops.NoticeRoute {
	const section = "notify.routes"
	n := l.sections[section]
	if n == nil {
		return nil
	}
	levels := choiceKind("a level", string(ops.LevelInfo), string(ops.LevelWarning), string(ops.LevelCritical))
	kinds := map[string]kind{
		"name": textKind(), "level": levels, "services": listKind("patterns"), "kinds": noticeKind(), "environment": textKind(),
		"urls": appriseKind(), "urls_file": fileKind(),
	}
	var out []ops.NoticeRoute
	for i, item := range l.file.items(n, section) {
		key := fmt.Sprintf("%s[%d]", section, i)
		e := l.entry(item, key, noticeRouteFields(), kinds, []string{"name"}, nil)
		if e == nil {
			continue
		}
		r := ops.NoticeRoute{Name: text(e, "name"), Level: ops.Level(text(e, "level")), Environment: text(e, "environment")}
		r.Services, _ = e["services"].([]string)
		kinds, _ := e["kinds"].([]string)
		for _, k := range kinds {
			r.Kinds = append(r.Kinds, ops.NoticeKind(k))
		}
		r.URLs, _ = e["urls"].([]string)
		if held := text(e, "urls_file"); held != "" {
			r.URLs = append(r.URLs, strings.Fields(held)...)
		}
		_, given := e["urls"]
		_, named := e["urls_file"]
		if !given && !named {
			l.problems.add(l.file.at(item), key, "the route has no targets", "add urls: […], or urls: [] to tell nobody")
			continue
		}
		out = append(out, r)
	}
	return out
}

// tellEscalated: a route wants to hear of an environment's escalations.
func (c *Config) tellEscalated(environment string) bool {
	return slices.ContainsFunc(c.NoticeRoutes, func(r ops.NoticeRoute) bool {
		return r.Takes(ops.NoticeEscalated) && len(r.URLs) > 0 && (r.Environment == "" || r.Environment == environment)
	})
}
