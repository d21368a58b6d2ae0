package judge

import (
	_ "embed"

	"claudeops/internal/decide/report"
)

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
