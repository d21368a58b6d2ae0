package situation

import (
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Tone is the colour of a line.
type Tone string

// The tones.
const (
	ToneRun  Tone = "run"     // work is going on
	ToneHand Tone = "hand"    // a person is needed
	ToneWarn Tone = "warn"    // nothing is done about a problem
	ToneCalm Tone = "unknown" // nothing has to be done
)

// Part is a piece of a sentence: text, a time, or the time since which something lasts.
type Part struct {
	Text  string     `json:"text,omitempty"`
	At    *time.Time `json:"at,omitempty"`
	Since *time.Time `json:"since,omitempty"`
}

// Line is one sentence and what it is about.
type Line struct {
	Environment string        `json:"environment"`
	Tone        Tone          `json:"tone"`
	Parts       []Part        `json:"parts"`
	Services    []string      `json:"services,omitempty"`
	Cycle       ops.CycleID   `json:"cycle_id,omitempty"`
	Session     ops.SessionID `json:"session_id,omitempty"`
	Approval    int64         `json:"approval_id,omitempty"`
	Incident    int64         `json:"incident_id,omitempty"`
	// Silences is true if the sentence is about a silence.
	Silences bool `json:"silences,omitempty"`
}

func text(format string, args ...any) Part { return Part{Text: fmt.Sprintf(format, args...)} }

func at(t time.Time) Part { return Part{At: &t} }

func lasting(t time.Time) Part { return Part{Since: &t} }

// Sentence is the line at a time, in the zone of that time.
func (l Line) Sentence(now time.Time) string {
	var out strings.Builder
	for _, p := range l.Parts {
		switch {
		case p.At != nil:
			out.WriteString(Clock(*p.At, now))
		case p.Since != nil:
			out.WriteString(Span(now.Sub(*p.Since)))
		default:
			out.WriteString(p.Text)
		}
	}
	return out.String()
}

// Clock is a time of day, with the date if it is another day.
func Clock(t, now time.Time) string {
	local := t.In(now.Location())
	if local.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return local.Format("2 Jan 15:04")
	}
	return local.Format("15:04")
}

// Span is a duration in one unit, or in two for hours.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// mostNamed is how many services a sentence names.
const mostNamed = 3

// named joins names for a sentence: "web", "web and db", "web, db and 5 more".
func named(names []string) string {
	switch n := len(names); {
	case n == 1:
		return names[0]
	case n == 2:
		return names[0] + " and " + names[1]
	case n <= mostNamed:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
}
