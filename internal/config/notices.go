package config

import (
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// noticeRoute is an entry of notify.routes.
type noticeRoute struct {
	ops.NoticeRoute
	held string // the text of the file that holds the targets
}

func noticeRouteFields(r *noticeRoute) []field {
	one := choiceKind("a kind of notice", ops.NoticeKinds()...)
	kinds := listOf("list of "+one.name, strings.Fields, one)
	return []field{
		value("name", &r.Name, textKind(), "Name of the route.").must(),
		value("level", &r.Level, choiceKind("a level", ops.LevelInfo, ops.LevelWarning, ops.LevelCritical),
			"Lowest level that matches.").orElse("any"),
		value("services", &r.Services, textsKind("patterns"), "Services that match; `*` matches any text.").orElse("any"),
		value("kinds", &r.Kinds, kinds, "Kinds of notices that match. `escalated` is sent only where a route names it.").orElse("any"),
		value("environment", &r.Environment, textKind(), "Environment that matches.").orElse("any"),
		value("urls", &r.URLs, appriseKind(),
			"Apprise URLs for what matches, instead of `notify.apprise_urls`; an empty list sends nothing."),
		value("urls_file", &r.held, fileKind(), "File that holds the URLs."),
	}
}

func finishNoticeRoute(e *entry, r *noticeRoute) {
	r.URLs = append(r.URLs, strings.Fields(r.held)...)
	if given, _ := e.hasAny(&r.URLs, &r.held); !given {
		e.refuseAll("add urls: […], or urls: [] to notify nobody", "the route has no targets")
	}
}

// tellEscalated reports whether a route asks for notices of an environment's escalations.
func (c *Config) tellEscalated(environment string) bool {
	return slices.ContainsFunc(c.NoticeRoutes, func(r ops.NoticeRoute) bool {
		return r.Takes(ops.NoticeEscalated) && len(r.URLs) > 0 && (r.Environment == "" || r.Environment == environment)
	})
}
