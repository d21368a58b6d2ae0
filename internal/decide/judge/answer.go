package judge

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"claudeops/internal/decide/handoff"
)

//go:embed schema/inline-v1.json
var inlineText []byte

// Inline returns the schema of the answer as an agent CLI takes it on its command line: one line, plain keywords.
func Inline() string {
	var b bytes.Buffer
	if err := json.Compact(&b, inlineText); err != nil {
		panic(fmt.Sprintf("read the embedded judge schema: %v", err)) // a build mistake no operator can act upon
	}
	return b.String()
}

// compiled is computed once and only read afterwards.
var compiled = sync.OnceValue(func() *handoff.Rules { return handoff.MustCompile(string(inlineText)) })

// Judgement is what is stored of a judge's answer. Verdict, confidence and total are computed here.
type Judgement struct {
	Verdict         Verdict  `json:"verdict"`
	Confidence      float64  `json:"confidence"`
	TotalScore      int      `json:"totalScore"`
	Dimensions      Score    `json:"dimensions"`
	Reasoning       string   `json:"reasoning"`
	FailureReasons  []string `json:"failureReasons,omitempty"`
	Recommendations []string `json:"recommendations,omitempty"`
}

// Parse reads a judge's answer strictly. The judgement is empty unless there are no problems. A sum the judge got wrong is
// no problem: it is computed again, like the verdict.
func Parse(raw []byte) (Judgement, []handoff.Problem) {
	tree, problems := handoff.Decode(raw)
	if len(problems) > 0 {
		return Judgement{}, named(problems)
	}
	if problems = validate(tree); len(problems) > 0 {
		return Judgement{}, named(problems)
	}
	var j Judgement
	// No field but those of the schema is there, so the decoder cannot take one for another by its case.
	if err := json.Unmarshal(raw, &j); err != nil {
		return Judgement{}, named([]handoff.Problem{{Message: "cannot be read: " + err.Error()}})
	}
	if !j.Dimensions.inRange() || strings.TrimSpace(j.Reasoning) == "" {
		return Judgement{}, named([]handoff.Problem{{Message: "has a dimension outside 0 to 25, or no reasoning"}})
	}
	return Judge(j), nil
}

// Judge fills in what follows from the dimensions.
func Judge(j Judgement) Judgement {
	s := j.Dimensions
	j.Verdict, j.Confidence, j.TotalScore = s.Verdict(), s.Confidence(), s.Total()
	return j
}

func validate(tree any) []handoff.Problem {
	report := handoff.Validate(compiled(), tree)
	if len(report.Warnings) == 0 {
		return report.Errors
	}
	out := slices.DeleteFunc(report.Errors, func(p handoff.Problem) bool {
		return strings.HasPrefix(p.Message, "breaks the rule additionalProperties")
	})
	for _, warning := range report.Warnings {
		at, message, _ := strings.Cut(warning, ": ")
		out = append(out, handoff.Problem{Pointer: at, Message: strings.Replace(message, "unknown field, ignored", "is an unknown field", 1)})
	}
	return out
}

func named(problems []handoff.Problem) []handoff.Problem {
	report := handoff.Report{Errors: problems}
	report.Finish("judge's answer")
	return report.Errors
}
