package decide

import (
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
	return !judged && !v.allProven(ops.ProbeVerify)
}

func reviewDoubtful(v view) ops.Step {
	return askReview(v, notice.Doubtful(*v.last, *v.last.Report.Confidence))
}
