package desk

import (
	"context"
	"slices"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

// Acknowledge records that somebody works on an incident.
func (d *Desk) Acknowledge(ctx context.Context, by Person, id int64, reason string) (ops.Incident, error) {
	if err := text("reason", &reason, MaxReason); err != nil {
		return ops.Incident{}, err
	}
	return d.answered(d.Store.Acknowledge(ctx, id, by.String(), reason, d.Clock()))
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
	return d.answered(d.Store.Snooze(ctx, id, by.String(), until, reason, now))
}

// Resolve closes an incident.
func (d *Desk) Resolve(ctx context.Context, by Person, id int64, reason string) (ops.Incident, error) {
	if err := text("reason", &reason, MaxReason); err != nil {
		return ops.Incident{}, err
	}
	return d.answered(d.Store.ResolveIncident(ctx, id, by.String(), reason, d.Clock()))
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
	a, err := d.Store.Approval(ctx, id)
	if err == nil {
		err = d.configured(a.Environment) // nobody would go on with it
	}
	if err != nil {
		return ops.Approval{}, err
	}
	if steps.Plan == "" {
		a, err = d.Store.Answer(ctx, id, ops.ApprovalApproved, by.String(), reason, d.Clock())
	} else {
		var chosen []int
		if chosen, err = steps.of(a); err == nil {
			a, err = d.Store.AnswerPlan(ctx, id, steps.Plan, chosen, by.String(), reason, d.Clock())
		}
	}
	return d.decided(a, err)
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
	return d.decided(d.Store.Deny(ctx, id, lasts, by.String(), reason, d.Clock()))
}

// decided wakes the cycle that asked.
func (d *Desk) decided(a ops.Approval, err error) (ops.Approval, error) {
	if err != nil {
		return ops.Approval{}, err
	}
	d.Control.Wake(a.CycleID)
	return a, nil
}

// Reply carries out an answer that was given with a button on a phone, or by a link. It fails only if the database does; then nothing
// was done, and the reply can be taken again.
func (d *Desk) Reply(ctx context.Context, r answer.Reply) (answer.Result, error) {
	r, err := d.withDigests(ctx, r)
	if err != nil {
		return answer.Result{}, err
	}
	result, err := d.Store.TakeReply(ctx, r)
	if err != nil {
		return result, err
	}
	if result.Done && !result.Repeated {
		for _, id := range result.Cycles {
			d.Control.Wake(id)
		}
	}
	if !r.Silent {
		d.changed()
	}
	return result, nil
}
