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

func scanDone(r db.Row, d *done) error {
	var up int64
	err := r.Scan(&d.service, &d.action, db.ToTime(&d.at.at), &d.at.boot, &up)
	d.at.up = time.Duration(up) * time.Microsecond
	return err
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
	return ops.Returning(out, err, "list cooldowns of %s", environment)
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
		left := allowed(ops.LimitsFor(limits, first.service, first.action), rows[:n], m)
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
		return s.insertEvent(ctx, tx, ops.Event{
			Environment: environment, Level: ops.LevelWarning, Verb: ops.VerbCooldownCleared, Actor: ops.Person(by), Reason: reason,
			Service: service, Detail: ops.ActionDetail{Action: action},
		}, at)
	})
	return ops.Returning(cleared, err, "clear cooldown of %s", service)
}

// actionTaken is a request to the Docker engine that belongs to an action which a command has reserved. It does not count again.
const actionTaken = "taken"

// docker reserves an action for a request to the Docker engine. The command that makes the request may have reserved the action
// at the hook: each reservation is good for one request per container. Otherwise the request reserves for itself.
func (p reserving) docker(ctx context.Context, w ops.Reservation) (reason string, err error) {
	rows, err := db.List(ctx, p.tx, db.ScanInt, `SELECT a.id FROM cooldown_actions a
		WHERE a.session_id = ? AND a.half = ? AND a.status IN (?, ?, ?, ?, ?) AND a.tool_use_id NOT LIKE 'docker:%'
		AND a.tool_use_id NOT LIKE 'action:%'
		AND ((a.service = ? AND a.action = ?) OR a.service = ?)
		AND NOT EXISTS (SELECT 1 FROM cooldown_actions t
			WHERE t.covered_by = a.id AND t.status = ? AND t.tool_use_id = ?)
		ORDER BY a.id LIMIT 1`,
		p.record.SessionID, w.Phase, actionReserved, actionUsed, actionOpen, actionClosed, actionCovered,
		w.Service, w.Action, wholeProject(w.Project), actionTaken, p.record.ToolUseID)
	if err != nil {
		return "", err
	}
	if len(rows) > 0 {
		_, err = p.insert(ctx, w, actionTaken, rows[0])
		return "", err
	}
	if w.Phase == ops.PhaseClose {
		if covered, err := p.cover(ctx, w); covered || err != nil {
			return "", err
		}
	}
	if reason, err := p.refusal(ctx, w); reason != "" || err != nil {
		return reason, err
	}
	status := actionUsed
	if w.Phase == ops.PhaseOpen {
		status = actionOpen
	}
	_, err = p.insert(ctx, w, status, 0)
	return "", err
}

// The statuses of an action.
const (
	actionReserved = "reserved"
	actionUsed     = "used"     // its command passed the shell gate
	actionOpen     = "open"     // taken down, not yet brought up again
	actionClosed   = "closed"   // taken down and brought up again
	actionCovered  = "covered"  // brought up again, as part of a redeployment that counts already
	actionReleased = "released" // it never started
)

const actionRedeployment = "redeployment"

// reserving handles the actions that one judgement wants.
type reserving struct {
	tx          db.Querier
	environment string
	record      ops.GuardRecord
	limits      []ops.CooldownLimit
	now         moment
	taken       map[int64]bool // rows that belong to one of the wanted actions already
}

// rule names the rule of a refusal at this gate.
func (p reserving) rule() string {
	if p.record.Gate == ops.GateShell {
		return ruleUnreserved
	}
	return ruleCooldown
}

// all reserves every wanted action, or at the shell gate uses its reservation. If one is refused, none is reserved.
func (p reserving) all(ctx context.Context, want []ops.Reservation) (reason string, err error) {
	take := p.reserve
	switch p.record.Gate {
	case ops.GateHook:
	case ops.GateShell:
		take = p.use
	case ops.GateDocker:
		take = p.docker
	case ops.GateAction:
		take = p.act
	default:
		return "", fmt.Errorf("there is no gate %q", p.record.Gate)
	}
	if _, err := p.tx.ExecContext(ctx, `SAVEPOINT reservations`); err != nil {
		return "", err
	}
	for _, w := range want {
		if w.Service == "" || w.Action == "" {
			return "", fmt.Errorf("an action needs a name and a service, got %q on %q", w.Action, w.Service)
		}
		if w.Phase == ops.PhaseOpen {
			w.Action = actionRedeployment
		}
		reason, err = take(ctx, w)
		if err != nil {
			return "", err
		}
		if reason != "" {
			_, err = p.tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT reservations`)
			return reason, err
		}
	}
	_, err = p.tx.ExecContext(ctx, `RELEASE SAVEPOINT reservations`)
	return "", err
}

// reserve reserves one action, unless it is reserved already.
func (p reserving) reserve(ctx context.Context, w ops.Reservation) (reason string, err error) {
	if again, err := p.repeated(ctx, w); again || err != nil {
		return "", err
	}
	switch w.Phase {
	case ops.PhaseClose:
		if covered, err := p.cover(ctx, w); covered || err != nil {
			return "", err
		}
	case ops.PhaseOpen, ops.PhaseNone:
	}
	if reason, err := p.refusal(ctx, w); reason != "" || err != nil {
		return reason, err
	}
	status := actionReserved
	if w.Phase == ops.PhaseOpen {
		status = actionOpen
	}
	_, err = p.insert(ctx, w, status, 0)
	return "", err
}

// repeated finds the reservation of an earlier question about the same tool call.
func (p reserving) repeated(ctx context.Context, w ops.Reservation) (bool, error) {
	if p.record.ToolUseID == "" {
		return false, nil
	}
	rows, err := db.List(ctx, p.tx, db.ScanInt, `SELECT id FROM cooldown_actions
		WHERE session_id = ? AND service = ? AND action = ? AND half = ? AND tool_use_id = ? AND status <> ? ORDER BY id`,
		p.record.SessionID, w.Service, w.Action, w.Phase, p.record.ToolUseID, actionReleased)
	if err != nil {
		return false, err
	}
	for _, id := range rows {
		if !p.taken[id] {
			p.taken[id] = true
			return true, nil
		}
	}
	return false, nil
}

// refusal is the reason to refuse an action, empty if a limit leaves one.
func (p reserving) refusal(ctx context.Context, w ops.Reservation) (string, error) {
	limits := ops.LimitsFor(p.limits, w.Service, w.Action)
	if len(limits) == 0 {
		return "", nil
	}
	done, err := db.List(ctx, p.tx, scanDone, selectDone+` AND service = ? AND action = ?`,
		append(doneArgs(p.environment, p.now, limits), w.Service, w.Action)...)
	if err != nil {
		return "", err
	}
	left := allowed(limits, done, p.now)
	switch {
	case left.count > 0:
		return "", nil
	case left.never:
		return fmt.Sprintf("No %s of %s is permitted.", w.Action, w.Service), nil
	default:
		return fmt.Sprintf("The cooldown of %s permits the next %s at %s.",
			w.Service, w.Action, roundUp(p.now.at.Add(left.wait)).Format(time.RFC3339)), nil
	}
}

// roundUp is t rounded up to a whole second.
func roundUp(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

func (p reserving) insert(ctx context.Context, w ops.Reservation, status string, coveredBy int64) (id int64, err error) {
	err = p.tx.QueryRowContext(ctx, `INSERT INTO cooldown_actions (environment, service, project, action, half, cycle_id, session_id,
		tool_use_id, status, counts, covered_by, reserved_at, boot, uptime_us)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		p.environment, w.Service, w.Project, w.Action, w.Phase, p.record.CycleID, p.record.SessionID,
		p.record.ToolUseID, status, status != actionCovered && status != actionTaken, db.OrNull(coveredBy), db.Time(p.now.at), p.now.boot,
		p.now.up.Microseconds()).Scan(&id)
	p.taken[id] = true
	return id, err
}

// use marks the reservation that the hook made for an action; the shell gate makes none of its own.
func (p reserving) use(ctx context.Context, w ops.Reservation) (reason string, err error) {
	rows, err := db.List(ctx, p.tx, db.ScanInt, `SELECT id FROM cooldown_actions
		WHERE session_id = ? AND service = ? AND action = ? AND half = ? AND used_at IS NULL AND status IN (?, ?, ?, ?)
		ORDER BY CASE WHEN tool_use_id = ? THEN 0 ELSE 1 END, id LIMIT 1`,
		p.record.SessionID, w.Service, w.Action, w.Phase, actionReserved, actionOpen, actionClosed, actionCovered,
		p.record.ToolUseID)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return fmt.Sprintf("No %s of %s is reserved for this command, so it may not run.", w.Action, w.Service), nil
	}
	// Redeployments keep their status, which says whether the service is still down.
	_, err = p.tx.ExecContext(ctx, `UPDATE cooldown_actions SET used_at = ?, status = CASE WHEN status = ? THEN ? ELSE status END
		WHERE id = ?`, db.Time(p.now.at), actionReserved, actionUsed, rows[0])
	return "", err
}

// wholeProject is the name under which an action on every service of a compose project is reserved.
func wholeProject(project string) string { return "compose:" + project }

// takenDown is a redeployment that has taken a service down.
type takenDown struct {
	id      int64
	service string
	project string
	open    bool
}

func scanTakenDown(r db.Row, h *takenDown) error {
	var status string
	err := r.Scan(&h.id, &h.service, &h.project, &status)
	h.open = status == actionOpen
	return err
}

// cover finds the redeployments of this cycle that an action completes, closes them and records the action as covered by them. A
// later session must be able to bring up what an earlier one left down.
func (p reserving) cover(ctx context.Context, w ops.Reservation) (bool, error) {
	halves, err := db.List(ctx, p.tx, scanTakenDown, `SELECT id, service, project, status FROM cooldown_actions
		WHERE cycle_id = ? AND half = ? AND status IN (?, ?) ORDER BY id`,
		p.record.CycleID, ops.PhaseOpen, actionOpen, actionClosed)
	if err != nil {
		return false, err
	}
	var closes []int64
	for _, h := range halves {
		completes, err := p.completes(ctx, w, h)
		if err != nil {
			return false, err
		}
		if completes {
			closes = append(closes, h.id)
		}
	}
	if len(closes) == 0 {
		return false, nil
	}
	id, err := p.insert(ctx, w, actionCovered, closes[0])
	if err != nil {
		return false, err
	}
	for _, h := range closes {
		_, err := p.tx.ExecContext(ctx, `UPDATE cooldown_actions SET status = ?, closed_by = ? WHERE id = ? AND status = ?`,
			actionClosed, id, h, actionOpen)
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// completes reports whether bringing w up belongs to taking h down.
func (p reserving) completes(ctx context.Context, w ops.Reservation, h takenDown) (bool, error) {
	switch {
	case h.service == w.Service:
		return h.open, nil
	case w.Project == "":
		return false, nil
	case w.Service == wholeProject(w.Project):
		return h.open && h.project == w.Project, nil
	case h.service != wholeProject(w.Project):
		return false, nil
	}
	// A project that was taken down as a whole may be brought up one service at a time, each once.
	back, err := db.One(ctx, p.tx, db.ScanInt, `SELECT COUNT(*) FROM cooldown_actions
		WHERE covered_by = ? AND status = ? AND service IN (?, ?)`,
		h.id, actionCovered, w.Service, h.service)
	return back == 0, err
}

// ServicesLeftDown returns the services that a session has taken down and not brought up again.
func (s *Acts) ServicesLeftDown(ctx context.Context, session ops.SessionID) ([]string, error) {
	out, err := db.List(ctx, s.db.Reader(), db.ScanString, `SELECT DISTINCT service FROM cooldown_actions
		WHERE session_id = ? AND status = ? ORDER BY service`, session, actionOpen)
	return ops.Returning(out, err, "list what session %d left down", session)
}

// releaseActions gives back what a tool call reserved that the shell refused: it never started.
func releaseActions(ctx context.Context, tx db.Querier, refused ops.GuardRecord) error {
	// The services that the call would have brought up are still down.
	_, err := tx.ExecContext(ctx, `UPDATE cooldown_actions SET status = ? WHERE session_id = ? AND status = ? AND closed_by IN (
		SELECT id FROM cooldown_actions WHERE session_id = ? AND tool_use_id = ? AND status = ? AND used_at IS NULL)`,
		actionOpen, refused.SessionID, actionClosed, refused.SessionID, refused.ToolUseID, actionCovered)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE cooldown_actions SET status = ?, counts = FALSE
		WHERE session_id = ? AND tool_use_id = ? AND used_at IS NULL AND status IN (?, ?, ?, ?)`,
		actionReleased, refused.SessionID, refused.ToolUseID, actionReserved, actionOpen, actionClosed, actionCovered)
	return err
}

// Uptime returns how long the machine has been up, sleep included, and the name of the boot from which it counts. It cannot be
// set, so it measures cooldowns when the time of day jumps. An empty name means that only the time of day is known.
type Uptime func() (boot string, up time.Duration)

// moment is a point in time, by the time of day and by the uptime.
type moment struct {
	at   time.Time
	boot string
	up   time.Duration
}

// moment is the current moment, with the time of day as the caller gives it and the precision of stored times.
func (s *kernel) moment(at time.Time) moment {
	boot, up := s.uptime()
	return moment{at: s.orNow(at).UTC().Truncate(time.Microsecond), boot: boot, up: up.Truncate(time.Microsecond)}
}

// since is the time from then to m. Within one boot only the uptime counts. A time in the future counts as now.
func (m moment) since(then moment) time.Duration {
	if m.boot != "" && m.boot == then.boot {
		return max(0, m.up-then.up)
	}
	return max(0, m.at.Sub(then.at))
}
