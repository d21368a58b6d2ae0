package notice

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/ops"
)

// Text is a notice as people read it.
type Text struct {
	Title string
	Body  string
}

// fact is one short line below the first.
type fact struct{ name, text string }

const (
	longestFirst = 240 // characters of the first line
	longestFact  = 160 // of each fact
	mostFacts    = 6
)

// body puts the lines together: what is wrong and what to do, a blank line, the facts. Facts without a text are left out.
func body(first string, facts ...fact) string {
	var b strings.Builder
	b.WriteString(strings.TrimLeft(line(first, longestFirst), "#>-+*=_~ "))
	n := 0
	for _, f := range facts {
		text := line(f.text, longestFact)
		if text == "" || n == mostFacts {
			continue
		}
		if n == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\n- %s: %s", f.name, text)
		n++
	}
	b.WriteString("\n")
	return b.String()
}

// line makes one plain line of a text from outside: no JSON, no control characters, and nothing that Markdown would take for a link,
// an image, code or HTML.
func line(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(ops.Prose(text), ""))
	text = strings.NewReplacer("[", "(", "]", ")", "<", "‹", ">", "›", "`", "'", "*", "·", "|", "/").Replace(text)
	return ops.Cut(strings.TrimSpace(text), limit)
}

// sentence ends a text with a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "…") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// capital starts a text with a capital letter, unless it starts with a name such as claudeops.
func capital(text string) string {
	if text == "" || strings.HasPrefix(text, "claudeops") {
		return text
	}
	r := []rune(text)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

func title(text string) string { return "Claude Ops: " + line(text, longestFact) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// span is a duration in its two largest units.
func span(d time.Duration) string {
	text := d.Round(time.Second).String()
	if d >= time.Minute {
		text = strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// share is a share of one in percent; empty where it is not known.
func share(of *float64) string {
	if of == nil {
		return ""
	}
	return Share(*of)
}

func dollars(usd float64) string {
	if usd <= 0 {
		return ""
	}
	return fmt.Sprintf("est. $%.2f", usd)
}

// Urgent reports whether a notice must not wait: a person has to decide, or something is seriously wrong.
func Urgent(n ops.Notice) bool {
	_, escalated := n.Target.Escalation()
	return n.Level == ops.LevelCritical || n.Kind.AsksPeople() || n.Kind == ops.NoticeTest || n.Target == ops.TargetSecond || escalated
}

// SendAt is when a notice may be sent by a route: not before its digest is due, and not within quiet hours. A time that is not after now
// means at once.
func SendAt(r ops.NoticeRoute, n ops.Notice, now time.Time) time.Time {
	at := now
	if r.Digest > 0 && !Urgent(n) {
		at = later(at, digestAt(n.CreatedAt, r))
	}
	if q := r.Quiet; q != nil && (q.All || !Urgent(n)) {
		at = later(at, quietEnd(*q, at))
	}
	return at
}

// Bundled reports whether a notice waits for the digest of its route.
func Bundled(r ops.NoticeRoute, n ops.Notice) bool { return r.Digest > 0 && !Urgent(n) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// digestAt is the end of the period in which a notice was written. Periods are counted from midnight, so that a daily digest comes at
// midnight and an hourly one at the full hour.
func digestAt(created time.Time, r ops.NoticeRoute) time.Time {
	zone := time.UTC
	if r.Zone != nil {
		zone = r.Zone
	}
	local := created.In(zone)
	midnight := clockAt(local, 0, 0)
	end := midnight.Add((created.Sub(midnight)/r.Digest + 1) * r.Digest)
	if next := clockAt(local, 1, 0); end.After(next) {
		return next
	}
	return end
}

// quietEnd is when the quiet hours end in which a time lies; the time itself outside of them.
func quietEnd(q ops.QuietHours, at time.Time) time.Time {
	local := at.In(q.Zone)
	clock := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second
	switch {
	case q.From < q.To && clock >= q.From && clock < q.To:
		return clockAt(local, 0, q.To)
	case q.From > q.To && clock >= q.From:
		return clockAt(local, 1, q.To)
	case q.From > q.To && clock < q.To:
		return clockAt(local, 0, q.To)
	}
	return at
}

// clockAt is a time of the day, some days later. It reads the clock on the wall, also on days on which it is changed.
func clockAt(local time.Time, days int, clock time.Duration) time.Time {
	y, m, d := local.Date()
	return time.Date(y, m, d+days, int(clock/time.Hour), int(clock%time.Hour/time.Minute), 0, 0, local.Location())
}

// AsksForAnswer reports whether somebody else is told if nobody answers a notice.
func AsksForAnswer(n ops.Notice) bool {
	if n.CycleID == nil || n.Target != ops.TargetFirst {
		return false
	}
	switch n.Kind {
	case ops.NoticeApproval, ops.NoticeReview, ops.NoticeNeedsHuman, ops.NoticeAlert, ops.NoticeReminder, ops.NoticeBlocked, ops.NoticeFailed,
		ops.NoticePartial, ops.NoticeLeftDown, ops.NoticeBudget:
		return true
	case ops.NoticeOpened, ops.NoticeAction, ops.NoticeEscalated, ops.NoticeBrake, ops.NoticeResolved, ops.NoticeDeadman, ops.NoticeHost,
		ops.NoticeTrust, ops.NoticeTest:
	}
	return false
}

// Escalated is a notice for the second person of a route, to be sent if nobody has answered the first by then. Its key keeps a notice that
// is sent again from being escalated twice.
func Escalated(r ops.NoticeRoute, n ops.Notice, now time.Time) ops.Notice {
	heading, _ := strings.CutPrefix(n.Title, "Claude Ops: ")
	return ops.Notice{
		CycleID: n.CycleID, Kind: n.Kind, Level: n.Level, Incident: n.Incident, Environment: n.Environment, Service: n.Service,
		Title: title("Nobody answered for " + span(r.EscalateAfter) + ": " + heading), Body: n.Body, Target: ops.EscalationOf(r.Name),
		Key: fmt.Sprintf("escalate:%s:%d", r.Name, n.ID), Status: ops.NoticePending, NextAt: now.Add(r.EscalateAfter), CreatedAt: now,
	}
}
