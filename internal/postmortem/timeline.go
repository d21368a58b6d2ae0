package postmortem

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Kind is what an entry of a timeline is about.
type Kind string

// The kinds of entries.
const (
	Detected  Kind = "detected"
	Opened    Kind = "opened"
	Cycle     Kind = "cycle"
	Session   Kind = "session"
	Decision  Kind = "escalation"
	Recovery  Kind = "recovery"
	Probe     Kind = "probe"
	Action    Kind = "action"
	Guard     Kind = "guard"
	Approval  Kind = "approval"
	Notice    Kind = "notice"
	Untold    Kind = "untold"
	Called    Kind = "called"
	Person    Kind = "person"
	Refuted   Kind = "refuted"
	Resolved  Kind = "resolved"
	longest        = 300
	maxEntry       = 400
	maxCode        = 2000
	separator      = ": "
)

// Entry is one line of a timeline. Text may hold words from outside.
type Entry struct {
	At       time.Time
	Kind     Kind
	Level    ops.Level
	Text     string
	Code     string // a command, as it was run
	Cycle    ops.CycleID
	Session  ops.SessionID
	Approval int64
	Action   int64
}

// timeline lists everything on record, oldest first.
func timeline(s ops.IncidentStory) []Entry {
	i := s.Incident
	var out []Entry
	if i.ID != 0 {
		out = append(out, Entry{At: openedAt(s), Kind: Opened, Level: i.Level, Text: "Incident opened: " + i.Title, Cycle: i.FirstCycle})
	}
	for n, c := range s.Cycles {
		if n == 0 && i.ID != 0 {
			out = append(out, detection(s, c))
		}
		out = append(out, ofCycle(c, i)...)
	}
	for _, n := range s.Notices {
		out = append(out, ofNotice(n)...)
	}
	for _, e := range s.Events {
		if entry, ok := ofEvent(e, i); ok {
			out = append(out, entry)
		}
	}
	if i.CalledAt != nil {
		out = append(out, Entry{At: *i.CalledAt, Kind: Called, Level: i.Level, Text: "A human is needed"})
	}
	if i.ResolvedAt != nil {
		out = append(out, Entry{
			At: *i.ResolvedAt, Kind: Resolved, Level: ops.LevelInfo, Text: "Resolved by " + with(name(i.ResolvedBy), i.Resolution),
		})
	}
	for n := range out {
		out[n].Text, out[n].Code = ops.Cut(ops.Spoken(ops.Prose(out[n].Text)), maxEntry), ops.Cut(out[n].Code, maxCode)
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return a.At.Compare(b.At) })
	return out
}

// openedAt is when the incident opened, but not after the decision that opened it, which is written a moment before it.
func openedAt(s ops.IncidentStory) time.Time {
	at := s.Incident.OpenedAt
	for _, c := range s.Cycles {
		for _, d := range c.Journal.Decisions {
			if d.At.Before(at) && at.Sub(d.At) < 2*time.Second {
				at = d.At
			}
		}
	}
	return at
}

// command is what a tool was asked to run.
func command(input string) string {
	var in struct {
		Command string `json:"command"`
	}
	if unmarshal([]byte(input), &in) && in.Command != "" {
		return in.Command
	}
	return input
}

// detection says what found the problem first.
func detection(s ops.IncidentStory, c ops.CycleStory) Entry {
	e := Entry{At: c.Cycle.CreatedAt, Kind: Detected, Level: ops.LevelWarning, Cycle: c.Cycle.ID, Text: detectedBy(c.Cycle)}
	for _, k := range c.Journal.Checks {
		if k.Service != s.Incident.Service || k.Status == ops.Healthy {
			continue
		}
		if k.At.Before(e.At) && !k.At.IsZero() {
			e.At = k.At
		}
		e.Text += separator + with(fmt.Sprintf("%s is %s", k.Service, k.Status), k.Error)
		break
	}
	return e
}

func detectedBy(c ops.Cycle) string {
	switch c.Trigger {
	case ops.TriggerProbe:
		return "Detected by a probe"
	case ops.TriggerAlert:
		return "Detected by an alert"
	case ops.TriggerScheduled:
		return "Detected by a scheduled check"
	case ops.TriggerManual, ops.TriggerAPI:
		return "Detected in a run that a person started"
	}
	return "Detected by " + string(c.Trigger)
}

func ofCycle(c ops.CycleStory, i ops.Incident) []Entry {
	id := c.Cycle.ID
	var out []Entry
	if c.Cycle.StartedAt != nil {
		out = append(out, Entry{
			At: *c.Cycle.StartedAt, Kind: Cycle, Level: ops.LevelInfo, Cycle: id,
			Text: fmt.Sprintf("Cycle %d started (%s)", id, strings.ToLower(c.Cycle.Trigger.Title())),
		})
	}
	for _, s := range c.Journal.Sessions {
		out = append(out, ofSession(s, c.Refused[s.ID], len(c.Journal.Effects[s.ID].Denied))...)
		effects := c.Journal.Effects[s.ID]
		for _, g := range slices.Concat(effects.Done, effects.Denied) {
			e := Entry{At: g.At, Kind: Guard, Level: ops.LevelInfo, Cycle: id, Session: s.ID, Text: "Allowed " + g.Tool, Code: command(g.Input)}
			if !g.Allowed {
				e.Level, e.Text = ops.LevelWarning, with("Refused "+g.Tool, g.Reason)
			}
			out = append(out, e)
		}
	}
	for _, d := range c.Journal.Decisions {
		out = append(out, Entry{At: d.At, Kind: Decision, Level: levelOf(d.Verdict), Cycle: id, Text: verdictWords(d) + separator + d.Reason})
	}
	for _, r := range c.Journal.Recoveries {
		out = append(out, Entry{
			At: r.EnteredAt, Kind: Recovery, Level: ops.LevelWarning, Cycle: id, Session: r.SessionID,
			Text: with(fmt.Sprintf("Recovery of session %d, %s", r.SessionID, r.Level), r.Reason),
		})
	}
	out = append(out, ofChecks(c, i)...)
	for _, a := range c.Journal.Approvals {
		out = append(out, ofApproval(a)...)
	}
	for _, r := range c.Journal.Runs {
		out = append(out, ofAction(r, id))
	}
	if at := c.Cycle.CancelRequestedAt; at != nil {
		out = append(out, Entry{At: *at, Kind: Person, Level: ops.LevelInfo, Cycle: id, Text: with("Asked to stop", c.Cycle.CancelReason)})
	}
	if c.Cycle.EndedAt != nil {
		out = append(out, Entry{
			At: *c.Cycle.EndedAt, Kind: Cycle, Level: ops.LevelInfo, Cycle: id,
			Text: with(fmt.Sprintf("Cycle %d ended %s", id, words(string(c.Cycle.Status))), c.Cycle.Reason),
		})
	}
	return out
}

func ofSession(s ops.Session, refused, denied int) []Entry {
	at := s.CreatedAt
	if s.StartedAt != nil {
		at = *s.StartedAt
	}
	text := fmt.Sprintf("Session %d, %s (%s): %s", s.ID, s.Tier, strings.Trim(s.Handler+", "+s.Model, ", "), state(s))
	if took := took(s); took != "" {
		text += " after " + took
	}
	out := []Entry{{At: at, Kind: Session, Level: ops.LevelInfo, Cycle: s.CycleID, Session: s.ID, Text: with(text, Result(s))}}
	if refused > denied && s.EndedAt != nil {
		out = append(out, Entry{
			At: *s.EndedAt, Kind: Guard, Level: ops.LevelWarning, Cycle: s.CycleID, Session: s.ID,
			Text: fmt.Sprintf("The guard refused %s of session %d", plural(refused, "call", "calls"), s.ID),
		})
	}
	return out
}

// state says how a session ended, or that it has not.
func state(s ops.Session) string {
	if s.Status == ops.SessionCompleted && s.Outcome != "" {
		return words(string(s.Outcome))
	}
	return words(string(s.Status))
}

func took(s ops.Session) string {
	if s.StartedAt == nil || s.EndedAt == nil {
		return ""
	}
	return s.EndedAt.Sub(*s.StartedAt).Round(time.Second).String()
}

// Result is what a session said about its work: its summary, what it handed on, or why it failed.
func Result(s ops.Session) string {
	var report ops.Outcome
	if unmarshal(s.OutcomeJSON, &report) && report.Summary != "" {
		return report.Summary
	}
	if s.Error != "" {
		return s.Error
	}
	h := handed(s)
	for _, text := range []string{h.Reason, h.InvestigationFindings} {
		if text != "" {
			return text
		}
	}
	return ""
}

func handed(s ops.Session) ops.Handoff {
	var h ops.Handoff
	if !unmarshal(s.HandoffJSON, &h) {
		return ops.Handoff{}
	}
	return h
}

func ofChecks(c ops.CycleStory, i ops.Incident) []Entry {
	var out []Entry
	for _, k := range c.Journal.Checks {
		var why string
		switch k.Purpose {
		case ops.ProbeVerify:
			why = "after the repair"
		case ops.ProbeRecheck:
			why = "after the wait"
		case ops.ProbePlan:
			why = "after the plan"
		case ops.ProbeReflex:
			why = "after the reflex"
		case ops.ProbeRunning:
			if k.Status == ops.Healthy {
				continue
			}
			why = "after the repair"
		case ops.ProbeObserve, ops.ProbeWatch, ops.ProbeAlert:
			continue
		}
		if i.Service != "" && k.Service != i.Service {
			continue
		}
		level := ops.LevelInfo
		if k.Status != ops.Healthy {
			level = ops.LevelWarning
		}
		text := fmt.Sprintf("Probe %s: %s is %s", why, k.Service, k.Status)
		if k.Purpose == ops.ProbeRunning {
			text = "Not running " + why
		}
		out = append(out, Entry{At: k.At, Kind: Probe, Level: level, Cycle: c.Cycle.ID, Text: with(text, k.Error)})
	}
	return out
}

// ofEvent is what people and the watch did with an incident; false for its end, which is told anyway.
func ofEvent(e ops.Event, i ops.Incident) (Entry, bool) {
	did, known := map[ops.Verb]string{
		ops.VerbIncidentAcknowledged: "acknowledged it",
		ops.VerbIncidentSnoozed:      "put it off",
		ops.VerbIncidentResolved:     "closed it",
		ops.VerbIncidentReopened:     "opened it again",
		ops.VerbIncidentOver:         "found that it is over",
		ops.VerbIncidentEased:        "found a part of it over",
		ops.VerbIncidentUnverified:   "could not confirm the repair",
	}[e.Verb]
	entry := Entry{At: e.At, Kind: Person, Level: ops.LevelInfo}
	if e.Verb == ops.VerbIncidentReopened {
		entry.Kind, entry.Level = Refuted, e.Level
	} else if e.By().Kind == ops.ActorSupervisor {
		entry.Kind = Resolved
	}
	entry.Text = with(name(e.Actor.Name)+" "+did, e.Reason)
	return entry, known && (i.ResolvedAt == nil || !e.At.Equal(*i.ResolvedAt))
}

func ofApproval(a ops.Approval) []Entry {
	asked := fmt.Sprintf("Approval %d asked: may %s (%s) start?", a.ID, a.Tier, a.Handler)
	if a.Kind == ops.ApprovalReview {
		asked = fmt.Sprintf("Approval %d asked: is the repair good enough?", a.ID)
	}
	if a.Kind == ops.ApprovalReflex {
		asked = fmt.Sprintf("Approval %d asked: may the supervisor do %s?", a.ID, a.Handler)
	}
	out := []Entry{{At: a.RequestedAt, Kind: Approval, Level: ops.LevelWarning, Cycle: a.CycleID, Approval: a.ID, Text: with(asked, a.Reason)}}
	if a.AnsweredAt != nil {
		by := " by " + name(a.AnsweredBy)
		if a.Status == ops.ApprovalExpired || a.AnsweredBy == "" {
			by = ""
		}
		out = append(out, Entry{
			At: *a.AnsweredAt, Kind: Approval, Level: ops.LevelInfo, Cycle: a.CycleID, Approval: a.ID,
			Text: with(fmt.Sprintf("Approval %d %s%s", a.ID, a.Status, by), a.Answer),
		})
	}
	return out
}

func ofAction(r ops.ActionRun, cycle ops.CycleID) Entry {
	at := r.RequestedAt
	if r.StartedAt != nil {
		at = *r.StartedAt
	}
	what := fmt.Sprintf("Action %d, %s of %s: %s", r.ID, r.Action, r.Service, r.Status)
	if r.UndoOf != 0 {
		what = fmt.Sprintf("Action %d, undo of action %d (%s of %s): %s", r.ID, r.UndoOf, r.Action, r.Service, r.Status)
	}
	level := ops.LevelInfo
	if r.Status != ops.ActionDone && r.Status != ops.ActionUndone {
		level = ops.LevelWarning
	}
	return Entry{At: at, Kind: Action, Level: level, Cycle: cycle, Action: r.ID, Text: with(what, cmp.Or(r.Error, r.Why)), Code: r.Does}
}

// ofNotice says who was told, and that nobody was.
func ofNotice(n ops.Notice) []Entry {
	e := Entry{At: n.CreatedAt, Kind: Notice, Level: ops.LevelInfo}
	if n.CycleID != nil {
		e.Cycle = *n.CycleID
	}
	about := strings.TrimPrefix(n.Title, "Claude Ops: ")
	var out []Entry
	for _, d := range n.Deliveries {
		e.At, e.Text = d.At, fmt.Sprintf("Told %s by %s: %s", d.To, ByRoute(d), about)
		out = append(out, e)
	}
	if len(out) > 0 {
		return out
	}
	if n.SentAt != nil {
		e.At = *n.SentAt
	}
	switch told := ToldBy([]ops.Notice{n}); {
	case n.Status == ops.NoticeSent:
		e.Text = "Notice sent: " + about
	case told.Nobody != "":
		e.Kind, e.Level, e.Text = Untold, ops.LevelWarning, told.Nobody+": "+about
	default:
		e.Text = "Notice not sent: " + with(about, n.Error)
	}
	return []Entry{e}
}

func levelOf(v ops.Verdict) ops.Level {
	if v == ops.VerdictEscalate {
		return ops.LevelInfo
	}
	return ops.LevelWarning
}

func verdictWords(d ops.Decision) string {
	switch d.Verdict {
	case ops.VerdictEscalate:
		return "Escalated to " + d.TargetHandler
	case ops.VerdictRefused:
		return "Escalation refused"
	case ops.VerdictSuppressed:
		return "Escalation suppressed"
	case ops.VerdictBlocked:
		return "Escalation blocked"
	case ops.VerdictNeedsHuman:
		return "Given to a human"
	case ops.VerdictApproval:
		return "Approval needed for " + d.TargetHandler
	}
	return "Escalation " + string(d.Verdict)
}

func with(text, more string) string {
	more = ops.Cut(strings.Join(strings.Fields(more), " "), longest)
	if more == "" {
		return text
	}
	if strings.HasSuffix(text, "?") {
		return text + " " + more
	}
	return text + separator + more
}

func name(by string) string {
	if by == ops.Supervisor || by == "" {
		return "Claude Ops"
	}
	return by
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func unmarshal(text []byte, into any) bool { return len(text) > 0 && json.Unmarshal(text, into) == nil }
