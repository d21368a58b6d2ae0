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
	if err != nil {
		t.Fatal(err)
	}
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
