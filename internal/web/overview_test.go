package web_test

import (
	"fmt"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

func TestOverviewListsOnlyWhatNobodyHasTaken(t *testing.T) {
	s := newSite(t)
	// A cycle that ended with a call for somebody is over for the overview as soon as somebody has taken it.
	id := s.ends("paperless", "The disk is full.")
	mustContain(t, s.page("/"), "Needs you", "The disk is full.")
	if _, err := s.Store.Acknowledge(t.Context(), id, "alice", "", s.Now); err != nil {
		t.Fatal(err)
	}
	mustNotContain(t, content(s.page("/")), `id="needs-you"`)
	s.ends("grafana", "The certificate is too old.")
	body := content(s.page("/"))
	mustContain(t, body, `id="needs-you"`, "1 incident", "The certificate is too old.")
	mustNotContain(t, body, fmt.Sprintf("<strong>C-%d</strong>", 1))
}

// ends lets a cycle end with a call for a person, and returns the incident.
func (s *site) ends(service, text string) int64 {
	s.t.Helper()
	s.Await(ops.NewCycle{}, guarded(), ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: text,
		Incident: reported(service, text),
	},
		apitest.Run{Tier: 1, Outcome: ops.OutcomeNeedsHuman})
	return s.newestIncident().ID
}
