package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	if open := b.openIncidents(); len(open) != 0 || len(b.toldOf(ops.NoticeResolved)) != 1 {
		t.Errorf("after it was found healthy: %+v, %d notices that it is over", open, len(b.toldOf(ops.NoticeResolved)))
	}
}

// Who knows of a problem only that a dry run leaves it alone is called when it needs a human.
func TestDryRun_ALaterCallIsHeard(t *testing.T) {
	t.Parallel()
	address, rings := phone(t)
	b := newBox(t, chain(), "CLAUDEOPS_MAX_TIER=1", address)
	if r := b.runWith([]string{"CLAUDEOPS_DRY_RUN=true"}, "once"); r.code != 7 || rings.Load() != 1 {
		t.Fatalf("the dry run exits %d, people were told %d times\n%s", r.code, rings.Load(), r.stderr)
	}
	contains(t, "the notice", b.notices()[0].Body, "the maximum tier is 1") // it would not have been repaired either
	b.once(6)
	if open := b.openIncidents(); len(open) != 1 || open[0].RemindAt == nil || rings.Load() != 2 || len(b.toldOf(ops.NoticeNeedsHuman)) != 1 {
		t.Errorf("the incidents are %+v, people were told %d times", open, rings.Load())
	}
}

// Whoever asks for one dry run sees what it finds; nobody else is called, and a later call is heard.
func TestDryRun_OfOneCycleCallsNobody(t *testing.T) {
	t.Parallel()
	address, rings := phone(t)
	b := newBox(t, chain(), "CLAUDEOPS_MAX_TIER=1", address)
	if r := b.run("run", "--dry-run", "look at jellyfin"); r.code != 7 {
		t.Fatalf("run exits %d\n%s", r.code, r.stderr)
	}
	if open := b.openIncidents(); len(open) != 1 || open[0].CalledAt != nil || open[0].Handled || len(b.notices()) != 0 {
		t.Fatalf("the incidents are %+v, the notices %+v", open, b.notices())
	}
	contains(t, "incidents show", b.run("incidents", "show", "1").stdout, "run the cycle again without dry run")
	b.once(6)
	if open := b.openIncidents(); len(open) != 1 || open[0].CalledAt == nil || rings.Load() != 1 {
		t.Errorf("the incidents are %+v, people were told %d times", open, rings.Load())
	}
}

// What the watch has told is not told again by the cycle that it started, nor by the ones after it.
func TestDryRun_WhatTheWatchToldIsNotRepeated(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer service.Close()
	address, rings := phone(t)
	b := newBox(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Escalates(1, 0.01, "web")}}, "CLAUDEOPS_DRY_RUN=true", address).
		configured(quickly + fmt.Sprintf("services:\n  - name: web\n    probes: [{type: http, url: %q, interval: 1s, timeout: 2s}]\n", service.URL))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	down.Store(true)
	d.until("the probe's cycle ends", func() bool { _, ok := b.by(ops.TriggerProbe); return ok })
	c, _ := b.by(ops.TriggerProbe)
	open := b.openIncidents()
	if c.Cycle.Status != ops.CycleSuppressed || len(open) != 1 || open[0].Service != "web" || open[0].CalledAt == nil {
		t.Fatalf("the cycle is %s: %s; the incidents are %+v", c.Cycle.Status, c.Cycle.Reason, open)
	}
	if status, answer := d.post("/api/v1/cycles", map[string]any{"prompt": "and now?"}); status != http.StatusAccepted {
		t.Fatalf("another cycle is answered %d: %v", status, answer)
	}
	d.until("another cycle ends", func() bool { return b.ended(c.Cycle.ID + 1) })
	if again := b.openIncidents(); len(again) != 1 || again[0].ID != open[0].ID || again[0].Occurrences != 2 {
		t.Errorf("the incidents are %+v", again)
	}
	d.until("the notice has arrived", func() bool { return rings.Load() > 0 })
	if told := b.notices(); len(told) != 1 || told[0].Kind != ops.NoticeOpened || rings.Load() != 1 {
		t.Errorf("people were told %d times: %+v", rings.Load(), told)
	}
	contains(t, "the notice", b.notices()[0].Body, "Dry run: a cycle looks and repairs nothing", "dry_run: false", "HTTP 502")
	down.Store(false)
	d.until("the incident is over", func() bool { return len(b.openIncidents()) == 0 })
	d.until("the watch sees the end of its cause", func() (over bool) {
		b.read(func(s *store.Store) {
			causes, err := s.Causes(t.Context(), "default", time.Time{})
			over = err == nil && len(causes) == 1 && causes[0].ResolvedAt != nil
		})
		return over
	})
	if n := len(b.toldOf(ops.NoticeResolved)); n != 1 {
		t.Errorf("people were told %d times that it is over: %+v", n, b.notices())
	}
}

// writes is a run that writes a file with a tool of its own.
func writes(path string) agenttest.Play {
	use := strings.Replace(agenttest.Use("toolu_9", "COMMAND"), `"name":"Bash","input":{"command":"COMMAND"}`,
		fmt.Sprintf(`"name":"Write","input":{"file_path":%q,"content":"{}"}`, path), 1)
	return agenttest.Play{Steps: agenttest.Lines(agenttest.Init(), use, agenttest.Answer("toolu_9", "written"), agenttest.Result(0.01, "I handed it over."))}
}

// A Tier 1 whose handoff was refused has found something: it is asked again, and told the right place.
func TestHandoffMode_ARefusedHandoffIsNotHealthy(t *testing.T) {
	t.Parallel()
	b := newBox(t, agenttest.Scenario{Plays: slices.Concat(agenttest.InOrder(1, writes("/etc/handoff.json"), agenttest.Escalates(1, 0.01, "web")),
		agenttest.InOrder(2, agenttest.Healthy(0.02)))}, "CLAUDEOPS_RECOVERY=on")
	b.once(0)
	c := b.cycle()
	sameRungs(t, c, ops.RecoveryNudge)
	first := c.Journal.Sessions[0]
	if first.Outcome != ops.OutcomeInconclusive || len(c.Journal.Sessions) != 3 || c.Cycle.Status != ops.CycleResolved {
		t.Fatalf("session 1 is %s; the cycle is %s with %d sessions: %s", first.Outcome, c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	place := b.state + "/handoff.json"
	contains(t, "the error", first.Error, "writing handoff.json was refused", "$CLAUDEOPS_STATE_DIR/handoff.json", place)
	contains(t, "the nudge", strings.Join(b.calls()[1].Args, "\n")+b.calls()[1].Stdin, place)
}

// A Tier 2 that was allowed to write its handoff into another folder has not repaired anything.
func TestHandoffMode_AHandoffInAnotherFolderIsNoRepair(t *testing.T) {
	t.Parallel()
	stray := agenttest.Play{Steps: agenttest.Lines(agenttest.Init(), agenttest.Use("toolu_9", `echo '{}' > "$TMPDIR"/handoff.json`),
		agenttest.Answer("toolu_9", ""), agenttest.Result(0.01, "I handed it over."))}
	b := newBox(t, agenttest.Scenario{Plays: slices.Concat(agenttest.InOrder(1, agenttest.Escalates(1, 0.01, "web")), agenttest.InOrder(2, stray))})
	b.once(8)
	c := b.cycle()
	if s := c.Journal.Sessions; len(s) != 2 || s[1].Outcome != ops.OutcomeInconclusive || !strings.Contains(s[1].Error, b.state+"/handoff.json") {
		t.Errorf("the cycle is %s: %s; sessions %+v", c.Cycle.Status, c.Cycle.Reason, s)
	}
}

// claims is an outcome of Tier 2 with a confidence.
func claims(outcome string, confidence float64) agenttest.Play {
	var o map[string]any
	if err := json.Unmarshal([]byte(strings.Replace(healthyOutcome, `"healthy","summary"`, `"`+outcome+`","summary"`, 1)), &o); err != nil {
		panic(err)
	}
	o["confidence"] = confidence
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return agenttest.Answers(0.01, string(raw))
}

func TestPeople_ARepairThatItsAgentDoubtsIsReviewed(t *testing.T) {
	t.Parallel()
	b := climbing(t, slices.Concat(agenttest.InOrder(1, finds(1), looks()), agenttest.InOrder(2, claims("resolved", 0.4))))
	b.env = append(b.env, "CLAUDEOPS_MAX_TIER=2")
	b.once(6)
	c := b.cycle()
	if c.Cycle.Status != ops.CycleWaitingHuman || len(c.Journal.Approvals) != 1 || c.Journal.Approvals[0].Kind != ops.ApprovalReview {
		t.Fatalf("the cycle is %s: %s; asked %+v", c.Cycle.Status, c.Cycle.Reason, c.Journal.Approvals)
	}
	contains(t, "the question", c.Journal.Approvals[0].Reason, "the agent itself is only 40 % sure")
	contains(t, "the notice", b.notices()[0].Body, "- Confidence: 40 %")
	contains(t, "sessions show", b.run("sessions", "show", "2").stdout, "Confidence:    40 %")
	contains(t, "sessions show -o json", b.run("sessions", "show", "2", "-o", "json").stdout, `"confidence": 0.4`)
	if r := b.run("approvals", "approve", "1"); r.code != 0 {
		t.Fatalf("approve exits %d: %s", r.code, r.stderr)
	}
	b.run("once")
	if c := b.load(1); c.Cycle.Status != ops.CycleResolved || c.Cycle.Verified == nil || !*c.Cycle.Verified {
		t.Errorf("the cycle is %s (verified %v): %s", c.Cycle.Status, c.Cycle.Verified, c.Cycle.Reason)
	}
}

// A judge is asked whatever word the worker uses.
func TestPeople_WhatTier2CallsHealthyIsJudged(t *testing.T) {
	t.Parallel()
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, claims("healthy", 0.9)), []agenttest.Play{agenttest.Judge(25, 25, 25, 25).As("judge")})
	b := climbing(t, plays).configured(`handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [fix]}
  - {id: fix, tier: 2, agent: claude, model: sonnet}
  - {id: judge, tier: 1, agent: claude, family: other, model: opus}
escalation: {judge: judge}
`)
	b.once(0)
	c := b.cycle()
	s := c.Journal.Sessions
	if len(s) != 3 || s[1].Outcome != ops.OutcomeResolved || s[2].Role != ops.RoleJudge || c.Cycle.Status != ops.CycleResolved ||
		!strings.Contains(c.Cycle.Reason, "the judge accepts it") {
		t.Errorf("the cycle is %s: %s; sessions %+v", c.Cycle.Status, c.Cycle.Reason, s)
	}
	schema, _ := b.calls()[1].Option("--json-schema")
	if strings.Contains(schema, `["healthy","resolved"`) {
		t.Errorf("Tier 2 is offered healthy: %s", schema)
	}
	prompt := strings.Join(b.calls()[1].Args, "\n") + b.calls()[1].Stdin
	contains(t, "the prompt", prompt, "`healthy` is not yours to answer")
}
