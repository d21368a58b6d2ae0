package desk_test

import (
	"strings"
	"testing"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
)

func TestTrustIsRaisedByPeopleUpToTheConfiguration(t *testing.T) {
	c := newCounter(t)
	c.Environments[0].Policy.Trust = ops.TrustRepair
	ctx := t.Context()
	got, err := c.Trust(ctx, ann(), desk.TrustChange{Service: "web", Level: "ask", Reason: "it is new"})
	if err != nil || got.Level != ops.TrustAsk || got.Ceiling != ops.TrustRepair || got.Lowered == nil || got.Lowered.By != "ann" || c.told != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, tt := range []struct {
		by         desk.Person
		to, refuse string
	}{
		{ann(), "full", "`trust: full` below `- name: web`"},
		{ann(), "blind", "use watch, suggest"},
		{desk.Person{Name: "token", Via: "mcp", Door: desk.API}, "repair", "raised by a person"},
	} {
		_, err := c.Trust(ctx, tt.by, desk.TrustChange{Service: "web", Level: tt.to, Reason: ""})
		if text, wrong := desk.Problem(err); !wrong || !strings.Contains(text, tt.refuse) {
			t.Errorf("%s to %s: %v", tt.by, tt.to, err)
		}
	}
	if _, err := c.Trust(ctx, desk.Person{Name: "token", Via: "mcp", Door: desk.API}, desk.TrustChange{Service: "web", Level: "suggest", Reason: ""}); err != nil {
		t.Errorf("an agent of the operator may be careful: %v", err)
	}
	if got, err = c.Trust(ctx, ann(), desk.TrustChange{Service: "web", Level: "repair", Reason: ""}); err != nil || got.Level != ops.TrustRepair || got.Lowered != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if text, _ := desk.Problem(func() error {
		_, err := c.Trust(ctx, ann(), desk.TrustChange{Service: "nothing", Level: "ask", Reason: ""})
		return err
	}()); !strings.Contains(text, "nothing") {
		t.Errorf("%q", text)
	}
	if got := c.records(ops.EventTrust); len(got) != 3 || !strings.HasPrefix(got[2], "ann changed the trust in web from repair to ask") {
		t.Errorf("recorded %q", got)
	}
}
