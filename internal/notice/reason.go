package notice

import (
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// The reasons of a cycle's steps, as people read them on pages, in events and in notices. Package decide chooses them.

// Names of sessions and questions in a sentence.

func named(s ops.Session) string { return fmt.Sprintf("session %d (%s)", s.ID, s.Tier) }

func asked(q ops.Approval) string {
	if q.Kind == ops.ApprovalReview {
		return "whether the repair is good enough"
	}
	if q.Kind == ops.ApprovalReflex {
		return "whether the supervisor may do " + q.Handler
	}
	return fmt.Sprintf("whether %s may start", q.Handler)
}

// At is a time as reasons name it.
func At(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Ended says in words how a session ended.
func Ended(s ops.SessionStatus) string {
	if s == ops.SessionTimedOut {
		return "timed out"
	}
	return string(s)
}

// LeftRunning says that the supervisor of a session ended before it.
func LeftRunning(s ops.Session) string {
	return fmt.Sprintf("session %d was running when its supervisor ended", s.ID)
}

// Cancelled names who or what stopped a cycle.
func Cancelled(why string) string {
	if why == "" {
		return "stopped by the operator"
	}
	return why
}

// Observes says that probes look before Tier 1 does.
func Observes(services int) string {
	return fmt.Sprintf("%d services have probes; their results are facts for Tier 1", services)
}

// Withheld says that probes found a service bad, and no agent may work on it.
func Withheld(why string) string { return "no agent was started: " + why }

// AndNothingFor adds to the reason of an end which services of the cycle the agent proposed nothing for.
func AndNothingFor(reason string, services []string) string {
	if len(services) == 0 {
		return reason
	}
	return reason + "; nothing was proposed for " + And(services)
}

// AllHealthy says that probes found nothing, so no agent was started.
func AllHealthy(services int) string {
	return fmt.Sprintf("probes find all %d services healthy; no agent was started", services)
}

// Unknown says of which services probes found nothing out.
func Unknown(services []string) string {
	return "the container engine does not answer, so nothing is known of " + ops.Listed(services)
}

// FoundByProbes closes the incidents of a service that probes find well.
func FoundByProbes(c ops.CycleID) string { return fmt.Sprintf("cycle %d: probes find it healthy", c) }

// FoundByCycle closes the incidents of a service that a session found well.
func FoundByCycle(c ops.CycleID) string { return fmt.Sprintf("cycle %d found it healthy", c) }

// In puts the cycle before a reason.
func In(c ops.CycleID, reason string) string { return fmt.Sprintf("cycle %d: %s", c, reason) }

// NoEntry says that the handler that a cycle starts with does not exist.
func NoEntry(handler string) string {
	return fmt.Sprintf("the entry handler %q is not registered", handler)
}

// Starts says that the first session of a cycle.
func Starts(h ops.Handler) string { return fmt.Sprintf("the cycle starts with %s", h.ID) }

// Due says that a queued session is run.
func Due(s ops.Session) string { return named(s) + " is due" }

// Waits says that a queued session is not run before a time.
func Waits(s ops.Session, until time.Time) string {
	return fmt.Sprintf("%s waits until %s", named(s), At(until))
}

// Unpaid says that a session was not started, because nothing is left to spend.
func Unpaid(s ops.Session, b ops.Budget) string {
	return fmt.Sprintf("%s was not started: %s; %s", s.Tier, BudgetSpent(b), BudgetFrees(b))
}

// OtherAgent says that a conversation does not continue in another program.
func OtherAgent(from ops.Session, to ops.Handler) string {
	return fmt.Sprintf("%s cannot continue a conversation of %s; it gets the handoff context instead", to.Agent, from.Agent)
}

// OtherHost says that a conversation does not leave its host.
func OtherHost(from ops.Session, to ops.Handler) string {
	return fmt.Sprintf("session %d ran on host %s, and conversations do not leave their host; %s gets the handoff context instead",
		from.ID, from.Owner, to.Tier)
}

// NoConversation says that the program told no id of its conversation.
func NoConversation(from ops.Session, to ops.Handler) string {
	return fmt.Sprintf("session %d told no conversation id, so %s gets the handoff context instead", from.ID, to.Tier)
}

// ContextFull says that the conversation has grown too long to be continued.
func ContextFull(use, window int64, threshold float64, to ops.Handler) string {
	return fmt.Sprintf("the conversation holds %d of %d tokens (%.0f %%, the limit is %.0f %%), so %s gets the handoff context instead",
		use, window, 100*float64(use)/float64(window), 100*threshold, to.Tier)
}

// ResumeRefused says that the program did not continue the conversation.
func ResumeRefused(s ops.Session) string {
	return fmt.Sprintf("session %d could not continue the conversation (%s); %s starts again with the handoff context", s.ID, s.Error, s.Tier)
}

// AsksForHuman says that a session asks for a human. Why is what it said, or empty.
func AsksForHuman(s ops.Session, why string) string {
	return fmt.Sprintf("%s asks for a human: %s", named(s), Said(why))
}

// Blind says that an agent asks for a human while probes are green and something was hidden from it.
func Blind(s ops.Session, why string) string {
	return fmt.Sprintf("its probes are green; the agent could not see %s (sandbox.readable opens it). %s", And(s.Unseen), AsksForHuman(s, why))
}

// BlindVerified says that probes look at what a session asks a human about.
func BlindVerified(s ops.Session, services []string) string {
	return fmt.Sprintf("session %d asks for a human and could not see %s; probes check %s", s.ID, And(s.Unseen), And(services))
}

// notSaid stands where an agent gave no reason.
const notSaid = "it did not say why"

// Said is what an agent says inside a sentence of ours: quoted, on one line, and with nothing in it that cannot be seen.
func Said(text string) string { return saidBy("agent", text) }

func saidBy(who, text string) string {
	text = strings.Join(strings.Fields(ops.Visible(text)), " ")
	if text == "" {
		return notSaid
	}
	return "the " + who + " says “" + text + "”"
}

// Judged says why a judge does not believe a claim, in the words of the judge.
func Judged(scores string, reasons []string) string {
	text := "it said all was well, but the judge gives it only " + scores + "."
	if len(reasons) > 0 {
		text += " And " + saidBy("judge", strings.Join(reasons, "; "))
	}
	return text
}

// Verifies says that probes check what a session claims.
func Verifies(s ops.Session, services []string) string {
	return fmt.Sprintf("session %d says all is well; probes check %s", s.ID, strings.Join(services, ", "))
}

// NothingFound says that Tier 1 proposed nothing.
const NothingFound = "Tier 1 found nothing to escalate"

func checksConfirmed(n int) string {
	if n == 1 {
		return "1 check confirmed"
	}
	return fmt.Sprintf("%d checks confirmed", n)
}

// RepairedByProbes says that our own probes confirm a repair.
func RepairedByProbes(t ops.Tier, checks int) string {
	return fmt.Sprintf("%s repaired it; %s by our own probes", t, checksConfirmed(checks))
}

// RepairedByReview says that a person accepted a repair.
func RepairedByReview(t ops.Tier, by string) string {
	return fmt.Sprintf("%s repaired it; %s accepted the repair", t, by)
}

// RepairedByJudge says that the judge accepted a repair.
func RepairedByJudge(t ops.Tier, score int) string {
	return fmt.Sprintf("%s repaired it; the judge accepts it with %d of 100", t, score)
}

// Unverified says that nobody but the agent says that it is repaired.
func Unverified(t ops.Tier) string {
	return fmt.Sprintf("%s reports the problem as resolved; unverified: no probe and no judge confirmed it", t)
}

// PartlyVerified says that probes confirm a part of a claimed repair.
func PartlyVerified(t ops.Tier, confirmed, rest []string) string {
	return fmt.Sprintf("%s reports the problem as resolved; %s confirmed by our own probes, %s unverified: nothing confirmed it",
		t, And(confirmed), And(rest))
}

// RecoveredByItself says that probes see the service well again after a session that changed nothing.
func RecoveredByItself(t ops.Tier, checks int) string {
	return fmt.Sprintf("it recovered by itself: %s changed nothing, and %s", t, checksConfirmed(checks)+" that it works")
}

// Disagrees says that an agent and our own probes see a service differently.
func Disagrees(s ops.Session, service string, r ops.CheckResult) string {
	return fmt.Sprintf("session %d (%s) says %s is %s, and our own probes find it healthy: they cannot confirm a repair",
		s.ID, s.Tier, service, r.Status)
}

// NotCalmYet says that a service answers again, and goes up and down too much to be believed.
func NotCalmYet(t ops.Tier, h ops.Withheld) string {
	return fmt.Sprintf("%s reports the problem as resolved; unverified: %s", t, strings.TrimSuffix(h.Reason, "."))
}

// Withdrawn says that a question needs no answer, because its incident was closed.
func Withdrawn(q ops.Approval, closed string) string {
	return closed + "; the question " + asked(q) + " needs no answer"
}

// Unconfigured says that a service was taken out of the configuration.
const Unconfigured = "it is not configured any more"

// NotAgain says why a session that was decided a while ago is not started.
func NotAgain(s ops.Session, why string) string {
	return fmt.Sprintf("%s is not started: %s", s.Tier, why)
}

// NotAnswered says that a cycle goes on waiting.
const NotAnswered = "a human has not answered yet"

// NoPlan says that a proposed plan is not offered to the human.
func NoPlan(problem string) string { return "the proposed plan is not offered: " + problem }

// Closed says which of the incidents was closed last, by whom and why.
func Closed(all []ops.Incident) string {
	reason := "the incident was closed"
	for _, i := range all {
		reason = fmt.Sprintf("incident %d was closed by %s", i.ID, i.ResolvedBy)
		if i.Resolution != "" {
			reason += ": " + i.Resolution
		}
	}
	return reason
}

// Denied says that a human said no.
func Denied(q ops.Approval) string {
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
	words, said, probed := map[string][]string{}, map[string]bool{}, true
	for _, f := range a.Facts {
		if words[f.Service] == nil {
			services = append(services, f.Service)
		}
		word := strings.TrimSpace(string(f.Type) + " " + f.Class)
		if key := f.Service + " " + word; !said[key] {
			words[f.Service], said[key] = append(words[f.Service], word), true
		}
		probed = probed && f.Probe != "" && !strings.HasPrefix(f.Probe, ops.AlertProbe)
	}
	for i, name := range services {
		services[i] = fmt.Sprintf("%s (%s)", name, strings.Join(words[name], ", "))
	}
	text := fmt.Sprintf("No agent works on %s until %s or until the facts change.", And(services), At(*a.Until))
	if probed {
		text += " Probes keep looking."
	}
	return text
}

// Unanswered says that nobody answered in time.
func Unanswered(q ops.Approval) string { return "nobody answered " + asked(q) }

// LooksAgain says that probes look before a repair is continued.
const LooksAgain = "time has passed; probes look first whether the repair is still needed"

// WellAgain says that probes find that nothing is left to repair.
const WellAgain = "probes find all affected services well again; nothing more was started"

// AgentWorks closes the incidents about the agent itself.
func AgentWorks(c ops.CycleID) string { return fmt.Sprintf("the agent worked again in cycle %d", c) }

// Acknowledged, Snoozed, AwaitsHuman and Silenced say what holds a service back.

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

// WasCalled says that a person was called about the incident.
func WasCalled(i ops.Incident) string {
	return fmt.Sprintf("incident %d, for which a human was called at %s", i.ID, At(*i.CalledAt))
}

// Silenced says that a person silenced the service.
func Silenced(s ops.Silence) string {
	return fmt.Sprintf("silenced by %s until %s: %s", s.Author, At(s.Until), s.Reason)
}

// HeldBySilence, HeldByMaintenance and HeldService say what agents leave alone, and why.

// HeldBySilence says that a silence covers what it describes.
func HeldBySilence(s ops.Silence) string { return silenced(s.Matches(nil)) + ": " + Silenced(s) }

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

// PlanInterrupted says that a step of the plan was cut off.
func PlanInterrupted(step int) string {
	return fmt.Sprintf("step %d of the plan was running when its supervisor ended; it is not repeated", step)
}

// PlanStep says that a step of the plan is carried out.
func PlanStep(q ops.Approval, step int) string {
	p := q.Plan[step-1]
	return fmt.Sprintf("step %d of the plan that %s approved: %s of %s", step, q.AnsweredBy, p.Action, p.Service)
}

// PlanVerifies says that probes check whether the plan helped.
func PlanVerifies(services []string) string {
	return "probes check whether the approved plan helped: " + strings.Join(services, ", ")
}

// RepairedByPlan says that the approved plan helped.
func RepairedByPlan(q ops.Approval, checks int) string {
	return fmt.Sprintf("resolved by the approved plan, confirmed by probes: %s after the plan that %s approved", healthyChecks(checks),
		q.AnsweredBy)
}

// RecoveredBesidePlan says that services are well although no step of the approved plan was done.
func RecoveredBesidePlan(checks int) string {
	return "recovered without the plan, whose steps failed; confirmed by probes: " + healthyChecks(checks)
}

func healthyChecks(n int) string {
	if n == 1 {
		return "1 check is healthy"
	}
	return fmt.Sprintf("%d checks are healthy", n)
}

// StepsNotNeeded, StepsTooLate, StepsAfter and StepsLeft say why approved steps were not carried out.

// StepsNotNeeded says that nothing was left to repair.
const StepsNotNeeded = "not needed: probes found it healthy"

// StepsTooLate says that the incident was closed before.
const StepsTooLate = "not needed: the incident was closed"

// StepsAfter says that an earlier step was not done.
func StepsAfter(r ops.ActionRun) string {
	was := "was " + string(r.Status)
	if r.Status == ops.ActionFailed {
		was = "failed"
	}
	return fmt.Sprintf("step %d %s, and a plan stops there", r.Step, was)
}

// StepsLeft says that the cycle went on without the plan.
func StepsLeft(why string) string { return "not carried out: " + why }

// StepsSkipped names the steps.
func StepsSkipped(steps []int, why string) string {
	if len(steps) == 1 {
		return fmt.Sprintf("step %d of the plan was skipped: %s", steps[0], why)
	}
	var words []string
	for _, n := range steps {
		words = append(words, fmt.Sprint(n))
	}
	return fmt.Sprintf("steps %s of the plan were skipped: %s", And(words), why)
}

// StepNotHandedOn, StepUnknown, StepTooHigh and StepBranch say why a plan cannot be carried out as it is written.

// StepNotHandedOn says that the step is about another service.
func StepNotHandedOn(step int, service string) string {
	return fmt.Sprintf("step %d is about %s, which is not handed on", step, service)
}

// StepUnknown says that the service does not have the action.
func StepUnknown(step int, action, service string) string {
	return fmt.Sprintf("step %d names the action %s, which %s does not have", step, action, service)
}

// StepTooHigh says that the action needs more than the tier that is asked for.
func StepTooHigh(step int, needs, asked ops.Tier) string {
	return fmt.Sprintf("step %d needs %s, and %s is asked for", step, needs, asked)
}

// StepBranch says that a push needs a branch, and nothing else does.
func StepBranch(step int) string {
	return fmt.Sprintf("step %d names a branch where none belongs, or none where one is needed", step)
}

// AskAgain says that a question of the supervisor was interrupted.
func AskAgain(s ops.Session) string {
	return fmt.Sprintf("session %d (%s) was interrupted; it touches nothing, so it is asked again once", s.ID, s.Role)
}

// AsksManager says that a manager chooses who takes over.
func AsksManager(manager string, among []string) string {
	return fmt.Sprintf("%s is asked who of %s takes over", manager, strings.Join(among, ", "))
}

// FollowsPlan says that the tier starts anew with a planner's plan.
func FollowsPlan(t ops.Tier, planner ops.Session) string {
	return fmt.Sprintf("%s starts anew with the plan of session %d", t, planner.ID)
}

// AsksJudge says that a judge looks at a claimed repair.
func AsksJudge(judge string, s ops.Session) string {
	return fmt.Sprintf("%s is asked whether session %d repaired it", judge, s.ID)
}

// JudgeDoubts says that the judge wants a human to look.
func JudgeDoubts(s ops.Session, score int) string {
	return fmt.Sprintf("the judge gives the repair of session %d only %d of 100: a human has to look", s.ID, score)
}

// JudgeSilent says that the judge gave no usable answer.
func JudgeSilent(judge ops.Session, why string) string {
	return fmt.Sprintf("the judge (%s) gave no usable answer: %s", judge.Handler, why)
}

// JudgeSilentReview says that a human has to look instead of the judge.
func JudgeSilentReview(s ops.Session, why string) string {
	return fmt.Sprintf("%s; a human has to look at the repair of session %d", why, s.ID)
}

// Doubtful says that a session claims a repair that it is not sure of itself.
func Doubtful(s ops.Session, confidence float64) string {
	return Unsure(s, confidence) + ": a human has to look"
}

// Unsure says that an agent doubts its own repair.
func Unsure(s ops.Session, confidence float64) string {
	return fmt.Sprintf("the agent itself is only %s sure of the repair of session %d", Share(confidence), s.ID)
}

// Share is a share of one in percent.
func Share(of float64) string { return fmt.Sprintf("%.0f %%", 100*of) }

// Reason is why an agent hands over, in its own words, or else the checks that made it do so.
func Reason(h ops.Handoff) string {
	if strings.TrimSpace(h.Reason) != "" {
		return h.Reason
	}
	return strings.TrimSpace(Failing(h.CheckResults) + " (no reason given)")
}

// Passed says that a level of the ladder does not fit.
func Passed(level ops.RecoveryLevel, why string) string {
	return fmt.Sprintf("%s is passed over: %s", level, why)
}

// Interrupted says that a session was cut off, and what follows without a ladder.
func Interrupted(s ops.Session, again bool) string {
	reason := fmt.Sprintf("%s was interrupted (%s)", named(s), s.StopCause)
	switch {
	case again:
		return reason + "; it only looks, so it is run again once"
	case s.Tier > ops.Tier1:
		return reason + "; what it started may have taken effect, so it is not repeated"
	}
	return reason + " for the second time"
}

// Failed says that a session ended without success.
func Failed(s ops.Session) string {
	return fmt.Sprintf("%s %s: %s", named(s), Ended(s.Status), s.Error)
}

// Inconclusive says that a session said nothing that can be used.
func Inconclusive(s ops.Session) string {
	return fmt.Sprintf("%s gave no usable outcome: %s", named(s), s.Error)
}

// HandoffRefused and its neighbours say that a session meant to hand over and left no file where it belongs.

// HandoffRefused says that a write of a file of that name was refused.
func HandoffRefused(why, belongs string) string {
	return fmt.Sprintf("it tried to hand over, but writing handoff.json was refused (%s); %s", why, writeTo(belongs))
}

// HandoffNotThere says that a file of that name was written somewhere else, or not at all.
func HandoffNotThere(belongs string) string {
	return "it wrote a handoff.json, but not where the supervisor looks for it; " + writeTo(belongs)
}

// HandoffNotCorrected says that it was asked to correct its handoff and left none.
func HandoffNotCorrected(belongs string) string {
	return "it was asked to correct its handoff and left none; " + writeTo(belongs)
}

func writeTo(belongs string) string {
	return fmt.Sprintf("write it to $CLAUDEOPS_STATE_DIR/handoff.json, which is %s", belongs)
}

// RefutedBy says that a claim does not hold. Found are the checks of the probes that contradict it; none: the judge does.
func RefutedBy(s ops.Session, found []ops.Check) string {
	if len(found) == 0 {
		return named(s) + " says all is well, but the judge does not agree"
	}
	var bad []string
	for _, c := range found {
		bad = append(bad, fmt.Sprintf("%s %s (%s)", c.Service, c.Status, c.Error))
	}
	return fmt.Sprintf("%s says all is well, but probes still find %s", named(s), And(bad))
}

// And joins the parts of a sentence: "a, b and c".
func And(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// RecoveredUnseen says that services recovered while no agent could look at them.
func RecoveredUnseen(services []string, why string) string {
	return fmt.Sprintf("%s recovered; nobody could look: %s", And(services), why)
}

// BadSchema says that the result of a cycle could not be written in its form.
func BadSchema(err error) string { return fmt.Sprintf("the result does not fit its schema: %v", err) }

// SessionEnded and its neighbours list what was done in a cycle that did not finish.

// SessionEnded says that a session came to its end.
func SessionEnded(s ops.Session) string {
	return fmt.Sprintf("%s (session %d) ended with %s", s.Tier, s.ID, s.Outcome)
}

// Attacked says which call of a session attacked the supervisor.
func Attacked(s ops.Session, g ops.GuardRecord, services ...string) string {
	who := strings.TrimSuffix(named(s)+" for "+ops.Listed(services), " for ")
	return fmt.Sprintf("%s attacked the supervisor: the guard refused %s %s", who, g.Tool, line(ops.Prose(g.Input), 80))
}

// AttackedTwice says why nothing that repairs starts for a service.
func (Rows) AttackedTwice(until time.Time) string {
	return "agents at work on it attacked the supervisor twice within a day, so nothing above Tier 1 starts until " + At(until)
}

// WasAllowed says that the guard let a session do something.
func WasAllowed(s ops.Session, g ops.GuardRecord) string {
	return fmt.Sprintf("session %d was allowed: %s", s.ID, ops.Prose(g.Input))
}

// ProbeHealthy says that a probe found a service well.
func ProbeHealthy(service string) string { return fmt.Sprintf("probe finds %s healthy", service) }
