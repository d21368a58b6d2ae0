package desk_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/desk"
	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

// asks lets a cycle wait for a yes to Tier 3, because web fails.
func (c *counter) asks(kind ops.ApprovalKind) ops.CycleID {
	c.t.Helper()
	c.Environments[0].Policy.MaxTier, c.Environments[0].Policy.MaxDepth = ops.LastTier, 2
	c.Environments[0].Policy.Handlers = []ops.Handler{{ID: "tier3", Tier: ops.Tier3}}
	cycle, _ := c.Await(ops.NewCycle{}, c.Environments[0].Policy, ops.Step{Reason: "asked", Approval: &ops.Approval{
		Kind: kind, Tier: ops.Tier3, Handler: "tier3", Facts: []ops.Fact{{Service: "web", Probe: "http", Class: "5xx"}},
	}}, apitest.Run{Tier: 2, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: "{}"})
	return cycle
}

// presses is a button that somebody presses once more, with another message each time.
func (c *counter) presses(of answer.Subject, decision string) answer.Result {
	c.t.Helper()
	c.pressed++
	got, err := c.Reply(c.t.Context(), answer.Reply{
		Token: answer.Token{Subject: of, Decision: decision, Expires: c.Desk.Clock().Add(time.Hour)},
		Code:  string(of.Kind) + decision, Source: time.Duration(c.pressed).String(), Channel: "Telegram", By: "@ann",
		Mark: "telegram/1", Read: time.Duration(c.pressed).String(),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return got
}

// A yes that nobody could go on with is refused in the same words, wherever it is given.
func TestAYesToWhatWasRemovedIsRefusedAtEveryDoor(t *testing.T) {
	for name, x := range map[string]struct {
		remove func(d *desk.Desk)
		says   string
	}{
		"environment": {func(d *desk.Desk) { d.Environments[0].Name = "lab" }, `the environment "default" is not configured any more`},
		"service":     {func(d *desk.Desk) { d.Environments[0].Policy.Inventory.Services = nil }, "web is not configured any more"},
		"handler":     {func(d *desk.Desk) { d.Environments[0].Policy.Handlers = nil }, `the handler "tier3" is not configured any more`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounter(t)
			c.asks(ops.ApprovalTier)
			now := slices.Clone(c.Environments)
			x.remove(c.Desk)
			_, err := c.Approve(t.Context(), ann(), 1, desk.Steps{}, "")
			conflict, ok := errors.AsType[*ops.Conflict](err)
			if !ok || conflict.Kind != ops.ConflictGone || conflict.Text != x.says {
				t.Errorf("on the page: %v", err)
			}
			question := answer.Subject{Kind: answer.KindApproval, ID: 1}
			for range 2 { // the next press says why again
				if got := c.presses(question, answer.Approve); got.Done || got.Text != "Nothing was changed: "+x.says+"." {
					t.Errorf("on a phone: %+v", got)
				}
			}
			mark, err := c.Journal.Store.People.ReplyMark(t.Context(), "telegram/1")
			if err != nil || mark != time.Duration(c.pressed).String() {
				t.Errorf("read up to %q, %v", mark, err)
			}
			c.Environments = now
			if got := c.presses(question, answer.Approve); !got.Done {
				t.Errorf("it is back: %+v", got)
			}
		})
	}
}

// What somebody else answered is a conflict that says who did what and when, with the same words at every door.
func TestWhoWasFirstIsSaidAtEveryDoor(t *testing.T) {
	c := newCounter(t)
	cycle := c.asks(ops.ApprovalTier)
	if _, err := c.Deny(t.Context(), ann(), 1, nil, "not now"); err != nil {
		t.Fatal(err)
	}
	_, err := c.Approve(t.Context(), ann(), 1, desk.Steps{}, "")
	conflict, ok := errors.AsType[*ops.Conflict](err)
	if !ok || conflict.Kind != ops.ConflictAnswered || !strings.HasPrefix(conflict.Text, "ann ") || !strings.HasSuffix(conflict.Text, c.Now.Format(time.RFC3339)) {
		t.Fatalf("%+v, %v", conflict, err)
	}
	if got := c.presses(answer.Subject{Kind: answer.KindApproval, ID: 1}, answer.Approve); got.Done || got.Text != "Nothing was changed: "+conflict.Text+"." {
		t.Errorf("on a phone: %+v", got)
	}
	if got := c.presses(answer.Subject{Kind: answer.KindCycle, ID: int64(cycle)}, answer.Acknowledge); got.Done || got.Text != "Nothing was changed: its incidents are resolved." {
		t.Errorf("a cycle without incidents: %+v", got)
	}
}

// While everything is stopped, a yes would start a tier: it is refused at every door, and the question stays.
func TestAYesWaitsUntilWhatIsStoppedIsTakenBack(t *testing.T) {
	c := newCounter(t)
	c.asks(ops.ApprovalTier)
	if _, err := c.StopAll(t.Context(), ann(), "the switch"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Approve(t.Context(), ann(), 1, desk.Steps{}, ""); !errors.Is(err, ops.ErrStopped) {
		t.Errorf("on the page: %v", err)
	}
	if got := c.presses(answer.Subject{Kind: answer.KindApproval, ID: 1}, answer.Approve); got.Done {
		t.Errorf("on a phone: %+v", got)
	}
	if _, err := c.ResumeAll(t.Context(), ann(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Approve(t.Context(), ann(), 1, desk.Steps{}, ""); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
