package web_test

import (
	"context"
	"strings"
	"testing"

	"claudeops/internal/api"
	"claudeops/internal/web"
)

func TestOverviewListsTheSetUpUntilItIsDone(t *testing.T) {
	rows := []api.SetupRow{
		{Step: api.StepAgent, State: api.SetupTodo, Blocks: true, Detail: `"claude" is not installed`, Next: "Install it", Command: "npm install -g x"},
		{Step: api.StepKey, State: api.SetupUnknown, Detail: "not tested"},
		{Step: api.StepService, State: api.SetupTodo, Detail: "nothing is watched", Lines: "services:\n  - name: web", Page: "/services"},
		{Step: api.StepTrust, State: api.SetupDone, Detail: "suggest", Page: "/config?q=trust"},
		{Step: api.StepNotifications, State: api.SetupTodo, Detail: "nothing was delivered yet", Command: "claudeops notify test", Page: "/notifications"},
	}
	asked := false
	s := newSite(t, func(o *web.Options) {
		o.Setup = func(_ context.Context, ask bool) []api.SetupRow { asked = asked || ask; return rows }
	})
	body := content(s.page("/"))
	mustContain(t, body, "Not set up yet", "Set-up: 1 of 5 done", "<strong>Agent</strong>", "&#34;claude&#34; is not installed", "npm install -g x", "Not testable",
		"services:\n  - name: web</code>", `href="/services"`, `action="/notifications/test"`)
	mustNotContain(t, body, "Run first check", "No checks yet")
	if asked {
		t.Error("a page waits for tests of the set-up")
	}
	s.down("web", "HTTP 502")
	if body = content(s.page("/")); strings.Index(body, "HTTP 502") > strings.Index(body, "Set-up:") {
		t.Error("what is left to set up hides what is down")
	}
	before := s.seen()
	for i := range rows {
		if rows[i].State == api.SetupTodo {
			rows[i].State = api.SetupDone
		}
	}
	mustNotContain(t, content(s.page("/")), "Set-up:")
	if s.seen() == before {
		t.Error("open pages are not told that the set-up is done")
	}
}

func TestADemonstrationIsNotSetUp(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.HideSetup = true
		o.Setup = func(context.Context, bool) []api.SetupRow {
			return []api.SetupRow{{Step: api.StepAgent, State: api.SetupTodo}}
		}
	})
	mustNotContain(t, content(s.page("/")), "Set-up:")
}
