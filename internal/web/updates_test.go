package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/web"
)

func TestThePageOfAServiceUpdatesIt(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{
			{Name: "web", Probed: true, Actions: []ops.ActionSpec{{Service: "web", Name: "redeploy", Kind: ops.ActionRedeploy}}}, {Name: "plain"},
		}
	})
	ctx := t.Context()
	err := s.Store.SeeVersion(ctx, ops.Version{
		Environment: "default", Service: "web", Image: ops.Image{Ref: "web:1", Digest: "sha256:aaaa", ID: "a"}, Newest: "sha256:bbbb", At: s.Now,
	})
	must(t, err)
	mustContain(t, s.get("/services/default/web").body, "web:1 (sha256:aaaa)", "There is a newer one.", "Update web?")
	if body := s.get("/services/default/plain").body; strings.Contains(body, "its-image") {
		t.Error("a service without a compose file has an image")
	}
	form := url.Values{"environment": {"default"}, "service": {"web"}, "to": {""}}
	if got := s.post("/services/update", form); got.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	body := s.get("/services/default/web").body
	mustContain(t, body, "<strong>asked</strong>")
	if strings.Contains(body, "Update web?") {
		t.Error("it can be asked for twice")
	}
	if got := s.post("/services/update", form); got.StatusCode != http.StatusConflict {
		t.Errorf("twice: %d", got.StatusCode)
	}
}

// An update that could not be taken back opens an incident without a cycle.
func TestTheIncidentOfAnUpdateNamesNoCycle(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	u, err := s.Store.AskUpdate(ctx, ops.Update{Environment: "default", Service: "web", Person: "ada"}, s.Now)
	must(t, err)
	owner, err := s.Store.RegisterHost(ctx, "attic")
	must(t, err)
	u.Phase, u.PhaseAt, u.Kept, u.Result = ops.UpdateStuck, s.Now, "claudeops/kept/web:1", "worse than before: web"
	must(t, s.Store.AdvanceUpdate(ctx, owner, u, ops.UpdateAsked, 0))
	body := s.get("/incidents/1").body
	mustContain(t, body, "web is broken after its update", "worse than before: web", "claudeops/kept/web:1")
	for _, path := range []string{"/incidents/1", "/incidents", "/"} {
		if got := s.get(path); got.StatusCode != http.StatusOK || strings.Contains(got.body, "C-0") {
			t.Errorf("%s: %d names a cycle", path, got.StatusCode)
		}
	}
}
