package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Acknowledge records that somebody works on an incident.
func (d *Desk) Acknowledge(ctx context.Context, by Person, id int64, reason string) (ops.Incident, error) {
	if err := text("reason", &reason, MaxReason); err != nil {
		return ops.Incident{}, err
	}
	return d.answered(d.answers(by).Acknowledge(ctx, id, by.String(), reason, d.Clock()))
}

// Snooze mutes an incident for a time.
func (d *Desk) Snooze(ctx context.Context, by Person, id int64, end End, reason string) (ops.Incident, error) {
	now := d.Clock()
	until, err := end.after(now, now)
	if err == nil {
		err = text("reason", &reason, MaxReason)
	}
	if err != nil {
		return ops.Incident{}, err
	}
	return d.answered(d.answers(by).Snooze(ctx, id, by.String(), until, reason, now))
}

// Resolve closes an incident.
func (d *Desk) Resolve(ctx context.Context, by Person, id int64, reason string) (ops.Incident, error) {
	if err := text("reason", &reason, MaxReason); err != nil {
		return ops.Incident{}, err
	}
	return d.answered(d.answers(by).ResolveIncident(ctx, id, by.String(), reason, d.Clock()))
}

// answered wakes the cycle that waits for an incident.
func (d *Desk) answered(i ops.Incident, err error) (ops.Incident, error) {
	if err == nil && i.Waiting != nil {
		d.Control.Wake(*i.Waiting)
	}
	return i, err
}

// Steps is what somebody approves of a plan: nothing without the hash of the plan that was seen, all of it without numbers.
type Steps struct {
	Plan    string // the hash
	Numbers []int  // counted from 1
}

// Approve lets a cycle go on with what it asked for.
func (d *Desk) Approve(ctx context.Context, by Person, id int64, steps Steps, reason string) (ops.Approval, error) {
	if err := text("reason", &reason, MaxReason); err != nil {
		return ops.Approval{}, err
	}
	a, err := d.Store.People.Approval(ctx, id)
	if err == nil {
		err = d.goesOn(ctx, a)
	}
	if err != nil {
		return ops.Approval{}, err
	}
	if steps.Plan == "" {
		a, err = d.answers(by).Answer(ctx, id, ops.ApprovalApproved, by.String(), reason, d.Clock())
	} else {
		var chosen []int
		if chosen, err = steps.of(a); err == nil {
			a, err = d.answers(by).AnswerPlan(ctx, id, steps.Plan, chosen, by.String(), reason, d.Clock())
		}
	}
	return d.decided(a, err)
}

// goesOn refuses a yes that nobody would go on with, because what it is about was taken out of the configuration since it was asked.
func (d *Desk) goesOn(ctx context.Context, a ops.Approval) error {
	e, err := d.configured(a.Environment)
	if err == nil {
		err = d.working(ctx)
	}
	if err != nil {
		return err
	}
	c, err := d.Store.Journal.Cycle(ctx, a.CycleID)
	if err != nil {
		return err
	}
	_, was := c.Policy.Handler(a.Handler)
	if _, is := e.Policy.Handler(a.Handler); was && !is {
		return ops.Removed("the handler %q", a.Handler)
	}
	left := slices.ContainsFunc(a.Facts, func(f ops.Fact) bool {
		_, was := c.Policy.Inventory.Canonical(f.Service)
		_, is := e.Policy.Inventory.Canonical(f.Service)
		return is || !was
	})
	if len(a.Facts) > 0 && !left {
		return ops.Removed("%s", a.Facts[0].Service)
	}
	return nil
}

// of are the chosen steps of the plan of a question, in order.
func (s Steps) of(a ops.Approval) ([]int, error) {
	if len(a.Plan) == 0 {
		return nil, wrong("approval %d has no plan", a.ID)
	}
	if len(s.Numbers) == 0 {
		return a.AllSteps(), nil
	}
	chosen := slices.Clone(s.Numbers)
	slices.Sort(chosen)
	for i, n := range chosen {
		if n < 1 || n > len(a.Plan) || i > 0 && n == chosen[i-1] {
			return nil, wrong("the plan has the steps 1 to %d, each once; got %d", len(a.Plan), n)
		}
	}
	return chosen, nil
}

// Deny says no: for a time, for the usual one if lasts is nil, and to this question only if it is 0.
func (d *Desk) Deny(ctx context.Context, by Person, id int64, lasts *time.Duration, reason string) (ops.Approval, error) {
	if err := text("reason", &reason, MaxReason); err != nil {
		return ops.Approval{}, err
	}
	if lasts != nil && *lasts < 0 {
		return ops.Approval{}, wrong("a no lasts for a time, or 0 for this question only")
	}
	return d.decided(d.answers(by).Deny(ctx, id, lasts, by.String(), reason, d.Clock()))
}

// decided wakes the cycle that asked.
func (d *Desk) decided(a ops.Approval, err error) (ops.Approval, error) {
	if err != nil {
		return ops.Approval{}, err
	}
	d.Control.Wake(a.CycleID)
	return a, nil
}

// answers is where the answers of a person are written: together with the button that the person used, if there is one.
func (d *Desk) answers(by Person) *store.People {
	if by.reply == nil {
		return d.Store.People
	}
	return d.Store.People.Using(recorded(*by.reply))
}

// recorded is what is recorded of a reply: of the hash of a plan, its beginning.
func recorded(r answer.Reply) store.Reply {
	const shown = 12
	t := r.Token
	return store.Reply{
		Code: r.Code, Expires: t.Expires, Source: r.Source, By: r.By, Refused: r.Refused, Mark: r.Mark, Read: r.Read, Silent: r.Silent, At: r.At,
		Detail: ops.ReplyDetail{
			Channel: r.Channel, Decision: t.Decision, Kind: string(t.Subject.Kind), ID: t.Subject.ID, Plan: t.Plan[:min(len(t.Plan), shown)],
		},
	}
}

// Reply carries out an answer that was given with a button on a phone, or by a link. It fails only if the database does; then nothing
// was done, and the reply can be taken again.
func (d *Desk) Reply(ctx context.Context, r answer.Reply) (answer.Result, error) {
	r.At = d.Clock()
	text, err := "", error(nil)
	if r.Refused == "" {
		text, err = d.carryOut(ctx, Person{Name: r.By, reply: &r}, r)
	}
	conflict, late := errors.AsType[*ops.Conflict](err)
	out := answer.Result{Repeated: late && conflict.Kind == ops.ConflictRepeated}
	problem, wrong := Problem(err)
	switch {
	case out.Repeated:
	case late:
		r.Refused = conflict.Text
	case wrong:
		r.Refused = problem
	case errors.Is(err, ops.ErrNotFound):
		r.Refused = "it is no longer on record"
	case err != nil:
		return out, err
	}
	if out.Done = r.Refused == ""; !out.Done {
		text = "Nothing was changed: " + r.Refused + "."
	}
	if !out.Done || out.Repeated {
		err = d.Store.People.RefuseReply(ctx, recorded(r))
	}
	if !r.Silent {
		d.changed()
	}
	out.Text = text
	return out, err
}

// carryOut does what a token says, by the verbs of the pages and the API, and says what was done.
func (d *Desk) carryOut(ctx context.Context, by Person, r answer.Reply) (string, error) {
	t, id, why := r.Token, r.Token.Subject.ID, "by "+r.Channel
	if t.Subject.Kind == answer.KindApproval {
		if a, err := d.Store.People.Approval(ctx, id); err != nil {
			return "", err
		} else if a.PlanHash != t.Plan {
			return "", ops.PlanChanged()
		}
	}
	type said struct {
		of       answer.Kind
		decision string
	}
	switch (said{t.Subject.Kind, t.Decision}) {
	case said{answer.KindApproval, answer.Approve}:
		_, err := d.Approve(ctx, by, id, Steps{Plan: t.Plan}, why)
		return fmt.Sprintf("Approved (approval %d). The cycle continues.", id), err
	case said{answer.KindApproval, answer.Deny}:
		a, err := d.Deny(ctx, by, id, nil, why)
		return fmt.Sprintf("Denied (approval %d). %s", id, notice.NoLasts(a.Detail())), err
	case said{answer.KindReflex, answer.Approve}:
		e, err := d.SwitchReflex(ctx, by, id, ops.ReflexOn, why)
		return fmt.Sprintf("Reflex %d is on: the supervisor does %s without an agent from now on.", id, e.Words()), err
	case said{answer.KindReflex, answer.Deny}:
		_, err := d.SwitchReflex(ctx, by, id, ops.ReflexIsOff, why)
		return fmt.Sprintf("Reflex %d is off. Agents repair it, as before.", id), err
	case said{answer.KindIncident, answer.Acknowledge}:
		i, err := d.Acknowledge(ctx, by, id, why)
		return taken(i), err
	case said{answer.KindIncident, answer.Snooze}:
		i, err := d.Snooze(ctx, by, id, End{For: answer.SnoozeFor}, why)
		return taken(i), err
	case said{answer.KindCycle, answer.Acknowledge}, said{answer.KindCycle, answer.Snooze}:
		var until *time.Time
		if t.Decision == answer.Snooze {
			until = ops.Ptr(r.At.Add(answer.SnoozeFor))
		}
		all, err := d.answers(by).AnswerCycle(ctx, id, by.String(), until, why, r.At)
		for _, i := range all {
			_, _ = d.answered(i, nil)
		}
		return taken(all...), err
	}
	return "", ops.NewConflict(ops.ConflictState, "%q is not an answer to this %s", t.Decision, t.Subject.Kind)
}

// taken says which incidents somebody took care of.
func taken(all ...ops.Incident) string {
	var names []string
	did := "Acknowledged"
	for _, i := range all {
		names = append(names, fmt.Sprint(i.ID))
		if i.SnoozedUntil != nil {
			did = "Snoozed until " + i.SnoozedUntil.UTC().Format("2006-01-02 15:04 UTC")
		}
	}
	return fmt.Sprintf("%s (incident %s).", did, ops.Listed(names))
}
