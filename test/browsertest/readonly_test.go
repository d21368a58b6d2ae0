package browsertest

import (
	"testing"

	"claudeops/internal/access"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

// TestThoseWhoMayOnlyLookSeeNothingToPress logs in with the token for looking and searches every page for what would be refused.
func TestThoseWhoMayOnlyLookSeeNothingToPress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := open(t, serve(t, f.store, func(o *web.Options) { o.Token = "correct-horse-battery" }).base())
	_, secret, err := f.store.AddToken(t.Context(), store.Token{Name: "tv", Role: access.RoleRead, CreatedBy: "test"})
	b.must(err)
	b.visit("/login")
	b.must(b.fill("#token", secret))
	b.follow("main form button")
	b.sees("Read-only")
	const pressable = `[...document.querySelectorAll('form[method="post"] button, [data-act], button[command="show-modal"]')]
		.filter((e) => e.checkVisibility() && !e.closest('form.own, form[action="/theme"], form[action="/logout"]') && e.getAttribute('commandfor') !== 'keys')
		.map((e) => e.outerHTML)`
	for _, p := range []string{
		"/", "/sessions", path("/sessions/%d", f.running), "/cycles", path("/cycles/%d", f.approval.CycleID), "/incidents", "/incidents?tab=open", path("/incidents/%d",
			f.incident.ID), path("/approvals/%d", f.approval.ID),
		"/services", "/silences", "/notifications", "/memory", "/config",
	} {
		b.visit(p)
		for _, found := range eval[[]string](b, pressable) {
			t.Errorf("%s offers what is refused: %.200s", p, found)
		}
	}
	b.visit("/incidents")
	b.press("r")
	if eval[bool](b, `Boolean(document.querySelector('dialog:modal'))`) {
		t.Error("a key opens what is refused")
	}
	if found := b.axe(allRules); len(found) > 0 {
		t.Error(found)
	}
}
