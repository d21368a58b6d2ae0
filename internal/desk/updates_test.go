package desk_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
)

// composed makes web a service that is updated, and shop one that needs it.
func (c *counter) composed() *ops.Environment {
	e := &c.Environments[0]
	e.Policy.Inventory.Services = []ops.Service{
		{Name: "web", Probed: true, Actions: []ops.ActionSpec{{Service: "web", Name: "redeploy", Kind: ops.ActionRedeploy}}},
		{Name: "shop", DependsOn: []string{"web"}},
	}
	return e
}

func TestAnUpdateIsRefusedInAClearSentence(t *testing.T) {
	for says, prepare := range map[string]func(*counter, *ops.Environment){
		"add `compose: {repo": func(_ *counter, e *ops.Environment) { e.Policy.Inventory.Services[0].Actions = nil },
		"redeploy is off": func(_ *counter, e *ops.Environment) {
			e.Policy.Inventory.Services[0].Actions, e.Policy.Inventory.Services[0].Off = nil, []string{"redeploy"}
		},
		"has no probe":     func(_ *counter, e *ops.Environment) { e.Policy.Inventory.Services[0].Probed = false },
		"dry_run is on":    func(_ *counter, e *ops.Environment) { e.Policy.DryRun = true },
		"web is silenced":  func(c *counter, _ *ops.Environment) { c.silence("web") },
		"shop is silenced": func(c *counter, _ *ops.Environment) { c.silence("shop") },
		"shop is in maintenance until 14:41": func(c *counter, e *ops.Environment) {
			e.Watch.Maintenance = []ops.Maintenance{{Service: "shop", From: c.Now, Until: c.Now.Add(time.Hour)}}
		},
		"update 1 of db runs (pulling)": func(c *counter, _ *ops.Environment) {
			u, err := c.Desk.Store.Acts.AskUpdate(c.t.Context(), ops.Update{Environment: "home", Service: "db", Person: "bob"}, c.Now)
			if err != nil {
				c.t.Fatal(err)
			}
			owner, err := c.Desk.Store.Journal.RegisterHost(c.t.Context(), "attic")
			if err != nil {
				c.t.Fatal(err)
			}
			u.Phase = ops.UpdatePulling
			if err := c.Desk.Store.Acts.AdvanceUpdate(c.t.Context(), owner, u, ops.UpdateAsked, 0); err != nil {
				c.t.Fatal(err)
			}
		},
		"update 1 of web is asked": func(c *counter, _ *ops.Environment) {
			if _, err := c.Update(c.t.Context(), ann(), "", "web", ""); err != nil {
				c.t.Fatal(err)
			}
		},
	} {
		t.Run(says, func(t *testing.T) {
			c := newCounter(t)
			prepare(c, c.composed())
			_, err := c.Update(t.Context(), ann(), "", "web", "")
			if !errors.Is(err, ops.ErrConflict) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func (c *counter) silence(service string) {
	c.t.Helper()
	if _, err := c.AddSilence(c.t.Context(), ann(), desk.Silence{Service: service, Reason: "new disk", End: desk.End{For: time.Hour}}); err != nil {
		c.t.Fatal(err)
	}
}

func TestAnUpdateIsAskedForByPeopleOnly(t *testing.T) {
	c := newCounter(t)
	c.composed()
	ctx := t.Context()
	for says, ask := range map[string]func() error{
		"by a person": func() error {
			_, err := c.Update(ctx, desk.Person{Name: "token", Via: "mcp", Door: desk.API}, "", "web", "")
			return err
		},
		`called "nothing"`: func() error { _, err := c.Update(ctx, ann(), "", "nothing", ""); return err },
		"characters":       func() error { _, err := c.Update(ctx, ann(), "", "web", strings.Repeat("a", 300)); return err },
	} {
		if text, wrong := desk.Problem(ask()); !wrong || !strings.Contains(text, says) {
			t.Errorf("%s: %q", says, text)
		}
	}
	u, err := c.Update(ctx, ann(), "", "web", "web:2")
	if err != nil || u.Person != "ann" || u.To != "web:2" || u.Phase != ops.UpdateAsked || c.told != 1 {
		t.Fatalf("%+v, %v", u, err)
	}
	if got := c.records(ops.EventAudit); len(got) != 1 || got[0] != "ann asked for update 1 of web web:2" {
		t.Errorf("recorded %q", got)
	}
	all, err := c.Updatables(ctx, "", "")
	if err != nil || len(all) != 2 || all[0].Not != "" || all[0].Latest == nil || all[1].Not == "" {
		t.Errorf("%+v, %v", all, err)
	}
}
