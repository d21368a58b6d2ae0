package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const untilLayout = "2006-01-02 15:04"

func (s *silences) silences(r *http.Request, problem string) (page, error) {
	m := moment{s.Clock()}
	f := store.SilenceFilter{Environment: queried(r, "environment")}
	all := queried(r, "all") != ""
	if !all {
		f.Active = m.now
	}
	view, err := listOf(s.site, r, func(ctx context.Context, before int64, limit int) ([]ops.Silence, error) {
		f.Before, f.Limit = before, limit
		return s.Store.Watch.Silences(ctx, f)
	}, func(q ops.Silence) int64 { return q.ID }, func(q ops.Silence) api.Silence { return api.SilenceRow(q, m.now) })
	view.Filtered, view.Add, view.FormError = f.Environment != "", s.silenceQuestion(r, m), problem
	view.Tabs = []option{
		{Word: "Active", Path: with(r, "all", ""), Current: !all},
		{Word: "All", Path: with(r, "all", "1"), Current: all},
	}
	view.Filters = filterRow{Action: "/silences"}.withEnvironment(s.environmentChoices(f.Environment))
	if all {
		view.Tab, view.Filters.Hidden = "all", map[string]string{"all": "1"}
	}
	p := page{Title: "Silences", Nav: "services", Body: view}
	switch queried(r, "done") {
	case "added":
		p.Flash = "Silenced: no cycle starts for it, and nothing escalates."
	case "ended":
		p.Flash = "The silence has ended. Failures count again."
	}
	return p, err
}

// endQuestion asks before a silence ends. back is the page to return to; empty for the list.
func endQuestion(id int64, back string) question {
	q := question{
		ID: fmt.Sprintf("end-%d", id), Button: "End", Icon: "bell", Style: "plain", Title: fmt.Sprintf("End silence %d now?", id),
		Text:   "Failures count again at once. If the service still fails, a cycle may start.",
		Action: fmt.Sprintf("/silences/%d/end", id), Yes: "End silence", No: "Keep silence",
	}
	if back != "" {
		q.Hidden = map[string]string{"back": back}
	}
	return q
}

// silenceDurations are the durations to choose from; any other end can be typed.
func silenceDurations(value string) []choice {
	spans := []choice{
		{Value: "1h", Word: "1 hour"},
		{Value: "4h", Word: "4 hours"},
		{Value: "8h", Word: "8 hours"},
		{Value: "24h", Word: "1 day"},
		{Value: "72h", Word: "3 days"},
		{Value: "168h", Word: "7 days"},
	}
	for i := range spans {
		spans[i].Chosen = spans[i].Value == value
	}
	return spans
}

func (s *silences) silenceQuestion(r *http.Request, m moment) question {
	q := question{
		ID: "add-silence", Button: "Add silence", Icon: "bell-off", Style: "primary", Title: "Add a silence", Action: "/silences",
		Yes: "Add silence", No: "Cancel", Hidden: map[string]string{"zone": ""},
		Text: "While it is active, no cycle starts for matching services, and nothing escalates. " +
			"Enter a service, a group or both; * matches any text.",
		Fields: []input{
			{Name: "service", Label: "Service", Max: desk.MaxName, Value: typed(r, "service"), Hint: "For example jellyfin or media-*"},
			{Name: "group", Label: "Group", Max: desk.MaxName, Value: typed(r, "group")},
			{
				Name: "reason", Label: "Reason", Kind: "area", Required: true, Max: desk.MaxReason, Value: typed(r, "reason"),
				Hint: "For other operators",
			},
			{Name: "for", Label: "Duration", Kind: "select", Required: true, Choices: silenceDurations(typed(r, "for"))},
			{
				Name: "until", Label: "Or until", Max: len(untilLayout), Value: typed(r, "until"),
				Hint: "For example " + m.now.UTC().Add(48*time.Hour).Format(untilLayout) + " (UTC)",
			},
		},
	}
	if len(s.Environments) > 1 {
		q.Fields = slices.Insert(q.Fields, 2, input{
			Name: "environment", Label: "Environment", Kind: "select", Required: true,
			Choices: s.environmentChoices(r.PostFormValue("environment")),
		})
	}
	return q
}

// silenceEnd returns the end of a silence, or what is wrong with how it is written.
func silenceEnd(r *http.Request, now time.Time) (end desk.End, err error) {
	if text := strings.TrimSpace(r.PostFormValue("until")); text != "" {
		zone, err := time.LoadLocation(r.PostFormValue("zone")) // empty means UTC
		if err != nil {
			return end, wrong{http.StatusUnprocessableEntity, "The time zone is not known here. Choose a duration. Nothing was added."}
		}
		if end.Until, err = time.ParseInLocation(untilLayout, text, zone); err != nil {
			example := now.In(zone).Format(untilLayout)
			return end, wrong{http.StatusUnprocessableEntity, "Enter the end as a time, for example " + example + ". Nothing was added."}
		}
		return end, nil
	}
	if text := r.PostFormValue("for"); text != "" {
		end.For, err = desk.Span(text)
	}
	return end, err
}

func (s *silences) addSilence(r *http.Request) (string, error) {
	end, err := silenceEnd(r, s.Clock())
	if err == nil {
		_, err = s.desk.AddSilence(r.Context(), by(r), desk.Silence{
			Environment: r.PostFormValue("environment"), Service: typed(r, "service"), Group: typed(r, "group"), Reason: reason(r), End: end,
		})
	}
	return serviceBack(r, "added", "/silences?done=added"), err
}

// endSilence ends a silence.
func (s *silences) endSilence(r *http.Request) (string, error) {
	_, err := s.desk.EndSilence(r.Context(), by(r), rowID(r))
	return serviceBack(r, "ended", "/silences?done=ended"), err
}
