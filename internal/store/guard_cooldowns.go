package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// done is an action that counts against a limit.
type done struct {
	service string
	action  string
	at      moment
}

// selectDone finds actions that may lie inside a window: by the time of day, or by the uptime, whatever the time of day was. What
// people asked for counts with what agents did.
const selectDone = `SELECT service, action, reserved_at, boot, uptime_us FROM (
		SELECT environment, service, action, reserved_at, boot, uptime_us FROM cooldown_actions WHERE counts
		UNION ALL SELECT environment, service, counts_as, requested_at, boot, uptime_us FROM action_runs WHERE counts) done
	WHERE environment = ? AND (reserved_at > ? OR boot = ?)`

func doneArgs(environment string, now moment, limits []ops.CooldownLimit) []any {
	var longest time.Duration
	for _, l := range limits {
		longest = max(longest, l.Window)
	}
	return []any{environment, db.Time(now.at.Add(-longest)), now.boot}
}

func scanDone(r db.Row) (done, error) {
	var d done
	var up int64
	err := r.Scan(&d.service, &d.action, db.ToTime(&d.at.at), &d.at.boot, &up)
	d.at.up = time.Duration(up) * time.Microsecond
	return d, err
}

// limitsFor chooses the limits of an action on a service: the service's own, or else the general ones.
func limitsFor(limits []ops.CooldownLimit, service, action string) []ops.CooldownLimit {
	var own, general []ops.CooldownLimit
	for _, l := range limits {
		switch {
		case l.Action != action:
		case l.Service == "":
			general = append(general, l)
		case l.Service == service:
			own = append(own, l)
		}
	}
	if len(own) > 0 {
		return own
	}
	return general
}

// allowance is how often an action is still possible and, if it is not, how long until it is.
type allowance struct {
	count  int
	wait   time.Duration
	never  bool // not even after a wait
	within int  // how many actions lie within a window
}

// allowed computes what the limits leave after the actions done. Every limit must leave something.
func allowed(limits []ops.CooldownLimit, done []done, now moment) allowance {
	var out allowance
	for i, l := range limits {
		var rest []time.Duration // until each action leaves the window
		for _, d := range done {
			if age := now.since(d.at); age < l.Window {
				rest = append(rest, l.Window-age)
			}
		}
		out.within = max(out.within, len(rest))
		left := max(0, l.Count-len(rest))
		if i == 0 || left < out.count {
			out.count = left
		}
		switch {
		case l.Count <= 0:
			out.never = true
		case left == 0:
			slices.Sort(rest)
			out.wait = max(out.wait, rest[len(rest)-l.Count])
		}
	}
	return out
}

// Cooldowns returns, for every action done inside a window, how often it is still possible. Where none is left, Until is when the
// next one is possible, or zero if a limit permits none at all.
func (s *Acts) Cooldowns(ctx context.Context, environment string, limits []ops.CooldownLimit, now time.Time) ([]ops.Cooldown, error) {
	out, err := cooldowns(ctx, s.db.Reader(), environment, limits, s.moment(now))
	if err != nil {
		return nil, fmt.Errorf("list cooldowns of %s: %w", environment, err)
	}
	return out, nil
}

func cooldowns(ctx context.Context, q db.Querier, environment string, limits []ops.CooldownLimit, m moment) ([]ops.Cooldown, error) {
	rows, err := db.List(ctx, q, scanDone, selectDone+` ORDER BY service, action`, doneArgs(environment, m, limits)...)
	if err != nil {
		return nil, err
	}
	var out []ops.Cooldown
	for len(rows) > 0 {
		first := rows[0]
		n := slices.IndexFunc(rows, func(d done) bool { return d.service != first.service || d.action != first.action })
		if n < 0 {
			n = len(rows)
		}
		left := allowed(limitsFor(limits, first.service, first.action), rows[:n], m)
		rows = rows[n:]
		if left.within == 0 {
			continue
		}
		c := ops.Cooldown{Service: first.service, Action: first.action, Left: left.count}
		if left.count == 0 && !left.never {
			c.Until = m.at.Add(left.wait)
		}
		out = append(out, c)
	}
	return out, nil
}

// ClearCooldown makes the past actions on a service no longer count, and records who asked for that and why. An empty action
// means every action. It needs no owner: a person may do it next to a running daemon.
func (s *Acts) ClearCooldown(ctx context.Context, environment, service, action, reason, by string, at time.Time) (cleared int, err error) {
	err = s.db.Write(ctx, "clear_cooldown", func(tx db.Querier) error {
		at := s.orNow(at)
		// The status stays: a running action may go on, and a service that is down may be brought up.
		r, err := tx.ExecContext(ctx, `UPDATE cooldown_actions SET counts = FALSE, cleared_at = ?
			WHERE environment = ? AND service = ? AND (action = ? OR ? = '') AND counts`,
			db.Time(at), environment, service, action, action)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return err
		}
		asked, err := db.Affected(ctx, tx, `UPDATE action_runs SET counts = FALSE WHERE environment = ? AND service = ?
			AND (counts_as = ? OR ? = '') AND counts`, environment, service, action, action)
		if err != nil {
			return err
		}
		if n += asked; n == 0 {
			return ops.ErrNotFound
		}
		cleared = int(n)
		what := action
		if what == "" {
			what = "every action"
		}
		err = insertEvent(ctx, tx, ops.Event{
			Environment: environment, Level: ops.LevelWarning, Kind: "cooldown_cleared", Service: service,
			Message: fmt.Sprintf("%s cleared the cooldown of %s for %s: %s", by, service, what, reason),
		}, at)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("clear cooldown of %s: %w", service, err)
	}
	return cleared, nil
}
