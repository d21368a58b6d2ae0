package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// verifiedBy is what the CLI says of who confirmed a cycle.
func (b *box) verifiedBy(id ops.CycleID) string {
	b.t.Helper()
	var shown struct {
		Verified   *bool
		VerifiedBy *string `json:"verified_by"`
	}
	must(b.t, json.Unmarshal([]byte(b.run("cycles", "show", fmt.Sprint(id), "-o", "json").stdout), &shown))
	if shown.VerifiedBy == nil || shown.Verified == nil {
		return ""
	}
	return fmt.Sprint(*shown.VerifiedBy, " ", *shown.Verified)
}

// incidentOf is the newest incident of a service.
func (b *box) incidentOf(service string) (out ops.Incident) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		all, err := s.Incidents(b.t.Context(), store.IncidentFilter{Limit: 50})
		must(b.t, err)
		if i := slices.IndexFunc(all, func(i ops.Incident) bool { return i.Service == service }); i >= 0 {
			out = all[i]
		}
	})
	return out
}

func (b *box) sessionsOf(c ops.Claimed, tier ops.Tier) (n int) {
	for _, s := range c.Journal.Sessions {
		if s.Works() && s.Tier == tier {
			n++
		}
	}
	return n
}

// Nobody but the agent says that it is repaired: the end is unverified everywhere, and the next report decides.
func TestProof_WhatNothingConfirmsStaysUnverifiedUntilTheNextReport(t *testing.T) {
	t.Parallel()
	plays := slices.Concat(agenttest.InOrder(1, finds(1), finds(1), looks()), agenttest.InOrder(2, agenttest.Claims(0.02, "web")))
	b := climbing(t, plays).configured("services: [{name: web}]\n")
	r := b.once(0)
	contains(t, "the end", r.stdout, "resolved, unverified")
	if got := b.verifiedBy(1); got != "none false" {
		t.Errorf("verified by %q", got)
	}
	if i := b.incidentOf("web"); i.Status != ops.IncidentUnverified || i.ResolvedAt != nil || len(b.notices()) != 0 {
		t.Errorf("the incident is %s, told %+v", i.Status, b.notices())
	}
	first := b.incidentOf("web").ID
	b.once(0) // it is found down again, and claimed again
	if i := b.incidentOf("web"); i.ID != first || i.Occurrences != 2 || i.Status != ops.IncidentUnverified {
		t.Errorf("the second time it is %+v", i)
	}
	b.once(0) // Tier 1 finds it healthy
	if i := b.incidentOf("web"); i.ID != first || i.Status != ops.IncidentResolved {
		t.Errorf("after a healthy report it is %+v", i)
	}
}

// A call for help about a service whose probes are green is not over because the probes are green.
func TestProof_ACallForHelpUnderGreenProbesStaysOpen(t *testing.T) {
	t.Parallel()
	url, _ := breakable(t)
	const broken = `{"schema_version":1,"outcome":"needs_human","summary":"the license ends tomorrow","check_results":[{"service":"web","check_type":"service","status":"degraded","error":"license"},{"service":"ups","check_type":"service","status":"down","error":"battery"}],"actions":[],"events":[],"memories":[]}`
	b := climbing(t, agenttest.InOrder(1, agenttest.Answers(0.01, broken), looks())).configured(watchedWeb(url, "observe: probes\n"))
	if r := b.run("run", "look at the license"); r.code != 6 {
		t.Fatalf("run exits %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if n := b.notices(); len(n) != 1 || !strings.Contains(n[0].Body, "web") || !strings.Contains(n[0].Body, "ups") {
		t.Errorf("people were told %+v", n)
	}
	b.once(0) // all probes are green
	if i, env := b.incidentOf("web"), b.incidentOf(""); i.ResolvedAt != nil || i.ID == 0 || env.ResolvedAt != nil || env.Class != ops.ClassEnvironment {
		t.Errorf("the incidents are %+v and %+v", i, env)
	}
}

// One service is silenced, the other is repaired: holding back is per service.
func TestProof_TheRestIsRepairedWithoutWhatIsSilenced(t *testing.T) {
	t.Parallel()
	web, broken := breakable(t)
	db, gone := breakable(t)
	breakIt(t, broken)
	breakIt(t, gone)
	both := agenttest.Answers(0.01, `{"schema_version":1,"outcome":"escalate","summary":"both are down","check_results":[{"service":"web","check_type":"http","status":"down","error":"502"},{"service":"db","check_type":"http","status":"down","error":"502"}],"handoff":`+
		agenttest.Handoff(2, "web", "db")+`,"actions":[],"events":[],"memories":[]}`)
	b := climbing(t, slices.Concat(agenttest.InOrder(1, both), agenttest.InOrder(2, repairing(broken)))).configured(fmt.Sprintf(`
services:
  - {name: web, probes: [{type: http, url: %q, timeout: 2s}]}
  - {name: db, probes: [{type: http, url: %q, timeout: 2s}]}
`, web, db))
	if r := b.run("silences", "add", "--service", "db", "--for", "1h", "--reason", "new disk"); r.code != 0 {
		t.Fatalf("silences add exits %d: %s", r.code, r.stderr)
	}
	b.once(0)
	c := b.cycle()
	if c.Cycle.Status != ops.CycleResolved || b.sessionsOf(c, 2) != 1 || b.sessionsOf(c, 3) != 0 || b.verifiedBy(c.Cycle.ID) != "probe true" {
		t.Errorf("the cycle is %s by %s with %d sessions: %s", c.Cycle.Status, b.verifiedBy(c.Cycle.ID), len(c.Journal.Sessions), c.Cycle.Reason)
	}
	if i := b.incidentOf("web"); i.Status != ops.IncidentResolved {
		t.Errorf("the incident of web is %+v", i)
	}
	if i := b.incidentOf("db"); i.ID != 0 {
		t.Errorf("db has the incident %+v", i)
	}
	calls := b.calls()
	contains(t, "what Tier 2 is told", strings.Join(calls[len(calls)-1].Args, "\n"), "Leave these alone", "db: silenced by")
}

// If the judge cannot be reached, the probes decide, and nothing else is started because of it.
func TestProof_AJudgeThatDoesNotAnswerIsNoVerdict(t *testing.T) {
	t.Parallel()
	config := `handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [fix]}
  - {id: fix, tier: 2, agent: claude, model: sonnet, hands_to: [more]}
  - {id: more, tier: 3, agent: claude, model: opus}
  - {id: judge, tier: 1, agent: claude, family: other, model: opus}
escalation: {judge: judge}
`
	silent := agenttest.Answers(0.01, `{}`).As("judge")
	url, broken := breakable(t)
	breakIt(t, broken)
	b := climbing(t, append(agenttest.InOrder(1, finds(1)), repairing(broken).By("fix"), silent)).configured(
		config + fmt.Sprintf("services: [{name: web, probes: [{type: http, url: %q, timeout: 2s}]}]\n", url))
	b.once(0)
	c := b.cycle()
	if got := b.verifiedBy(1); c.Cycle.Status != ops.CycleResolved || got != "probe true" || b.sessionsOf(c, 2) != 1 || b.sessionsOf(c, 3) != 0 {
		t.Errorf("the cycle is %s by %q after %d sessions: %s", c.Cycle.Status, got, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	if i := b.incidentOf(""); i.Class != ops.ClassJudge || i.ResolvedAt != nil || !b.told(ops.NoticeFailed, "The judge does not answer") {
		t.Errorf("the incident is %+v, told %+v", i, b.notices())
	}

	b = climbing(t, append(agenttest.InOrder(1, finds(1)), agenttest.Claims(0.02, "web").By("fix"), silent)).configured(config + "services: [{name: web}]\n")
	b.run("once")
	c = b.cycle()
	if c.Cycle.Status != ops.CycleWaitingHuman || b.sessionsOf(c, 2) != 1 || b.sessionsOf(c, 3) != 0 || strings.Contains(c.Cycle.Reason, "of 100") {
		t.Errorf("without probes the cycle is %s after %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	if len(c.Journal.Approvals) != 1 || c.Journal.Approvals[0].Kind != ops.ApprovalReview {
		t.Errorf("asked %+v", c.Journal.Approvals)
	}
}

// The agents fail while the service recovers by itself: nobody is called for what is over.
func TestProof_GreenProbesSpeakWhenNobodyElseCan(t *testing.T) {
	t.Parallel()
	var b *box
	broken := t.TempDir() + "/broken"
	breakIt(t, broken)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(broken); err == nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(service.Close)
	lost := agenttest.Play{Steps: append([]agenttest.Step{{Run: "rm -f " + broken}}, agenttest.Lines(agenttest.Init(), agenttest.APIError(401, "Invalid API key"))...), Exit: 1}
	b = climbing(t, []agenttest.Play{lost}).configured(fmt.Sprintf("services: [{name: web, probes: [{type: http, url: %q, timeout: 2s}]}]\n", service.URL))
	b.once(8)
	c := b.cycle()
	if c.Cycle.Status != ops.CyclePartial || !strings.Contains(c.Cycle.Reason, "web recovered; nobody could look") {
		t.Errorf("the cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
	}
	if n := b.notices(); len(n) != 1 || n[0].Level != ops.LevelInfo || b.incidentOf("web").ID != 0 {
		t.Errorf("told %+v", n)
	}
}
