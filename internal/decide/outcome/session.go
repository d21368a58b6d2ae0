package outcome

import (
	"encoding/json"

	"claudeops/internal/decide/handoff"
	"claudeops/internal/ops"
)

// Read fills what a session's stored texts say. It is called once for each session that is loaded, so that no decision and no
// prompt parses them again.
func Read(s *ops.Session) {
	s.Proposal, s.Report = proposal(*s), nil
	if len(s.OutcomeJSON) == 0 || !s.Works() {
		return
	}
	if o, report := Parse(s.OutcomeJSON, s.Tier); report.OK() {
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
	h, report := handoff.Parse(s.HandoffJSON, s.Tier)
	if report.OK() {
		return &ops.Proposal{Handoff: &h, Warnings: report.Warnings}
	}
	return &ops.Proposal{Problems: handoff.Sentences(report.Errors), Warnings: report.Warnings}
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
