package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

// people is a store of one approval and one incident.
type people struct {
	approval ops.Approval
	incident ops.Incident
	notices  []ops.Notice
	earned   bool
}

func (p *people) ExpiringApprovals(_ context.Context, now time.Time) ([]ops.Approval, error) {
	if p.approval.Status == ops.ApprovalPending && p.approval.ExpiresAt != nil && !p.approval.ExpiresAt.After(now) {
		return []ops.Approval{p.approval}, nil
	}
	return nil, nil
}

func (p *people) Answer(_ context.Context, _ int64, status ops.ApprovalStatus, by, _ string, _ time.Time) (ops.Approval, error) {
	if p.approval.Status != ops.ApprovalPending {
		return p.approval, fmt.Errorf("answered by %s: %w", p.approval.AnsweredBy, ops.ErrConflict)
	}
	p.approval.Status, p.approval.AnsweredBy = status, by
	return p.approval, nil
}

func (p *people) DueReminders(_ context.Context, now time.Time, _ int) ([]ops.Incident, error) {
	if p.incident.RemindAt != nil && !p.incident.RemindAt.After(now) {
		return []ops.Incident{p.incident}, nil
	}
	return nil, nil
}

func (p *people) Reminded(_ context.Context, _ int64, next *time.Time, n ops.Notice) error {
	p.incident.Reminders++
	p.incident.RemindAt = next
	p.notices = append(p.notices, n)
	return nil
}

func (p *people) AskForReflexes(context.Context, time.Time) (bool, error) {
	asks := p.earned
	p.earned = false
	return asks, nil
}

func keeper(p *people, answered *int) *Keeper {
	return &Keeper{
		People: p, Policy: func(string) ops.ApprovalPolicy { return ops.ApprovalPolicy{Remind: time.Hour, Reminds: 2} },
		Answered: func(ops.CycleID) { *answered++ }, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	}
}

func TestAQuestionExpiresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Minute)
		p := &people{approval: ops.Approval{ID: 1, Status: ops.ApprovalPending, ExpiresAt: &at}}
		answered := 0
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		keeper(p, &answered).Run(ctx)
		if p.approval.Status != ops.ApprovalExpired || p.approval.AnsweredBy != "claudeops" || answered != 1 {
			t.Errorf("the approval is %+v, told %d times", p.approval, answered)
		}
	})
}

func TestAReminderWakesTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Hour)
		p := &people{incident: ops.Incident{ID: 7, Title: "web is down", RemindAt: &at, OpenedAt: time.Now()}}
		answered, woken := 0, []int{}
		k := keeper(p, &answered)
		k.Changed = func() { woken = append(woken, len(p.notices)) }
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		k.Run(ctx)
		if fmt.Sprint(woken) != "[1 2 3]" {
			t.Errorf("the sender was woken after %v notices", woken)
		}
	})
}

func TestAQuestionAboutAReflexWakesTheSender(t *testing.T) {
	answered, woken := 0, 0
	k := keeper(&people{earned: true}, &answered)
	k.Changed = func() { woken++ }
	for range 2 {
		if err := k.Look(t.Context()); err != nil || woken != 1 {
			t.Errorf("woken %d times, %v", woken, err)
		}
	}
}

func TestRemindersEndWithTheSecondTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Hour)
		p := &people{incident: ops.Incident{ID: 7, Title: "web is down", RemindAt: &at, OpenedAt: time.Now()}}
		answered := 0
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		keeper(p, &answered).Run(ctx)
		if len(p.notices) != 3 {
			t.Fatalf("%d notices in a day, want two reminders and one to the second target", len(p.notices))
		}
		for i, want := range []ops.NoticeTarget{ops.TargetFirst, ops.TargetFirst, ops.TargetSecond} {
			if p.notices[i].Target != want {
				t.Errorf("notice %d goes to %q", i, p.notices[i].Target)
			}
		}
	})
}
