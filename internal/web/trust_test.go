package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/web"
)

func TestThePageOfAServiceShowsAndChangesItsTrust(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Trust = ops.TrustRepair
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "web"}}
	})
	change := func(level string) int {
		return s.post("/services/trust", url.Values{"environment": {"default"}, "service": {"web"}, "level": {level}, "reason": {"it is new"}}).StatusCode
	}
	if got := change("full"); got != http.StatusUnprocessableEntity {
		t.Errorf("raised above the configuration: %d", got)
	}
	if got := change("ask"); got != http.StatusSeeOther {
		t.Errorf("lowered: %d", got)
	}
	text := s.get("/services/default/web").body
	for _, want := range []string{"<strong>ask</strong>", "of repair", "Every repair starts after approval.", "it is new", "Raise to repair", "Lower to suggest", "0 proposed, 0 approved"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
