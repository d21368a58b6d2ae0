package desk_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/apitest"
)

// counter is a desk over a journal.
type counter struct {
	*desk.Desk
	*apitest.Journal
	t       *testing.T
	control *apitest.Control
	told    int
	pressed int
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	j := apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
	c := &counter{Journal: j, t: t, control: &apitest.Control{Journal: j}}
	web := ops.Service{Name: "web", Actions: []ops.ActionSpec{{Service: "web", Name: "restart", Kind: ops.ActionRestart, Tier: ops.Tier2}}}
	c.Desk = &desk.Desk{
		Store: j.Store, Control: c.control, Clock: j.Clock, Changed: func() { c.told++ },
		Environments: []ops.Environment{{Name: "default", Policy: ops.Policy{Inventory: ops.Inventory{Services: []ops.Service{web}}}}},
	}
	return c
}

func (c *counter) records(kind ops.EventKind) []string {
	c.t.Helper()
	events, err := c.Journal.Store.Journal.Events(c.t.Context(), store.EventFilter{Kind: string(kind), Limit: 50})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, e := range events {
		out = append(out, e.Message.Words())
	}
	return out
}

func ann() desk.Person { return desk.Person{Name: "ann", Door: desk.Page} }

func TestASilenceLasts90DaysAtMost(t *testing.T) {
	c := newCounter(t)
	asked := desk.Silence{Service: " web ", Reason: "new disk", From: c.Now.Add(time.Hour), End: desk.End{For: desk.LongestSilence}}
	q, err := c.AddSilence(t.Context(), ann(), asked)
	if err != nil || q.Service != "web" || q.Author != "ann" || !q.Until.Equal(c.Now.Add(time.Hour+desk.LongestSilence)) || c.told != 1 {
		t.Fatalf("%+v, %v, told %d times", q, err, c.told)
	}
	asked.For += time.Second
	if text, wrong := desk.Problem(func() error { _, err := c.AddSilence(t.Context(), ann(), asked); return err }()); !wrong || !strings.Contains(text, "90 days") {
		t.Errorf("%q %v", text, wrong)
	}
	mcp := desk.Person{Name: "token", Via: "mcp", Door: desk.API}
	if _, err := c.EndSilence(t.Context(), mcp, q.ID); err != nil || c.told != 2 {
		t.Errorf("%v, told %d times", err, c.told)
	}
	if _, err := c.EndSilence(t.Context(), desk.Person{}, q.ID); !errors.Is(err, ops.ErrConflict) {
		t.Errorf("ended again: %v", err)
	}
	if got := c.records(ops.EventSilence); len(got) != 2 || !strings.HasPrefix(got[0], "mcp (token) ended") || !strings.HasPrefix(got[1], "ann silenced") {
		t.Errorf("recorded %q", got)
	}
}

func TestAPlanIsApprovedInOrder(t *testing.T) {
	c := newCounter(t)
	plan := []ops.ApprovedStep{{}, {}, {}}
	cycle, _ := c.Await(ops.NewCycle{}, ops.Policy{MaxTier: ops.LastTier, MaxDepth: 2}, ops.Step{
		Reason: "asked", Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: 3, Handler: "tier3", Plan: plan, PlanHash: "h"},
	}, apitest.Run{Tier: 2, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: "{}"})
	for _, numbers := range [][]int{{0}, {4}, {1, 1}} {
		if _, err := c.Approve(t.Context(), ann(), 1, desk.Steps{Plan: "h", Numbers: numbers}, ""); err == nil {
			t.Errorf("%v is accepted", numbers)
		} else if _, wrong := desk.Problem(err); !wrong {
			t.Errorf("%v: %v", numbers, err)
		}
	}
	if _, err := c.Approve(t.Context(), ann(), 1, desk.Steps{Plan: "another", Numbers: []int{1}}, ""); !errors.Is(err, ops.ErrConflict) {
		t.Errorf("another plan: %v", err)
	}
	now := c.Environments
	c.Environments = []ops.Environment{{Name: "lab"}}
	if _, err := c.Approve(t.Context(), ann(), 1, desk.Steps{}, ""); !errors.Is(err, ops.ErrConflict) {
		t.Errorf("an environment that is gone: %v", err)
	}
	c.Environments = now
	a, err := c.Approve(t.Context(), ann(), 1, desk.Steps{Plan: "h", Numbers: []int{3, 1}}, "go on")
	if err != nil || !slices.Equal(a.Steps, []int{1, 3}) || a.AnsweredBy != "ann" || a.CycleID != cycle {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestARequestForAnActionIsTakenBack(t *testing.T) {
	c := newCounter(t)
	r, err := c.RunAction(t.Context(), ann(), desk.Action{Service: "web", Name: "restart", Why: " it hangs "})
	if err != nil || r.Person != "ann" || r.Why != "it hangs" || c.told != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	got, err := c.Withdraw(t.Context(), ann(), r.ID, "no daemon took it")
	if err != nil || got.Status != ops.ActionRefused || got.Error != "ann withdrew it: no daemon took it" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.Withdraw(t.Context(), ann(), r.ID, "again"); !errors.Is(err, ops.ErrConflict) {
		t.Errorf("taken back again: %v", err)
	}
	if _, err := c.RunAction(t.Context(), ann(), desk.Action{Service: "web", Name: "invented", Why: "x"}); !errors.Is(err, ops.ErrNotFound) {
		t.Errorf("an action that is not configured: %v", err)
	}
}

func TestTheDoorDecidesTheTriggerAndTheReason(t *testing.T) {
	c := newCounter(t)
	for door, want := range map[desk.Door]ops.Trigger{desk.Page: ops.TriggerManual, desk.Command: ops.TriggerManual, desk.API: ops.TriggerAPI} {
		c.control.Submitted = nil
		if _, err := c.RunCycle(t.Context(), desk.Person{Name: "ann", Door: door}, ops.NewCycle{Prompt: "look"}); err != nil {
			t.Fatal(err)
		}
		if n := c.control.Submitted[0]; n.Trigger != want || n.Environment != "default" {
			t.Errorf("%s: %+v", door, n)
		}
	}
	if _, err := c.RunCycle(t.Context(), ann(), ops.NewCycle{Options: ops.CycleOptions{MaxTier: 4}}); err == nil {
		t.Error("Tier 4 is accepted")
	}
	if err := c.Cancel(t.Context(), ann(), 1, ""); err != nil || len(c.control.Cancelled) != 1 {
		t.Errorf("cancelled %v, %v", c.control.Cancelled, err)
	}
	cycle, err := c.Journal.Store.Journal.Cycle(t.Context(), 1)
	if err != nil || cycle.CancelReason != "cancelled from its page" {
		t.Errorf("%+v, %v", cycle, err)
	}
}

func TestOnlyWhatIsNotConfiguredIsForgotten(t *testing.T) {
	c := newCounter(t)
	ctx := t.Context()
	c.Check("web", ops.Healthy, "")
	c.Check("old", ops.Down, "HTTP 502")
	_, err := c.AddMemory(ctx, ann(), ops.Memory{Service: "nas", Category: "timing", Observation: "starts slowly"}, nil) // named by an agent only
	if err != nil {
		t.Fatal(err)
	}
	c.Await(ops.NewCycle{Environment: "default"}, ops.Policy{MaxTier: ops.LastTier, MaxDepth: 2}, ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: "no",
		Incident: &ops.IncidentReport{Title: "no answer", Level: ops.LevelCritical, Class: "down", Services: []string{"old"}, Unlisted: []string{"nas"}},
	}, apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeNeedsHuman})
	forget := func(name string) error { return c.ForgetService(ctx, ann(), "", name) }
	for name, says := range map[string]string{"web": "it is configured in default; take it out", "old": "is open; resolve it first", "nas": "is open; resolve it first"} {
		if err := forget(name); !errors.Is(err, ops.ErrConflict) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	open, err := c.Journal.Store.People.Unresolved(ctx, "default")
	if err != nil || len(open) != 2 {
		t.Fatalf("%+v, %v", open, err)
	}
	for _, i := range open {
		if _, err := c.Journal.Store.People.ResolveIncident(ctx, i.ID, "ann", "gone", c.Now); err != nil {
			t.Fatal(err)
		}
	}
	if text, wrong := desk.Problem(c.ForgetService(ctx, desk.Person{Name: "token", Via: "mcp", Door: desk.API}, "", "old")); !wrong || !strings.Contains(text, "by a person") {
		t.Errorf("by a program: %q", text)
	}
	for _, name := range []string{"old", "nas"} {
		if err := forget(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := forget(name); !errors.Is(err, ops.ErrNotFound) {
			t.Errorf("%s once more: %v", name, err)
		}
	}
	checks, err := c.Journal.Store.Watch.LatestChecks(ctx, "")
	if err != nil || len(checks) != 1 || checks[0].Service != "web" {
		t.Errorf("left are %+v, %v", checks, err)
	}
	if got := c.records(ops.EventAudit); !slices.Contains(got, "ann forgot the service old") || !slices.Contains(got, "ann forgot the service nas") {
		t.Errorf("on record are %q", got)
	}
}
