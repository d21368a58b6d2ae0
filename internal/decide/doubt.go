package decide

import (
	"slices"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// sure is the confidence from which a claimed repair is taken for more than a guess.
const sure = 0.5

// doubtful: the session claims a repair that it is not sure of itself, and neither a judge nor probes confirm it.
func (v view) doubtful() bool {
	r := v.last.Report
	if v.last.Outcome != ops.OutcomeResolved || r == nil || r.Confidence == nil || *r.Confidence >= sure {
		return false
	}
	_, judged := v.verdict()
	return !judged && !v.probesConfirm()
}

// probesConfirm: our own probes looked at every affected service after the last session, and found nothing bad.
func (v view) probesConfirm() bool {
	affected, checks := v.affected(), v.checks(ops.ProbeVerify, v.last.ID)
	return len(affected) > 0 && v.probesPass(*v.last) && !slices.ContainsFunc(affected, func(service string) bool {
		return !slices.ContainsFunc(checks, func(c ops.Check) bool { return c.Service == service })
	})
}

func reviewDoubtful(v view) ops.Step {
	return v.askReview(notice.Doubtful(*v.last, *v.last.Report.Confidence))
}

// askReview asks a human whether a claimed repair is good enough.
func (v view) askReview(reason string) ops.Step {
	target := v.worker()
	p := v.problem(ops.ProblemReview, ops.LevelCritical, reason)
	report := v.report(p)
	report.Waits = true
	return ops.Step{
		Kind: ops.StepAwait, Reason: reason, Approval: v.newQuestion(ops.ApprovalReview, target, reason), Incident: &report, Until: v.expires(),
		Events: []ops.Event{v.event(ops.LevelWarning, ops.EventVerify, reason)},
		Notices: []ops.Notice{
			v.notice(ops.NoticeReview, ops.LevelWarning, notice.Review(v.told(p), notice.Question{
				Handler: target.ID, Tier: target.Tier, Expires: v.expires(), Now: v.now,
			})),
		},
	}
}
