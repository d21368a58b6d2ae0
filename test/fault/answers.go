package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// planned is the chain whose Tier 2 proposes a plan, which a human has to approve before Tier 3.
func planned() string {
	return replaceOnce(chain, "investigation_findings: it has no upstream,",
		"plan: [{service: web, action: rebuild, reason: it has no upstream, expected_effect: it answers, way_back: none}], investigation_findings: it has no upstream,")
}

// question is an approval as the API shows it.
type question struct {
	ID       int64             `json:"id"`
	Status   string            `json:"status"`
	PlanHash string            `json:"plan_hash"`
	Plan     []json.RawMessage `json:"plan"`
}

// questions lists the approvals.
func (p *process) questions() (out []question) {
	_, body := p.get("/api/v1/approvals")
	var list struct {
		Items []question `json:"items"`
	}
	if json.Unmarshal([]byte(body), &list) != nil {
		return nil
	}
	return list.Items
}

// asked runs the chain until a human is asked.
func (t *trying) asked(ctx context.Context, env ...string) (b *box, p *process, q question) {
	b = t.box(ctx, setup{actions: true, scenario: planned(), more: "escalation: {approval_tier: 3, approval: {expiry: 2h}}\n"})
	p = t.start(ctx, b, modeServe, env...)
	check(p.until("a human is asked", func() bool {
		found := p.questions()
		if len(found) == 1 && found[0].Status == string(ops.ApprovalPending) {
			q = found[0]
		}
		return q.ID != 0
	}))
	if len(q.Plan) != 1 {
		check(fmt.Errorf("the plan is %v", q.Plan))
	}
	return b, p, q
}

// approve answers a question for a plan.
func (p *process) approve(q question, plan string) (int, string) {
	return p.post(fmt.Sprintf("/api/v1/approvals/%d/approve", q.ID), fmt.Sprintf(`{"plan_hash":%q}`, plan))
}

// redeployed counts what Tier 3 alone may do.
func (b *box) redeployed() (n int) {
	for _, a := range b.service.done() {
		if a.verb == "redeploy" {
			n++
		}
	}
	return n
}

// expiredAnswer answers after the time of the question is over, in the same moment in which the clock says so and later. Nothing may be done.
func (t *trying) expiredAnswer(ctx context.Context) error {
	clock := must(os.CreateTemp("", "fault-clock-"))
	defer func() { _ = os.Remove(clock.Name()) }()
	check(clock.Close())
	b, p, q := t.asked(ctx, "CLAUDEOPS_FAULT_CLOCK="+clock.Name())
	check(os.WriteFile(clock.Name(), []byte("3h"), 0o600))
	first, said := p.approve(q, q.PlanHash)
	check(p.until("the cycle has ended", func() bool { return b.quiet(ctx) }))
	second, _ := p.approve(q, q.PlanHash)
	cycles := must(b.cycles(ctx))
	status := ""
	for _, found := range p.questions() {
		status = found.Status
	}
	t.found = fmt.Sprintf("answers after the expiry got %d and %d, the question is %s, nothing was redeployed; cycle 1 %s", first, second, status, cycles[0].Status)
	if first != http.StatusConflict || second != http.StatusConflict || status != string(ops.ApprovalExpired) || b.redeployed() > 0 || cycles[0].Status == ops.CycleResolved {
		return fmt.Errorf("%s (%d redeployments): %.300s", t.found, b.redeployed(), said)
	}
	check(p.stop())
	return errors.Join(append(open(cycles), b.leftovers(ctx, cycles)...)...)
}

// changedPlan answers for another plan than the one that was asked for, and then changes the stored plan under an answer that was right.
// Neither may run.
func (t *trying) changedPlan(ctx context.Context) error {
	b, p, q := t.asked(ctx)
	if code, said := p.approve(q, "0123456789abcdef"); code != http.StatusConflict {
		return fmt.Errorf("an answer for another plan gets %d: %.300s", code, said)
	}
	check(b.nothingDone(len(b.service.done()), 2*time.Second))
	check(changePlan(ctx, sqliteFile{b.state}.path()))
	code, said := p.approve(q, q.PlanHash)
	check(p.until("the cycle has ended", func() bool { return b.quiet(ctx) || code == http.StatusConflict }))
	runs := must(b.planRuns(ctx))
	t.found = fmt.Sprintf("an answer for another plan got 409; with the stored plan changed the right answer got %d and %d steps of it ran: %s", code, runs, b.summary(ctx))
	if runs > 0 {
		return fmt.Errorf("%s: %.300s", t.found, said)
	}
	p.signal(syscall.SIGTERM)
	return p.wait()
}

// nothingDone looks for so long whether more is done to the service.
func (b *box) nothingDone(before int, length time.Duration) error {
	for begun := time.Now(); time.Since(begun) < length; <-time.After(100 * time.Millisecond) {
		if done := b.service.done(); len(done) > before {
			return fmt.Errorf("%s was done although it could not be approved, reserved or recorded", done[before].verb)
		}
	}
	return nil
}

// changePlan changes what was proposed, in the database.
func changePlan(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	r, err := db.ExecContext(ctx, `UPDATE approvals SET plan = REPLACE(plan, '"rebuild"', '"patch"')`)
	if err == nil {
		if n, _ := r.RowsAffected(); n != 1 {
			err = fmt.Errorf("%d plans were changed", n)
		}
	}
	return errors.Join(err, db.Close())
}

// planRuns counts the steps of plans that were run.
func (b *box) planRuns(ctx context.Context) (n int, err error) {
	s, err := b.database.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close() }() // it was read only
	runs, err := s.ActionRuns(ctx, store.ActionFilter{})
	if err != nil {
		return 0, err
	}
	for _, r := range runs {
		if r.ApprovalID != 0 && r.Status != ops.ActionRefused {
			n++
		}
	}
	return n, nil
}
