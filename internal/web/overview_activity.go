package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// activityView is one line of the activity.
type activityView struct {
	Badge   badge
	At      stamp
	Service string
	Text    textView
	Link    *pageLink
}

// longActivity is how much of a text the activity shows at once.
const longActivity = 150

// activity makes the lines of the activity: the rows of events, and the starts of cycles.
type activity struct{ m moment }

type activityLine struct {
	at   time.Time
	id   int64
	view activityView
}

// lines returns the newest lines first.
func (a activity) lines(events []ops.Event, cycles []store.CycleSummary, limit int) []activityView {
	starters := map[ops.CycleID]string{}
	var found []activityLine
	for _, e := range events {
		if e.Verb == ops.VerbCycleStarted && e.CycleID != nil {
			starters[*e.CycleID] = e.Actor.Name
		}
		if view, ok := a.event(e); ok {
			found = append(found, activityLine{e.At, e.ID, view})
		}
	}
	oldest := time.Time{} // before it there may be events that were not read
	if len(events) >= readEvents {
		oldest = events[len(events)-1].At
	}
	for _, c := range cycles {
		if view, ok := a.start(c.Cycle, starters[c.ID]); ok && !c.CreatedAt.Before(oldest) {
			found = append(found, activityLine{at: c.CreatedAt, view: view})
		}
	}
	slices.SortStableFunc(found, func(x, y activityLine) int { return cmp.Or(y.at.Compare(x.at), cmp.Compare(y.id, x.id)) })
	var out []activityView
	for _, f := range found[:min(limit, len(found))] {
		out = append(out, f.view)
	}
	return out
}

// start says who started a cycle. For failed probes and alerts, the watch has recorded an event.
func (a activity) start(c ops.Cycle, person string) (activityView, bool) {
	view := activityView{Badge: badge{"unknown", "play", "Started"}, At: a.m.stamp(c.CreatedAt), Link: a.cycleLink(c.ID)}
	who := ""
	switch c.Trigger {
	case ops.TriggerScheduled:
		who, view.Badge.Icon = "The schedule", "clock"
	case ops.TriggerManual, ops.TriggerAPI:
		who, view.Badge.Icon = begins(plain(cmp.Or(person, "Somebody")), person), "user"
	case ops.TriggerAlert, ops.TriggerProbe:
		return view, false
	default:
		return view, false
	}
	view.Text = textView{Short: who + " started"}
	if title := cycleTitle(c); title != c.Trigger.Title() {
		view.Text = clamp(who+" started a cycle: "+title, longActivity)
	}
	return view, true
}

func (a activity) cycleLink(id ops.CycleID) *pageLink {
	return &pageLink{cyclePath(id), fmt.Sprintf("C-%d", id)}
}

// event is the row of an event; false for one that another row tells, or that is shown with its session and under Guard.
func (a activity) event(e ops.Event) (activityView, bool) {
	view := activityView{Badge: stateOf("", e.Level), At: a.m.stamp(e.At), Service: plain(e.Service)}
	elsewhere := []ops.Verb{
		ops.VerbWallsHold, ops.VerbWallRefused, ops.VerbAccessRefused, ops.VerbCycleStarted, ops.VerbReplyTaken, ops.VerbRequestDone,
	}
	if slices.Contains(elsewhere, e.Verb) {
		return view, false
	}
	switch {
	case e.SessionID != nil:
		view.Link = &pageLink{fmt.Sprintf("/sessions/%d", *e.SessionID), fmt.Sprintf("#%d", *e.SessionID)}
	case e.CycleID != nil:
		view.Link = a.cycleLink(*e.CycleID)
	}
	message := spoken(e.Message.Words())
	if e.Actor.Kind == ops.ActorPerson {
		view.Badge.Icon, view.Service = "user", "" // the sentence names both
	}
	if text, ok := strings.CutPrefix(message, view.Service+" "); ok && view.Service != "" {
		message = text // the name is shown before the message
	} else if strings.Contains(message, view.Service) {
		view.Service = "" // the sentence names it
	}
	if view.Service == "" {
		message = begins(message, e.Actor.Name)
	}
	view.Text = clamp(message, longActivity)
	return view, true
}

// begins begins a sentence, which a person's own name does as it is written.
func begins(text, person string) string {
	if person != "" && person != nameOperator && person != nameReader {
		return text
	}
	return capital(text)
}

// capital begins a sentence with a capital letter.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
