package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

func withActions(o *web.Options) {
	o.Environments = []ops.Environment{{Name: "default", Interval: time.Hour, Policy: ops.Policy{Inventory: ops.Inventory{Services: []ops.Service{{
		Name: "web", Actions: []ops.ActionSpec{
			{Name: "restart", Service: "web", Kind: ops.ActionRestart, Tier: 2, Container: "web", Counts: "restart"},
			{Name: "deploy", Service: "web", Kind: ops.ActionCommand, Tier: 3, Run: []string{"/srv/deploy", "<b>"}, Undo: []string{"/srv/back"}, Approval: true, Counts: "redeployment"},
		},
	}}}}}}
}

func (s *site) runs() []ops.ActionRun {
	s.t.Helper()
	found, err := s.Store.Acts.ActionRuns(s.t.Context(), store.ActionFilter{})
	must(s.t, err)
	return found
}

// ran is a run of deploy that has ended.
func (s *site) ran() ops.ActionRun {
	s.t.Helper()
	owner, err := s.Store.Journal.RegisterHost(s.t.Context(), "actor")
	must(s.t, err)
	asked, err := s.Store.Acts.RequestAction(s.t.Context(), ops.ActionRun{
		Environment: "default", Service: "web", Action: "deploy", Kind: ops.ActionCommand, Person: "ada", Why: "new <version>", Does: "/srv/deploy",
	}, s.Now)
	must(s.t, err)
	asked.Before = []ops.ServiceHealth{{Service: "web", Status: ops.Down, Error: "HTTP 500"}}
	run, _, err := s.Store.Acts.BeginAction(s.t.Context(), owner, store.ActionIntent{Run: asked, At: s.Now})
	must(s.t, err)
	run, err = s.Store.Acts.EndAction(s.t.Context(), owner, store.ActionResult{
		ID: run.ID, Status: ops.ActionDone, Output: "deployed <script>", After: []ops.ServiceHealth{{Service: "web", Status: ops.Healthy}}, At: s.Now,
	})
	must(s.t, err)
	return run
}

func TestActionsAreShownRunAndUndone(t *testing.T) {
	s := newSite(t, withActions)
	mustContain(t, s.page("/services"), `href="/actions"`)
	mustContain(t, s.page("/actions"), "docker restart web", "/srv/deploy &lt;b&gt;", "with approval", `action="/actions"`, "Nothing has been run")
	for _, bad := range []url.Values{
		{"environment": {"default"}, "service": {"web"}, "action": {"restart"}},
		{"environment": {"default"}, "service": {"web"}, "action": {"wipe"}, "reason": {"x"}},
		{"environment": {"other"}, "service": {"web"}, "action": {"restart"}, "reason": {"x"}},
	} {
		if got := s.post("/actions", bad); got.StatusCode != http.StatusUnprocessableEntity || len(s.runs()) != 0 {
			t.Errorf("%v: %d %+v", bad, got.StatusCode, s.runs())
		}
	}
	done := s.post("/actions", url.Values{"environment": {"default"}, "service": {"web"}, "action": {"restart"}, "reason": {"it hangs"}})
	if done.StatusCode != http.StatusSeeOther || len(s.runs()) != 1 || s.runs()[0].Status != ops.ActionRequested || s.runs()[0].Person == "" {
		t.Fatalf("%d %+v", done.StatusCode, s.runs())
	}
	run := s.ran()
	path := fmt.Sprintf("/actions/%d", run.ID)
	mustContain(t, s.page(path), "ada", "new &lt;version&gt;", "deployed &lt;script&gt;", "HTTP 500", "Down", "Healthy", `action="`+path+`/undo"`, "/srv/back")
	if got := s.post(path+"/undo", nil); got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("without a reason: %d", got.StatusCode)
	}
	if got := s.post(path+"/undo", url.Values{"reason": {"wrong version"}}); got.StatusCode != http.StatusSeeOther {
		t.Errorf("undo: %d", got.StatusCode)
	}
	if newest := s.runs()[0]; newest.UndoOf != run.ID || newest.Status != ops.ActionRequested {
		t.Errorf("%+v", newest)
	}
	if got := s.post("/actions/1/undo", url.Values{"reason": {"x"}}); got.StatusCode != http.StatusConflict {
		t.Errorf("a restart is undone: %d", got.StatusCode)
	}
	for _, path := range []string{"/actions/99", "/actions/x"} {
		if got := s.get(path).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s: %d", path, got)
		}
	}
	events, err := s.Store.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventAudit)})
	if err != nil || !strings.Contains(fmt.Sprint(events), "asked for restart of web") {
		t.Errorf("audit: %v %v", events, err)
	}
}

func TestTheAPIOfActions(t *testing.T) {
	s := newSite(t, withActions)
	send := func(method, path, body string) answer {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		return s.do(r)
	}
	mustContain(t, s.get("/api/v1/actions?service=web").body, `"name":"restart"`, `"undo":"none"`, `"approval":true`)
	if got := send("POST", "/api/v1/actions/runs", `{"service":"web","action":"restart","why":"it hangs"}`); got.StatusCode != http.StatusAccepted || !strings.Contains(got.body, `"status":"requested"`) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	for body, want := range map[string]int{
		`{"service":"web","action":"wipe","why":"x"}`:                      http.StatusNotFound,
		`{"service":"web","action":"restart","why":" "}`:                   http.StatusUnprocessableEntity,
		`{"service":"web","action":"restart"}`:                             http.StatusUnprocessableEntity,
		`{"service":"web","action":"restart","why":"x","run":["id"]}`:      http.StatusUnprocessableEntity,
		`{"environment":"x","service":"web","action":"restart","why":"x"}`: http.StatusUnprocessableEntity,
	} {
		if got := send("POST", "/api/v1/actions/runs", body); got.StatusCode != want {
			t.Errorf("%s: %d, want %d: %s", body, got.StatusCode, want, got.body)
		}
	}
	run := s.ran()
	path := fmt.Sprintf("/api/v1/actions/runs/%d", run.ID)
	mustContain(t, s.get(path).body, `"by":"ada"`, `"status":"done"`, `"before":[{"service":"web","status":"down","error":"HTTP 500"}]`)
	if got := send("POST", path+"/undo", `{"why":"wrong"}`); got.StatusCode != http.StatusAccepted || !strings.Contains(got.body, fmt.Sprintf(`"undo_of":%d`, run.ID)) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	mustContain(t, s.get("/api/v1/actions/runs?service=web&limit=2").body, `"next_cursor":"`)
}

func TestAPlanIsApprovedStepByStep(t *testing.T) {
	s := newSite(t, withActions)
	owner, err := s.Store.Journal.RegisterHost(t.Context(), "planner")
	must(t, err)
	ask := func() ops.Approval {
		t.Helper()
		id, err := s.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "default", Trigger: ops.TriggerManual, At: s.Now})
		must(t, err)
		s.Now = s.Now.Add(time.Second)
		policy := ops.Policy{Entry: "tier1", Handlers: []ops.Handler{{ID: "tier1", Tier: 1, Agent: "claude"}}}
		if _, err := s.Store.Journal.Claim(t.Context(), owner, id, policy, s.Now); err != nil {
			t.Fatal(err)
		}
		queued, err := s.Store.Journal.Commit(t.Context(), owner, ops.Transition{Cycle: id, At: s.Now, Step: ops.Step{Kind: ops.StepQueue, Session: &ops.NewSession{Attempt: 1, Handler: policy.Handlers[0]}}})
		must(t, err)
		session := queued.Journal.Last().ID
		plan := []ops.ApprovedStep{
			{PlanStep: ops.PlanStep{Service: "web", Action: "restart", Reason: "it <hangs>", Effect: "answers", Back: "none"}, Does: "docker restart web", WayBack: "none", Digest: "d"},
			{PlanStep: ops.PlanStep{Service: "web", Action: "deploy", Reason: "old", Effect: "new", Back: "deploy"}, Does: "/srv/deploy", WayBack: "/srv/back", Digest: "e"},
		}
		_, err = s.Store.Journal.Commit(t.Context(), owner, ops.Transition{Cycle: id, At: s.Now, Step: ops.Step{Kind: ops.StepAwait, Approval: &ops.Approval{
			SessionID: session, Tier: 2, Handler: "tier2", Plan: plan, PlanHash: ops.PlanHash(id, session, plan),
		}}})
		must(t, err)
		claimed, err := s.Store.Journal.Load(t.Context(), id)
		must(t, err)
		return claimed.Journal.Approvals[0]
	}
	steps := func(a ops.Approval) string {
		t.Helper()
		got, err := s.Store.People.Approval(t.Context(), a.ID)
		must(t, err)
		return fmt.Sprint(got.Status, got.Steps)
	}
	path := func(a ops.Approval) string { return fmt.Sprintf("/approvals/%d", a.ID) }
	a := ask()
	mustContain(t, s.page(path(a)), "it &lt;hangs&gt;", "docker restart web", "/srv/back", "Expected effect", `name="step" value="2" checked`, a.PlanHash)
	if got := s.post(path(a)+"/approve", url.Values{"plan_hash": {"other"}, "step": {"1"}}); got.StatusCode != http.StatusConflict || steps(a) != "pending[]" {
		t.Errorf("another plan: %d %s", got.StatusCode, steps(a))
	}
	if got := s.post(path(a)+"/approve", url.Values{"plan_hash": {a.PlanHash}, "step": {"2"}}); got.StatusCode != http.StatusSeeOther || steps(a) != "approved[2]" {
		t.Errorf("%d %s", got.StatusCode, steps(a))
	}
	b := ask()
	if got := s.post(path(b)+"/approve", url.Values{"plan_hash": {b.PlanHash}}); got.StatusCode != http.StatusSeeOther || steps(b) != "approved[]" {
		t.Errorf("without a step: %d %s", got.StatusCode, steps(b))
	}
	c := ask()
	r := httptest.NewRequest(http.MethodPost, "/api/v1"+path(c)+"/approve", strings.NewReader(`{"plan_hash":"`+c.PlanHash+`"}`))
	r.Header.Set("Content-Type", "application/json")
	if got := s.do(r); got.StatusCode != http.StatusOK || steps(c) != "approved[1 2]" {
		t.Errorf("all steps: %d %s %s", got.StatusCode, steps(c), got.body)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
