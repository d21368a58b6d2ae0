package notice

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"claudeops/internal/ops"
)

// Steps are the words of what package decide decides: why, and what people are told of it. Reasons stand on pages, in events and in
// notices.
type Steps struct{}

// Reason says in words what a reason is about.
func (Steps) Reason(r ops.Reason) string {
	say := reasons().Lookup(string(r.Kind))
	if say == nil {
		return string(r.Kind)
	}
	var text strings.Builder
	if err := say.Execute(&text, r); err != nil { // every reason is tested with what its kind speaks of
		return string(r.Kind)
	}
	return text.String()
}

var reasons = sync.OnceValue(func() *template.Template {
	all := template.New("reasons").Funcs(template.FuncMap{
		"named": named, "asked": asked, "closed": closed, "denied": denied, "unsure": unsure, "contradicted": contradicted,
		"saidno": SaidNo, "silenced": silencedBy, "acknowledged": Acknowledged, "snoozed": Snoozed, "awaits": AwaitsHuman,
		"attacked": Attacked, "did": reflexDid, "heading": heading, "advice": advice, "decision": afterDecision, "would": would,
		"planned": planned, "and": ops.And, "listed": ops.Listed, "at": At, "share": Share, "prose": ops.Prose, "said": ops.Said,
		"span": ops.Span, "spaced": ops.Spaced[ops.SessionStatus],
		"list":      func(names []string) string { return strings.Join(names, ", ") },
		"lines":     func(lines []string) string { return strings.Join(lines, "; ") },
		"confirmed": func(n int) string { return ops.Plural(n, "check", "checks") + " confirmed" },
		"healthy":   func(n int) string { return ops.Plural(n, "check is", "checks are") + " healthy" },
		"of":        func(part, whole int) float64 { return float64(part) / float64(whole) },
		"step":      func(q *ops.Approval, n int) ops.ApprovedStep { return q.Plan[n-1] },
		"act":       func(r ops.Reflex, n int) string { return r.Do[n-1] },
		"clause":    func(text string) string { return strings.TrimSuffix(text, ".") },
	})
	for _, texts := range []map[ops.ReasonKind]string{ofCycles(), ofPeople(), ofAttempts(), ofReflexes(), ofAdvice()} {
		for kind, text := range texts {
			template.Must(all.New(string(kind)).Parse(text))
		}
	}
	return all
})

func ofCycles() map[ops.ReasonKind]string {
	const (
		asks    = `{{named .Session}} asks for a human: {{said "agent" .Text}}`
		claimed = `{{.Tier}} reports the problem as resolved; `
	)
	return map[ops.ReasonKind]string{
		ops.WhyLeftRunning:   `session {{.Session.ID}} was running when its supervisor ended`,
		ops.WhyCancelled:     `{{or .Text "stopped by the operator"}}`,
		ops.WhyObserves:      `{{.Count}} services have probes; their results are facts for Tier 1`,
		ops.WhyWithheld:      `no agent was started: {{.Text}}`,
		ops.WhyNothingFor:    `{{.Text}}{{with .Services}}; nothing was proposed for {{and .}}{{end}}`,
		ops.WhyAllHealthy:    `probes find all {{.Count}} services healthy; no agent was started`,
		ops.WhyUnknown:       `the container engine does not answer, so nothing is known of {{listed .Services}}`,
		ops.WhyFoundByProbes: `cycle {{.Cycle}}: probes find it healthy`,
		ops.WhyFoundByCycle:  `cycle {{.Cycle}} found it healthy`,
		ops.WhyInCycle:       `cycle {{.Cycle}}: {{.Text}}`,
		ops.WhyNoEntry:       `the entry handler {{printf "%q" .Text}} is not registered`,
		ops.WhyStarts: `the cycle starts with {{.Handler.ID}}{{with .Rest}}, because reflexes did not repair it: ` +
			`{{lines .}}{{end}}`,
		ops.WhyDue:          `{{named .Session}} is due`,
		ops.WhyWaits:        `{{named .Session}} waits until {{at .At}}`,
		ops.WhyUnpaid:       `{{.Session.Tier}} was not started: {{.Budget.Words}}; {{.Budget.Frees}}`,
		ops.WhyAsksForHuman: asks,
		ops.WhyBlind:        `its probes are green; the agent could not see {{and .Session.Unseen}} (sandbox.readable opens it). ` + asks,
		ops.WhyVerifies:     `session {{.Session.ID}} says all is well; probes check {{list .Services}}`,
		ops.WhyBlindVerified: `session {{.Session.ID}} asks for a human and could not see {{and .Session.Unseen}}; ` +
			`probes check {{and .Services}}`,
		ops.WhyLooksAgain:   `time has passed; probes look first whether the repair is still needed`,
		ops.WhyNothingFound: `Tier 1 found nothing to escalate`,
		ops.WhyDisagrees: `{{named .Session}} says {{.Text}} is {{.Health}}, ` +
			`and our own probes find it healthy: they cannot confirm a repair`,
		ops.WhyNotAgain: `{{.Session.Tier}} is not started: {{.Text}}`,
		ops.WhyAttacked: `{{attacked .Session .Guard .Services}}`,

		ops.WhyRepairedByProbes: `{{.Tier}} repaired it; {{confirmed .Count}} by our own probes`,
		ops.WhyRepairedByReview: `{{.Tier}} repaired it; {{.Approval.AnsweredBy}} accepted the repair`,
		ops.WhyRepairedByJudge:  `{{.Tier}} repaired it; the judge accepts it with {{.Count}} of 100`,
		ops.WhyUnverified:       claimed + `unverified: no probe and no judge confirmed it`,
		ops.WhyPartlyVerified: claimed + `{{and .Services}} confirmed by our own probes, ` +
			`{{and .Rest}} unverified: nothing confirmed it`,
		ops.WhyNotCalmYet:        claimed + `unverified: {{clause .Text}}`,
		ops.WhyRecoveredByItself: `it recovered by itself: {{.Tier}} changed nothing, and {{confirmed .Count}} that it works`,
		ops.WhyWellAgain:         `probes find all affected services well again; nothing more was started`,
		ops.WhyRecoveredUnseen:   `{{and .Services}} recovered; nobody could look: {{.Text}}`,
		ops.WhyAgentWorks:        `the agent worked again in cycle {{.Cycle}}`,
	}
}

func named(s *ops.Session) string { return fmt.Sprintf("session %d (%s)", s.ID, s.Tier) }

// At is a time as reasons name it.
func At(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func ofPeople() map[ops.ReasonKind]string {
	return map[ops.ReasonKind]string{
		ops.WhyWithdrawn:    `{{closed .Incidents}}; the question {{asked .Approval}} needs no answer`,
		ops.WhyClosed:       `{{closed .Incidents}}`,
		ops.WhyNotAnswered:  `a human has not answered yet`,
		ops.WhyUnanswered:   `nobody answered {{asked .Approval}}`,
		ops.WhyDenied:       `{{denied .Approval}}`,
		ops.WhySaidNo:       `{{saidno .Approval}}`,
		ops.WhyUnconfigured: `it is not configured any more`,
		ops.WhyAcknowledged: `{{acknowledged .Incident}}`,
		ops.WhySnoozed:      `{{snoozed .Incident}}`,
		ops.WhyAwaitsHuman:  `{{awaits .Incident}}`,
		ops.WhyWasCalled:    `incident {{.Incident.ID}}, for which a human was called at {{at .Incident.CalledAt}}`,
		ops.WhySilenced:     `{{silenced .Silence}}`,
		ops.WhyRefutedClaim: `{{.Session.Tier}} said that it is repaired, and a probe still finds it {{.Health}}`,

		ops.WhyNoPlan:          `the proposed plan is not offered: {{.Text}}`,
		ops.WhyPlanInterrupted: `step {{.Step}} of the plan was running when its supervisor ended; it is not repeated`,
		ops.WhyPlanStep: `step {{.Step}} of the plan that {{.Approval.AnsweredBy}} approved: ` +
			`{{with step .Approval .Step}}{{.Action}} of {{.Service}}{{end}}`,
		ops.WhyPlanVerifies: `probes check whether the approved plan helped: {{list .Services}}`,
		ops.WhyRepairedByPlan: `resolved by the approved plan, confirmed by probes: {{healthy .Count}} ` +
			`after the plan that {{.Approval.AnsweredBy}} approved`,
		ops.WhyRecoveredBesidePlan: `recovered without the plan, whose steps failed; confirmed by probes: {{healthy .Count}}`,
		ops.WhyStepsNotNeeded:      `not needed: probes found it healthy`,
		ops.WhyStepsTooLate:        `not needed: the incident was closed`,
		ops.WhyStepsAfter: `step {{.Run.Step}} {{if ne .Run.Status "failed"}}was {{end}}{{.Run.Status}}, ` +
			`and a plan stops there`,
		ops.WhyStepsLeft: `not carried out: {{.Text}}`,
		ops.WhyStepsSkipped: `{{if eq (len .Rest) 1}}step {{and .Rest}} of the plan was{{else}}steps {{and .Rest}} of the plan were{{end}} ` +
			`skipped: {{.Text}}`,
	}
}

func asked(q ops.Approval) string {
	switch q.Kind {
	case ops.ApprovalReview:
		return "whether the repair is good enough"
	case ops.ApprovalReflex:
		return "whether the supervisor may do " + q.Handler
	case ops.ApprovalTier:
	}
	return "whether " + q.Handler + " may start"
}

// closed says which of the incidents was closed last, by whom and why.
func closed(all []ops.Incident) string {
	if len(all) == 0 {
		return "the incident was closed"
	}
	i := all[len(all)-1]
	return strings.TrimSuffix(fmt.Sprintf("incident %d was closed by %s: %s", i.ID, i.ResolvedBy, i.Resolution), ": ")
}

func denied(q ops.Approval) string {
	if q.Kind == ops.ApprovalReview {
		return fmt.Sprintf("%s does not accept the repair: %s", q.AnsweredBy, q.Answer)
	}
	said := fmt.Sprintf("%s said no to %s: %s", q.AnsweredBy, q.Handler, q.Answer)
	if q.DeniedUntil != nil {
		said += ". " + NoLasts(q.Detail())
	}
	return said
}

// SaidNo names a no that lasts.
func SaidNo(a ops.Approval) string {
	return fmt.Sprintf("%s said no to %s on %s, until %s or until the facts change", a.AnsweredBy, a.Handler, At(*a.AnsweredAt),
		At(*a.DeniedUntil))
}

// NoLasts says what follows from a no.
func NoLasts(a ops.ApprovalDetail) string {
	switch {
	case a.Kind == ops.ApprovalReview:
		return "The repair is not accepted: the cycle needs a human."
	case a.Until == nil:
		return "Only this question is answered: the next cycle may ask again."
	}
	var services []string
	words, probed := map[string][]string{}, true
	for _, f := range a.Facts {
		if words[f.Service] == nil {
			services = append(services, f.Service)
		}
		if word := strings.TrimSpace(string(f.Type) + " " + f.Class); !slices.Contains(words[f.Service], word) {
			words[f.Service] = append(words[f.Service], word)
		}
		probed = probed && f.Probe != "" && !strings.HasPrefix(f.Probe, ops.AlertProbe)
	}
	for i, name := range services {
		services[i] = fmt.Sprintf("%s (%s)", name, strings.Join(words[name], ", "))
	}
	text := fmt.Sprintf("No agent works on %s until %s or until the facts change.", ops.And(services), At(*a.Until))
	if probed {
		text += " Probes keep looking."
	}
	return text
}

// Acknowledged says that a person takes care of the incident.
func Acknowledged(i ops.Incident) string {
	return fmt.Sprintf("incident %d, acknowledged by %s", i.ID, i.AcknowledgedBy)
}

// Snoozed says that a person put the incident off.
func Snoozed(i ops.Incident) string {
	return fmt.Sprintf("incident %d, snoozed until %s", i.ID, At(*i.SnoozedUntil))
}

// AwaitsHuman says that another cycle asks a person about the incident.
func AwaitsHuman(i ops.Incident) string {
	return fmt.Sprintf("incident %d, cycle %d waits for a human", i.ID, *i.Waiting)
}

// InCharge says that another cycle works on the service.
func (Rows) InCharge(c ops.CycleID) string { return fmt.Sprintf("cycle %d was started for it", c) }

func silencedBy(s ops.Silence) string {
	return fmt.Sprintf("silenced by %s until %s: %s", s.Author, At(s.Until), s.Reason)
}

// HeldBySilence says that a silence covers what it describes.
func HeldBySilence(s ops.Silence) string { return silenced(s.Matches(nil)) + ": " + silencedBy(s) }

// HeldByMaintenance says that a maintenance window is open.
func HeldByMaintenance(m ops.Maintenance, until time.Time) string {
	what := "everything"
	for _, p := range []fact{{"service", m.Service}, {"group", m.Group}} {
		if p.text != "" {
			what = p.name + " " + p.text
		}
	}
	if m.Name != "" {
		return fmt.Sprintf("%s: in maintenance (%s) until %s", what, m.Name, At(until))
	}
	return fmt.Sprintf("%s: in maintenance until %s", what, At(until))
}

// HeldService says why a service is held back.
func HeldService(service, why string) string {
	if service == "" {
		return why
	}
	return "service " + service + ": " + why
}

func ofAttempts() map[ops.ReasonKind]string {
	const instead = `{{.Handler.Tier}} gets the handoff context instead`
	return map[ops.ReasonKind]string{
		ops.WhyAskAgain:          `session {{.Session.ID}} ({{.Session.Role}}) was interrupted; it touches nothing, so it is asked again once`,
		ops.WhyAsksManager:       `{{.Handler.ID}} is asked who of {{list .Rest}} takes over`,
		ops.WhyFollowsPlan:       `{{.Tier}} starts anew with the plan of session {{.Session.ID}}`,
		ops.WhyAsksJudge:         `{{.Handler.ID}} is asked whether session {{.Session.ID}} repaired it`,
		ops.WhyJudgeDoubts:       `the judge gives the repair of session {{.Session.ID}} only {{.Count}} of 100: a human has to look`,
		ops.WhyJudgeSilent:       `the judge ({{.Session.Handler}}) gave no usable answer: {{.Text}}`,
		ops.WhyJudgeSilentReview: `{{.Text}}; a human has to look at the repair of session {{.Session.ID}}`,
		ops.WhyUnsure:            `{{unsure .Session}}`,
		ops.WhyDoubtful:          `{{unsure .Session}}: a human has to look`,

		ops.WhyOtherAgent: `{{.Handler.Agent}} cannot continue a conversation of {{.Session.Agent}}; it gets the handoff context instead`,
		ops.WhyOtherHost: `session {{.Session.ID}} ran on host {{.Session.Owner}}, and conversations do not leave their host; ` +
			instead,
		ops.WhyNoConversation: `session {{.Session.ID}} told no conversation id, so ` + instead,
		ops.WhyContextFull: `the conversation holds {{.Count}} of {{.Most}} tokens ({{share (of .Count .Most)}}, ` +
			`the limit is {{share .Share}}), so ` + instead,
		ops.WhyResumeRefused: `session {{.Session.ID}} could not continue the conversation ({{.Session.Error}}); ` +
			`{{.Session.Tier}} starts again with the handoff context`,
		ops.WhyPassed: `{{.Level}} is passed over: {{.Text}}`,
		ops.WhyInterrupted: `{{named .Session}} was interrupted ({{.Session.StopCause}})` +
			`{{if .Again}}; it only looks, so it is run again once{{else if gt .Session.Tier 1}}` +
			`; what it started may have taken effect, so it is not repeated{{else}} for the second time{{end}}`,
		ops.WhyFailed:       `{{named .Session}} {{spaced .Session.Status}}: {{.Session.Error}}`,
		ops.WhyInconclusive: `{{named .Session}} gave no usable outcome: {{.Session.Error}}`,
		ops.WhyRefuted:      `{{named .Session}} says all is well, but {{contradicted .Checks}}`,
		ops.WhyBadSchema:    `the result does not fit its schema: {{.Text}}`,
		ops.WhySessionEnded: `{{.Session.Tier}} (session {{.Session.ID}}) ended with {{.Session.Outcome}}`,
		ops.WhyWasAllowed:   `session {{.Session.ID}} was allowed: {{prose .Guard.Input}}`,
		ops.WhyProbeHealthy: `probe finds {{.Text}} healthy`,
	}
}

func unsure(s ops.Session) string {
	return fmt.Sprintf("the agent itself is only %s sure of the repair of session %d", share(s.Report.Confidence), s.ID)
}

// Share is a share of one in percent.
func Share(of float64) string { return fmt.Sprintf("%.0f %%", 100*of) }

// contradicted says what speaks against a claim: the checks of the probes that refute it; none: the judge does.
func contradicted(found []ops.Check) string {
	bad := ops.Map(found, func(c ops.Check) string { return fmt.Sprintf("%s %s (%s)", c.Service, c.Status, c.Error) })
	if len(bad) == 0 {
		return "the judge does not agree"
	}
	return "probes still find " + ops.And(bad)
}

// Attacked says which call of a session attacked the supervisor.
func Attacked(s *ops.Session, g ops.GuardRecord, services []string) string {
	who := strings.TrimSuffix(named(s)+" for "+ops.Listed(services), " for ")
	return fmt.Sprintf("%s attacked the supervisor: the guard refused %s %s", who, g.Tool, line(ops.Prose(g.Input), 80))
}

// AttackedTwice says why nothing that repairs starts for a service.
func (Rows) AttackedTwice(until time.Time) string {
	return "agents at work on it attacked the supervisor twice within a day, so nothing above Tier 1 starts until " + At(until)
}
