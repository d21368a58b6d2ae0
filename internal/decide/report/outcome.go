package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

//go:embed schema/outcome-v1.json
var outcomeSchema string

//go:embed schema/inline-v1.json
var inlineText []byte

// OutcomeSchema returns the JSON Schema of the outcome. It holds the schema of the handoff, so it can be used alone.
func OutcomeSchema() []byte { return []byte(outcomeSchema) }

// Inline returns the schema for a session of a tier as an agent CLI takes it on its command line: one line, without references. A tier that
// was called to a problem is not offered healthy.
func Inline(tier ops.Tier) string {
	text := Compact(inlineText)
	if tier < ops.Tier2 {
		return text
	}
	return strings.NewReplacer(
		`["healthy","resolved",`, `["resolved",`,
		`"healthy: no check is down and nothing had to be done. resolved: you repaired it and saw that it works; `,
		`"resolved: you saw that it works, because you repaired it or because it had recovered; `,
	).Replace(text)
}

// Compact writes an embedded schema in one line.
func Compact(schema []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, schema); err != nil {
		panic(fmt.Sprintf("read an embedded schema: %v", err)) // a build mistake no operator can act upon
	}
	return b.String()
}

// Outcome reads the outcome that a session of tier from gave. The outcome is empty unless the findings are OK.
func Outcome(raw []byte, from ops.Tier) (ops.Outcome, Findings) {
	var o ops.Outcome
	r := reader{from: from, hollow: true}
	if tree, ok := r.decode(raw); ok {
		object, _ := tree.(map[string]any)
		r.checkHandoff(object)
		r.guessWriter(object["handoff"])
		r.fill(tree, &o)
		r.checkOutcome(o)
	}
	r.finish("outcome")
	if !r.OK() {
		return ops.Outcome{}, r.Findings
	}
	if from >= ops.Tier2 && o.Kind == ops.OutcomeHealthy {
		o.Kind = ops.OutcomeResolved // it was called to a problem: that all is well is its claim, whichever word it uses
	}
	return o, r.Findings
}

// checkHandoff asks for a handoff exactly with an escalation. With any other decision it would be a second one, so it is not read.
func (r *reader) checkHandoff(object map[string]any) {
	_, present := object["handoff"]
	text, _ := object["outcome"].(string)
	switch kind := ops.OutcomeKind(text); kind {
	case ops.OutcomeEscalate:
		if !present {
			r.Findings.refuse([]string{"handoff"}, "is missing: the outcome escalate needs the facts for the next tier")
		}
	case ops.OutcomeHealthy, ops.OutcomeResolved, ops.OutcomeNeedsHuman:
		if present {
			r.Findings.refuse([]string{"handoff"}, "must be left out when the outcome is %s: a session ends in one decision", kind)
			delete(object, "handoff")
		}
	default:
	}
}

// checkOutcome refuses a claim that all is well beside a check that says otherwise, and warns of services that are handed over without a
// check that found them wrong.
func (r *reader) checkOutcome(o ops.Outcome) {
	for i, c := range o.CheckResults {
		if c.Status == ops.Down && (o.Kind == ops.OutcomeHealthy || o.Kind == ops.OutcomeResolved) {
			r.Findings.refuse([]string{"check_results", strconv.Itoa(i), "status"},
				"is down, which contradicts the outcome %s; report the state at the end of the session, or another outcome", o.Kind)
		}
	}
	if o.Handoff == nil || !r.OK() {
		return
	}
	wrong := map[string]bool{}
	for _, c := range slices.Concat(o.CheckResults, o.Handoff.CheckResults) {
		if c.Status != ops.Healthy {
			wrong[plainName(c.Service)] = true
		}
	}
	for i, service := range o.Handoff.ServicesAffected {
		if !wrong[plainName(service)] {
			r.warn([]string{"handoff", "services_affected", strconv.Itoa(i)}, "no check result shows %.80q degraded or down", service)
		}
	}
}

func plainName(service string) string { return strings.ToLower(strings.TrimSpace(service)) }

// Read fills what a session's stored texts say. It is called once for each session that is loaded, so that no decision and no
// prompt parses them again.
func Read(s *ops.Session) {
	s.Proposal, s.Report = proposal(*s), nil
	if len(s.OutcomeJSON) == 0 || !s.Works() {
		return
	}
	if o, found := Outcome(s.OutcomeJSON, s.Tier); found.OK() {
		s.Report = &o
		return
	}
	s.Report = claims(s.OutcomeJSON)
}

func proposal(s ops.Session) *ops.Proposal {
	if s.HandoffError != "" {
		return &ops.Proposal{Problems: []string{s.HandoffError}}
	}
	if len(s.HandoffJSON) == 0 {
		return nil
	}
	h, found := Handoff(s.HandoffJSON, s.Tier)
	if found.OK() {
		return &ops.Proposal{Handoff: &h, Warnings: found.Warnings}
	}
	return &ops.Proposal{Problems: Sentences(found.Errors), Warnings: found.Warnings}
}

// claims reads what an invalid outcome still says about itself: what was tried and what was asked for. It is never acted upon,
// only told to the next attempt.
func claims(raw []byte) *ops.Outcome {
	var o struct {
		Kind    ops.OutcomeKind `json:"outcome"`
		Summary string          `json:"summary"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return &ops.Outcome{Kind: o.Kind, Summary: o.Summary}
}
