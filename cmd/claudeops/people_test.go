package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// gated is a box whose Tier 3 needs a human.
func gated(t *testing.T, env ...string) *box {
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, agenttest.Claims(0.1, "web")))
	return climbing(t, plays, append([]string{"CLAUDEOPS_APPROVAL_TIER=3"}, env...)...)
}

func TestPeople_ApproveContinuesExactlyThatStep(t *testing.T) {
	t.Parallel()
	b := gated(t)
	b.once(6)
	c := b.cycle()
	if c.Cycle.Status != ops.CycleWaitingHuman || len(c.Journal.Sessions) != 2 || len(c.Journal.Approvals) != 1 {
		t.Fatalf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	if out := b.run("approvals", "list"); !strings.Contains(out.stdout, "tier3") || !strings.Contains(out.stdout, "pending") {
		t.Errorf("approvals list says: %s", out.stdout)
	}
	if r := b.run("approvals", "approve", "1", "--reason", "go"); r.code != 0 {
		t.Fatalf("approve exits %d: %s", r.code, r.stderr)
	}
	if r := b.run("approvals", "deny", "1"); r.code != 5 || !strings.Contains(r.stderr, "approved") {
		t.Errorf("a late answer exits %d: %s", r.code, r.stderr)
	}
	// The next start goes on from there, and then looks as it always does.
	b.run("once")
	b.read(func(s *store.Store) {
		c, err := s.Load(t.Context(), 1)
		must(t, err)
		if c.Cycle.Status != ops.CycleResolved || len(c.Journal.Sessions) != 3 || c.Journal.Sessions[2].Tier != 3 {
			t.Errorf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
		}
	})
}

// Who waits for a human holds nobody up: another cycle of the environment runs to its end meanwhile.
func TestPeople_AWaitingCycleFreesTheSlot(t *testing.T) {
	t.Parallel()
	elsewhere := agenttest.Answers(0.01, strings.ReplaceAll(healthyOutcome, `"web"`, `"db"`))
	b := climbing(t, slices.Concat(agenttest.InOrder(1, finds(1), elsewhere), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, agenttest.Claims(0.1, "web"))),
		"CLAUDEOPS_APPROVAL_TIER=3")
	d := b.ready()
	d.until("the question is asked", func() bool { c, ok := b.newest(); return ok && c.Cycle.Status == ops.CycleWaitingHuman })
	if status, answer := d.post("/api/v1/cycles", map[string]any{"prompt": "look at the database"}); status != http.StatusAccepted || answer["id"] != 2.0 {
		t.Fatalf("another cycle is answered %d: %v", status, answer)
	}
	d.until("the other cycle ends", func() bool { return b.ended(2) })
	if c := b.cycle(); c.Cycle.Status != ops.CycleHealthy || len(c.Journal.Sessions) != 1 {
		t.Errorf("the other cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
	}
	if c := b.load(1); c.Cycle.Status != ops.CycleWaitingHuman || len(c.Journal.Sessions) != 2 || len(b.calls()) != 3 {
		t.Fatalf("the cycle that waits is %s with %d sessions, %d ran: %s", c.Cycle.Status, len(c.Journal.Sessions), len(b.calls()), c.Cycle.Reason)
	}
	if status, answer := d.post("/api/v1/approvals/1/approve", map[string]any{}); status != http.StatusOK {
		t.Fatalf("approve answers %d: %v", status, answer)
	}
	d.until("the first cycle ends", func() bool { return b.load(1).Cycle.Status.Ended() })
	c := b.load(1)
	if c.Cycle.Status != ops.CycleResolved || len(c.Journal.Sessions) != 3 || c.Journal.Sessions[2].Tier != ops.Tier3 || *c.Journal.Sessions[2].ParentID != c.Journal.Sessions[1].ID {
		t.Errorf("the first cycle is %s with %+v: %s", c.Cycle.Status, c.Journal.Sessions, c.Cycle.Reason)
	}
}

func TestPeople_DenyEndsWithTheReason(t *testing.T) {
	t.Parallel()
	b := gated(t)
	d := b.ready()
	d.until("the question is asked", func() bool { c, ok := b.newest(); return ok && c.Cycle.Status == ops.CycleWaitingHuman })
	status, answer := d.post("/api/v1/approvals/1/deny", map[string]any{"reason": "not on a Friday"})
	if status != http.StatusOK || answer["status"] != "denied" {
		t.Fatalf("deny answers %d: %v", status, answer)
	}
	d.until("the cycle ends", func() bool { return b.ended(1) })
	if c := b.cycle(); c.Cycle.Status != ops.CycleBlocked || !strings.Contains(c.Cycle.Reason, "not on a Friday") || len(b.calls()) != 2 {
		t.Errorf("the cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
	}
	if status, answer = d.post("/api/v1/approvals/1/approve", map[string]any{}); status != http.StatusConflict {
		t.Errorf("a late yes answers %d: %v", status, answer)
	}
}

func TestPeople_ManyAnswersGiveOneResult(t *testing.T) {
	t.Parallel()
	b := gated(t)
	d := b.ready()
	d.until("the question is asked", func() bool { c, ok := b.newest(); return ok && c.Cycle.Status == ops.CycleWaitingHuman })
	var wins atomic.Int32
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			verb := []string{"approve", "deny"}[i%2]
			if status, _ := d.post("/api/v1/approvals/1/"+verb, map[string]any{}); status == http.StatusOK {
				wins.Add(1)
			}
		})
	}
	group.Wait()
	if wins.Load() != 1 {
		t.Errorf("%d answers won", wins.Load())
	}
	d.until("the cycle ends", func() bool { return b.ended(1) })
}

func TestPeople_AnAcknowledgedProblemStartsNoTier(t *testing.T) {
	t.Parallel()
	plays := []agenttest.Play{finds(1).At(1, 0), agenttest.Answers(0.02, needsHuman).At(2, 0)}
	b := climbing(t, plays)
	b.once(6)
	if r := b.run("incidents", "ack", "1"); r.code != 0 {
		t.Fatalf("ack exits %d: %s", r.code, r.stderr)
	}
	if r := b.run("incidents", "ack", "1"); r.code != 5 {
		t.Errorf("a second ack exits %d: %s", r.code, r.stderr)
	}
	b.once(7)
	if c := b.cycle(); c.Cycle.Status != ops.CycleSuppressed || len(c.Journal.Sessions) != 1 || !strings.Contains(c.Cycle.Reason, "acknowledged") {
		t.Errorf("the cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
	}
	if r := b.run("incidents", "resolve", "1", "--reason", "new disk"); r.code != 0 {
		t.Fatalf("resolve exits %d: %s", r.code, r.stderr)
	}
	b.once(6)
	if c := b.cycle(); len(c.Journal.Sessions) != 2 {
		t.Errorf("after it is resolved %d sessions ran", len(c.Journal.Sessions))
	}
	told := 0
	for _, n := range b.notices() {
		if n.Kind == "needs_human" {
			told++
		}
	}
	if told != 2 {
		t.Errorf("people were called %d times, want once for each incident", told)
	}
}

const needsHuman = `{"schema_version":1,"outcome":"needs_human","summary":"the disk is broken","check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"actions":[],"events":[],"memories":[]}`

func TestPeople_AHealthyCycleClosesTheIncident(t *testing.T) {
	t.Parallel()
	plays := slices.Concat(agenttest.InOrder(1, finds(1), looks()), []agenttest.Play{agenttest.Answers(0.02, needsHuman).At(2, 0)})
	b := climbing(t, plays)
	b.once(6)
	b.once(0)
	if out := b.run("incidents", "list", "--all"); !strings.Contains(out.stdout, "resolved") {
		t.Errorf("the incident is still open: %s", out.stdout)
	}
	if !slices.ContainsFunc(b.notices(), func(n ops.Notice) bool { return n.Kind == "resolved" }) {
		t.Error("nobody was told that it is over")
	}
}

// scripted rewrites an example so that the fake plays every agent, and gives it a place for its notices.
func example(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
	must(t, err)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	t.Cleanup(sink.Close)
	// Without Codex the sandbox is not needed, and not every machine that tests can make one.
	text := strings.NewReplacer(
		"agent: codex # family: gpt", "agent: claude\n    family: gpt", "http://127.0.0.1:8000", sink.URL, "bubblewrap: on", "bubblewrap: off",
	).Replace(string(raw))
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return "CLAUDEOPS_CONFIG=" + path
}

func TestExample_Default(t *testing.T) {
	t.Parallel()
	b := climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, agenttest.Claims(0.1, "web"))), example(t, "default.yaml"))
	b.once(0)
	if n := len(b.cycle().Journal.Sessions); n != 3 {
		t.Errorf("%d sessions", n)
	}
}

func TestExample_CrossFamilyReviewEndsAtAHuman(t *testing.T) {
	t.Parallel()
	toOncall := strings.ReplaceAll(agenttest.Handoff(3, "web"), `"recommended_tier":3`, `"recommended_tier":4,"target":"oncall"`)
	b := newBox(t, agenttest.Scenario{Plays: slices.Concat(
		agenttest.InOrder(1, agenttest.Escalates(1, 0.01, "web")),
		[]agenttest.Play{func() agenttest.Play { p := agenttest.Healthy(0.02).At(2, 0); p.Handoff = toOncall; return p }()},
	)}, "CLAUDEOPS_RECOVERY=on", example(t, "cross-family-review.yaml"))
	b.env = slices.DeleteFunc(b.env, func(e string) bool { return e == "CLAUDEOPS_ESCALATION_MODE=handoff" })
	d := b.ready()
	d.until("a human has it", func() bool { c, ok := b.newest(); return ok && c.Cycle.Status == ops.CycleWaitingHuman })
	c := b.cycle()
	if s := c.Journal.Sessions; len(s) != 2 || s[1].Family != "gpt" || s[1].ContextMode != ops.ContextHandoff {
		t.Errorf("sessions are %+v", s)
	}
	last := c.Journal.Decisions[len(c.Journal.Decisions)-1]
	if last.TargetHandler != "oncall" || last.Depth != 2 || !last.TargetValidated {
		t.Errorf("decided %+v", last)
	}
	// Waiting takes no slot: another cycle can run meanwhile.
	if r := b.run("incidents", "resolve", "1", "--reason", "pulled the plug"); r.code != 0 {
		t.Fatalf("resolve exits %d: %s", r.code, r.stderr)
	}
	d.until("the cycle ends", func() bool { return b.ended(1) })
	if c := b.cycle(); c.Cycle.Status != ops.CycleResolved || !strings.Contains(c.Cycle.Reason, "pulled the plug") {
		t.Errorf("the cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
	}
}

func TestExample_AManagerChooses(t *testing.T) {
	t.Parallel()
	b := climbing(t, []agenttest.Play{
		finds(1).By("watcher"), agenttest.Manager("database", "the error names the database"), agenttest.Claims(0.1, "web").By("database"),
	}, example(t, "manager.yaml"))
	b.once(0)
	c := b.cycle()
	d := c.Journal.Decisions[0]
	if d.TargetHandler != "database" || d.ProcessMode != ops.ProcessManager || !d.ManagerPresent {
		t.Errorf("decided %+v", d)
	}
	var handlers []string
	for _, s := range c.Journal.Sessions {
		handlers = append(handlers, fmt.Sprintf("%s/%s", s.Handler, s.Role))
	}
	if len(handlers) != 3 || !strings.HasSuffix(handlers[1], "/manager") || handlers[2] != "database/work" {
		t.Errorf("sessions are %v", handlers)
	}
	if out := b.run("cycles", "show", "1", "-v"); !strings.Contains(out.stdout, "process_mode: manager_process") || !strings.Contains(out.stdout, "manager_present: true") {
		t.Errorf("cycles show says: %s", out.stdout)
	}
}

func TestExample_ApprovalBeforeTier3(t *testing.T) {
	t.Parallel()
	b := climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, agenttest.Claims(0.1, "web"))), example(t, "approval.yaml"))
	d := b.ready()
	d.until("the question is asked", func() bool { c, ok := b.newest(); return ok && c.Cycle.Status == ops.CycleWaitingHuman })
	if len(b.calls()) != 2 {
		t.Errorf("%d sessions ran before the answer", len(b.calls()))
	}
	if r := b.run("approvals", "approve", "1"); r.code != 0 {
		t.Fatalf("approve exits %d: %s", r.code, r.stderr)
	}
	d.until("the cycle ends", func() bool { return b.ended(1) })
	if c := b.cycle(); c.Cycle.Status != ops.CycleResolved || len(c.Journal.Sessions) != 3 {
		t.Errorf("the cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
	}
}
