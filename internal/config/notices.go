package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// noticeRoute is an entry of notify.routes.
type noticeRoute struct {
	ops.NoticeRoute
	held  string // the text of the file that holds the targets
	quiet *ops.QuietHours
	zone  *time.Location
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
			"Time of the day at which notices wait, for example `22:00-07:00`. Approvals, reviews and critical notices are sent anyway.").
			orElse("none"),
		value("time_zone", &r.zone, zoneKind(), "Time zone of the quiet hours, for example `Europe/Berlin`.").orElse("UTC"),
	}
}

func finishNoticeRoute(e *entry, r *noticeRoute) {
	r.URLs = append(r.URLs, strings.Fields(r.held)...)
	if r.quiet != nil {
		r.Quiet = &ops.QuietHours{From: r.quiet.From, To: r.quiet.To, Zone: cmp.Or(r.zone, time.UTC)}
	}
	if !e.hasAny(&r.URLs, &r.held) {
		// Such a route only says when the usual targets are notified.
		if r.Default = r.Quiet != nil; !r.Default {
			e.refuseAll("add urls: […], or urls: [] to notify nobody", "the route has no targets")
		}
	}
}

// quietKind reads a time of the day from and to.
func quietKind() kind[*ops.QuietHours] {
	const fix = "give a time of the day such as 22:00-07:00"
	return kind[*ops.QuietHours]{
		name: "time of the day", schema: map[string]any{"type": "string", "pattern": `^\d{1,2}:\d{2}-\d{1,2}:\d{2}$`},
		parse: func(_ places, v raw) (*ops.QuietHours, []fault) {
			from, to, _ := strings.Cut(strings.ReplaceAll(v.text, " ", ""), "-")
			begin, err := time.Parse("15:04", from)
			end, err2 := time.Parse("15:04", to)
			if err != nil || err2 != nil {
				return nil, wrong(v, fix, "%q is not a time of the day", v.text)
			}
			if begin.Equal(end) {
				return nil, wrong(v, fix, "%q begins when it ends", v.text)
			}
			clock := func(t time.Time) time.Duration {
				return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
			}
			return &ops.QuietHours{From: clock(begin), To: clock(end)}, nil
		},
		format: func(q *ops.QuietHours) string {
			if q == nil {
				return ""
			}
			clock := func(d time.Duration) string { return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60) }
			return clock(q.From) + "-" + clock(q.To)
		},
	}
}

// zoneKind reads the name of a time zone.
func zoneKind() kind[*time.Location] {
	return kind[*time.Location]{
		name: "time zone", schema: map[string]any{"type": "string"},
		parse: func(_ places, v raw) (*time.Location, []fault) {
			zone, err := time.LoadLocation(v.text)
			if err != nil || v.text == "" {
				return nil, wrong(v, "give a name such as Europe/Berlin or UTC", "%q is not a time zone", v.text)
			}
			return zone, nil
		},
		format: func(z *time.Location) string {
			if z == nil {
				return ""
			}
			return z.String()
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
