package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// chain is the full story: Tier 1 and 2 hand up, Tier 3 repairs.
func chain() agenttest.Scenario {
	third := agenttest.Healthy(2.00)
	third.Tier = 3
	return agenttest.Scenario{Plays: []agenttest.Play{
		agenttest.Escalates(1, 0.03, "jellyfin"), agenttest.Escalates(2, 0.47, "jellyfin"), third,
	}}
}

// story is a cycle that several tests look at, each from its own side. It is played once, in a folder nothing was started in.
type story struct {
	once   sync.Once
	box    box
	output ran
}

var wholeChain, twoTiers, healthyLook story

// tell plays the story, unless it was told before, and returns its box and what the program printed.
func (s *story) tell(t *testing.T, play agenttest.Scenario) (*box, ran) {
	t.Helper()
	s.once.Do(func() {
		folder := &folders{TB: t}
		b := emptyBox(folder, play)
		s.box, s.output = *b, b.run("once")
	})
	if s.output.code != 0 || s.box.bin == "" {
		t.Fatalf("once exited %d\n%s%s", s.output.code, s.output.stdout, s.output.stderr)
	}
	b := s.box
	b.t = t
	return &b, s.output
}

// folders makes folders that outlive a test: they lie beside the program, and go with it.
type folders struct{ testing.TB }

func (f *folders) TempDir() string {
	dir, err := os.MkdirTemp(filepath.Dir(program), "story-")
	if err != nil {
		f.Fatal(err)
	}
	return dir
}

// chainBox is where the full story was played. Each tier that takes over fails if the handoff file is still there when it starts.
func chainBox(t *testing.T) *box {
	t.Helper()
	s := chain()
	for i := range s.Plays[1:] {
		s.Plays[i+1] = findsNoHandoff(s.Plays[i+1])
	}
	b, _ := wholeChain.tell(t, s)
	return b
}

// twoTiersBox is where Tier 2 repaired what Tier 1 had found.
func twoTiersBox(t *testing.T) *box {
	t.Helper()
	b, _ := twoTiers.tell(t, plays(agenttest.Escalates(1, 0.03, "jellyfin"), tier(2, findsNoHandoff(agenttest.Healthy(0.4)))))
	return b
}

func findsNoHandoff(p agenttest.Play) agenttest.Play {
	p.Steps = append([]agenttest.Step{{Run: `test ! -e "$CLAUDEOPS_STATE_DIR/handoff.json"`}}, p.Steps...)
	return p
}

func healthyBox(t *testing.T) (*box, ran) {
	t.Helper()
	return healthyLook.tell(t, plays(agenttest.Healthy(0.01)))
}

func plays(p ...agenttest.Play) agenttest.Scenario { return agenttest.Scenario{Plays: p} }

func tier(n int, p agenttest.Play) agenttest.Play { p.Tier = n; return p }

func with(p agenttest.Play, change func(*agenttest.Play)) agenttest.Play { change(&p); return p }

func TestScenario_Tier1WritesHandoffForTier2(t *testing.T) {
	t.Parallel()
	b := twoTiersBox(t)
	first := b.cycle().Journal.Sessions[0]
	var h map[string]any
	must(t, json.Unmarshal(first.HandoffJSON, &h))
	for _, field := range []string{"schema_version", "recommended_tier", "services_affected", "check_results", "cooldown_state"} {
		if h[field] == nil {
			t.Errorf("the kept handoff has no %s", field)
		}
	}
	if first.Outcome != ops.OutcomeEscalate || *first.ExitCode != 0 || h["recommended_tier"] != 2.0 {
		t.Errorf("Tier 1 ended %s with exit %d", first.Outcome, *first.ExitCode)
	}
}

func TestScenario_Tier2WritesHandoffForTier3(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	second := b.cycle().Journal.Sessions[1]
	contains(t, "the kept handoff", string(second.HandoffJSON), `"recommended_tier":3`, "investigation_findings", "remediation_attempted")
	if second.Outcome != ops.OutcomeEscalate {
		t.Errorf("Tier 2 ended %s", second.Outcome)
	}
}

func TestScenario_Tier2HandoffWithoutFindingsIsRefused(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Escalates(1, 0.03, "jellyfin"), with(agenttest.Escalates(2, 0.1, "jellyfin"), func(p *agenttest.Play) {
		p.Handoff = strings.Replace(p.Handoff, "investigation_findings", "notes", 1)
	})))
	b.once(6)
	contains(t, "the reason", b.cycle().Cycle.Reason, "/investigation_findings")
}

func TestScenario_HandoffFileNotWrittenWhenAllServicesHealthy(t *testing.T) {
	t.Parallel()
	b, r := healthyBox(t)
	c := b.cycle()
	if c.Cycle.Status != ops.CycleHealthy || len(c.Journal.Sessions) != 1 || c.Journal.Sessions[0].Outcome != ops.OutcomeHealthy {
		t.Errorf("the cycle is %s with %d sessions", c.Cycle.Status, len(c.Journal.Sessions))
	}
	contains(t, "the chain", r.stdout, "Session #1", "Tier 1", "haiku", "$0.01", "Total: $0.01", "healthy")
}

func TestScenario_HandoffFileNotWrittenWhenTier2ResolvesTheIssue(t *testing.T) {
	t.Parallel()
	b := twoTiersBox(t)
	c := b.cycle()
	if c.Cycle.Status != ops.CycleResolved || len(c.Journal.Sessions) != 2 || c.Journal.Sessions[1].Outcome != ops.OutcomeResolved {
		t.Errorf("the cycle is %s: %+v", c.Cycle.Status, c.Journal.Sessions)
	}
}

func TestScenario_InvalidHandoffFileRejected(t *testing.T) {
	t.Parallel()
	// What else is invalid is in the tests of the handoff and in the recorded chains.
	b := newBox(t, plays(with(agenttest.Healthy(0.01), func(p *agenttest.Play) { p.Handoff = `{"schema_version":1,"recommended_tier":2}` })))
	r := b.once(6)
	c := b.cycle()
	if len(c.Journal.Sessions) != 1 || c.Cycle.Status != ops.CycleNeedsHuman {
		t.Errorf("the cycle is %s with %d sessions", c.Cycle.Status, len(c.Journal.Sessions))
	}
	if len(b.events(ops.LevelCritical)) != 1 {
		t.Errorf("critical events: %+v", b.events(ops.LevelCritical))
	}
	if len(c.Journal.Decisions) != 1 || c.Journal.Decisions[0].Verdict != ops.VerdictRefused {
		t.Errorf("decisions: %+v", c.Journal.Decisions)
	}
	contains(t, "the log", r.stderr, "level=WARN")
	b.noHandoff()
}

func TestScenario_SupervisorReadsAndDeletesHandoffAfterTier1(t *testing.T) {
	t.Parallel()
	b := twoTiersBox(t)
	b.noHandoff()
	if len(b.cycle().Journal.Sessions[0].HandoffJSON) == 0 {
		t.Error("the content of the handoff is not kept")
	}
}

func TestScenario_SupervisorReadsAndDeletesHandoffAfterTier2(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	b.noHandoff()
	if got := b.cycle().Journal.Sessions; len(got) != 3 || got[2].Tier != 3 {
		t.Errorf("sessions: %+v", got)
	}
}

func TestScenario_StaleHandoffFileFromPreviousCycle(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	must(t, os.WriteFile(filepath.Join(b.state, "handoff.json"), []byte(agenttest.Handoff(2, "old")), 0o600))
	b.once(0)
	if got := len(b.cycle().Journal.Sessions); got != 1 {
		t.Errorf("%d sessions ran on a stale handoff", got)
	}
	b.noHandoff()
}

func TestScenario_HandoffFileDeletedOnSupervisorCrashRecovery(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	b.once(0)
	must(t, os.WriteFile(filepath.Join(b.state, "handoff.json"), []byte(agenttest.Handoff(2, "old")), 0o600))
	// A cycle has just ended, so nothing runs now: the file must go with the start itself.
	d := b.ready()
	b.noHandoff()
	if code := d.stop(); code != 0 {
		t.Errorf("serve exited %d\n%s", code, d.log)
	}
}

func TestScenario_CLIProcessExitsWithNonZeroCode(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(with(agenttest.Escalates(1, 0.03, "jellyfin"), func(p *agenttest.Play) { p.Exit = 3 })))
	b.once(8)
	c := b.cycle()
	s := c.Journal.Sessions[0]
	if len(c.Journal.Sessions) != 1 || s.Status != ops.SessionFailed || *s.ExitCode != 3 || len(s.HandoffJSON) > 0 || len(c.Journal.Decisions) > 0 {
		t.Errorf("session %s exit %v handoff %s", s.Status, s.ExitCode, s.HandoffJSON)
	}
	b.noHandoff()
	// The next cycle starts afresh.
	if r := b.run("once"); r.code != 8 || len(b.calls()) != 2 {
		t.Errorf("the next cycle exited %d after %d calls\n%s%s", r.code, len(b.calls()), r.stdout, r.stderr)
	}
}

func TestScenario_SupervisorSpawnsTier2FromHandoff(t *testing.T) {
	t.Parallel()
	prompt := filepath.Join(t.TempDir(), "tier2.md")
	must(t, os.WriteFile(prompt, []byte("My own prompt for Tier 2, {{literally}}.\n"), 0o600))
	b := newBox(t, plays(agenttest.Escalates(1, 0.03, "jellyfin"), tier(2, agenttest.Healthy(0.1))),
		"CLAUDEOPS_TIER2_MODEL=my-sonnet", "CLAUDEOPS_TIER2_PROMPT="+prompt)
	b.once(0)
	call := b.calls()[1]
	expect(t, call, "-p", "My own prompt for Tier 2, {{literally}}.\n")
	expect(t, call, "--model", "my-sonnet")
	system, _ := call.Option("--append-system-prompt")
	contains(t, "the system prompt", system, "## Escalation Context", "jellyfin", "connection refused")
	second := b.cycle().Journal.Sessions[1]
	if second.Tier != 2 || second.Model != "my-sonnet" || second.ContextMode != ops.ContextHandoff || *second.ParentID != b.cycle().Journal.Sessions[0].ID {
		t.Errorf("the session is %+v", second)
	}
}

func TestScenario_SupervisorSpawnsTier3FromHandoff(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	call := b.calls()[2]
	expect(t, call, "--model", "opus")
	system, _ := call.Option("--append-system-prompt")
	contains(t, "the system prompt", system, "## Escalation Context", "The database refuses connections.", "Restarted the container; it did not help.")
	third := b.cycle().Journal.Sessions[2]
	if third.Tier != 3 || third.Model != "opus" || *third.ParentID != b.cycle().Journal.Sessions[1].ID {
		t.Errorf("the session is %+v", third)
	}
}

func expect(t *testing.T, c agenttest.Call, option, want string) {
	t.Helper()
	if got, ok := c.Option(option); !ok || got != want {
		t.Errorf("%s is %q (%v), want %q", option, got, ok, want)
	}
}

func TestScenario_DryRunModePreventsEscalation(t *testing.T) {
	t.Parallel()
	b := newBox(t, chain(), "CLAUDEOPS_DRY_RUN=true")
	r := b.once(7)
	c := b.cycle()
	if len(c.Journal.Sessions) != 1 || c.Cycle.Status != ops.CycleSuppressed {
		t.Errorf("the cycle is %s with %d sessions", c.Cycle.Status, len(c.Journal.Sessions))
	}
	contains(t, "the log", r.stderr, "suppressed: dry run is on")
	if v, _ := b.calls()[0].Var("CLAUDEOPS_DRY_RUN"); v != "true" {
		t.Errorf("the agent sees CLAUDEOPS_DRY_RUN=%q", v)
	}
	b.noHandoff()
}

func TestScenario_MaximumTierLimitEnforced(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []map[string]any
	apprise := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		mu.Lock()
		got = append(got, body)
		mu.Unlock()
		w.WriteHeader(http.StatusOK)
	}))
	defer apprise.Close()
	b := newBox(t, chain(), "CLAUDEOPS_MAX_TIER=2", "CLAUDEOPS_APPRISE_API="+apprise.URL+"/notify/ops")
	r := b.once(6)
	c := b.cycle()
	if len(c.Journal.Sessions) != 2 || c.Cycle.Status != ops.CycleNeedsHuman {
		t.Errorf("the cycle is %s with %d sessions", c.Cycle.Status, len(c.Journal.Sessions))
	}
	contains(t, "the log", r.stderr, "blocked by the tier limit")
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 1 {
		t.Fatalf("%d notifications were sent", len(got))
	}
	contains(t, "the notification", fmt.Sprint(got[0]["title"], got[0]["body"]), "Human attention required", "tier limit", "jellyfin")
	if n := b.notices(); len(n) != 1 || n[0].Status != ops.NoticeSent {
		t.Errorf("the outbox holds %+v", n)
	}
	b.noHandoff()
}

func TestScenario_NoHandoffFileAfterSessionExit(t *testing.T) {
	t.Parallel()
	b, _ := healthyBox(t)
	c := b.cycle()
	s := c.Journal.Sessions[0]
	if s.Status != ops.SessionCompleted || s.EndedAt == nil || !c.Cycle.Status.Ended() || len(c.Journal.Decisions) != 0 {
		t.Errorf("session %+v, cycle %s", s, c.Cycle.Status)
	}
}

func TestScenario_EscalationChainTerminatesAtTier3(t *testing.T) {
	t.Parallel()
	s := chain()
	s.Plays[2].Handoff = agenttest.Handoff(3, "jellyfin") // other forms are in the recorded chains
	b := newBox(t, s)
	b.once(6)
	c := b.cycle()
	if len(c.Journal.Sessions) != 3 || len(b.calls()) != 3 || c.Cycle.Status != ops.CycleNeedsHuman {
		t.Errorf("the cycle is %s with %d sessions and %d calls", c.Cycle.Status, len(c.Journal.Sessions), len(b.calls()))
	}
	if len(b.events(ops.LevelCritical)) != 0 || len(b.events(ops.LevelWarning)) == 0 || len(b.notices()) != 1 {
		t.Errorf("critical %v, warnings %v, notices %d", b.events(ops.LevelCritical), b.events(ops.LevelWarning), len(b.notices()))
	}
	b.noHandoff()
}

func TestScenario_Tier1SessionHasNoParent(t *testing.T) {
	t.Parallel()
	b, _ := healthyBox(t)
	if s := b.cycle().Journal.Sessions[0]; s.ParentID != nil {
		t.Errorf("its parent is %d", *s.ParentID)
	}
}

func TestScenario_Tier2SessionLinksToTier1Parent(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	s := b.cycle().Journal.Sessions
	if s[1].ParentID == nil || *s[1].ParentID != s[0].ID || s[0].Tier != 1 {
		t.Errorf("parent is %v", s[1].ParentID)
	}
}

func TestScenario_Tier3SessionLinksToTier2Parent(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	s := b.cycle().Journal.Sessions
	if s[2].ParentID == nil || *s[2].ParentID != s[1].ID || s[1].Tier != 2 {
		t.Errorf("parent is %v", s[2].ParentID)
	}
}

func TestScenario_FullEscalationChainQueryable(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	for _, id := range []string{"1", "2", "3"} {
		r := b.run("sessions", "show", id)
		contains(t, "sessions show "+id, r.stdout, "Session #1", "Session #2", "Session #3", "Total: $2.50")
	}
	contains(t, "sessions show 2", b.run("sessions", "show", "2").stdout, "Escalated from Session #1 (Tier 1)", "Escalated to Session #3 (Tier 3)")
}

func TestScenario_Tier2ReceivesHandoffContextViaSystemPrompt(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	system, ok := b.calls()[1].Option("--append-system-prompt")
	if !ok {
		t.Fatal("no --append-system-prompt")
	}
	contains(t, "the system prompt", system, `"check_results"`, `"services_affected"`, `"cooldown_state"`, "connection refused")
}

func TestScenario_Tier3ReceivesHandoffContextViaSystemPrompt(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	system, ok := b.calls()[2].Option("--append-system-prompt")
	if !ok {
		t.Fatal("no --append-system-prompt")
	}
	contains(t, "the system prompt", system, `"check_results"`, `"investigation_findings"`, `"remediation_attempted"`, `"cooldown_state"`)
}

func TestScenario_TaskToolRemovedFromAllowedTools(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	for i, call := range b.calls() {
		for _, option := range []string{"--tools", "--allowedTools"} {
			list, _ := call.Option(option)
			for tool := range strings.SplitSeq(list, ",") {
				if strings.HasPrefix(tool, "Task") || strings.HasPrefix(tool, "Agent") {
					t.Errorf("tier %d has %s in %s", i+1, tool, option)
				}
			}
		}
		denied, _ := call.Option("--disallowedTools")
		contains(t, "--disallowedTools", denied, "Task", "Agent", "docker system prune")
	}
}

func TestScenario_Tier1CostRecordedIndependently(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	s := b.cycle().Journal.Sessions[0]
	if *s.CostUSD != 0.03 || *s.NumTurns != 2 || *s.DurationMS != 1180 {
		t.Errorf("cost %v, turns %v, duration %v", *s.CostUSD, *s.NumTurns, *s.DurationMS)
	}
}

func TestScenario_Tier2CostRecordedIndependently(t *testing.T) {
	t.Parallel()
	b := chainBox(t)
	s := b.cycle().Journal.Sessions[1]
	if *s.CostUSD != 0.47 || *s.NumTurns != 2 || *s.DurationMS != 1180 {
		t.Errorf("cost %v, turns %v, duration %v", *s.CostUSD, *s.NumTurns, *s.DurationMS)
	}
}

func TestScenario_HandoffContextSizeLimit(t *testing.T) {
	t.Parallel()
	var h map[string]any
	must(t, json.Unmarshal([]byte(agenttest.Handoff(2, "jellyfin")), &h))
	checks, _ := h["check_results"].([]any)
	for i := range 700 {
		checks = append(checks, map[string]any{"service": fmt.Sprintf("well-%d", i), "check_type": "http", "status": "healthy", "error": strings.Repeat("fine ", 20)})
	}
	h["check_results"] = checks
	raw, err := json.Marshal(h)
	must(t, err)
	b := newBox(t, plays(with(agenttest.Escalates(1, 0.03, "jellyfin"), func(p *agenttest.Play) { p.Handoff = string(raw) }), tier(2, agenttest.Healthy(0.1))))
	r := b.once(0)
	contains(t, "the log", r.stderr, "handoff context was truncated")
	system, _ := b.calls()[1].Option("--append-system-prompt")
	if i := strings.Index(system, "## Escalation Context"); i < 0 || len([]rune(system[i:])) > 50_000 || strings.Contains(system, "well-1\"") {
		t.Errorf("the context has %d characters", len([]rune(system)))
	}
	contains(t, "the system prompt", system, "jellyfin", "connection refused")
}
