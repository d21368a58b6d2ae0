package web

import (
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
)

// listView is a list of the API's rows, as pages show it.
type listView[T any] struct {
	Rows      []T
	Tabs      []option
	Tab       string // the current one
	Filters   filterRow
	Filtered  bool
	Several   bool // environments
	Add       question
	FormError string
	Empty     string // what to say without rows
	Pager     pager
}

// listOf reads the page of a list that a request asks for: its rows, newest first, from a cursor on.
func listOf[S, T any](s *site, r *http.Request, read func(ctx context.Context, before int64, limit int) ([]S, error),
	id func(S) int64, row func(S) T,
) (listView[T], error) {
	before, ok := cursor(r)
	if !ok {
		return listView[T]{}, ops.ErrNotFound
	}
	found, err := read(r.Context(), before, listed+1)
	if err != nil {
		return listView[T]{}, err
	}
	view := listView[T]{Several: len(s.Environments) > 1}
	found, view.Pager = paged(r, found, id)
	view.Rows = api.Rows(found, row)
	return view, nil
}

// rowFuncs are the functions with which templates show rows. Foreign text goes through plain or line.
func rowFuncs(clock ops.Clock, prose func(string) template.HTML) template.FuncMap {
	return template.FuncMap{
		"byRoute": story.ByRoute,
		"plain":   func(text any) string { return plain(words(text)) },
		"spoken":  spoken, "shortPaths": shortPaths,
		"line":  func(text any, limit int) string { return firstLine(words(text), limit) },
		"when":  func(t any) stamp { return moment{clock()}.stamp(timeOf(t)) },
		"over":  func(t any) bool { at := timeOf(t); return !at.IsZero() && !at.After(clock()) },
		"share": func(part float64) string { return strconv.FormatFloat(100*part, 'f', 0, 64) + " %" },
		"state": func(kind string, state any) badge { return stateOf(kind, words(state)) },
		"took":  func(ms any) string { return span(time.Duration(number(ms)) * time.Millisecond) },
		"money": func(usd float64) figure { return dollars(&usd) }, "paid": dollars, "atLeast": atLeast,
		"cut": ops.Cut, "health": func(status any) badge { return healthBadge(ops.Health(words(status))) },

		"until":  func(t *time.Time) stamp { return moment{clock()}.until(*t) },
		"clock":  func(t time.Time) stamp { return moment{clock()}.precise(t) },
		"ago":    func(t any) stamp { return moment{clock()}.ago(timeOf(t)) },
		"joined": func(all []string) string { return plain(strings.Join(all, ", ")) },

		"cyclePath": func(id any) string { return cyclePath(ops.CycleID(number(id))) },
		"role":      roleText, "chips": chips, "lasted": func(c ops.Cycle) figure { return moment{clock()}.lasted(c) },
		"turns":  func(c store.CycleSummary) figure { return totalTurns(c.Sessions).yet(c.Status.Ended()) },
		"cost":   func(c store.CycleSummary) figure { return totalCost(c.Sessions).yet(c.Status.Ended()) },
		"more":   func(list []ops.Session, shown int) int { return len(list) - shown },
		"revoke": revokeQuestion, "agent": agentText, "roles": rolesOf, "may": func(role string) string { return access.Role(role).Title() },
		"question":   func(a api.Approval) string { return questionTitle(a, nil) },
		"answered":   func(a api.Approval) string { return moment{clock()}.answerNote(a) },
		"cycleState": badgeOf, "cycleTitle": cycleTitle, "judgeState": judgeBadge, "stepState": stepBadge, "subjectLink": subjectLink,
		"incidentState": func(i ops.Incident) badge { return incidentBadge(i, clock()) },
		"incidentNote":  func(i ops.Incident) string { return moment{clock()}.incidentNote(i) },
		"incidentTitle": incidentTitle, "sentences": sentences, "failing": failing, "atMost": atMost,
		"command": func(input string) string { return plain(commandOf(input)) },
		"prose":   prose, "allowed": allowedBadge, "gate": gateText,
		"sum":        func(a, b int) int { return a + b },
		"trustMeans": func(level string) string { return trustMeans(ops.Trust(level)) },
		"silenceState": func(q api.Silence) badge {
			switch now := clock(); {
			case !now.Before(q.Until):
				return badge{"unknown", "bell", "Ended"}
			case now.Before(q.From):
				return badge{"unknown", "clock", "Starts later"}
			}
			return badge{"warn", "bell-off", "Silenced"}
		},
		"matches": matchesOf, "endSilence": endQuestion, "forget": forget, "source": sourceText,
		"runTitle": runTitle, "eventText": eventText,
	}
}

// words is a text of a row, which may be null.
func words(text any) string {
	switch t := text.(type) {
	case string:
		return t
	case *string:
		if t == nil {
			return ""
		}
		return *t
	}
	return fmt.Sprint(text)
}

// number is a number of a row, whatever its type.
func number(n any) int64 { return reflect.Indirect(reflect.ValueOf(n)).Int() }

// timeOf is a time of a row; one that is null is zero.
func timeOf(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t
	case *time.Time:
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

// match is one pattern of a silence and the field it matches.
type match struct{ What, Pattern string }

func matchesOf(q api.Silence) []match {
	var out []match
	for _, m := range []match{{"Service", words(q.Service)}, {"Group", words(q.Group)}, {"Probe", words(q.Probe)}} {
		if m.Pattern != "" {
			out = append(out, match{m.What, plain(m.Pattern)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Labels)) {
		out = append(out, match{"Alert label " + plain(name), plain(q.Labels[name])})
	}
	return out
}
