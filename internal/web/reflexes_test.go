package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	signed "claudeops/internal/notice/answer"
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

// The link of a no works with its button; that of a yes leads to the page of the service, where the role decides.
func TestALinkAnswersWhetherARepairBecomesAReflex(t *testing.T) {
	s := newSite(t, withToken("secret"), func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "web", Actions: []ops.ActionSpec{{Service: "web", Name: "restart", Kind: ops.ActionRestart, Container: "web"}}}}
	})
	s.Earn("default", "web")
	yes := s.link(signed.Token{Kind: signed.KindReflex, Approval: 1, Decision: signed.Approve})
	mustContain(t, s.get(yes).body, "Make this a reflex? restart of web", "docker restart web", "/login?next=%2fservices%2fdefault%2fweb")
	if got := s.confirm(yes).StatusCode; got != http.StatusForbidden {
		t.Errorf("yes by the link alone: %d", got)
	}
	no := s.link(signed.Token{Kind: signed.KindReflex, Approval: 1, Decision: signed.Deny})
	if got := s.confirm(no); got.StatusCode != http.StatusOK {
		t.Errorf("no: %d %s", got.StatusCode, head(got.body))
	}
	if got := s.get(yes).StatusCode; got != http.StatusConflict {
		t.Errorf("answered: %d", got)
	}
	if got := s.get(s.link(signed.Token{Kind: signed.KindReflex, Approval: 9, Decision: signed.Deny})).StatusCode; got != http.StatusNotFound {
		t.Errorf("unknown: %d", got)
	}
	if r, err := s.Store.Reflex(t.Context(), 1); err != nil || r.State != ops.ReflexIsOff || r.Person != "link to route mail" {
		t.Errorf("%+v, %v", r, err)
	}
}
