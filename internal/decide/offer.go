package decide

import (
	"errors"
	"time"

	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

// offer is what another attempt could be.
func (v view) offer() recovery.Offer {
	handler, _ := v.policy.Handler(v.last.Handler)
	o := recovery.Offer{
		CanResume: v.last.CLISessionID != "" && !v.onAnotherHost(v.last) &&
			v.contextUse() <= int64(v.policy.ContextThreshold*float64(v.window(v.last.Model))),
		EarlierTime: v.earlierRecovery(),
		Planner:     v.policy.Planner, Fallbacks: v.fallbacks(handler), Seed: recovery.Seed(int64(v.cycle.ID), v.last.Attempt),
	}
	for _, r := range v.journal.Recoveries {
		for _, s := range v.journal.Sessions {
			if s.RetryOf != nil && *s.RetryOf == r.SessionID && s.CostUSD != nil {
				o.SpentUSD += *s.CostUSD
			}
		}
	}
	return o
}

// earlierRecovery is how long earlier tiers of this cycle took to recover.
func (v view) earlierRecovery() time.Duration {
	var sum time.Duration
	for tier := ops.Tier1; tier < v.last.Tier; tier++ {
		var began time.Time
		for _, r := range v.journal.Recoveries {
			if r.Tier == tier && began.IsZero() {
				began = r.EnteredAt
			}
		}
		var ended time.Time
		for _, s := range v.journal.Sessions {
			if s.Tier == tier && s.EndedAt != nil {
				ended = *s.EndedAt
			}
		}
		if !began.IsZero() && ended.After(began) {
			sum += ended.Sub(began)
		}
	}
	return sum
}

// fallbacks are who may stand in for a handler. Who stands in himself has those of the one he stands in for.
func (v view) fallbacks(handler ops.Handler) []string {
	for s := v.last; s != nil && len(handler.Fallback) == 0 && s.RetryOf != nil; {
		if s = v.journal.Session(*s.RetryOf); s != nil {
			handler, _ = v.policy.Handler(s.Handler)
		}
	}
	return handler.Fallback
}

// transitions are the recoveries of this cycle as the ladder reads them.
func (v view) transitions() []recovery.Transition {
	out := make([]recovery.Transition, 0, len(v.journal.Recoveries))
	for _, r := range v.journal.Recoveries {
		t := recovery.Transition{
			Session: int64(r.SessionID), Tier: int(r.Tier), Level: r.Level, Action: r.Action,
			ErrorType: r.ErrorType, EnteredAt: r.EnteredAt, Handler: r.Handler, Reason: r.Reason,
		}
		if r.NotBefore != nil {
			t.NotBefore = *r.NotBefore
		}
		if r.Deadline != nil {
			t.Deadline = *r.Deadline
		}
		out = append(out, t)
	}
	return out
}

// Ladder is the policy as package recovery reads it.
func Ladder(p ops.RecoveryPolicy) ([]recovery.Rule, recovery.Limits) {
	return rules(p.Rules), limits(p.Limits)
}

// CheckLadder says what is wrong with an operator's own rules and limits.
func CheckLadder(p ops.RecoveryPolicy) error {
	rules, limits := Ladder(p)
	return errors.Join(recovery.CheckRules(rules), limits.Check())
}

// limits are the operator's limits, and the defaults where nothing is said.
func limits(l ops.RecoveryLimits) recovery.Limits {
	out := recovery.Defaults()
	if l.Retries != 0 {
		out.Retries = max(l.Retries, 0)
	}
	if l.Nudges != 0 {
		out.Nudges = max(l.Nudges, 0)
	}
	if l.RetryTime > 0 {
		out.RetryTotal = l.RetryTime
	}
	if l.NudgeTime > 0 {
		out.NudgeTime = l.NudgeTime
	}
	if l.ReplanTime > 0 {
		out.ReplanTime = l.ReplanTime
	}
	if l.FallbackTime > 0 {
		out.FallbackTime = l.FallbackTime
	}
	if l.TotalTime > 0 {
		out.TotalTime = l.TotalTime
	}
	out.TotalUSD = l.TotalUSD
	return out
}

func rules(own []ops.RecoveryRule) []recovery.Rule {
	out := make([]recovery.Rule, 0, len(own))
	for _, r := range own {
		when := recovery.When{Failure: r.Failure, ExitCode: r.ExitCode, Contains: r.Contains, StopCause: string(r.StopCause)}
		if r.APIStatus != 0 {
			when.APIStatus = &r.APIStatus
		}
		out = append(out, recovery.Rule{ID: r.ID, When: when, Level: r.Level, ErrorType: r.ErrorType, Why: r.Why})
	}
	return out
}
