package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/ops"
)

// noticeRoute is an entry of notify.routes.
type noticeRoute struct {
	ops.NoticeRoute
	held  string // the text of the file that holds the targets
	quiet *ops.QuietHours
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
		value("urls", &r.URLs, appriseKind(),
			"Targets for what matches, instead of `notify.apprise_urls`; an empty list sends nothing."),
		value("urls_file", &r.held, fileKind(), "File that holds the URLs."),
		value("quiet_hours", &r.quiet, quietKind(),
			"Time of the day at which notices wait, in UTC or a time zone, for example `22:00-07:00 Europe/Berlin`. Approvals, reviews and "+
				"critical notices are sent anyway.").
			orElse("none"),
	}
}

func finishNoticeRoute(e *entry, r *noticeRoute) {
	r.URLs = append(r.URLs, strings.Fields(r.held)...)
	r.Quiet = r.quiet
	if !e.hasAny(&r.URLs, &r.held) {
		// Such a route only says when the usual targets are notified.
		if r.Default = r.Quiet != nil; !r.Default {
			e.refuseAll("add urls: […], or urls: [] to notify nobody", "the route has no targets")
		}
	}
}

// quietKind reads a time of the day from and to, and its time zone.
func quietKind() kind[*ops.QuietHours] {
	const fix = "give a time of the day such as 22:00-07:00, and a time zone such as Europe/Berlin"
	return kind[*ops.QuietHours]{
		name: "time of the day", schema: map[string]any{"type": "string", "pattern": `^\d{1,2}:\d{2} ?- ?\d{1,2}:\d{2}( [A-Za-z].*)?$`},
		parse: func(_ places, v raw) (*ops.QuietHours, []fault) {
			hours, name := strings.TrimSpace(v.text), ""
			if i := strings.IndexFunc(hours, unicode.IsLetter); i >= 0 {
				hours, name = hours[:i], hours[i:]
			}
			from, to, _ := strings.Cut(strings.ReplaceAll(hours, " ", ""), "-")
			begin, err := time.Parse("15:04", from)
			end, err2 := time.Parse("15:04", to)
			zone, err3 := time.LoadLocation(name) // of no name it is UTC
			if err != nil || err2 != nil {
				return nil, wrong(v, fix, "%q is not a time of the day", v.text)
			}
			if err3 != nil {
				return nil, wrong(v, fix, "%q is not a time zone", name)
			}
			if begin.Equal(end) {
				return nil, wrong(v, fix, "%q begins when it ends", v.text)
			}
			clock := func(t time.Time) time.Duration {
				return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
			}
			return &ops.QuietHours{From: clock(begin), To: clock(end), Zone: zone}, nil
		},
		format: func(q *ops.QuietHours) string {
			if q == nil {
				return ""
			}
			clock := func(d time.Duration) string { return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60) }
			return clock(q.From) + "-" + clock(q.To) + " " + q.Zone.String()
		},
	}
}

// tellEscalated reports whether a route asks for notices of escalations.
func (c *Config) tellEscalated() bool {
	return slices.ContainsFunc(c.NoticeRoutes, func(r ops.NoticeRoute) bool {
		return r.Takes(ops.NoticeEscalated) && (len(r.URLs) > 0 || r.Default)
	})
}

// The forms in which alerts arrive, which are also addresses.
const (
	formGeneric      = "generic"
	formAlertmanager = "alertmanager"
	formGrafana      = "grafana"
)

func senderFields(s *ops.AlertSender) []field {
	return []field{
		value("name", &s.Name, nameKind("name", "a name of a sender"),
			"Name of the sender, and the last part of its address: `/api/v1/webhooks/NAME`. Its ids are its own.").must(),
		value("form", &s.Form, choiceKind("a form of alerts", formGeneric, formAlertmanager, formGrafana), "What it sends.").or(formGeneric),
		value("secret", &s.Secret, tokenKind(),
			"For senders that cannot set headers: `/api/v1/webhooks/NAME/SECRET` needs no token and no signature; at least 20 characters.").
			orElse("none"),
		value("secret_file", &s.Secret, fileKind(), "File that holds the secret."),
	}
}

func (c *Config) finishSender(e *entry, s *ops.AlertSender) {
	if s.Secret != "" && len(s.Secret) < ShortestToken {
		e.refuseAll("give a secret of at least 20 characters, for example from: openssl rand -hex 20", "the secret of the sender is too short")
	}
	switch s.Name {
	case formGeneric, formAlertmanager, formGrafana:
		e.refuse(&s.Name, "choose another name", "%s is the address of everybody who sends that form", s.Name)
	}
	for _, other := range c.Edges.AlertSenders {
		if other.Name == s.Name {
			e.refuseAll("give each sender its own name", "two senders are called %s", s.Name)
		}
	}
}
