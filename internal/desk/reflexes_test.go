package desk_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"claudeops/internal/desk"
	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

func TestAReflexIsSwitchedByPeopleOnly(t *testing.T) {
	c := newCounter(t)
	c.Earn("default", "web")
	ctx := t.Context()
	all, err := c.Reflexes(ctx, "", "web")
	if err != nil || len(all) != 1 || all[0].State != ops.ReflexAsked || len(all[0].Cycles) != 3 || len(all[0].Does) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, to := range []ops.ReflexState{ops.ReflexOn, ops.ReflexIsOff} {
		_, err := c.SwitchReflex(ctx, desk.Person{Name: "token", Via: "mcp", Door: desk.API}, 1, to, "")
		if text, wrong := desk.Problem(err); !wrong || !strings.Contains(text, "by a person") {
			t.Errorf("%s by a program: %v", to, err)
		}
	}
	got, err := c.SwitchReflex(ctx, ann(), 1, ops.ReflexOn, "it helps")
	spec := c.Environments[0].Policy.Inventory.Services[0].Actions[0]
	if err != nil || got.State != ops.ReflexOn || got.Person != "ann" || len(got.Digests) != 1 || got.Digests[0] != spec.Digest() || c.told != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.SwitchReflex(ctx, ann(), 1, ops.ReflexOn, ""); !errors.Is(err, ops.ErrConflict) {
		t.Errorf("twice: %v", err)
	}
	if _, err := c.SwitchReflex(ctx, ann(), 1, ops.ReflexIsOff, ""); err != nil {
		t.Error(err)
	}
	c.Environments[0].Policy.Inventory.Services[0].Actions = nil
	if text, _ := desk.Problem(func() error { _, err := c.SwitchReflex(ctx, ann(), 1, ops.ReflexOn, ""); return err }()); !strings.Contains(text, "no action restart any more") {
		t.Errorf("without its action: %q", text)
	}
	if _, err := c.SwitchReflex(ctx, ann(), 9, ops.ReflexOn, ""); !errors.Is(err, ops.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if got := c.records(ops.EventAudit); len(got) != 2 || got[1] != "ann switched reflex 1 (restart of web) on: it helps" {
		t.Errorf("recorded %q", got)
	}
}

// A yes from a phone runs what is configured now, as one on the page does.
func TestAReflexIsAnsweredOnAPhone(t *testing.T) {
	c := newCounter(t)
	c.Earn("default", "web")
	actions := c.Environments[0].Policy.Inventory.Services[0].Actions
	reply := func(id int64, decision string) answer.Result {
		t.Helper()
		got, err := c.Reply(t.Context(), answer.Reply{
			Token: answer.Token{Subject: answer.Subject{Kind: answer.KindReflex, ID: id}, Decision: decision, Expires: c.Desk.Clock().Add(time.Hour)},
			Code:  decision, Source: "message", Channel: "Telegram", By: "@ann",
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	c.Environments[0].Policy.Inventory.Services[0].Actions = nil
	if got := reply(1, answer.Approve); got.Done || !strings.Contains(got.Text, "no action restart any more") {
		t.Errorf("without its action: %+v", got)
	}
	c.Environments[0].Policy.Inventory.Services[0].Actions = actions
	if got := reply(9, answer.Approve); got.Done {
		t.Errorf("unknown: %+v", got)
	}
	got := reply(1, answer.Approve)
	r, err := c.Reflex(t.Context(), 1)
	if err != nil || !got.Done || r.State != ops.ReflexOn || r.Person != "@ann" || len(r.Digests) != 1 || r.Digests[0] != actions[0].Digest() {
		t.Errorf("%+v: %+v, %v", got, r, err)
	}
	if got := reply(1, answer.Deny); got.Done || !strings.Contains(got.Text, "@ann switched it on") {
		t.Errorf("too late: %+v", got)
	}
}
