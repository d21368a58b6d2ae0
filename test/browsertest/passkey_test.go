package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"claudeops/internal/access"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

// device gives the tab a device that holds passkeys and knows its person.
func (b *tab) device() {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, webauthn.Enable, webauthn.EnableParams{})
	b.must(err)
	_, err = chromedp.Call(b.ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
		Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true,
			HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		},
	})
	b.must(err)
}

// TestAPasskeyIsAddedSignsInApprovesAndIsRemoved does what a person with a device does.
func TestAPasskeyIsAddedSignsInApprovesAndIsRemoved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	site := serve(t, f.store, func(o *web.Options) {
		o.Token, o.StrictApprovals, o.OperatorToken = "correct-horse-battery", true, true
	})
	b := open(t, strings.Replace(site.base(), "127.0.0.1", "localhost", 1)) // a passkey belongs to a name
	b.device()
	b.visit("/login")
	b.must(b.fill("#token", "correct-horse-battery"))
	b.follow("main form button")
	b.visit("/config")
	b.must(b.fill("#passkey-name", "laptop"))
	b.follow(`form[data-passkey="add"] button`)
	b.sees("The passkey is added.", "laptop")
	if found := b.axe(allRules); len(found) > 0 {
		t.Error(found)
	}
	b.follow(`form[action="/logout"] button`)

	b.visit(path("/login?next=/approvals/%d/approve", f.approval.ID))
	b.follow(`form[data-passkey="sign-in"] button`)
	b.wait("the question is shown", path(`location.pathname === "/approvals/%d/approve"`, f.approval.ID))
	b.follow(`button[formaction$="/approve"], form[action$="/approve"] button`)
	a, err := f.store.Approval(t.Context(), f.approval.ID)
	if err != nil || a.Status != ops.ApprovalApproved || a.AnsweredBy != "passkey laptop" {
		t.Errorf("approval %+v, %v", a, err)
	}

	b.visit("/config")
	b.click(`button[commandfor^="passkey-"]`)
	b.follow(`dialog[open] button.danger`)
	b.wait("the login has ended with its passkey", `location.pathname === "/login"`)
	b.excuse("401")
	b.click(`form[data-passkey="sign-in"] button`)
	b.sees("This passkey is not known here.")
}

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
		.filter((e) => e.checkVisibility() && !e.closest('form.own, form[action="/theme"], form[action="/logout"]') && e.getAttribute('commandfor') !== 'keys')
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
	if err != nil || a.Status != ops.ApprovalDenied || a.AnsweredBy != "login with token phone" {
		t.Errorf("approval %+v, %v", a, err)
	}
}
