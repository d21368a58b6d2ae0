package story

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
)

// Markdown is the report of an incident: its story, and what the steps leave out. Secrets are values that must not be in it.
func Markdown(rows ops.IncidentStory, secrets []string, now time.Time) string {
	r := report{story: rows, known: known(rows.Incident), redact: redact.New(secrets), now: now}
	r.head()
	r.steps()
	r.changed()
	r.found()
	r.sessions()
	r.people()
	r.followUps()
	return r.b.String()
}

type report struct {
	b      strings.Builder
	story  ops.IncidentStory
	known  ops.IncidentReport
	redact *redact.Redactor
	now    time.Time
}

func known(i ops.Incident) ops.IncidentReport {
	r, err := i.Known()
	if err != nil {
		return ops.IncidentReport{}
	}
	return r
}

func (r *report) line(format string, args ...any) { fmt.Fprintf(&r.b, format+"\n", args...) }

func (r *report) section(title string) { r.line("\n## %s\n", title) }

// say makes a text from outside safe: redacted, one line, and without a character that Markdown would read.
func (r *report) say(text string) string {
	return literal(r.redact.String(ops.Spoken(ops.Prose(text))))
}

// literal escapes everything that Markdown, also GitHub's, could take for markup or a link.
func literal(text string) string {
	text = strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c):
			return ' '
		case !unicode.IsPrint(c):
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, ""))
	text = strings.NewReplacer(
		`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "{", `\{`, "}", `\}`, "[", `\[`, "]", `\]`, "<", `&lt;`, ">", `&gt;`,
		"#", `\#`, "|", `\|`, "!", `\!`, "~", `\~`, "&", `&amp;`, "://", `\://`, "www.", `www\.`, "@", "(at)",
	).Replace(strings.TrimSpace(text))
	if text != "" && strings.ContainsRune("-+=", rune(text[0])) {
		text = `\` + text
	}
	return text
}

// code writes what was run so that it can be copied: in a fence that no text from outside can close.
func (r *report) code(text string) {
	text = strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' || unicode.IsPrint(c) {
			return c
		}
		return -1
	}, strings.ToValidUTF8(r.redact.String(text), ""))
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	r.line("\n%ssh\n%s\n%s", fence, strings.TrimSpace(text), fence)
}

// steps tells the story, with what was run below each step.
func (r *report) steps() {
	told := Tell(r.story, r.now)
	r.section("Story")
	r.line("%s", r.say(told.Headline))
	for _, step := range told.Steps {
		mark := ""
		if step.Bad {
			mark = " ✗"
		}
		r.line("\n### %s %s%s: %s", step.After(), step.Kind.Words(), mark, r.say(step.Text))
		for _, c := range step.Calls {
			if c.Refused != "" {
				r.line("\n%s UTC, refused: %s", clock(c.At), r.say(c.Refused))
			}
			if c.Command != "" {
				r.code(ops.Cut(c.Command, longestCode))
			}
		}
	}
}

// longestCode limits one command in the report.
const longestCode = 2000

// bullet writes a line of a list, if there is something to say.
func (r *report) bullet(name, text string) {
	if text != "" {
		r.line("- %s: %s", name, text)
	}
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func (r *report) head() {
	i := r.story.Incident
	r.line("# Incident %d: %s\n", i.ID, r.say(i.Title))
	r.bullet("Service", r.say(i.Service))
	r.bullet("Environment", r.say(i.Environment))
	r.bullet("Status", r.status())
	r.bullet("Opened", clock(i.OpenedAt)+" UTC")
	if i.ResolvedAt != nil {
		by := r.say(with(name(i.ResolvedBy), i.Resolution))
		r.bullet("Resolved", fmt.Sprintf("%s UTC, after %s, by %s", clock(*i.ResolvedAt), ops.Span(i.ResolvedAt.Sub(i.OpenedAt)), by))
		r.bullet("Verified", r.verified())
		if p := i.ProbationUntil; p != nil && r.now.Before(*p) {
			r.bullet("On probation until", clock(*p)+" UTC: if the same check fails again, the incident is opened again")
		}
	}
	r.bullet("Seen", ops.Plural(i.Occurrences, "time", "times"))
	r.bullet("Report made", clock(r.now)+" UTC, from the records of Claude Ops; no model was asked")
}

func (r *report) status() string {
	i := r.story.Incident
	switch {
	case i.ResolvedAt != nil:
		return "resolved"
	case i.Handled:
		return "open, being repaired"
	}
	return string(i.Status)
}

func (r *report) changed() {
	lines := r.story.Changed.Lines()
	if len(lines) == 0 {
		return
	}
	r.section("What changed before it")
	for _, text := range lines {
		r.line("- %s", r.say(text))
	}
}

// found says what was found, and by whom.
func (r *report) found() {
	r.section("Findings")
	i := r.story.Incident
	for _, f := range i.Findings {
		state := "open"
		if f.OverAt != nil {
			state = with("over since "+clock(*f.OverAt)+" UTC", f.How)
		}
		r.line("- %s (found by %s; %s)", r.say(f.What), f.By.Finder(), r.say(state))
	}
	for _, c := range r.known.Checks {
		if c.Status != ops.Healthy {
			r.line("- %s", r.say(with(fmt.Sprintf("%s (%s) was %s", c.Service, c.CheckType, c.Status), c.Error)))
		}
	}
	r.bullet("Claude Ops found", r.say(r.known.Seen))
	r.bullet("Why", r.say(r.known.Reason))
	r.bullet("The agent says", r.say(r.known.Findings))
	r.bullet("The agent says that it tried", r.say(r.known.Tried))
	if i.ResolvedAt == nil {
		r.bullet("To do", r.say(r.known.Recommendation))
	}
}

func (r *report) sessions() {
	r.section("Sessions")
	sum, sessions, unknown := 0.0, 0, 0
	for _, c := range r.story.Cycles {
		for _, s := range c.Journal.Sessions {
			sessions++
			if s.CostUSD == nil {
				unknown++
			} else {
				sum += *s.CostUSD
			}
			r.line("- %s", r.say(r.session(c, s)))
		}
	}
	switch {
	case sessions == 0:
		r.line("No session ran.")
	case sessions == unknown:
		r.line("\nCost unknown: no session reported it.")
	case unknown > 0:
		r.line("\nAt least %s for %s, at list prices; %d of them reported no cost.", ops.Dollars(&sum),
			ops.Plural(sessions, "session", "sessions"), unknown)
	default:
		r.line("\n%s for %s, at list prices.", ops.Dollars(&sum), ops.Plural(sessions, "session", "sessions"))
	}
}

// session is one line about a session.
func (r *report) session(c ops.CycleStory, s ops.Session) string {
	state := ops.Spaced(s.Status)
	if s.Status == ops.SessionCompleted && s.Outcome != "" {
		state = ops.Spaced(s.Outcome)
	}
	who := strings.Trim(s.Handler+", "+s.Model, ", ")
	if s.Role != "" && s.Role != ops.RoleWork {
		who += ", " + string(s.Role)
	}
	text := fmt.Sprintf("Session %d of cycle %d, %s (%s): %s", s.ID, c.Cycle.ID, s.Tier, who, state)
	if s.StartedAt != nil && s.EndedAt != nil {
		text += " after " + ops.Span(s.EndedAt.Sub(*s.StartedAt))
	}
	if _, refused := callsOf(c.Calls[s.ID]); len(refused) > 0 {
		text += fmt.Sprintf(", %s refused", ops.Plural(len(refused), "call", "calls"))
	}
	return text + ", cost " + ops.Dollars(s.CostUSD)
}

// verified says whether somebody confirmed the end.
func (r *report) verified() string {
	if r.story.Incident.ResolvedBy != ops.Supervisor {
		return "a person closed it"
	}
	for _, c := range slices.Backward(r.story.Cycles) {
		if c.Cycle.RefutedAt != nil {
			continue // it did not hold
		}
		how := map[ops.Proof]string{
			ops.ProofProbe:  "yes, by our own probes",
			ops.ProofJudge:  "yes, by the judge",
			ops.ProofHuman:  "yes, by a person",
			ops.ProofPlan:   "yes, by our own probes after the approved plan",
			ops.ProofReflex: "yes, by our own probes after a repair without an agent",
			ops.ProofNone:   "no. " + r.say(c.Cycle.Reason),
		}[c.Cycle.VerifiedBy]
		if how != "" {
			return how
		}
		if v := c.Cycle.Verified; v != nil && *v {
			return "yes, by probes, a judge or a person"
		}
	}
	return "not recorded. A later check found the service healthy"
}

func (r *report) people() {
	r.section("People")
	var out []string
	add := func(who, what string) {
		if who != "" && who != ops.Supervisor {
			if text := r.say(who) + ": " + what; !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	i := r.story.Incident
	for _, c := range r.story.Cycles {
		for _, a := range c.Journal.Approvals {
			add(a.AnsweredBy, fmt.Sprintf("%s approval %d", a.Status, a.ID))
		}
		for _, run := range c.Journal.Runs {
			add(run.Person, fmt.Sprintf("asked for action %d", run.ID))
		}
	}
	add(i.AcknowledgedBy, "acknowledged the incident")
	if i.ResolvedAt != nil {
		add(i.ResolvedBy, "resolved the incident")
	}
	told := ToldBy(r.story.Notices)
	for _, d := range told.Deliveries {
		r.line("- Told: %s, by %s, %s UTC", r.say(d.To), r.say(ByRoute(d)), clock(d.At))
	}
	if told.Nobody != "" {
		r.line("- **%s**", r.say(told.Nobody))
	}
	for _, text := range out {
		r.line("- %s", text)
	}
	if len(out) == 0 {
		r.line("- No person answered or acted.")
	}
}

func (r *report) followUps() {
	r.section("Follow-ups")
	n := 0
	add := func(format string, args ...any) { r.line("- "+format, args...); n++ }
	for _, c := range r.story.Cycles {
		for _, a := range c.Journal.Approvals {
			switch a.Status {
			case ops.ApprovalPending:
				add("Approval %d waits for an answer.", a.ID)
			case ops.ApprovalExpired:
				add("Nobody answered approval %d in time.", a.ID)
			case ops.ApprovalDenied:
				add("%s was denied by %s: %s", r.say(a.Handler), r.say(a.AnsweredBy), r.say(a.Answer))
			case ops.ApprovalApproved, ops.ApprovalWithdrawn:
			}
		}
		for _, d := range c.Journal.Decisions {
			if d.Verdict == ops.VerdictBlocked || d.Verdict == ops.VerdictSuppressed || d.Verdict == ops.VerdictRefused {
				add("Not done: %s", r.say(d.Reason))
			}
		}
		refused := 0
		for _, records := range c.Calls {
			_, no := callsOf(records)
			refused += len(no)
		}
		if refused > 0 {
			add("The guard refused %s in cycle %d: check whether a rule or an instruction should change.",
				ops.Plural(refused, "call", "calls"), c.Cycle.ID)
		}
		if c.Cycle.Status == ops.CyclePartial || c.Cycle.Status == ops.CycleFailed {
			add("Cycle %d did not finish: %s", c.Cycle.ID, r.say(c.Cycle.Reason))
		}
	}
	if n == 0 {
		r.line("None on record.")
	}
}
