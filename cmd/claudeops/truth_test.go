package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// breakable is a service that answers 502 while a file exists.
func breakable(t *testing.T) (url, broken string) {
	t.Helper()
	broken = filepath.Join(t.TempDir(), "broken")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(broken); err == nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(service.Close)
	return service.URL, broken
}

func breakIt(t *testing.T, broken string) {
	t.Helper()
	must(t, os.WriteFile(broken, nil, 0o600))
}

// repairing is a play that repairs the service before it says so.
func repairing(broken string) agenttest.Play {
	p := agenttest.Claims(0.1, "web")
	p.Steps = append([]agenttest.Step{{Run: "rm -f " + broken}}, p.Steps...)
	return p
}

func watchedWeb(url, more string) string {
	return quickly + fmt.Sprintf("services: [{name: web, probes: [{type: http, url: %q, interval: 1s, timeout: 2s}]}]\n%s", url, more)
}

func (b *box) asked() bool {
	c, ok := b.newest()
	return ok && c.Cycle.Status == ops.CycleWaitingHuman
}

func (b *box) told(kind ops.NoticeKind, text string) bool {
	return slices.ContainsFunc(b.notices(), func(n ops.Notice) bool { return n.Kind == kind && strings.Contains(n.Title+n.Body, text) })
}

// A probe watches the service while a human is asked about it: the answer counts all the same.
func TestTruth_AnApprovalIsNotSwallowedWhereAProbeWatches(t *testing.T) {
	t.Parallel()
	url, broken := breakable(t)
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, repairing(broken)))
	b := climbing(t, plays, "CLAUDEOPS_APPROVAL_TIER=3").configured(watchedWeb(url, ""))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	breakIt(t, broken)
	d.until("the question is asked", b.asked)
	asked, _ := b.newest()
	if got := asked.Journal.Approvals[0].Reason; got != "web is down connection refused (no reason given)" || !b.told(ops.NoticeApproval, "The database refuses connections.") {
		t.Errorf("the question says %q, and people are told %+v", got, b.notices())
	}
	// The watch has noted by now that a human is asked.
	d.until("the watch holds it back", func() (held bool) {
		b.read(func(s *store.Store) {
			rows, err := s.Withheld(t.Context(), "default")
			held = err == nil && slices.ContainsFunc(rows, func(w ops.Withheld) bool { return w.Service == "web" && w.Why == ops.HoldPerson })
		})
		return held
	})
	id := asked.Cycle.ID
	if status, answer := d.post("/api/v1/approvals/1/approve", map[string]any{"reason": "go"}); status != http.StatusOK {
		t.Fatalf("approve answers %d: %v", status, answer)
	}
	d.until("the cycle ends", func() bool { return b.load(id).Cycle.Status.Ended() })
	c := b.load(id)
	if c.Cycle.Status != ops.CycleResolved || c.Cycle.Verified == nil || !*c.Cycle.Verified || c.Journal.Last().Tier != ops.Tier3 {
		t.Errorf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
}

// The service recovers while a human is asked, and silence would mean yes: nothing runs, and who was asked is told.
func TestTruth_AQuestionEndsWithItsProblem(t *testing.T) {
	t.Parallel()
	url, broken := breakable(t)
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, repairing(broken)))
	b := climbing(t, plays, "CLAUDEOPS_APPROVAL_TIER=3").configured(watchedWeb(url, "escalation: {approval: {expiry: 10m, on_expiry: approve}}\n"))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	breakIt(t, broken)
	d.until("the question is asked", b.asked)
	asked, _ := b.newest()
	must(t, os.Remove(broken))
	id := asked.Cycle.ID
	d.until("the cycle ends", func() bool { return b.load(id).Cycle.Status.Ended() })
	c := b.load(id)
	if c.Cycle.Status != ops.CycleResolved || c.Journal.Last().Tier == ops.Tier3 || c.Journal.Approvals[0].Status != ops.ApprovalWithdrawn {
		t.Errorf("the cycle is %s, its question %s: %s", c.Cycle.Status, c.Journal.Approvals[0].Status, c.Cycle.Reason)
	}
	if !b.told(ops.NoticeResolved, "No answer needed") {
		t.Errorf("nobody was told: %+v", b.notices())
	}
}

// After a start nothing has judged the service yet: the cycle's own probe obeys maintenance and silences all the same.
func TestTruth_AScheduledCheckObeysWhatTheOperatorSaid(t *testing.T) {
	t.Parallel()
	url, broken := breakable(t)
	breakIt(t, broken)
	now := time.Now().UTC()
	maintenance := fmt.Sprintf("maintenance: [{name: disk, service: web, from: %s, until: %s}]\n",
		now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	b := climbing(t, agenttest.InOrder(1, finds(1))).configured(watchedWeb(url, maintenance))
	b.ready().until("the first cycle ends", func() bool { return b.ended(1) })
	if c := b.load(1); c.Cycle.Status != ops.CycleSuppressed || len(b.calls()) != 0 || !strings.Contains(c.Cycle.Reason, "maintenance") {
		t.Errorf("in maintenance the cycle is %s after %d calls: %s", c.Cycle.Status, len(b.calls()), c.Cycle.Reason)
	}
	b = climbing(t, agenttest.InOrder(1, finds(1))).configured(watchedWeb(url, ""))
	if r := b.run("silences", "add", "--service", "web", "--for", "1h", "--reason", "new disk"); r.code != 0 {
		t.Fatalf("silences add exits %d: %s", r.code, r.stderr)
	}
	b.ready().until("the first cycle ends", func() bool { return b.ended(1) })
	if c := b.load(1); c.Cycle.Status != ops.CycleSuppressed || len(b.calls()) != 0 {
		t.Errorf("under a silence the cycle is %s after %d calls: %s", c.Cycle.Status, len(b.calls()), c.Cycle.Reason)
	}
}

// A service that answers once and fails again is not repaired.
func TestTruth_OneGreenAnswerIsNotARepair(t *testing.T) {
	t.Parallel()
	var answered atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if answered.Add(1)%3 != 0 { // a crash loop: every third request finds it up
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer service.Close()
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, agenttest.Claims(0.1, "web")))
	b := climbing(t, plays, "CLAUDEOPS_RECOVERY=off", "CLAUDEOPS_MAX_TIER=2").configured(fmt.Sprintf(
		"observe: agent\nservices: [{name: web, probes: [{type: http, url: %q, interval: 1s, timeout: 2s, recover_after: 3}]}]\n", service.URL))
	b.once(6)
	if c := b.cycle(); c.Cycle.Status != ops.CycleNeedsHuman {
		t.Errorf("the cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
	}
}

func TestTruth_ARepairNobodyConfirmedIsUnverified(t *testing.T) {
	t.Parallel()
	b := climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, agenttest.Claims(0.1, "web"))))
	r := b.once(0)
	if !strings.Contains(r.stdout+r.stderr, "unverified") {
		t.Errorf("once says %s%s", r.stdout, r.stderr)
	}
	if c := b.cycle(); c.Cycle.Verified == nil || *c.Cycle.Verified {
		t.Errorf("verified is %v", c.Cycle.Verified)
	}
	if list := b.run("cycles", "list"); !strings.Contains(list.stdout, "resolved, unverified") {
		t.Errorf("cycles list says %s", list.stdout)
	}
	if list := b.run("cycles", "list", "-o", "json"); !strings.Contains(list.stdout, `"verified": false`) {
		t.Errorf("cycles list -o json says %s", list.stdout)
	}
}

// The provider is overloaded longer than retries take: the cycle waits in the queue with its slot free, and goes on.
func TestTruth_AnOutageIsWaitedFor(t *testing.T) {
	t.Parallel()
	plays := agenttest.InOrder(1, agenttest.Overloaded(), agenttest.Overloaded(), agenttest.Overloaded(), agenttest.Overloaded(), looks())
	b := climbing(t, plays).configured("handlers: [{id: solo, tier: 1, agent: claude, model: haiku}]\nescalation: {entry: solo}\n")
	d := b.ready()
	d.until("the cycle waits", func() bool {
		c, ok := b.newest()
		return ok && c.Cycle.Status == ops.CycleQueued && c.Cycle.WakeAt != nil && c.Cycle.WakeAt.After(time.Now())
	})
	if list := b.run("cycles", "list"); !strings.Contains(list.stdout, "waiting") {
		t.Errorf("cycles list says %s", list.stdout)
	}
	d.until("the cycle goes on", func() bool { return b.ended(1) })
	if c := b.load(1); c.Cycle.Status != ops.CycleHealthy || len(c.Journal.Sessions) != 5 {
		t.Errorf("the cycle is %s after %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
}

func TestTruth_AnIncidentAboutTheKeyClosesItself(t *testing.T) {
	t.Parallel()
	refused := agenttest.Play{Steps: agenttest.Lines(agenttest.Init(), agenttest.APIError(401, "invalid x-api-key")), Exit: 1}
	b := climbing(t, agenttest.InOrder(1, looks(), refused, looks()))
	b.once(0) // before any cycle has worked, it would be a fault of the set-up and no incident
	b.once(8)
	open := func() (out []ops.Incident) {
		b.read(func(s *store.Store) {
			var err error
			if out, err = s.Unresolved(t.Context(), "default"); err != nil {
				t.Fatal(err)
			}
		})
		return out
	}
	if got := open(); len(got) != 1 || got[0].Class != ops.ClassAgent {
		t.Fatalf("open incidents are %+v", got)
	}
	b.once(0)
	if got := open(); len(got) != 0 {
		t.Errorf("open incidents are %+v", got)
	}
	b.read(func(s *store.Store) {
		memories, err := s.Memories(t.Context(), store.MemoryFilter{})
		must(t, err)
		for _, m := range memories {
			if m.Service != "" || m.Category == "root_cause" || strings.Contains(m.Observation, "session 2") {
				t.Errorf("it remembers %+v", m)
			}
		}
	})
}

// Tier 3 in handoff mode says by its file that it could not repair it.
func TestTruth_TheLastTierCanFail(t *testing.T) {
	t.Parallel()
	leaves := func(tier int) agenttest.Play { return agenttest.Escalates(tier, 0.01, "web") }
	b := newBox(t, agenttest.Scenario{Plays: slices.Concat(
		agenttest.InOrder(1, leaves(1)), agenttest.InOrder(2, leaves(2)), agenttest.InOrder(3, leaves(3)))}, "CLAUDEOPS_ESCALATION_MODE=handoff")
	b.once(6)
	c := b.cycle()
	if c.Cycle.Status != ops.CycleNeedsHuman || len(c.Journal.Sessions) != 3 || !b.told(ops.NoticeNeedsHuman, "web") {
		t.Fatalf("the cycle is %s after %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	calls := b.calls()
	if prompt := strings.Join(calls[2].Args, "\n"); !strings.Contains(prompt, "handoff.json") {
		t.Errorf("Tier 3 is not told of the file:\n%s", prompt)
	}
	b.noHandoff()
}

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

func (b *box) incidents() (out []ops.Incident) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Incidents(context.Background(), store.IncidentFilter{}); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

func (b *box) held(service string, why ops.HoldReason) (held bool) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		rows, err := s.Withheld(context.Background(), "default")
		held = err == nil && slices.ContainsFunc(rows, func(w ops.Withheld) bool { return w.Service == service && w.Why == why })
	})
	return held
}

func (b *box) count(kind ops.NoticeKind) (n int) {
	for _, x := range b.notices() {
		if x.Kind == kind {
			n++
		}
	}
	return n
}

// onProbation is a daemon whose second cycle has just repaired web, which a probe watches. More are more probes of web.
func onProbation(t *testing.T, pause, more string, plays ...agenttest.Play) (b *box, d *daemon, broken string) {
	t.Helper()
	url, broken := breakable(t)
	all := slices.Concat(agenttest.InOrder(1, append([]agenttest.Play{finds(1)}, plays...)...), agenttest.InOrder(2, repairing(broken)))
	b = climbing(t, all).configured(fmt.Sprintf("grouping: {window: 1s, pause: %s}\nservices: [{name: web, probes: [{type: http, url: %q, interval: 1s, timeout: 2s}%s]}]\n",
		pause, url, more))
	d = b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	breakIt(t, broken)
	d.until("the repair is there", func() bool { return b.ended(2) })
	c := b.load(2).Cycle
	if c.Status != ops.CycleResolved || c.Verified == nil || !*c.Verified || c.ProbationUntil == nil || !c.ProbationUntil.Equal(c.EndedAt.Add(ops.Probation)) {
		t.Fatalf("the cycle is %s, on probation until %v: %s", c.Status, c.ProbationUntil, c.Reason)
	}
	if i := b.incidents(); len(i) != 1 || i[0].ResolvedAt == nil || i[0].ProbationUntil == nil || i[0].CalledAt != nil {
		t.Fatalf("incidents are %+v", i)
	}
	contains(t, "the cycle", b.run("cycles", "show", "2").stdout, "On probation until")
	return b, d, broken
}

// A job breaks the page again: the same incident is open, the cycle is refuted, and people are told once, with when the next cycle starts.
func TestProbation_ARepairThatDoesNotHoldIsTold(t *testing.T) {
	t.Parallel()
	b, d, broken := onProbation(t, "10m", "")
	breakIt(t, broken)
	d.until("people are told", func() bool { return b.told(ops.NoticeNeedsHuman, "The repair did not hold") })
	i := b.incidents()
	if len(i) != 1 || i[0].Status != ops.IncidentOpen || i[0].Occurrences != 2 || i[0].ReopenedAt == nil || i[0].CalledAt == nil || i[0].RemindAt == nil {
		t.Errorf("incidents are %+v", i)
	}
	next := b.load(2).Cycle.CreatedAt.Add(10 * time.Minute).UTC().Format("2006-01-02 15:04 UTC")
	for _, n := range b.notices() {
		if n.Kind == ops.NoticeNeedsHuman {
			contains(t, "the notice", n.Body, "web is down again: HTTP 502 Bad Gateway", "Claimed: by cycle 2", "Confirmed: by", "The next cycle may start at "+next)
		}
	}
	if c := b.load(2).Cycle; c.RefutedAt == nil || c.Status != ops.CycleResolved {
		t.Errorf("the cycle is %s, refuted at %v", c.Status, c.RefutedAt)
	}
	d.until("the next cycle has to wait", func() bool { return b.held("web", ops.HoldRecent) })
	contains(t, "the cycle", b.run("cycles", "show", "2").stdout, "Result: resolved, did not hold", "Did not hold: the same check failed again at")
	contains(t, "the incident", b.run("incidents", "show", "1").stdout, "The repair did not hold: opened again at", "To do: the next cycle may start at "+next)
	_, page := d.get("/cycles/2")
	contains(t, "the page", page, "Resolved, did not hold")
	if b.count(ops.NoticeOpened) != 1 || b.count(ops.NoticeNeedsHuman) != 1 || !b.ended(2) {
		t.Errorf("told are %+v", b.notices())
	}
	must(t, os.Remove(broken))
	d.until("it is over", func() bool { return b.incidents()[0].ResolvedAt != nil })
}

// With a short pause the next cycle starts at once: it works on the same incident, and its start is not told again.
func TestProbation_TheNextCycleIsNotToldAgain(t *testing.T) {
	t.Parallel()
	b, d, broken := onProbation(t, "1s", "")
	breakIt(t, broken)
	d.until("the next repair is there", func() bool { return b.ended(3) })
	if c := b.load(3).Cycle; c.Status != ops.CycleResolved || b.load(2).Cycle.RefutedAt == nil || c.RefutedAt != nil {
		t.Errorf("the next cycle is %s", c.Status)
	}
	i := b.incidents()
	if len(i) != 1 || i[0].ResolvedAt == nil || i[0].LastCycle != 3 || i[0].ProbationUntil == nil {
		t.Errorf("incidents are %+v", i)
	}
	if b.count(ops.NoticeOpened) != 1 || b.count(ops.NoticeNeedsHuman) != 1 {
		t.Errorf("told are %+v", b.notices())
	}
}

// What is silenced meanwhile tells nobody, and is not held against the repair.
func TestProbation_WhatIsSilencedMeanwhileIsQuiet(t *testing.T) {
	t.Parallel()
	b, d, broken := onProbation(t, "1s", "")
	if r := b.run("silences", "add", "--service", "web", "--for", "1h", "--reason", "moving"); r.code != 0 {
		t.Fatalf("silences add exits %d: %s", r.code, r.stderr)
	}
	breakIt(t, broken)
	d.until("it is held back", func() bool { return b.held("web", ops.HoldSilenced) })
	d.until("it has settled", func() bool {
		return slices.ContainsFunc(b.events(ops.LevelWarning), func(e ops.Event) bool {
			return e.Kind() == ops.EventWatch && e.At.After(*b.load(2).Cycle.EndedAt) && strings.Contains(e.Message.Words(), "web is down")
		})
	})
	if i := b.incidents(); len(i) != 1 || i[0].ResolvedAt == nil || b.load(2).Cycle.RefutedAt != nil || b.count(ops.NoticeNeedsHuman) != 0 {
		t.Errorf("incidents are %+v, told %+v", i, b.notices())
	}
}

// Who acknowledges what did not hold has it: nothing starts, and nobody is reminded.
func TestProbation_WhoAcknowledgesItHasIt(t *testing.T) {
	t.Parallel()
	b, d, broken := onProbation(t, "8s", "")
	breakIt(t, broken)
	d.until("people are told", func() bool { return b.told(ops.NoticeNeedsHuman, "The repair did not hold") })
	if r := b.run("incidents", "ack", "1", "--reason", "mine"); r.code != 0 {
		t.Fatalf("ack exits %d: %s", r.code, r.stderr)
	}
	d.until("it is held by a person", func() bool { return b.held("web", ops.HoldPerson) })
	last, _ := b.newest() // on a slow machine the pause was over before the answer
	end := last.Cycle.CreatedAt.Add(9 * time.Second)
	d.until("the pause is over", func() bool { return time.Now().After(end) && b.held("web", ops.HoldPerson) && b.over(last.Cycle.ID) })
	if i := b.incidents(); len(i) != 1 || i[0].Status != ops.IncidentAcknowledged || i[0].RemindAt != nil || !b.ended(last.Cycle.ID) {
		t.Errorf("incidents are %+v", i)
	}
}

// Another check of the same service is another problem, as always.
func TestProbation_AnotherCheckIsAnotherProblem(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	other := agenttest.Answers(0.01, `{"schema_version":1,"outcome":"escalate","summary":"the port of web is closed","check_results":[{"service":"web","check_type":"service","status":"down","error":"refused"}],"handoff":`+
		strings.ReplaceAll(agenttest.Handoff(2, "web"), `"http"`, `"service"`)+`,"actions":[],"events":[],"memories":[]}`)
	b, d, _ := onProbation(t, "1s", fmt.Sprintf(", {type: tcp, address: %q, interval: 1s, timeout: 2s}", listener.Addr()), other)
	must(t, listener.Close())
	d.until("its own incident is open", func() bool { return len(b.incidents()) == 2 })
	i := b.incidents()
	if i[0].Check != "service" || i[1].ResolvedAt == nil || i[1].ReopenedAt != nil || b.load(2).Cycle.RefutedAt != nil {
		t.Errorf("incidents are %+v", i)
	}
	if b.told(ops.NoticeNeedsHuman, "The repair did not hold") || b.count(ops.NoticeOpened) != 2 {
		t.Errorf("told are %+v", b.notices())
	}
}

// exitedEngine plays the API of an engine in which a container runs or has exited.
func exitedEngine(t *testing.T, runs *atomic.Bool) string {
	t.Helper()
	socket := filepath.Join(shortTemp(t), "engine.sock")
	listener, err := net.Listen("unix", socket)
	must(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/containers/web/json":
			w.WriteHeader(http.StatusNotFound)
		case runs.Load():
			fmt.Fprint(w, `{"Id":"1","State":{"Status":"running","Running":true}}`)
		default:
			fmt.Fprint(w, `{"Id":"1","State":{"Status":"exited","ExitCode":137},"HostConfig":{"RestartPolicy":{"Name":"no"}}}`)
		}
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return socket
}

// A maintenance page pleases the probe while the container of the service has exited: the repair is not proven.
func TestProbation_GreenProbesDoNotProveWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	for _, up := range []bool{true, false} {
		t.Run(fmt.Sprint("running ", up), func(t *testing.T) {
			t.Parallel()
			var runs atomic.Bool
			runs.Store(up)
			url, broken := breakable(t)
			b := climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, repairing(broken)))).configured(fmt.Sprintf(
				"docker: {broker: off, socket: %s}\nservices: [{name: web, container: web, probes: [{type: http, url: %q, timeout: 2s}]}]\n", exitedEngine(t, &runs), url))
			b.env = append(b.env, "CLAUDEOPS_MAX_TIER=2")
			breakIt(t, broken)
			if up {
				b.once(0)
			} else {
				b.once(6)
			}
			c, i := b.cycle().Cycle, b.incidents()
			if (c.Status == ops.CycleResolved) != up || len(i) != 1 || (i[0].ResolvedAt != nil) != up {
				t.Fatalf("the cycle is %s, verified %v: %s; incidents are %+v", c.Status, c.Verified, c.Reason, i)
			}
			if !up {
				contains(t, "the events", b.run("events").stdout, "web answers its probes, but its container web has exited with 137")
				if got := b.run("services", "list").stdout; strings.Contains(got, "down") {
					t.Errorf("the service is shown as down, which no probe says:\n%s", got)
				}
			}
		})
	}
}
