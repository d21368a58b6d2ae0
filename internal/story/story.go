// Package story is the one narrator of what happened: rows in, a headline and at most eight typed steps out. Pages, commands, notices, the
// API and the report in Markdown render those steps. It reads nothing and asks no model. What agents and services said is data from
// outside: it is said to be theirs, it is redacted in the report, and it cannot form Markdown.
package story

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Kind is what a step of a story is.
type Kind string

// The kinds of steps.
const (
	StepDetected     Kind = "detected"
	StepLooked       Kind = "looked"
	StepTried        Kind = "tried"
	StepUndone       Kind = "undone"
	StepRefused      Kind = "refused"
	StepAsked        Kind = "asked"
	StepAnswered     Kind = "answered"
	StepRepaired     Kind = "repaired"
	StepVerified     Kind = "verified"
	StepStillWrong   Kind = "still_wrong"
	StepTold         Kind = "told"
	StepNothingTried Kind = "nothing_tried"
)

// Words are the kind as people read it.
func (k Kind) Words() string { return ops.Spaced(k) }

const (
	mostSteps    = 8
	mostCalls    = 12
	longestStep  = 140
	longestCause = 60
)

// Step is one step of a story. Its text may hold words from outside.
type Step struct {
	Subject ops.Subject `json:"-"` // the row it tells of

	Kind    Kind      `json:"kind" enum:"detected,looked,tried,undone,refused,asked,answered,repaired,verified,still_wrong,told,nothing_tried"`
	At      time.Time `json:"at"`
	Seconds int       `json:"seconds" doc:"Since the first step."`
	Text    string    `json:"text"`
	Bad     bool      `json:"bad" doc:"It made things worse, or did not help."`
	Calls   []Call    `json:"calls" doc:"What was run or asked for, oldest first: what an agent says rests on these, or on nothing."`
}

// Call is one call of an agent, or what the supervisor ran.
type Call struct {
	At      time.Time `json:"at"`
	Tool    string    `json:"tool"`
	Command string    `json:"command"`
	Refused string    `json:"refused" doc:"Why it was refused; empty: it was allowed."`
}

// After is the time since the first step, as people say it.
func (s Step) After() string { return "+" + ops.Span(time.Duration(s.Seconds)*time.Second) }

// Story is what happened in a line and in at most eight steps.
type Story struct {
	Headline string `json:"headline"`
	Steps    []Step `json:"steps"`
}

// Text is the story as plain text.
func (s Story) Text() string {
	var b strings.Builder
	b.WriteString(s.Headline)
	for _, step := range s.Steps {
		fmt.Fprintf(&b, "\n%s %s: %s", step.After(), step.Kind.Words(), step.Text)
	}
	return b.String()
}

// Tell makes the story of an incident, or of a cycle without one, from its rows.
func Tell(rows ops.IncidentStory, now time.Time) Story {
	t := teller{rows: rows, now: now, told: ToldBy(rows.Notices)}
	for i, c := range rows.Cycles {
		t.cycle(c, i == 0)
	}
	t.people()
	slices.SortStableFunc(t.steps, func(a, b Step) int { return a.At.Compare(b.At) })
	t.unite()
	t.shorten()
	for i := range t.steps {
		step := &t.steps[i]
		step.Text = ops.Cut(ops.Spoken(ops.Prose(step.Text)), longestStep)
		step.Seconds = max(0, int(step.At.Sub(t.steps[0].At).Round(time.Second).Seconds()))
		step.Calls = slices.Concat([]Call{}, step.Calls[max(0, len(step.Calls)-mostCalls):])
	}
	return Story{Headline: t.headline(), Steps: t.steps}
}

type teller struct {
	rows  ops.IncidentStory
	now   time.Time
	told  Told
	steps []Step

	// What the headline is made of.
	since         *time.Time // the first check that failed
	until         *time.Time // the first that was healthy after it for good
	worst         ops.Health
	cause, repair string
	verified      string
}

// unite says once what several steps say, where it was said last, and how often.
func (t *teller) unite() {
	left, calls := map[string]int{}, map[string][]Call{}
	for _, s := range t.steps {
		left[s.Text]++
		calls[s.Text] = append(calls[s.Text], s.Calls...)
	}
	times := maps.Clone(left)
	t.steps = slices.DeleteFunc(t.steps, func(s Step) bool { left[s.Text]--; return left[s.Text] > 0 })
	for i, s := range t.steps {
		if t.steps[i].Calls = calls[s.Text]; times[s.Text] > 1 && s.Kind == StepTried {
			t.steps[i].Text = fmt.Sprintf("%s (%d times)", s.Text, times[s.Text])
		}
	}
}

// shorten brings the steps to what a person reads: a question whose answer is told goes first, then equal neighbours, then the least
// telling ones. The calls of what goes stay with the step before.
func (t *teller) shorten() {
	for len(t.steps) > mostSteps {
		at := -1
		for i := len(t.steps) - 1; i > 0 && at < 0; i-- {
			s := t.steps[i]
			answer := func(o Step) bool { return o.Subject == s.Subject && o.Kind == StepAnswered }
			if s.Kind == StepAsked && slices.ContainsFunc(t.steps[i:], answer) {
				at = i
			}
		}
		for i := len(t.steps) - 1; i > 1 && at < 0; i-- {
			if t.steps[i].Kind == t.steps[i-1].Kind && t.steps[i].Bad == t.steps[i-1].Bad {
				at = i - 1
			}
		}
		least := []Kind{StepRefused, StepLooked, StepTold, StepAnswered, StepTried, StepVerified, StepStillWrong, StepUndone, StepAsked}
		for _, kind := range least {
			for i := 1; at < 0 && i < len(t.steps)-1; i++ {
				if t.steps[i].Kind == kind {
					at = i
				}
			}
		}
		at = max(at, 1)
		t.steps[at-1].Calls = append(t.steps[at-1].Calls, t.steps[at].Calls...)
		t.steps = slices.Delete(t.steps, at, at+1)
	}
}

// headline says how long, what was wrong, what was done and how sure that is.
func (t *teller) headline() string {
	var parts []string
	add := func(text string) {
		if text = ops.Cut(firstSentence(ops.Spoken(ops.Prose(text))), longestCause); text != "" && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	i := t.rows.Incident
	open := i.ID != 0 && i.ResolvedAt == nil
	if t.since != nil {
		end := t.now
		if t.until != nil && !open {
			end = *t.until
		}
		state := map[ops.Health]string{ops.Down: "Down", ops.Degraded: "Degraded"}[t.worst]
		add(cmp.Or(state, "Wrong") + " " + ops.Span(end.Sub(*t.since)))
		add(t.cause)
	}
	add(t.repair)
	end := t.ending(open)
	if len(parts) == 0 {
		end = ops.Capital(end)
	}
	add(end)
	return strings.Join(parts, " · ")
}

func (t *teller) ending(open bool) string {
	var last ops.Cycle
	if n := len(t.rows.Cycles); n > 0 {
		last = t.rows.Cycles[n-1].Cycle
	}
	switch {
	case t.verified != "" && !open:
		return t.verified
	case last.Status == ops.CycleRunning || last.Status == ops.CycleQueued:
		return "at work"
	case last.Status == ops.CycleWaitingHuman:
		return "waits for an answer"
	case open && t.rows.Incident.Status == ops.IncidentUnverified:
		return "not verified"
	case open && t.told.Nobody != "":
		return "needs a person; nobody was told"
	case open:
		return "needs a person"
	case t.rows.Incident.ResolvedAt != nil:
		return "over"
	case last.Status == ops.CycleHealthy && t.since == nil:
		return "everything is healthy"
	}
	return ops.Spaced(last.Status)
}

// firstSentence is the first sentence of a text, without its end.
func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if first, _, found := strings.Cut(text, ". "); found {
		text = first
	}
	return strings.TrimRight(text, ".")
}

// Told is what became of the notices about something. Told means delivered: a notice that is only on record has told nobody.
type Told struct {
	Deliveries []ops.Delivery
	// Nobody says that the newest notice that should have reached somebody reached nobody, and why; empty otherwise.
	Nobody string
}

// ToldBy reads notices, oldest first.
func ToldBy(notices []ops.Notice) Told {
	var t Told
	var muted, waiting string
	for _, n := range notices {
		t.Deliveries = append(t.Deliveries, n.Deliveries...)
		switch {
		case n.Status == ops.NoticeSent || len(n.Deliveries) > 0:
			t.Nobody, muted, waiting = "", "", ""
		case n.Error == ops.SkippedMuted:
			muted = "Nobody was told: the route of the notice has no target"
		case n.Status == ops.NoticeSkipped:
			t.Nobody = "Nobody was told: no notification target"
		case n.Status == ops.NoticeDead:
			t.Nobody = "Nobody was told: the notice could not be delivered: " + ops.Cut(ops.Prose(n.Error), longest)
		case n.Error != "":
			waiting = "Nobody was told yet: the notice could not be delivered and is tried again: " + ops.Cut(ops.Prose(n.Error), longest)
		}
	}
	for _, why := range []string{waiting, muted} {
		if t.Nobody == "" && len(t.Deliveries) == 0 {
			t.Nobody = why
		}
	}
	return t
}

// ByRoute says by which route a notice went.
func ByRoute(d ops.Delivery) string {
	switch {
	case d.Route == "" || d.Route == "first":
		return "the default route"
	case d.Route == "second":
		return "the second contact"
	case strings.HasPrefix(d.Route, "route "):
		return d.Route
	}
	return "the " + d.Route
}

// Words are one sentence about the people who were told; empty if there is nothing to say.
func (t Told) Words() string {
	if t.Nobody != "" || len(t.Deliveries) == 0 {
		return t.Nobody
	}
	last := t.Deliveries[len(t.Deliveries)-1]
	words := fmt.Sprintf("Told: %s, by %s, at %s UTC", last.To, ByRoute(last), clock(last.At))
	if n := len(t.Deliveries); n > 1 {
		words += fmt.Sprintf(" (%d deliveries)", n)
	}
	return words
}
