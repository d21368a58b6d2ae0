package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

// Brief is what a session is told and given, computed from the journal alone. The effects turn it into prompts and limits.
type Brief struct {
	v       view
	session ops.Session
}

// BriefFor looks at a cycle for one of its sessions at a time.
func BriefFor(w Words, now ops.Claimed, s ops.Session, at time.Time) Brief {
	return Brief{session: s, v: newView(w, now, at)}
}

// Services are what the chain is about.
func (b Brief) Services() []string { return b.v.services() }

// Free are the services of the chain that the session may change now.
func (b Brief) Free() []string { return ops.Free(b.v.services(), b.v.holds, b.repairs()) }

// Held are the services that the session may not change now, with the reason.
func (b Brief) Held() map[string]string {
	out := map[string]string{}
	for _, h := range b.v.holds {
		if out[h.Service] == "" && b.repairs() >= h.From {
			out[h.Service] = h.Why
		}
	}
	return out
}

// repairs is the tier at which the session changes something.
func (b Brief) repairs() ops.Tier { return max(ops.Tier2, b.session.May()) }

// Budget is what the session asks for: what its handler may spend, and what the cycle has left.
func (b Brief) Budget() ops.BudgetAsk {
	p := b.v.policy
	handler, _ := p.Handler(b.session.Handler)
	ask := ops.BudgetAsk{Want: handler.BudgetUSD, DayLimit: p.BudgetDayUSD}
	if p.BudgetChainUSD > 0 {
		left := p.BudgetChainUSD - b.v.chainUSD()
		if left <= 0 {
			left = -1 // spent, and not without limit
		}
		if ask.Want == 0 || left < ask.Want {
			ask.Want = left
		}
	}
	return ask
}

// Deadline is when the time of the session's recovery level is over; zero without one.
func (b Brief) Deadline() time.Time {
	if r := b.v.ordered(b.session); r != nil && r.Deadline != nil && b.session.Works() {
		return *r.Deadline
	}
	return time.Time{}
}

// Handoff is what the session's parent handed up, or what our probes say of a repair that did not hold.
func (b Brief) Handoff() (ops.Handoff, error) {
	parent := b.v.journal.Parent(b.session)
	if parent == nil {
		return ops.Handoff{}, fmt.Errorf("read parent of session %d: %w", b.session.ID, ops.ErrNotFound)
	}
	p := b.v.handedUp(*parent)
	h := p.Handoff
	if h == nil && len(p.Problems) == 0 {
		h = b.v.proof().claimHandoff(*parent)
	}
	if h == nil {
		return ops.Handoff{}, fmt.Errorf("read handoff of session %d: %w", parent.ID, errors.New(strings.Join(p.Problems, "; ")))
	}
	out := *h
	if out.Confidence == nil && p.Handoff != nil {
		out.Confidence = parent.Confidence() // of the outcome that holds the handoff
	}
	if !b.v.task.Open {
		out.ServicesAffected = b.v.task.Services
	}
	return out, nil
}

// EarlierChecks are what the tiers before the parent measured; Tier 2 need not copy it to pass it on.
func (b Brief) EarlierChecks() []ops.CheckResult {
	var out []ops.CheckResult
	parent := b.v.journal.Parent(b.session)
	for parent != nil {
		if parent = b.v.journal.Parent(*parent); parent == nil {
			break
		}
		if h := proposed(*parent); h != nil {
			out = append(out, h.CheckResults...)
		}
	}
	return out
}

// Unseen are the services that no agent may look at.
func (b Brief) Unseen() []ops.Hold {
	return slices.DeleteFunc(b.v.holder().distrusted(), func(h ops.Hold) bool { return h.From > ops.Tier1 })
}

// LeaveAlone are the services that this cycle found in trouble and that are held back, with the reason. A resumed conversation still
// mentions them, and so do the results of probes.
func (b Brief) LeaveAlone() []ops.Hold {
	var out []ops.Hold
	for _, name := range b.v.found() {
		if h := ops.Holder(b.v.holds, name, b.session.May()); h != nil {
			out = append(out, *h)
		}
	}
	return out
}

// Attempt is what a session that repeats another is told of it. A nudge replaces the prompt; the other texts follow it under
// the title. Example is a valid answer in the form the session has to give it.
func (b Brief) Attempt(example string) (title, text string, err error) {
	s := b.session
	if s.RecoveryLevel <= ops.RecoveryRetry || s.RetryOf == nil {
		return "", "", nil // a retry is the same call again
	}
	before := b.v.journal.Session(*s.RetryOf)
	if before == nil {
		return "", "", fmt.Errorf("read session %d: %w", *s.RetryOf, ops.ErrNotFound)
	}
	report := b.v.ladder().failureReport(*before)
	report.Example = example
	switch s.RecoveryLevel {
	case ops.RecoveryNudge:
		variant := 1
		if r := b.v.ordered(s); r != nil {
			variant = r.Variant
		}
		return "", recovery.NudgePrompt(report, variant), nil
	case ops.RecoveryReplan:
		if planner := b.v.answerAbout(*before, ops.RolePlanner); planner != nil {
			report.Plan = string(planner.OutcomeJSON)
		}
		return "Another approach is needed", recovery.ReplanPrompt(report), nil
	case ops.RecoveryFallback:
		return "You take over", recovery.FallbackPrompt(report), nil
	case ops.RecoveryNone, ops.RecoveryRetry, ops.RecoveryForceDone:
	}
	return "", "", nil
}

// Question is what a manager, a planner or a judge is asked, and the schema of the answer. Calls are what the session in question
// did.
func (b Brief) Question(calls []ops.Call) (prompt, schema string, err error) {
	about := b.v.journal.Parent(b.session)
	if about == nil {
		return "", "", fmt.Errorf("find what session %d is asked about: %w", b.session.ID, ops.ErrNotFound)
	}
	v := b.v
	v.last = about
	switch b.session.Role {
	case ops.RoleManager:
		prompt, schema = v.consults().managerQuestion()
	case ops.RolePlanner:
		prompt, schema = recovery.PlanPrompt(v.ladder().failureReport(*about), v.consults().goal()), planSchema
	case ops.RoleJudge:
		prompt, schema = v.consults().judgeQuestion(calls)
	case ops.RoleWork:
		return "", "", fmt.Errorf("session %d does not answer a question", b.session.ID)
	}
	return prompt, schema, nil
}
