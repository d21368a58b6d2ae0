package store

import (
	"context"
	"slices"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// HeldBack returns what agents leave alone in an environment at a time, and why: silences, maintenance, incidents that a person has taken
// over, put off or is asked about, and services that flap or depend on a failing one.
func (s *Store) HeldBack(ctx context.Context, e ops.Environment, at time.Time) ([]ops.Withheld, error) {
	var out []ops.Withheld
	silences, err := s.SilencesSince(ctx, e.Name, at)
	if err != nil {
		return nil, err
	}
	for _, q := range silences {
		if q.Active(at) {
			why := notice.HeldBySilence(describeSilence(q), q)
			out = append(out, ops.Withheld{Service: q.Service, Why: ops.HoldSilenced, Until: q.Until, Reason: why})
		}
	}
	for _, w := range windowsOf(e.Watch) {
		if until, open := w.Active(at); open {
			out = append(out, ops.Withheld{
				Service: w.Service, Why: ops.HoldMaintenance, Until: until, Reason: notice.HeldByMaintenance(w.Maintenance, until),
			})
		}
	}
	incidents, err := s.Unresolved(ctx, e.Name)
	if err != nil {
		return nil, err
	}
	for _, i := range incidents {
		h := ops.Withheld{Service: i.Service, Why: ops.HoldPerson}
		switch {
		case i.Status == ops.IncidentSnoozed && i.Holds(at):
			h.Reason, h.Until = notice.Snoozed(i), *i.SnoozedUntil
		case i.Holds(at):
			h.Reason = notice.Acknowledged(i)
		case i.Waiting != nil:
			h.Reason = notice.AwaitsHuman(i)
		default:
			continue
		}
		h.Reason = notice.HeldService(i.Service, h.Reason)
		out = append(out, h)
	}
	denials, err := s.Denials(ctx, e.Name, at)
	if err != nil {
		return nil, err
	}
	for _, a := range denials {
		for n, f := range a.Facts { // they are in order
			if n == 0 || f.Service != a.Facts[n-1].Service {
				why := notice.HeldService(f.Service, notice.SaidNo(a))
				out = append(out, ops.Withheld{Service: f.Service, Why: ops.HoldPerson, Until: *a.DeniedUntil, Reason: why})
			}
		}
	}
	withheld, err := s.Withheld(ctx, e.Name)
	if err != nil {
		return nil, err
	}
	return append(out, slices.DeleteFunc(withheld, func(w ops.Withheld) bool {
		return w.Why != ops.HoldFlapping && w.Why != ops.HoldDependency
	})...), nil
}
