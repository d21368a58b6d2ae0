package postmortem

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
)

// Markdown is the report of an incident. Secrets are values that must not be in it.
func Markdown(s ops.IncidentStory, secrets []string, now time.Time) string {
	r := report{story: s, known: known(s.Incident), redact: redact.New(secrets), now: now}
	r.head()
	r.steps()
	r.changed()
	r.happened()
	r.sessions()
	r.cost()
	r.ended()
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

// steps tells the story, with what is on record below each step.
func (r *report) steps() {
	told := Tell(r.story, r.now)
	r.section("Story")
	r.line("%s", r.say(told.Headline))
	for _, step := range told.Steps {
		mark := ""
		if step.Bad {
			mark = " ✗"
		}
		r.line("\n### %s %s%s: %s\n", step.After(), step.Kind, mark, r.say(step.Text))
		for _, e := range step.Evidence {
			r.line("- %s UTC: %s", clock(e.At), r.say(e.Text))
			if e.Code != "" {
				r.code(e.Code)
			}
		}
	}
}

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
		r.bullet("Resolved", fmt.Sprintf("%s UTC, after %s", clock(*i.ResolvedAt), i.ResolvedAt.Sub(i.OpenedAt).Round(time.Second)))
	}
	r.bullet("Seen", plural(i.Occurrences, "time", "times"))
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

func (r *report) happened() {
	r.section("What happened")
	checks := 0
	for _, c := range r.known.Checks {
		if c.Status != ops.Healthy {
			r.line("- %s", r.say(strings.TrimSpace(fmt.Sprintf("%s (%s) was %s: %s", c.Service, c.CheckType, c.Status, c.Error))))
			checks++
		}
	}
	r.bullet("Reason", r.say(r.known.Reason))
	r.bullet("Findings", r.say(r.known.Findings))
	r.bullet("Tried", r.say(r.known.Tried))
	if checks == 0 && r.known.Reason == "" && r.known.Findings == "" {
		r.line("- %s", r.say(r.story.Incident.Title))
	}
}

func (r *report) sessions() {
	r.section("Sessions")
	n := 0
	for _, c := range r.story.Cycles {
		for _, s := range c.Journal.Sessions {
			r.session(c, s)
			n++
		}
	}
	if n == 0 {
		r.line("No session ran.")
	}
}

func (r *report) session(c ops.CycleStory, s ops.Session) {
	r.line("### Session %d: %s, cycle %d\n", s.ID, s.Tier, c.Cycle.ID)
	r.bullet("Handler", r.say(s.Handler))
	r.bullet("Model", r.say(s.Model))
	if s.Role != "" {
		r.bullet("Role", r.say(string(s.Role)))
	}
	r.bullet("Result", state(s))
	r.bullet("Took", took(s))
	r.bullet("Summary", r.say(Result(s)))
	var report ops.Outcome
	if unmarshal(s.OutcomeJSON, &report) {
		for _, a := range report.Actions {
			done := "done"
			if !a.Success {
				done = "failed"
			}
			r.bullet("Reported action", r.say(fmt.Sprintf("%s of %s, %s", a.Action, a.Service, done)))
		}
	}
	if n := c.Refused[s.ID]; n > 0 {
		r.bullet("Refused by the guard", plural(n, "call", "calls"))
	}
	r.bullet("Cost", usd(s.CostUSD))
	r.line("")
}

func usd(cost *float64) string {
	if cost == nil {
		return "unknown"
	}
	return fmt.Sprintf("est. $%.2f", *cost)
}

func (r *report) cost() {
	r.section("Cost")
	sum, sessions, unknown := 0.0, 0, 0
	for _, c := range r.story.Cycles {
		for _, s := range c.Journal.Sessions {
			sessions++
			if s.CostUSD == nil {
				unknown++
				continue
			}
			sum += *s.CostUSD
		}
	}
	switch {
	case sessions == unknown && sessions > 0:
		r.line("Unknown: no session reported its cost.")
	case unknown > 0:
		r.line("At least est. $%.2f for %s; %d of them reported no cost.", sum, plural(sessions, "session", "sessions"), unknown)
	default:
		r.line("Est. $%.2f for %s, at list prices.", sum, plural(sessions, "session", "sessions"))
	}
}

func (r *report) ended() {
	r.section("How it ended")
	i := r.story.Incident
	for _, c := range r.story.Cycles {
		if at := c.Cycle.RefutedAt; at != nil && c.Cycle.EndedAt != nil {
			r.line("The repair of cycle %d did not hold. %s UTC: %s. %s UTC: the same check failed again.\n",
				c.Cycle.ID, clock(*c.Cycle.EndedAt), strings.TrimSuffix(r.say(c.Cycle.Reason), "."), clock(*at))
		}
	}
	if i.ResolvedAt == nil {
		if i.Status == ops.IncidentUnverified {
			r.line("A repair is claimed, and nothing has confirmed it.")
		} else {
			r.line("It has not ended: the incident is %s.", r.status())
		}
		r.bullet("To do", r.say(r.known.Recommendation))
		return
	}
	how := r.say(i.Resolution)
	if how == "" {
		how = "no reason was given"
	}
	r.line("Resolved by %s: %s.\n", r.say(name(i.ResolvedBy)), strings.TrimSuffix(how, "."))
	r.line("%s", r.verified())
	if p := i.ProbationUntil; p != nil && r.now.Before(*p) {
		r.line("\nOn probation until %s UTC: if the same check fails again, the incident is opened again.", clock(*p))
	}
}

// verified says whether somebody confirmed the end.
func (r *report) verified() string {
	if r.story.Incident.ResolvedBy != ops.Supervisor {
		return "Verified: a person closed it."
	}
	for _, c := range slices.Backward(r.story.Cycles) {
		if c.Cycle.RefutedAt != nil {
			continue // it did not hold
		}
		switch c.Cycle.VerifiedBy {
		case ops.ProofProbe:
			return "Verified: yes, by our own probes."
		case ops.ProofJudge:
			return "Verified: yes, by the judge."
		case ops.ProofHuman:
			return "Verified: yes, by a person."
		case ops.ProofPlan:
			return "Verified: yes, by our own probes after the approved plan."
		case ops.ProofReflex:
			return "Verified: yes, by our own probes after a repair without an agent."
		case ops.ProofNone:
			return "Verified: no. Nothing but the agent itself confirmed the repair; a later report found the service healthy."
		case ops.ProofReport, "":
		}
		if v := c.Cycle.Verified; v != nil && *v {
			return "Verified: yes, by probes, a judge or a person."
		}
	}
	return "Verified: not recorded. A later check found the service healthy."
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
		for _, count := range c.Refused {
			refused += count
		}
		if refused > 0 {
			add("The guard refused %s in cycle %d: check whether a rule or an instruction should change.",
				plural(refused, "call", "calls"), c.Cycle.ID)
		}
		if c.Cycle.Status == ops.CyclePartial || c.Cycle.Status == ops.CycleFailed {
			add("Cycle %d did not finish: %s", c.Cycle.ID, r.say(c.Cycle.Reason))
		}
	}
	if r.known.Recommendation != "" && r.story.Incident.Status != ops.IncidentUnverified {
		add("%s", r.say(r.known.Recommendation))
	}
	if n == 0 {
		r.line("None on record.")
	}
}
