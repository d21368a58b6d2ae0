package web_test

import (
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/web"
)

func TestPagesSayWhatChanged(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "web"}}
	})
	if text := s.get("/services/default/web").body; !strings.Contains(text, "Nothing in the last seven days.") {
		t.Error("the page of the service says nothing")
	}
	change := ops.Change{Kind: ops.ChangeContainer, Subject: "web", Service: "web", Text: "image <b> → c", At: s.Now, NotBefore: s.Now}
	must(t, s.Store.RecordLook(t.Context(), "default", "attic", ops.Look{Changes: []ops.Change{change}}, s.Now))
	s.Repair("web")
	for _, path := range []string{"/services/default/web", "/incidents/1"} {
		text := s.get(path).body
		if !strings.Contains(text, "What changed") || !strings.Contains(text, "image &lt;b&gt; → c") || !strings.Contains(text, "attic") {
			t.Errorf("%s does not say it", path)
		}
	}
}
