package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/web"
)

func TestThePageOfAServiceAsksForItsReflex(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "web", Actions: []ops.ActionSpec{{Service: "web", Name: "restart", Kind: ops.ActionRestart, Container: "web"}}}}
	})
	s.Earn("default", "web")
	shows := func(wanted ...string) {
		t.Helper()
		text := s.get("/services/default/web").body
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("the page does not say %q", want)
			}
		}
	}
	shows("Make this a reflex?", "web is down for its probe GET / (5xx).", `href="/cycles/3"`, "docker restart web", "Make it a reflex", ">No<")
	if got := s.post("/reflexes/1/enable", url.Values{"reason": {"it helps"}}).StatusCode; got != http.StatusSeeOther {
		t.Fatalf("yes: %d", got)
	}
	shows("<strong>on</strong>", "it helps", "Done 0 times, helped 0 times.", "Switch off")
	if got := s.post("/reflexes/1/enable", nil).StatusCode; got != http.StatusConflict {
		t.Errorf("twice: %d", got)
	}
	if got := s.post("/reflexes/1/disable", nil).StatusCode; got != http.StatusSeeOther {
		t.Errorf("off: %d", got)
	}
	shows("<strong>off</strong>")
	if got := s.post("/reflexes/9/enable", nil).StatusCode; got != http.StatusNotFound {
		t.Errorf("unknown: %d", got)
	}
}
