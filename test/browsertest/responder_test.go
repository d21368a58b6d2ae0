package browsertest

import (
	"testing"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

// TestAResponderIsOfferedOnlyItsAnswers searches the pages for what would be refused.
func TestAResponderIsOfferedOnlyItsAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, secret, err := f.store.AddToken(t.Context(), store.Token{Name: "phone", Role: access.RoleResponder, CreatedBy: "test"})
	must(t, err)
	b := open(t, serve(t, f.store, func(o *web.Options) { o.Token = "correct-horse-battery" }).base())
	b.visit("/login")
	b.must(b.fill("#token", secret))
	b.follow("main form button")
	b.sees("Responder")
	const pressable = `[...document.querySelectorAll('form[method="post"] button, [data-act], button[command="show-modal"]')]
		.filter((e) => e.checkVisibility() && !e.closest('form.own, form[action="/theme"], form[action="/logout"]') && !['keys', 'stop-all'].includes(e.getAttribute('commandfor')))
		.filter((e) => !['deny', 'acknowledge', 'snooze'].includes(e.dataset.act))
		.map((e) => e.outerHTML)`
	for _, p := range []string{
		"/", "/sessions", path("/sessions/%d", f.running), "/cycles", path("/cycles/%d", f.approval.CycleID), "/incidents", "/incidents?tab=open",
		path("/incidents/%d", f.incident.ID), path("/approvals/%d", f.approval.ID), "/services", "/silences", "/notifications", "/memory", "/config",
	} {
		b.visit(p)
		for _, found := range eval[[]string](b, pressable) {
			t.Errorf("%s offers what is refused: %.200s", p, found)
		}
	}
	b.visit(path("/approvals/%d", f.approval.ID))
	b.must(b.fill(`form.decide input[name="reason"]`, "not now"))
	b.follow(`[data-act="deny"]`)
	a, err := f.store.Approval(t.Context(), f.approval.ID)
	if err != nil || a.Status != ops.ApprovalDenied || a.AnsweredBy != "token phone" {
		t.Errorf("approval %+v, %v", a, err)
	}
}
