package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const (
	// answerKey names the key with which the tokens of answers are signed.
	answerKey = "answer_key"
	// replyMark begins the names of how far the messages of a channel were read.
	replyMark = "reply_mark/"
	// usedFor is how long after its end a token is remembered as used.
	usedFor = 24 * time.Hour
)

// AnswerKey returns the key with which the tokens of answers are signed. The first call makes it.
func (s *People) AnswerKey(ctx context.Context) ([]byte, error) {
	text, err := stateOf(ctx, s.db.Reader(), answerKey)
	if errors.Is(err, ops.ErrNotFound) {
		text, err = s.makeAnswerKey(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read key of answers: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != answer.KeySize {
		return nil, errors.New("read key of answers: it is damaged")
	}
	return key, nil
}

// makeAnswerKey stores a new key, unless another process was faster, and returns the one that is stored.
func (s *People) makeAnswerKey(ctx context.Context) (text string, err error) {
	fresh := make([]byte, answer.KeySize)
	if _, err := rand.Read(fresh); err != nil {
		return "", err
	}
	err = s.db.Write(ctx, "answer_key", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO store_state (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`,
			answerKey, base64.StdEncoding.EncodeToString(fresh))
		if err != nil {
			return err
		}
		text, err = stateOf(ctx, tx, answerKey)
		return err
	})
	return text, err
}

func stateOf(ctx context.Context, q db.Querier, name string) (string, error) {
	return db.One(ctx, q, db.ScanString, `SELECT value FROM store_state WHERE name = ?`, name)
}

// KeepAnswerCodes stores tokens under their short names until they expire.
func (s *People) KeepAnswerCodes(ctx context.Context, tokens []string, expires time.Time) error {
	err := s.db.Write(ctx, "answer_code", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM answer_codes WHERE expires_at <= ?`, db.Time(s.clock().Add(-usedFor)))
		if err != nil {
			return err
		}
		for _, token := range tokens {
			_, err := tx.ExecContext(ctx, `INSERT INTO answer_codes (code, token, expires_at) VALUES (?, ?, ?) ON CONFLICT (code) DO NOTHING`,
				answer.Code(token), token, db.Time(expires))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep codes of answers: %w", err)
	}
	return nil
}

// AnswerToken returns the token with a short name. An unknown one is ops.ErrNotFound.
func (s *People) AnswerToken(ctx context.Context, code string) (string, error) {
	token, err := db.One(ctx, s.db.Reader(), db.ScanString, `SELECT token FROM answer_codes WHERE code = ?`, code)
	if err != nil {
		return "", fmt.Errorf("read code of an answer: %w", err)
	}
	return token, nil
}

// ReplyMark returns how far the messages of a channel were read; empty if none were.
func (s *People) ReplyMark(ctx context.Context, channel string) (string, error) {
	mark, err := stateOf(ctx, s.db.Reader(), replyMark+channel)
	if errors.Is(err, ops.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read mark of replies: %w", err)
	}
	return mark, nil
}

// NoticeSubject returns what a person can still answer about a notice.
func (s *People) NoticeSubject(ctx context.Context, n ops.Notice) (ops.NoticeSubject, error) {
	var out ops.NoticeSubject
	if n.CycleID == nil {
		return out, nil
	}
	err := s.db.Read(ctx, func(tx db.Querier) error {
		pending, err := db.One(ctx, tx, scanApproval, selectApprovals+` WHERE a.cycle_id = ? AND a.status = ?`, *n.CycleID, ops.ApprovalPending)
		switch {
		case err == nil:
			out.Approval = &pending
		case !errors.Is(err, ops.ErrNotFound):
			return err
		}
		earned, err := db.List(ctx, tx, scanEarned, selectEarned+` WHERE 'earned ' || f.id = ? AND f.state = ?`, n.Key, ops.ReflexAsked)
		if err != nil {
			return err
		}
		if len(earned) > 0 {
			out.Reflex = &earned[0]
		}
		out.Incidents, err = db.List(ctx, tx, scanIncident, selectIncidents+` WHERE (i.id = ? OR (? = 0 AND i.last_cycle_id = ?))
			AND i.resolved_at IS NULL AND i.called_at IS NOT NULL ORDER BY i.id`, n.Incident, n.Incident, *n.CycleID)
		return err
	})
	if err != nil {
		return ops.NoticeSubject{}, fmt.Errorf("read subject of notice %d: %w", n.ID, err)
	}
	return out, nil
}

// NoticeThread is what all notices of one problem share: the first cycle of its incident, or without an incident their own; 0: none.
func (s *People) NoticeThread(ctx context.Context, n ops.Notice) (first ops.CycleID, err error) {
	if n.CycleID != nil {
		first = *n.CycleID
	}
	var found *int64
	of, args := `SELECT incident_id FROM incident_cycles WHERE cycle_id = ? ORDER BY incident_id LIMIT 1`, []any{first}
	if n.Incident != 0 {
		of, args = `?`, []any{n.Incident}
	}
	err = s.db.Reader().QueryRowContext(ctx, `SELECT MIN(cycle_id) FROM incident_cycles WHERE incident_id = (`+of+`)`, args...).Scan(&found)
	if err != nil {
		return 0, fmt.Errorf("read thread of notice %d: %w", n.ID, err)
	}
	if found != nil {
		first = ops.CycleID(*found)
	}
	return first, nil
}

// TakeReply carries out a reply as the API does, uses up its token and records it, in one transaction. A reply that cannot be carried out
// is recorded too: the result says why. It fails only if the database does; then nothing was done, and the reply can be taken again.
func (s *People) TakeReply(ctx context.Context, r answer.Reply) (answer.Result, error) {
	r.At = s.orNow(r.At)
	var out answer.Result
	err := s.db.Write(ctx, "reply", func(tx db.Querier) error {
		t := takenReply{s: s, Reply: r, tx: tx}
		var err error
		if out, err = t.take(ctx); err != nil {
			return err
		}
		if r.Mark == "" {
			return nil
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO store_state (name, value) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, replyMark+r.Mark, r.Read)
		return err
	})
	if err != nil {
		return answer.Result{}, fmt.Errorf("take reply: %w", err)
	}
	return out, nil
}

// takenReply is a reply within its transaction.
type takenReply struct {
	s *People
	answer.Reply
	tx          db.Querier
	cycle       ops.CycleID // for the event
	environment string
}

func (t *takenReply) take(ctx context.Context) (answer.Result, error) {
	var out answer.Result
	if t.Refused == "" {
		fresh, err := t.use(ctx, &out)
		if err != nil || !fresh {
			return out, err
		}
	}
	if t.Refused == "" {
		err := t.carryOut(ctx, &out)
		if errors.Is(err, ops.ErrConflict) || errors.Is(err, ops.ErrNotFound) {
			t.Refused = because(err)
			// The next press of the button says why again.
			_, err = t.tx.ExecContext(ctx, `DELETE FROM used_answers WHERE code = ?`, t.Code)
		}
		if err != nil {
			return out, err
		}
	}
	if t.Refused != "" {
		out = answer.Result{Text: "Nothing was changed: " + t.Refused + "."}
	}
	out.Done = t.Refused == ""
	return out, t.audit(ctx)
}

// because is a conflict without the general words at its end.
func because(err error) string {
	text := err.Error()
	for _, general := range []error{ops.ErrConflict, ops.ErrNotFound} {
		text = strings.TrimSuffix(text, ": "+general.Error())
	}
	return text
}

// use takes the token for this reply. It is false if the same message did so before.
func (t *takenReply) use(ctx context.Context, out *answer.Result) (bool, error) {
	_, err := t.tx.ExecContext(ctx, `DELETE FROM used_answers WHERE expires_at <= ?`, db.Time(t.At))
	if err != nil {
		return false, err
	}
	ok, err := db.Changed(t.tx.ExecContext(ctx, `INSERT INTO used_answers (code, source, at, answered_by, expires_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (code) DO NOTHING`, t.Code, t.Source, db.Time(t.At), t.By, db.Time(t.Token.Expires.Add(usedFor))))
	if err != nil || ok {
		return ok, err
	}
	var source, by string
	var at time.Time
	err = t.tx.QueryRowContext(ctx, `SELECT source, answered_by, at FROM used_answers WHERE code = ?`, t.Code).
		Scan(&source, &by, db.ToTime(&at))
	if err != nil {
		return false, err
	}
	if source == t.Source {
		out.Done, out.Repeated = true, true
		return false, nil
	}
	t.Refused = fmt.Sprintf("this button was used by %s at %s", by, at.Format(time.RFC3339))
	return true, nil
}

// carryOut does what the token says, by the same way as the pages and the API.
func (t *takenReply) carryOut(ctx context.Context, out *answer.Result) error {
	switch t.Token.Kind {
	case answer.KindApproval:
		return t.answerApproval(ctx, out)
	case answer.KindReflex:
		return t.answerReflex(ctx, out)
	case answer.KindIncident:
		return t.answerIncidents(ctx, out, []int64{t.Token.Approval})
	case answer.KindCycle:
		ids, err := db.List(ctx, t.tx, db.ScanInt, `SELECT id FROM incidents WHERE last_cycle_id = ? AND resolved_at IS NULL
			AND called_at IS NOT NULL ORDER BY id`, t.Token.Approval)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return fmt.Errorf("its incidents are resolved: %w", ops.ErrConflict)
		}
		return t.answerIncidents(ctx, out, ids)
	}
	return fmt.Errorf("a %s cannot be answered: %w", t.Token.Kind, ops.ErrConflict)
}

func (t *takenReply) answerApproval(ctx context.Context, out *answer.Result) error {
	a, err := approvalByID(ctx, t.tx, t.Token.Approval)
	if err != nil {
		return fmt.Errorf("the question is no longer on record: %w", err)
	}
	t.cycle, t.environment = a.CycleID, a.Environment
	if a.PlanHash != t.Token.Plan {
		return fmt.Errorf("the plan is not the one that was shown; look at it again: %w", ops.ErrConflict)
	}
	said := given{status: ops.ApprovalApproved, by: t.By, reason: "by " + t.Channel, lasts: ops.NoLasts}
	switch t.Token.Decision {
	case answer.Approve:
		if a.PlanHash == "" {
			a, err = t.s.answerIn(ctx, t.tx, a.ID, said, t.At)
		} else {
			a, err = t.s.answerPlanIn(ctx, t.tx, a, a.PlanHash, a.AllSteps(), said.by, said.reason, t.At)
		}
		out.Text = fmt.Sprintf("Approved (approval %d). The cycle continues.", t.Token.Approval)
	case answer.Deny:
		said.status = ops.ApprovalDenied
		a, err = t.s.answerIn(ctx, t.tx, a.ID, said, t.At)
		out.Text = fmt.Sprintf("Denied (approval %d). %s", t.Token.Approval, notice.NoLasts(a))
	default:
		return fmt.Errorf("%q is not an answer to an approval: %w", t.Token.Decision, ops.ErrConflict)
	}
	out.Cycles = []ops.CycleID{a.CycleID}
	return err
}

// answerIncidents acknowledges or snoozes incidents. Those that somebody else answered before are left as they are, unless that is so
// for all.
func (t *takenReply) answerIncidents(ctx context.Context, out *answer.Result, ids []int64) error {
	var names []string
	var first error
	until := t.At.Add(t.Snooze).Truncate(time.Second)
	for _, id := range ids {
		var do incidentAnswer
		switch t.Token.Decision {
		case answer.Acknowledge:
			do = acknowledging(id, t.By, "by "+t.Channel, t.At)
		case answer.Snooze:
			do = snoozing(id, t.By, until, "by "+t.Channel, t.At)
		default:
			return fmt.Errorf("%q is not an answer to an incident: %w", t.Token.Decision, ops.ErrConflict)
		}
		i, err := t.s.answerIncidentIn(ctx, t.tx, do)
		switch {
		case err == nil:
			names = append(names, fmt.Sprint(id))
			t.cycle, t.environment = i.LastCycle, i.Environment
			if i.Waiting != nil && !slices.Contains(out.Cycles, *i.Waiting) {
				out.Cycles = append(out.Cycles, *i.Waiting)
			}
		case !errors.Is(err, ops.ErrConflict):
			return err
		case first == nil:
			first = err
		}
	}
	if len(names) == 0 {
		return first
	}
	out.Text = fmt.Sprintf("Acknowledged (incident %s).", ops.Listed(names))
	if t.Token.Decision == answer.Snooze {
		out.Text = fmt.Sprintf("Snoozed until %s (incident %s).", until.UTC().Format("2006-01-02 15:04 UTC"), ops.Listed(names))
	}
	return nil
}

// audit records who replied, by which channel and for which plan.
func (t *takenReply) audit(ctx context.Context) error {
	if t.Silent && t.Refused != "" {
		return nil
	}
	what := ""
	if t.Token.Kind != "" {
		what = fmt.Sprintf(" to %s %s %d", t.Token.Decision, t.Token.Kind, t.Token.Approval)
	}
	if t.Token.Plan != "" {
		what += " with the plan " + t.Token.Plan[:min(len(t.Token.Plan), shownHash)]
	}
	event := ops.Event{
		CycleID: idOrNil(t.cycle), Environment: t.environment, Level: ops.LevelInfo, Verb: ops.VerbReplyTaken, Actor: ops.Person(t.By),
		Message: ops.Render(fmt.Sprintf("%s used a button by %s%s", t.By, t.Channel, what)),
	}
	if t.Refused != "" {
		event.Level = ops.LevelWarning
		event.Message = ops.Render(fmt.Sprintf("an answer of %s by %s%s was refused: %s", t.By, t.Channel, what, t.Refused))
	}
	return insertEvent(ctx, t.tx, event, t.At)
}

// shownHash is how much of the hash of a plan is shown.
const shownHash = 12

// Acknowledge records that a person takes care of an incident and stops its reminders. An incident that is acknowledged or
// resolved already is an ops.ErrConflict that says by whom and when.
func (s *People) Acknowledge(ctx context.Context, id int64, by, reason string, at time.Time) (ops.Incident, error) {
	return s.answerIncident(ctx, "acknowledge", id, acknowledging(id, by, reason, s.orNow(at)))
}

// Snooze postpones the reminders of an incident until a time. A resolved one is an ops.ErrConflict that says by whom and when.
func (s *People) Snooze(ctx context.Context, id int64, by string, until time.Time, reason string, at time.Time) (ops.Incident, error) {
	return s.answerIncident(ctx, "snooze", id, snoozing(id, by, until, reason, s.orNow(at)))
}

// ResolveIncident ends an incident, whatever was answered before, and wakes the cycles that waited for it. If its service is still bad, the
// note of the result says so and what happens next. A resolved one is an ops.ErrConflict that says by whom and when.
func (s *People) ResolveIncident(ctx context.Context, id int64, by, reason string, at time.Time) (ops.Incident, error) {
	at = s.orNow(at)
	var note string
	out, err := s.answerIncident(ctx, "resolve", id, incidentAnswer{
		id: id, by: by, reason: reason, at: at, verb: ops.VerbIncidentResolved, did: "resolved",
		change: func(ctx context.Context, tx db.Querier) error {
			if err := resolveIncident(ctx, tx, id, by, reason, at); err != nil {
				return err
			}
			i, err := incidentByID(ctx, tx, id)
			if err == nil {
				note, err = s.giveBack(ctx, tx, i, at)
			}
			return err
		},
	})
	out.Note = note
	return out, err
}

// incidentAnswer is what a person does with an incident.
type incidentAnswer struct {
	id     int64
	by     string
	reason string
	at     time.Time
	verb   ops.Verb
	did    string
	change func(ctx context.Context, tx db.Querier) error
}

func acknowledging(id int64, by, reason string, at time.Time) incidentAnswer {
	return incidentAnswer{id: id, by: by, reason: reason, at: at, verb: ops.VerbIncidentAcknowledged, did: "acknowledged", change: func(ctx context.Context, tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE incidents SET status = ?, acknowledged_at = ?, acknowledged_by = ?,
			snoozed_until = NULL, remind_at = NULL, updated_at = ? WHERE id = ? AND resolved_at IS NULL AND status <> ?`,
			ops.IncidentAcknowledged, db.Time(at), by, db.Time(at), id, ops.IncidentAcknowledged))
		if err == nil && !ok {
			err = incidentConflict(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return countAnswer(ctx, tx, id)
	}}
}

func snoozing(id int64, by string, until time.Time, reason string, at time.Time) incidentAnswer {
	did := "snoozed until " + until.UTC().Format(time.RFC3339)
	return incidentAnswer{id: id, by: by, reason: reason, at: at, verb: ops.VerbIncidentSnoozed, did: did, change: func(ctx context.Context, tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE incidents SET status = ?, snoozed_until = ?, remind_at = ?, updated_at = ?
			WHERE id = ? AND resolved_at IS NULL`,
			ops.IncidentSnoozed, db.Time(until), db.Time(until), db.Time(at), id))
		if err == nil && !ok {
			err = incidentConflict(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return countAnswer(ctx, tx, id)
	}}
}

// answerIncident changes an incident for a person and records the event, in one transaction.
func (s *People) answerIncident(ctx context.Context, verb string, id int64, a incidentAnswer) (ops.Incident, error) {
	var out ops.Incident
	err := s.db.Write(ctx, "answer_incident", func(tx db.Querier) (err error) {
		out, err = s.answerIncidentIn(ctx, tx, a)
		return err
	})
	if err != nil {
		return ops.Incident{}, fmt.Errorf("%s incident %d: %w", verb, id, err)
	}
	return out, nil
}

// answerIncidentIn is answerIncident within a transaction. A conflict has written nothing.
func (s *People) answerIncidentIn(ctx context.Context, tx db.Querier, a incidentAnswer) (ops.Incident, error) {
	if err := a.change(ctx, tx); err != nil {
		return ops.Incident{}, err
	}
	out, err := incidentByID(ctx, tx, a.id)
	if err != nil {
		return ops.Incident{}, err
	}
	err = insertEvent(ctx, tx, ops.Event{
		CycleID: idOrNil(out.LastCycle), Environment: out.Environment, Level: ops.LevelInfo, Verb: a.verb, Actor: ops.Person(a.by), Subject: ops.About(ops.SubjectIncident, a.id), Reason: a.reason, Service: out.Service,
		Message: ops.Render(withReason(fmt.Sprintf("%s %s %s", a.by, a.did, describeIncident(out)), a.reason)),
	}, a.at)
	if err != nil {
		return ops.Incident{}, err
	}
	return out, s.offer(ctx, tx, out.Environment, a.at)
}

// incidentConflict says who answered first.
func incidentConflict(ctx context.Context, q db.Querier, id int64) error {
	i, err := incidentByID(ctx, q, id)
	if err != nil {
		return err
	}
	switch {
	case i.ResolvedAt != nil:
		return fmt.Errorf("%s resolved it at %s: %w", i.ResolvedBy, i.ResolvedAt.Format(time.RFC3339), ops.ErrConflict)
	case i.Status == ops.IncidentAcknowledged && i.AcknowledgedAt != nil:
		return fmt.Errorf("%s acknowledged it at %s: %w", i.AcknowledgedBy, i.AcknowledgedAt.Format(time.RFC3339), ops.ErrConflict)
	default:
		return fmt.Errorf("it is %s and no reminder is due: %w", i.Status, ops.ErrConflict)
	}
}

// DueReminders returns the incidents with a due reminder, longest due first.
func (s *People) DueReminders(ctx context.Context, now time.Time, limit int) ([]ops.Incident, error) {
	out, err := db.List(ctx, s.db.Reader(), scanIncident, selectIncidents+` WHERE i.remind_at IS NOT NULL AND i.remind_at <= ?
		AND i.resolved_at IS NULL ORDER BY i.remind_at, i.id LIMIT ?`, db.Time(now), db.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list due reminders: %w", err)
	}
	return out, nil
}

// Reminded records a reminder of an incident and adds its notice; next is when the next one is due, nil for never. The notice's
// CreatedAt is the time of the reminder. If none is due any more, because of an answer in between, nothing is sent and the error
// is ops.ErrConflict.
func (s *People) Reminded(ctx context.Context, id int64, next *time.Time, notice ops.Notice) error {
	at := s.orNow(notice.CreatedAt)
	err := s.db.Write(ctx, "reminded", func(tx db.Querier) error {
		if next != nil && !next.After(at) {
			return errors.New("the next reminder must come later than this one")
		}
		// A snoozed incident whose reminder is due is open again.
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE incidents SET reminders = reminders + 1, remind_at = ?, status = ?, updated_at = ?
			WHERE id = ? AND resolved_at IS NULL AND remind_at <= ?`,
			db.OptTime(next), ops.IncidentOpen, db.Time(at), id, db.Time(at)))
		if err == nil && !ok {
			err = incidentConflict(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		notice.Status = ops.NoticePending
		_, err = insertNotice(ctx, tx, notice, at)
		return err
	})
	if err != nil {
		return fmt.Errorf("remind of incident %d: %w", id, err)
	}
	return nil
}
