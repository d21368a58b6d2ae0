package browsertest

import (
	"testing"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

// TestVisitorsAreOfferedOnlyWhatTheyMay searches every page for what would be refused.
func TestVisitorsAreOfferedOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	const pressable = `[...document.querySelectorAll('form[method="post"] button, [data-act], button[command="show-modal"]')]
		.filter((e) => e.checkVisibility() && !e.closest('form.own, form[action="/theme"], form[action="/logout"]') && e.getAttribute('commandfor') !== 'keys')`
	for role, allowed := range map[access.Role]string{
		access.RoleRead:      "",
		access.RoleResponder: `.filter((e) => e.getAttribute('commandfor') !== 'stop-all' && !['deny', 'acknowledge', 'snooze'].includes(e.dataset.act))`,
	} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			withRecords(t, f)
			_, secret, err := f.store.People.AddToken(t.Context(), store.Token{Name: "phone", Role: string(role), CreatedBy: "test"})
			must(t, err)
			b := open(t, serve(t, f.store, withServices, func(o *web.Options) { o.Token = "correct-horse-battery" }).base())
			b.visit("/login")
			b.must(b.fill("#token", secret))
			b.follow("main form button")
			for _, p := range []string{
				"/", "/sessions", path("/sessions/%d", f.running), "/cycles", path("/cycles/%d", f.approval.CycleID), "/incidents", "/incidents?tab=open",
				path("/incidents/%d", f.incident.ID), path("/approvals/%d", f.approval.ID), "/services", "/silences", "/notifications", "/memory", "/config",
				"/services/default/paperless", "/services/default/jellyfin", "/approvals", "/hosts", "/guard",
			} {
				b.visit(p)
				for _, found := range eval[[]string](b, pressable+allowed+`.map((e) => e.outerHTML)`) {
					t.Errorf("%s offers what is refused: %.200s", p, found)
				}
			}
			if role == access.RoleRead {
				b.visit("/incidents")
				b.press("r")
				if eval[bool](b, `Boolean(document.querySelector('dialog:modal'))`) {
					t.Error("a key opens what is refused")
				}
				for _, found := range b.axe(allRules) {
					t.Error(found)
				}
				return
			}
			b.visit(path("/approvals/%d", f.approval.ID))
			b.must(b.fill(`form.decide input[name="reason"]`, "not now"))
			b.follow(`[data-act="deny"]`)
			a, err := f.store.People.Approval(t.Context(), f.approval.ID)
			if err != nil || a.Status != ops.ApprovalDenied || a.AnsweredBy != "token phone" {
				t.Errorf("approval %+v, %v", a, err)
			}
		})
	}
}
