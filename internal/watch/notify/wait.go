package notify

import (
	"context"
	"errors"
	"fmt"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// errAnswered means that the second person need not be told.
var errAnswered = errors.New("somebody answered before")

// ruleOf is the route of a notice; the zero value has no rules.
func (o *Outbox) ruleOf(n ops.Notice) ops.NoticeRoute {
	if o.rule == nil {
		return ops.NoticeRoute{}
	}
	r, _ := o.rule(n)
	return r
}

// ready returns the notices that are sent now. Those that wait for the end of quiet hours or for a digest become due then; a notice for a
// second person is skipped if somebody has answered.
func (o *Outbox) ready(ctx context.Context, due []ops.Notice) ([]ops.Notice, error) {
	var out []ops.Notice
	now := o.clock()
	for _, n := range due {
		if at := notice.SendAt(o.ruleOf(n), n, now); at.After(now) {
			n.NextAt = at
			if err := o.store.SettleNotice(ctx, n, nil); err != nil && !errors.Is(err, ops.ErrConflict) {
				return nil, fmt.Errorf("postpone notice: %w", err)
			}
			continue
		}
		needed, err := o.needed(ctx, n)
		switch {
		case err != nil:
			return nil, err
		case needed:
			out = append(out, n)
		default:
			if err := o.settle(ctx, n, errAnswered); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// needed reports whether a notice still has to be sent.
func (o *Outbox) needed(ctx context.Context, n ops.Notice) (bool, error) {
	if _, escalated := n.Target.Escalation(); !escalated || o.unanswered == nil {
		return true, nil
	}
	needed, err := o.unanswered(ctx, n)
	if err != nil {
		return false, fmt.Errorf("check answers: %w", err)
	}
	return needed, nil
}

// escalateLater adds the notices for the second person before the first is told, so that a crash between the two loses neither.
func (o *Outbox) escalateLater(ctx context.Context, batch []ops.Notice) error {
	if o.escalate == nil {
		return nil
	}
	for _, n := range batch {
		rule := o.ruleOf(n)
		if rule.EscalateAfter <= 0 || len(rule.EscalateURLs) == 0 || !notice.AsksForAnswer(n) {
			continue
		}
		if err := o.escalate(ctx, notice.Escalated(rule, n, o.clock())); err != nil {
			return fmt.Errorf("add notice for the second person: %w", err)
		}
	}
	return nil
}
