package main_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// phone is where the notices of a box arrive.
func phone(t *testing.T) (env string, rings *atomic.Int32) {
	t.Helper()
	rings = &atomic.Int32{}
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rings.Add(1)
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(sink.Close)
	return "CLAUDEOPS_APPRISE_API=" + sink.URL + "/notify/ops", rings
}

func TestDryRun_AnOutageIsOneIncidentAndOneNotice(t *testing.T) {
	t.Parallel()
	address, rings := phone(t)
	other := agenttest.Escalates(1, 0.03, "jellyfin")
	other.Handoff = strings.Replace(other.Handoff, `"check_type":"http"`, `"check_type":"container"`, 1) // the agent looks at something else this time
	well := agenttest.Answers(0.01, strings.ReplaceAll(healthyOutcome, `"web"`, `"jellyfin"`))
	b := newBox(t, agenttest.Scenario{Plays: agenttest.InOrder(1, agenttest.Escalates(1, 0.03, "jellyfin"), other, agenttest.Escalates(1, 0.03, "jellyfin"), well)},
		"CLAUDEOPS_DRY_RUN=true", address)
	for cycle := 1; cycle <= 3; cycle++ { // each is another start of the program
		b.once(7)
		if c := b.cycle(); c.Cycle.Status != ops.CycleSuppressed || len(c.Journal.Sessions) != 1 {
			t.Fatalf("cycle %d is %s with %d sessions: %s", cycle, c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
		}
		open := b.openIncidents()
		if len(open) != 1 || open[0].ID != 1 || open[0].Occurrences != cycle || open[0].CalledAt == nil || open[0].Status != ops.IncidentOpen {
			t.Fatalf("after cycle %d the incidents are %+v", cycle, open)
		}
		if n := rings.Load(); n != 1 {
			t.Fatalf("after cycle %d people were told %d times: %+v", cycle, n, b.notices())
		}
	}
	n := b.notices()[0]
	if n.Kind != ops.NoticeBlocked || n.Service != "jellyfin" {
		t.Errorf("the notice is %+v", n)
	}
	contains(t, "the notice", n.Title+"\n"+n.Body, "Dry run: nothing is repaired", "jellyfin is down connection refused", "Tier 2 (tier2) takes over: restart services",
		"dry_run: false", "CLAUDEOPS_DRY_RUN=false", "claudeops run", "claudeops cycles show 1")
	contains(t, "incidents show", b.run("incidents", "show", "1").stdout, "dry_run: false", "Tier 2 takes over")
	contains(t, "incidents list", b.run("incidents", "list").stdout, "jellyfin", "open")
	b.once(0)
	if open := b.openIncidents(); len(open) != 0 || b.count(ops.NoticeResolved) != 1 {
		t.Errorf("after it was found healthy: %+v, %d notices that it is over", open, b.count(ops.NoticeResolved))
	}
}

func (b *box) openIncidents() (out []ops.Incident) {
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.People.Incidents(b.t.Context(), store.IncidentFilter{Open: true}); err != nil {
			b.t.Error(err)
		}
	})
	return out
}

func (b *box) toldOf(kind ops.NoticeKind) (out []ops.Notice) {
	return slices.DeleteFunc(b.notices(), func(n ops.Notice) bool { return n.Kind != kind })
}
