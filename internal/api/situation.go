package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/access"
	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
)

// Situation says in sentences what happens now and next.
type Situation struct {
	Doing []StatusLine `json:"doing" doc:"What is being done about problems, and which cycles run."`
	Ahead []StatusLine `json:"ahead" doc:"What is about to happen."`
}

// StatusLine is one sentence about what is being done or is about to happen.
type StatusLine struct {
	Text        string           `json:"text" doc:"The sentence, with times in UTC."`
	Environment string           `json:"environment"`
	Tone        string           `json:"tone" enum:"run,hand,warn,unknown" doc:"Work, a person is needed, nobody works on it, nothing to do."`
	Services    []string         `json:"services"`
	CycleID     *int64           `json:"cycle_id"`
	SessionID   *int64           `json:"session_id"`
	ApprovalID  *int64           `json:"approval_id"`
	IncidentID  *int64           `json:"incident_id"`
	Parts       []situation.Part `json:"parts" doc:"The same sentence in pieces, so that a reader can show its times in another zone."`
}

func statusLines(lines []situation.Line, now time.Time) []StatusLine {
	out := make([]StatusLine, 0, len(lines))
	for _, l := range lines {
		out = append(out, StatusLine{
			Text: l.Sentence(now.UTC()), Environment: l.Environment, Tone: string(l.Tone), Services: append([]string{}, l.Services...),
			CycleID: positive(l.Cycle), SessionID: positive(l.Session), ApprovalID: positive(l.Approval), IncidentID: positive(l.Incident),
			Parts: l.Parts,
		})
	}
	return out
}

// Sentence is the text of the line with times in the zone of now.
func (l StatusLine) Sentence(now time.Time) string {
	return situation.Line{Parts: l.Parts}.Sentence(now)
}

func positive[T ~int64](id T) *int64 {
	if id == 0 {
		return nil
	}
	n := int64(id)
	return &n
}

func (s *server) registerSituation(api huma.API) {
	huma.Register(api, look("get-situation", "/situation", "What is being done, and what comes next", "stats",
		"The sentences of the overview page and of claudeops status."), s.situation)
}

func (s *server) situation(ctx context.Context, _ *struct{}) (*body[Situation], error) {
	now := s.Clock()
	services, err := serviceStates(ctx, s.Store, s.Environments, "", now)
	if err != nil {
		return nil, s.problem("read situation", err)
	}
	var bad []situation.Service
	for _, x := range services {
		if h := ops.Health(x.State); h == ops.Down || h == ops.Degraded {
			bad = append(bad, situation.Service{Environment: x.Environment, Name: x.Name, Status: h})
		}
	}
	slices.SortStableFunc(bad, func(a, b situation.Service) int { return cmp.Compare(badness(b.Status), badness(a.Status)) })
	facts, err := situation.Read(ctx, s.Store, s.Environments, bad, now)
	if err != nil {
		return nil, s.problem("read situation", err)
	}
	facts.NextChecks, facts.ReadOnly = s.NextCheck(), !CallerOf(ctx).May(access.Approve)
	return &body[Situation]{Situation{statusLines(situation.Doing(facts), now), statusLines(situation.Ahead(facts), now)}}, nil
}

func badness(h ops.Health) int {
	if h == ops.Down {
		return 1
	}
	return 0
}
