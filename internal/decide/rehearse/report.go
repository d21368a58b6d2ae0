package rehearse

import (
	"fmt"
	"slices"
	"strings"
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

// Difference is one change that happens Count times. Cycle, Step and At are those of the newest. If it is CutShort, what followed in
// these cycles cannot be rehearsed, because the recorded facts hold no longer.
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
	CutShort    bool        `json:"cut_short,omitempty"`
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
	Stopped     string       `json:"stopped,omitempty"` // why older rows were left out; empty: none were
	Notes       []string     `json:"notes"`
}

// maxGroups is how many different differences a report holds.
const maxGroups = 200

// note counts a difference. Rows come newest first, so the first one of a group stands for it, and only its setting is looked for.
func (r *Rehearsal) note(d Difference, setting func() string) {
	key := fmt.Sprintf("%s %s %q %q %q %d", d.Kind, d.Environment, d.Before, d.After, d.Command, d.Tier)
	i, known := r.groups[key]
	switch {
	case known:
		r.report.Differences[i].Count++
	case len(r.groups) == maxGroups:
		r.report.Others++
	default:
		d.Count, d.Setting, r.groups[key] = 1, setting(), len(r.groups)
		r.report.Differences = append(r.report.Differences, d)
	}
}

// Report is what was found so far.
func (r *Rehearsal) Report() Report {
	out := r.report
	out.Equal = len(out.Differences) == 0
	out.Differences, out.Notes = append([]Difference{}, out.Differences...), append([]string{}, out.Notes...)
	slices.SortStableFunc(out.Differences, func(a, b Difference) int { return b.At.Compare(a.At) })
	return out
}

// Summary is the report in one sentence.
func (r Report) Summary() string {
	c, found := r.Counts, "no difference"
	if !r.Equal {
		found = fmt.Sprintf("%d different", len(r.Differences)+r.Others)
	}
	parts := []string{fmt.Sprintf("%s: %s (%s), %s and %s rehearsed", found, count(c.Cycles-c.DecisionOnly, "cycle"), count(c.Steps, "step"),
		count(c.Decisions, "decision"), count(c.ToolCalls, "tool call"))}
	add := func(n int, what, rest string) {
		if n > 0 {
			parts = append(parts, count(n, what)+" "+rest)
		}
	}
	add(c.DecisionOnly, "older cycle", "decision only")
	add(c.CutShort, "cycle", "only up to the difference")
	add(c.Departed, "cycle", "only up to where the configuration before departs from the record")
	add(c.Unreadable, "cycle", "of which this version cannot read the steps")
	add(c.NotJudged, "tool call", "cannot be judged")
	if r.Stopped != "" {
		parts = append(parts, r.Stopped)
	}
	return strings.Join(parts, "; ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
