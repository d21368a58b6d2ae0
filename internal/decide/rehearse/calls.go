package rehearse

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"claudeops/internal/ops"
)

// maxText is how much of a command or a list is shown.
const maxText = 200

// call is what tool calls with one answer have in common.
type call struct {
	environment, tool, digest, rule string
	tier                            ops.Tier
	allowed                         bool
}

// answer is what became of judging a call again.
type answer struct {
	can, differs bool
	after        Verdict
}

// Call judges a recorded tool call again.
func (r *Rehearsal) Call(environment string, g ops.GuardRecord) {
	if g.Gate == ops.GateShell && g.ToolUseID != "" && g.Allowed {
		return // the same call, judged before by the hook
	}
	key := call{environment, g.Tool, g.Digest, g.Rule, g.Tier, g.Allowed}
	a, known := r.calls[key]
	if !known {
		a = r.judge(environment, g)
		r.calls[key] = a
	}
	if !a.can {
		r.report.Counts.NotJudged++
		return
	}
	r.report.Counts.ToolCalls++
	if a.differs {
		word := map[bool]string{true: "allowed", false: "refused"}
		r.note(Difference{
			Kind: KindToolCall, Environment: environment, Before: word[g.Allowed], After: word[a.after.Allowed], Command: command(g), Tier: g.Tier,
			Cycle: g.CycleID, At: g.At,
		}, func() string {
			if a.after.Allowed {
				return "guard rule " + g.Rule // which refuses it no longer
			}
			return "guard rule " + a.after.Rule
		})
	}
}

// judge answers a call by every guess of where it ran until one gives the recorded answer: only what is different wherever it ran is
// a difference. The configuration before has to give the recorded answer by the same guess.
func (r *Rehearsal) judge(environment string, g ops.GuardRecord) (out answer) {
	if !asText(g) || !r.after.has(environment) || r.before != nil && !r.before.has(environment) {
		return out
	}
	for guess := range r.after.Guesses {
		if r.before != nil && r.before.Judge(environment, g, guess).Allowed != g.Allowed {
			continue
		}
		after := r.after.Judge(environment, g, guess)
		if after.Allowed == g.Allowed {
			return answer{can: true}
		}
		if out = (answer{true, true, after}); r.before != nil {
			break
		}
	}
	return out
}

// asText reports whether the guard's answer depended on the text, and the text is all there: nothing was redacted or shortened.
func asText(g ops.GuardRecord) bool {
	digest := sha256.Sum256([]byte(g.Input))
	return (g.Gate == ops.GateHook || g.Gate == ops.GateShell) &&
		!strings.HasPrefix(g.Rule, "gate.") && !strings.HasPrefix(g.Rule, "cooldown") && g.Digest == hex.EncodeToString(digest[:])
}

// command is what a call would run, in one line.
func command(g ops.GuardRecord) string {
	var bash struct{ Command string }
	if json.Unmarshal([]byte(g.Input), &bash) == nil && bash.Command != "" {
		return ops.OneLine(bash.Command, maxText)
	}
	return ops.OneLine(g.Tool+" "+g.Input, maxText)
}
