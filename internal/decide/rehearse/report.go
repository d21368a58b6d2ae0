package rehearse

import (
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
)

// Kind is what a difference is about.
type Kind string

// The kinds of difference.
const (
	KindStep        Kind = "step"        // a step of a cycle
	KindDecision    Kind = "decision"    // a decision about an escalation, of a cycle without stored steps
	KindToolCall    Kind = "tool_call"   // the guard's answer to a tool call
	KindEnvironment Kind = "environment" // the configuration does not have the environment
)

// Difference is one change that happens Count times. Cycle, Step and At are those of the newest.
type Difference struct {
	Kind        Kind        `json:"kind"`
	Environment string      `json:"environment"`
	Before      string      `json:"before"`
	After       string      `json:"after"`
	Setting     string      `json:"setting,omitempty"` // the one that makes the difference; empty: none does by itself
	Command     string      `json:"command,omitempty"` // of a tool call
	Tier        ops.Tier    `json:"tier,omitempty"`    // of a tool call
	Count       int         `json:"count"`
	Cycle       ops.CycleID `json:"cycle"`
	Step        int         `json:"step,omitempty"`
	At          time.Time   `json:"at"`
	// CutShort: what followed in these cycles cannot be rehearsed, because the recorded facts hold no longer.
	CutShort bool          `json:"cut_short,omitempty"`
	Cycles   []ops.CycleID `json:"cycles"` // newest first, at most ten
}

// Counts say how much was rehearsed.
type Counts struct {
	Cycles       int `json:"cycles"`
	Steps        int `json:"steps"`
	DecisionOnly int `json:"decision_only"` // cycles without stored steps
	CutShort     int `json:"cut_short"`     // cycles rehearsed up to a difference
	Departed     int `json:"departed"`      // cycles rehearsed up to where the configuration before already does otherwise than was recorded
	Unreadable   int `json:"unreadable"`    // cycles whose stored steps this version cannot read
	Decisions    int `json:"decisions"`
	ToolCalls    int `json:"tool_calls"` // judged again
	NotJudged    int `json:"not_judged"` // redacted, shortened, or refused for something other than their text
}

// Report is what a rehearsal found.
type Report struct {
	Equal  bool   `json:"equal"`
	Counts Counts `json:"rehearsed"`
	// Differences are grouped, those with the newest example first. Others counts what did not fit in.
	Differences []Difference `json:"differences"`
	Others      int          `json:"others,omitempty"`
	// Stopped says why older cycles or calls were left out; empty: none were.
	Stopped string   `json:"stopped,omitempty"`
	Notes   []string `json:"notes"`
}

// maxGroups is how many different differences a report holds.
const maxGroups = 200

const maxCycles = 10 // that a difference names

// group is what differences of one kind have in common.
type group struct {
	kind                                Kind
	environment, before, after, command string
	tier                                ops.Tier
}

// note counts a difference. The setting is only looked for once in a group.
func (r *Rehearsal) note(d Difference, setting func() string) {
	key := group{d.Kind, d.Environment, d.Before, d.After, d.Command, d.Tier}
	i, known := r.groups[key]
	if !known {
		if len(r.report.Differences) == maxGroups {
			r.report.Others++
			return
		}
		i = len(r.report.Differences)
		r.groups[key] = i
		d.Setting = setting()
		r.report.Differences = append(r.report.Differences, d)
	}
	to := &r.report.Differences[i]
	to.Count++
	to.CutShort = to.CutShort || d.CutShort
	if d.At.After(to.At) {
		to.Cycle, to.Step, to.At = d.Cycle, d.Step, d.At
	}
	if !slices.Contains(to.Cycles, d.Cycle) && len(to.Cycles) < maxCycles {
		to.Cycles = append(to.Cycles, d.Cycle)
	}
}

// Report is what was found so far.
func (r *Rehearsal) Report() Report {
	out := r.report
	out.Equal = len(out.Differences) == 0
	out.Differences = append([]Difference{}, out.Differences...)
	slices.SortStableFunc(out.Differences, func(a, b Difference) int { return b.At.Compare(a.At) })
	out.Notes = append([]string{}, out.Notes...)
	return out
}

// Summary is the report in one sentence.
func (r Report) Summary() string {
	c, found := r.Counts, "no difference"
	if !r.Equal {
		found = fmt.Sprintf("%d different", len(r.Differences)+r.Others)
	}
	text := fmt.Sprintf("%s: %s (%s), %s and %s rehearsed", found, count(c.Cycles-c.DecisionOnly, "cycle"), count(c.Steps, "step"),
		count(c.Decisions, "decision"), count(c.ToolCalls, "tool call"))
	for _, rest := range []struct {
		n           int
		what, where string
	}{
		{c.DecisionOnly, "older cycle", "decision only"},
		{c.CutShort, "cycle", "only up to the difference"},
		{c.Departed, "cycle", "only up to where the configuration before departs from the record"},
		{c.Unreadable, "cycle", "of which this version cannot read the steps"},
		{c.NotJudged, "tool call", "cannot be judged"},
	} {
		if rest.n > 0 {
			text += "; " + count(rest.n, rest.what) + " " + rest.where
		}
	}
	if r.Stopped != "" {
		text += "; " + r.Stopped
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
