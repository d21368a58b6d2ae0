package judge

import (
	_ "embed"

	"claudeops/internal/decide/report"
)

// Score is the four dimensions of a judgement, 0 to 25 each.
type Score struct {
	GoalAlignment        int `json:"goalAlignment" report:"required,min=0,max=25"`
	ActionCompleteness   int `json:"actionCompleteness" report:"required,min=0,max=25"`
	EvidenceOfCompletion int `json:"evidenceOfCompletion" report:"required,min=0,max=25"`
	FinalStateCoherence  int `json:"finalStateCoherence" report:"required,min=0,max=25"`
}

// Verdict is what becomes of a claimed success.
type Verdict string

// The verdicts.
const (
	Pass        Verdict = "PASS"
	Conditional Verdict = "CONDITIONAL"
	Fail        Verdict = "FAIL"
)

// The thresholds of the verdicts and of what follows from a failed one.
const (
	passTotal        = 70
	conditionalTotal = 60
	enoughEvidence   = 15
	strongEvidence   = 20
	noEvidence       = 8
	wrongGoal        = 15
)

// Total is the sum of the four dimensions.
func (s Score) Total() int {
	return s.GoalAlignment + s.ActionCompleteness + s.EvidenceOfCompletion + s.FinalStateCoherence
}

// Verdict is computed from the numbers alone.
func (s Score) Verdict() Verdict {
	switch {
	case s.EvidenceOfCompletion < enoughEvidence || s.Total() < conditionalTotal:
		return Fail
	case s.Total() < passTotal:
		return Conditional
	}
	return Pass
}

// Confidence is how sure the verdict is, 0 to 1.
func (s Score) Confidence() float64 {
	hundredths := s.Total()
	if s.EvidenceOfCompletion >= strongEvidence {
		hundredths += 10
	}
	return min(1, float64(hundredths)/100)
}

// Level is the level of the recovery ladder at which a failed claim enters: 2 or 3, and 0 unless the verdict is FAIL.
func (s Score) Level() int {
	switch {
	case s.Verdict() != Fail:
		return 0
	case s.GoalAlignment < wrongGoal:
		return 3
	case s.EvidenceOfCompletion < noEvidence:
		return 2
	}
	return 3
}

//go:embed schema/inline-v1.json
var inlineText []byte

// Inline returns the schema of the answer as an agent CLI takes it on its command line: one line, plain keywords.
func Inline() string { return report.Compact(inlineText) }

// Judgement is what is stored of a judge's answer. Verdict, confidence and total are computed here.
type Judgement struct {
	Verdict         Verdict  `json:"verdict" report:"required,one=PASS|CONDITIONAL|FAIL"`
	Confidence      float64  `json:"confidence" report:"required,min=0,max=1"`
	TotalScore      int      `json:"totalScore" report:"required,min=0,max=100"`
	Dimensions      Score    `json:"dimensions" report:"required"`
	Reasoning       string   `json:"reasoning" report:"required,text"`
	FailureReasons  []string `json:"failureReasons,omitempty" report:"optional" each:"filled"`
	Recommendations []string `json:"recommendations,omitempty" report:"optional" each:"filled"`
}

// Parse reads a judge's answer strictly. The judgement is empty unless there are no problems. A sum the judge got wrong is
// no problem: it is computed again, like the verdict.
func Parse(raw []byte) (Judgement, []report.Problem) {
	j, found := report.Closed[Judgement](raw, "judge's answer")
	if !found.OK() {
		return Judgement{}, found.Errors
	}
	return Judge(j), nil
}

// Judge fills in what follows from the dimensions.
func Judge(j Judgement) Judgement {
	s := j.Dimensions
	j.Verdict, j.Confidence, j.TotalScore = s.Verdict(), s.Confidence(), s.Total()
	return j
}
