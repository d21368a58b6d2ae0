package browsertest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestAnIncidentIsAcknowledgedFromItsCard(t *testing.T) {
	t.Parallel()
	f := &fixture{journal: newJournal(t)}
	f.incident = f.broken("paperless", "The disk of paperless is full", ops.LevelCritical)
	b := open(t, serve(t, f.store).base())
	b.visit("/incidents")
	b.live()
	card := path("#incident-%d", f.incident.ID)
	b.click(card + ` button[commandfor*="ack"]`)
	b.wait("it asks first", `document.querySelector('dialog:modal')`)
	b.must(b.fill(`dialog:modal [name="reason"]`, "on it"))
	b.follow(`dialog:modal button.primary`)
	b.sees(path("Incident %d is acknowledged.", f.incident.ID))
	i, err := f.store.People.Incident(t.Context(), f.incident.ID)
	if err != nil || i.Status != ops.IncidentAcknowledged || i.AcknowledgedBy == "" {
		t.Errorf("the incident is %+v, %v", i, err)
	}
}

func TestALateClickIsToldWhoWasFaster(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	question := j.ask("default", "jellyfin", "Tier 3 needs a yes.")
	b := open(t, serve(t, j.store).base())
	b.excuse("409 (Conflict)")
	b.visit(path("/approvals/%d", question.ID))
	b.sees("Approve: start Tier 3 for jellyfin")
	// Somebody else answers; the page that asks keeps still under its reader's hands.
	if _, err := j.store.People.Answer(t.Context(), question.ID, ops.ApprovalDenied, "alice", "not on a Friday", time.Now()); err != nil {
		t.Fatal(err)
	}
	b.follow(`button[formaction$="/approve"]`)
	b.sees("Already denied by alice", "not on a Friday", "Nothing was changed")
	b.wait("it can be answered no more", `!document.querySelector('main button[data-act]')`)
	if found := b.axe(allRules); len(found) > 0 {
		t.Error(found)
	}
}

func TestADenialNeedsAReason(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	question := j.ask("default", "jellyfin", "Tier 3 needs a yes.")
	b := open(t, serve(t, j.store).base())
	b.visit(path("/approvals/%d", question.ID))
	b.mark()
	b.click(`main form.decide button[data-act]:not([formaction])`)
	b.wait("the field is asked for", `document.activeElement.name === 'reason' && !document.activeElement.validity.valid`)
	b.same()
	b.must(b.fill(`main input[name="reason"]`, "not today"))
	b.follow(`main form.decide button[data-act]:not([formaction])`)
	b.sees("denied")
	if got, err := j.store.People.Approval(t.Context(), question.ID); err != nil || got.Status != ops.ApprovalDenied || got.Answer != "not today" {
		t.Errorf("the question is %+v, %v", got, err)
	}
}

func TestWhatIsTypedSurvivesAnUpdate(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.ask("default", "jellyfin", "Tier 3 needs a yes.")
	b := open(t, serve(t, j.store).base())
	b.visit("/incidents")
	b.live()
	b.mark()
	b.must(b.fill(`main input[name="reason"]`, "half a sen"))
	j.ask("staging", "grafana", "Tier 3 needs another yes.")
	b.sees("Approve: start Tier 3 for grafana")
	if got := eval[string](b, `document.querySelector('#approval-1 input[name="reason"]').value`); got != "half a sen" {
		t.Errorf("the field holds %q", got)
	}
	if !eval[bool](b, `document.activeElement === document.querySelector('#approval-1 input[name="reason"]')`) {
		t.Error("the field lost the focus")
	}
	b.same()
}
