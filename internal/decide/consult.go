package decide

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/decide/judge"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// A question to an agent, asked by the supervisor beside the work: who should take over, what to try next, whether a
// repair is one. Its session touches nothing; its answer is only a proposal.

// consult queues a question about the last session.
func consult(v view, role ops.Role, handler ops.Handler, reason string) ops.Step {
	return ops.Step{
		Kind:    ops.StepQueue,
		Reason:  reason,
		Session: v.consultation(role, handler),
		Events:  []ops.Event{v.event(ops.LevelInfo, ops.VerbConsultAsked, reason)},
	}
}

func (v view) consultation(role ops.Role, handler ops.Handler) *ops.NewSession {
	handler.Permissions = ops.Tier1
	return &ops.NewSession{
		ParentID: &v.last.ID, Attempt: v.attempt(handler.Tier), Role: role, Handler: handler, ContextMode: ops.ContextFresh,
	}
}

func askAgain(v view) ops.Step {
	handler, _ := v.policy.Handler(v.newest.Handler)
	handler.Tier = v.newest.Tier
	reason := v.say(ops.Reason{Kind: ops.WhyAskAgain, Session: v.newest})
	step := consult(v, v.newest.Role, handler, reason)
	step.Session.RetryOf, step.Session.Level = &v.newest.ID, v.newest.RecoveryLevel
	return step
}

func (v view) managerDue() bool {
	return v.policy.Process == ops.ProcessManager && v.policy.Manager != "" && v.answerOf(ops.RoleManager) == nil && len(v.permitted()) > 1
}

// permitted are the handlers among whom a manager may choose.
func (v view) permitted() []ops.Handler {
	p := v.proposalOf()
	if p.Handoff == nil || v.last.Tier >= ops.LastTier {
		return nil
	}
	return escalation.Permitted(v.policy, v.path(), escalation.Proposal{Session: v.proposer(), Handoff: p.Handoff}, v.facts())
}

func askManager(v view) ops.Step {
	manager, _ := v.policy.Handler(v.policy.Manager)
	var among []string
	for _, h := range v.permitted() {
		among = append(among, h.ID)
	}
	return consult(v, ops.RoleManager, manager, v.say(ops.Reason{Kind: ops.WhyAsksManager, Handler: manager, Rest: among}))
}

// choice is what the manager said, or nil where none was asked.
func (v view) choice() *escalation.Choice {
	s := v.answerOf(ops.RoleManager)
	if s == nil {
		return nil
	}
	c := &escalation.Choice{Manager: s.Handler}
	var answer struct {
		Target string `json:"target"`
		Reason string `json:"reason"`
	}
	switch {
	case s.Status != ops.SessionCompleted:
		c.Why = "its session " + ops.Spaced(s.Status)
		if s.Error != "" {
			c.Why += ": " + s.Error
		}
	case json.Unmarshal(s.OutcomeJSON, &answer) != nil || answer.Target == "":
		c.Why = "it named nobody"
	case !slices.ContainsFunc(v.permitted(), func(h ops.Handler) bool { return h.ID == answer.Target }):
		c.Why = fmt.Sprintf("it named %q, which is not permitted", answer.Target)
	default:
		c.Target, c.Why = answer.Target, ops.Said("agent", answer.Reason)
	}
	return c
}

// askPlanner asks for a new plan before the work is tried again.
func (v view) askPlanner(planner ops.Handler) *ops.NewSession {
	s := v.consultation(ops.RolePlanner, planner)
	s.Level = ops.RecoveryReplan
	return s
}

// planned: a planner was asked about the last session, and has ended.
func (v view) planned() bool { return v.answerOf(ops.RolePlanner) != nil }

// followPlan starts the work anew with the plan. A planner without a plan ends the level.
func followPlan(v view) ops.Step {
	s := v.answerOf(ops.RolePlanner)
	if s.Status != ops.SessionCompleted || len(s.OutcomeJSON) == 0 {
		return recovers(failedWithoutRecovery)(v)
	}
	reason := v.say(ops.Reason{Kind: ops.WhyFollowsPlan, Tier: v.last.Tier, Session: s})
	return ops.Step{
		Kind: ops.StepQueue, Reason: reason,
		Session: &ops.NewSession{
			ParentID: v.last.ParentID, RetryOf: &v.last.ID, Attempt: v.attempt(v.last.Tier), Handler: v.worker(),
			ContextMode: v.freshContext(), Level: ops.RecoveryReplan,
		},
		Events: []ops.Event{v.event(ops.LevelInfo, ops.VerbRecoveryBegun, reason)},
	}
}

// unjudged: a repair is claimed, and a judge is configured who has not been asked, or gave no usable answer the first time.
func (v view) unjudged() bool {
	return v.policy.Judge != "" && v.last.Outcome == ops.OutcomeResolved && (v.timesJudged() == 0 || v.judgeSilent() && v.timesJudged() == 1)
}

// timesJudged is how often the judge was asked about the last session and came to an end.
func (v view) timesJudged() int {
	n := 0
	for _, s := range v.journal.Sessions {
		if s.Role == ops.RoleJudge && s.ParentID != nil && *s.ParentID == v.last.ID && s.Status != ops.SessionInterrupted {
			n++
		}
	}
	return n
}

// judgeSilent: the judge was asked and gave no usable answer. That says nothing about the repair.
func (v view) judgeSilent() bool {
	_, judged := v.verdict()
	return !judged && v.policy.Judge != "" && v.last != nil && v.answerOf(ops.RoleJudge) != nil
}

// withoutJudge ends by the probes where they prove the repair, else a human looks. A broken judge starts no repair and no higher tier.
func withoutJudge(v view) ops.Step {
	why := v.say(ops.Reason{Kind: ops.WhyJudgeSilent, Session: v.answerOf(ops.RoleJudge), Text: v.judgeProblem()})
	if !v.allProven(ops.ProbeVerify) {
		return askReview(v, v.say(ops.Reason{Kind: ops.WhyJudgeSilentReview, Session: v.last, Text: why}))
	}
	step := resolved(v)
	p := v.problem(ops.ProblemJudge, ops.LevelWarning, why)
	report := v.report(p)
	report.Class, report.Services, report.Checks, report.Titles = ops.ClassJudge, nil, nil, nil
	step.Incident = &report
	step.Events = append(step.Events, v.event(ops.LevelWarning, ops.VerbJudgeSilent, why))
	told := v.told(ops.MessageNoJudge, p)
	told.Services, told.What = nil, why
	return notifyOnce(v, step, v.notice(ops.NoticeFailed, ops.LevelWarning, told))
}

// judgeProblem says why the judge's answer cannot be used.
func (v view) judgeProblem() string {
	s := v.answerOf(ops.RoleJudge)
	if s.Status != ops.SessionCompleted {
		return strings.TrimSuffix("its session "+ops.Spaced(s.Status)+": "+s.Error, ": ")
	}
	_, problems := judge.Parse(s.OutcomeJSON)
	return strings.Join(report.Sentences(problems), "; ")
}

// judgeAgain is how long a review waits before the judge is asked once more, and mostJudged how often at most.
const (
	judgeAgain = time.Hour
	mostJudged = 24
)

// judgeDue: a human is asked because the judge did not answer; it may be back.
func (v view) judgeDue() bool {
	return v.asked(ops.ApprovalPending, ops.ApprovalReview) && v.judgeSilent() && v.timesJudged() < mostJudged &&
		!v.now.Before(v.judgeBack())
}

// judgeBack is when the judge is asked again.
func (v view) judgeBack() time.Time {
	s := v.answerOf(ops.RoleJudge)
	if s.EndedAt == nil {
		return v.now
	}
	return s.EndedAt.Add(judgeAgain)
}

// judgedMeanwhile: the judge is back and accepts the repair about which a human is still asked. What a probe refutes by now stays with
// the human.
func (v view) judgedMeanwhile() bool {
	r, judged := v.verdict()
	return v.asked(ops.ApprovalPending, ops.ApprovalReview) && judged && r.Verdict == judge.Pass && v.timesJudged() > 1 && !v.refuted()
}

// judgedUnseen: the judge is back, and no probe has looked since the repair was verified, which may be a day ago.
func (v view) judgedUnseen() bool {
	if !v.judgedMeanwhile() || len(v.verifiable()) == 0 {
		return false
	}
	q := v.question()
	return !slices.ContainsFunc(v.checks(ops.ProbeVerify, v.last.ID), func(c ops.Check) bool { return c.At.After(q.RequestedAt) })
}

func askJudge(v view) ops.Step {
	handler, _ := v.policy.Handler(v.policy.Judge)
	return consult(v, ops.RoleJudge, handler, v.say(ops.Reason{Kind: ops.WhyAsksJudge, Handler: handler, Session: v.last}))
}

// verdict is what the judge's numbers say of the claim; false where there is no usable answer.
func (v view) verdict() (judge.Judgement, bool) {
	if v.last == nil {
		return judge.Judgement{}, false
	}
	return v.verdictOn(*v.last)
}

func (v view) verdictOn(about ops.Session) (judge.Judgement, bool) {
	s := v.answerAbout(about, ops.RoleJudge)
	if s == nil || v.policy.Judge == "" || s.Status != ops.SessionCompleted {
		return judge.Judgement{}, false
	}
	found, problems := judge.Parse(s.OutcomeJSON)
	return found, len(problems) == 0
}

// doubted: the judge did not pass the claim.
func (v view) doubted() bool {
	r, ok := v.verdict()
	return ok && r.Verdict != judge.Pass
}

// judged asks a human where the judge is not sure, and goes up the ladder where he says no.
func judged(v view) ops.Step {
	r, _ := v.verdict()
	var step ops.Step
	if r.Verdict == judge.Conditional {
		step = askReview(v, v.say(ops.Reason{Kind: ops.WhyJudgeDoubts, Session: v.last, Count: r.TotalScore}))
	} else {
		step = recovers(refutedWithoutRecovery)(v)
	}
	step.Verified = v.verification(r)
	return step
}

// askReview asks a human whether the claimed repair is good enough.
func askReview(v view, reason string) ops.Step {
	target := v.worker()
	p := v.problem(ops.ProblemReview, ops.LevelCritical, reason)
	report := v.report(p)
	report.Waits = true
	told := v.told(ops.MessageReview, p)
	told.Handler, told.Tier, told.Expires, told.Now = target.ID, target.Tier, v.expires(), v.now
	return ops.Step{
		Kind: ops.StepAwait, Reason: reason, Approval: v.newQuestion(ops.ApprovalReview, target, reason), Incident: &report,
		Until:   v.lookBack(v.expires()),
		Events:  []ops.Event{v.event(ops.LevelWarning, ops.VerbReviewAsked, reason)},
		Notices: []ops.Notice{v.notice(ops.NoticeReview, ops.LevelWarning, told)},
	}
}

// lookBack is when a wait is looked at again: when the question expires, or sooner where the judge may be back.
func (v view) lookBack(expires time.Time) time.Time {
	if !v.judgeSilent() || v.timesJudged() >= mostJudged {
		return expires
	}
	if back := v.judgeBack(); expires.IsZero() || back.Before(expires) {
		return back
	}
	return expires
}

func (v view) verification(r judge.Judgement) *ops.Verification {
	return &ops.Verification{
		CycleID: v.cycle.ID, SessionID: v.last.ID, JudgeSessionID: v.answerOf(ops.RoleJudge).ID,
		Verdict: string(r.Verdict), Confidence: r.Confidence,
		TotalScore: r.TotalScore, Dimensions: dimensions(r.Dimensions), Reasoning: r.Reasoning, FailureReasons: r.FailureReasons,
		Recommendations: r.Recommendations, At: v.now,
	}
}

func dimensions(s judge.Score) map[string]int {
	return map[string]int{
		"goalAlignment": s.GoalAlignment, "actionCompleteness": s.ActionCompleteness,
		"evidenceOfCompletion": s.EvidenceOfCompletion, "finalStateCoherence": s.FinalStateCoherence,
	}
}
