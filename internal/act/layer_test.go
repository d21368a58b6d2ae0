package act_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/act"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// approvedFor is a step of a plan that a human has approved with these words.
func (w *world) approvedFor(t *testing.T, action, reason string) act.Request {
	t.Helper()
	spec, _ := w.env.Policy.Inventory.Action("web", action)
	session := w.session(t, ops.Tier2)
	plan := []ops.ApprovedStep{{PlanStep: ops.PlanStep{Service: "web", Action: action, Reason: reason}, Does: spec.Does(), Digest: spec.Digest()}}
	ended := w.Ended(*session, 0)
	w.Commit(t, ops.Transition{Cycle: session.CycleID, At: w.At, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepAwait, Approval: &ops.Approval{
		SessionID: session.ID, Tier: ops.Tier3, Handler: "tier3", Plan: plan, PlanHash: ops.PlanHash(session.CycleID, session.ID, plan),
	}}})
	asked, err := w.Store.People.Approvals(t.Context(), store.ApprovalFilter{})
	must(t, err)
	approved, err := w.Store.People.AnswerPlan(t.Context(), asked[0].ID, asked[0].PlanHash, []int{1}, "ada", "", w.At)
	must(t, err)
	_, err = w.Store.Journal.Claim(t.Context(), w.Owner, session.CycleID, ops.Policy{}, w.At)
	must(t, err)
	return act.Request{Environment: w.env, Service: "web", Action: action, Why: reason, Plan: &approved, Step: 1}
}

// A container with a database outside of its volumes is replaced only after a human has approved exactly that.
func TestDataOutsideOfVolumesIsLostOnlyWithApproval(t *testing.T) {
	t.Parallel()
	w, d := dockerWorld(t, "actdata")
	state := func() string { return inspect(t, d, "actdata_web_1", "{{.Id}} {{.State.StartedAt}}") }
	d.Docker(t, "exec", "actdata_web_1", "sh", "-c", "mkdir -p /var/lib/app && head -c 3000000 /dev/zero > /var/lib/app/data.db")
	before := state()
	loss := "loses the data outside the volumes of container " + before[:12]
	refused := func(who string, q act.Request, words ...string) {
		t.Helper()
		_, err := w.runner.Run(t.Context(), q)
		var no *act.Refusal
		if !errors.As(err, &no) || no.Rule != "action.layer" {
			t.Fatalf("%s: %v", who, err)
		}
		for _, word := range append(words, `"/var/lib/app/data.db" (2.9 MB)`, loss) {
			if !strings.Contains(no.Error(), word) {
				t.Errorf("%s is not told %q: %v", who, word, no)
			}
		}
		if state() != before {
			t.Errorf("%s has changed the container", who)
		}
	}
	refused("a person", w.person(t, "redeploy"), "move the data to a volume")
	approved := w.approvedFor(t, "redeploy", "its database can be made again; it "+loss)
	for _, reason := range []string{"it is stuck", "it loses the data outside the volumes of container 0123456789ab"} {
		plan := *approved.Plan
		plan.Plan = slices.Clone(plan.Plan)
		plan.Plan[0].Reason = reason
		other := approved
		other.Plan = &plan
		refused("a plan that says: "+reason, other)
	}
	refused("a person who applies the file", w.person(t, "apply"))
	done, err := w.runner.Run(t.Context(), approved)
	if err != nil || done.Run.Status != ops.ActionDone || state() == before {
		t.Errorf("%+v, %v", done.Run, err)
	}
	if out, err := d.Run(t, d.Socket, "docker", "exec", "actdata_web_1", "sh", "-c", "ls /var/lib/app/data.db"); err == nil {
		t.Errorf("it was not replaced: %s", out)
	}
}
