package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectUpdates = `SELECT u.id, u.environment, u.service, u.phase, u.wanted, u.person, u.slot, u.image_before, u.image_after, u.kept,
	u.touches, u.states, u.result, u.owner, u.asked_at, u.phase_at, u.ended_at FROM updates u`

func scanUpdate(r db.Row, u *ops.Update) error {
	return r.Scan(&u.ID, &u.Environment, &u.Service, &u.Phase, &u.To, &u.Person, db.ToOptTime(&u.Slot), db.ToJSON(&u.Before),
		db.ToJSON(&u.After), &u.Kept, db.ToJSON(&u.Touches), db.ToJSON(&u.States), &u.Result, &u.Owner, db.ToTime(&u.AskedAt),
		db.ToTime(&u.PhaseAt), db.ToOptTime(&u.EndedAt))
}

// UpdateFilter chooses updates; the zero value means all.
type UpdateFilter struct {
	Environment string
	Service     string
	Open        bool  // only those that have not ended
	Before      int64 // only older ones: the last id of the page before
	Limit       int
}

// Updates returns a page of updates, newest first.
func (s *Acts) Updates(ctx context.Context, f UpdateFilter) ([]ops.Update, error) {
	var w db.Filter
	w.Given(`u.environment = ?`, f.Environment)
	w.Given(`u.service = ?`, f.Service)
	if f.Open {
		w.Add(`u.ended_at IS NULL`)
	}
	w.Given(`u.id < ?`, f.Before)
	out, err := db.List(ctx, s.db.Reader(), scanUpdate, selectUpdates+w.Where()+` ORDER BY u.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	return ops.Returning(out, err, "list updates")
}

// Update returns one update.
func (s *Acts) Update(ctx context.Context, id int64) (ops.Update, error) {
	u, err := db.One(ctx, s.db.Reader(), scanUpdate, selectUpdates+` WHERE u.id = ?`, id)
	return ops.Returning(u, err, "read update %d", id)
}

// AskUpdate records that a person or the schedule wants a service to be updated. A person who asks for what waits for a yes says it. What
// is under way for the service already, and a time of the schedule that was taken, are ops.ErrConflict.
func (s *Acts) AskUpdate(ctx context.Context, u ops.Update, at time.Time) (ops.Update, error) {
	at = s.orNow(at)
	err := s.db.Write(ctx, "ask_update", func(tx db.Querier) error {
		open, err := db.List(ctx, tx, scanUpdate, selectUpdates+` WHERE u.environment = ? AND u.service = ? AND u.ended_at IS NULL`,
			u.Environment, u.Service)
		if err != nil {
			return err
		}
		for _, o := range open {
			if u.Person == "" || o.Phase != ops.UpdateWaiting {
				return ops.NewConflict(ops.ConflictState, "%s is %s", o.Words(), o.Phase)
			}
			o.Phase, o.Person, o.To, o.PhaseAt = ops.UpdateAsked, u.Person, u.To, at
			if err := saveUpdate(ctx, tx, o, ops.UpdateWaiting); err != nil {
				return err
			}
			u = o
		}
		if len(open) == 0 {
			if u, err = insertUpdate(ctx, tx, u, at); err != nil {
				return err
			}
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Environment: u.Environment, Level: ops.LevelInfo, Verb: ops.VerbUpdateAsked, Actor: ops.Person(u.Person),
			Subject: ops.About(ops.SubjectUpdate, u.ID), Service: u.Service, Detail: ops.UpdateDetail{To: u.To, Phase: u.Phase},
		}, at)
	})
	return ops.Returning(u, err, "ask for an update of %s", u.Service)
}

func insertUpdate(ctx context.Context, tx db.Querier, u ops.Update, at time.Time) (ops.Update, error) {
	u.Phase, u.AskedAt, u.PhaseAt = ops.UpdateAsked, at, at
	if u.Slot != nil {
		taken, err := db.One(ctx, tx, db.ScanInt, `SELECT COUNT(*) FROM updates WHERE environment = ? AND service = ? AND slot = ?`,
			u.Environment, u.Service, db.Time(*u.Slot))
		if err == nil && taken > 0 {
			err = ops.NewConflict(ops.ConflictTaken, "it was asked for at this time already")
		}
		if err != nil {
			return u, err
		}
	}
	err := tx.QueryRowContext(ctx, `INSERT INTO updates (environment, service, phase, wanted, person, slot, image_before, image_after, kept,
		touches, states, result, owner, asked_at, phase_at) VALUES (?, ?, ?, ?, ?, ?, '{}', '{}', '', '[]', '[]', '', '', ?, ?) RETURNING id`,
		u.Environment, u.Service, u.Phase, u.To, u.Person, db.OptTime(u.Slot), db.Time(at), db.Time(at)).Scan(&u.ID)
	return u, err
}

// silencedBy names the silences of an update: while it runs, what fails of what it touches is its own affair.
func silencedBy(u ops.Update) string { return u.Words() }

// updateSilence is how much longer than it is watched an update may take; a silence whose update was lost ends then.
const updateSilence = time.Hour

// AdvanceUpdate writes the next phase of an update, with what follows from it, if it still is in the phase from. Only one runs at a time,
// on all hosts together; a second one is ops.ErrConflict.
func (s *Acts) AdvanceUpdate(ctx context.Context, owner ops.Owner, u ops.Update, from ops.UpdatePhase, watch time.Duration) error {
	at := s.orNow(u.PhaseAt)
	u.PhaseAt = at
	err := s.db.Write(ctx, "update."+string(u.Phase), func(tx db.Querier) error {
		if err := fenceTerm(ctx, tx, owner); err != nil {
			return err
		}
		if u.Phase != ops.UpdateWaiting {
			u.Owner = owner.Host
		}
		if u.Phase == ops.UpdatePulling {
			if err := onlyUpdate(ctx, tx, u); err != nil {
				return err
			}
		}
		if u.Phase.Ended() {
			u.EndedAt = &at
			if at.Before(u.AskedAt) { // the clock was set back
				u.EndedAt = &u.AskedAt
			}
		}
		if err := saveUpdate(ctx, tx, u, from); err != nil {
			return err
		}
		if err := holdForUpdate(ctx, tx, u, watch); err != nil {
			return err
		}
		return s.tellOfUpdate(ctx, tx, u)
	})
	return ops.Wrapped(err, "%s is to be %s", u.Words(), u.Phase)
}

// abandonedUpdate is when an update no longer keeps others back: its host does not come again.
const abandonedUpdate = 24 * time.Hour

// onlyUpdate refuses to begin with an update while another one runs.
func onlyUpdate(ctx context.Context, tx db.Querier, u ops.Update) error {
	open, err := db.List(ctx, tx, scanUpdate, selectUpdates+` WHERE u.ended_at IS NULL AND u.id <> ?`, u.ID)
	for _, o := range open {
		if o.Phase.Runs() && u.PhaseAt.Sub(o.PhaseAt) < abandonedUpdate {
			return ops.NewConflict(ops.ConflictTaken, "%s runs", o.Words())
		}
	}
	return err
}

func saveUpdate(ctx context.Context, tx db.Querier, u ops.Update, from ops.UpdatePhase) error {
	ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE updates SET phase = ?, wanted = ?, person = ?, image_before = ?, image_after = ?,
		kept = ?, touches = ?, states = ?, result = ?, owner = ?, phase_at = ?, ended_at = ?
		WHERE id = ? AND phase = ?`,
		u.Phase, u.To, u.Person, db.JSON(u.Before), db.JSON(u.After), u.Kept, db.JSON(db.OrEmpty(u.Touches)), db.JSON(db.OrEmpty(u.States)),
		u.Result, u.Owner, db.Time(u.PhaseAt), db.OptTime(u.EndedAt), u.ID, from))
	if err == nil && !ok {
		err = ops.NewConflict(ops.ConflictState, "it is not %s any more", from)
	}
	return err
}

// holdForUpdate silences what an update touches from its first effect on, and ends that with it.
func holdForUpdate(ctx context.Context, tx db.Querier, u ops.Update, watch time.Duration) error {
	switch {
	case u.Phase.Ended():
		return db.Exec(ctx, tx, `UPDATE silences SET ends_at = ? WHERE created_by = ? AND reason = ? AND ends_at > ?`,
			db.Time(u.PhaseAt), ops.Supervisor, silencedBy(u), db.Time(u.PhaseAt))
	case u.Phase != ops.UpdateRecreating:
		return nil
	}
	for _, service := range u.Touches {
		err := db.Exec(ctx, tx, `INSERT INTO silences (environment, service, group_name, probe, labels, reason, created_by, created_at,
			starts_at, ends_at) VALUES (?, ?, '', '', '{}', ?, ?, ?, ?, ?)`, u.Environment, service, silencedBy(u), ops.Supervisor,
			db.Time(u.PhaseAt), db.Time(u.PhaseAt), db.Time(u.PhaseAt.Add(watch+updateSilence)))
		if err != nil {
			return err
		}
	}
	return nil
}

// tellOfUpdate records what happens to an update, and tells people how it ended. One that cannot be taken back is an incident.
func (s *kernel) tellOfUpdate(ctx context.Context, tx db.Querier, u ops.Update) error {
	level, text := s.words.Updated(u)
	event := ops.Event{
		Environment: u.Environment, Level: level, Verb: ops.VerbUpdateChanged, Subject: ops.About(ops.SubjectUpdate, u.ID), Service: u.Service,
		Reason: u.Result, Detail: ops.UpdateDetail{To: u.To, Phase: u.Phase},
	}
	if level == "" {
		event.Level = ops.LevelInfo
	}
	if err := s.insertEvent(ctx, tx, event, u.PhaseAt); err != nil || level == "" {
		return err
	}
	told := ops.Notice{
		Kind: ops.NoticeAction, Level: level, Title: text.Title, Body: text.Body, Environment: u.Environment, Service: u.Service,
	}
	if u.Phase == ops.UpdateStuck {
		var err error
		if told.Incident, err = s.stuckIncident(ctx, tx, u, text.Title); err != nil {
			return err
		}
	}
	_, err := insertNotice(ctx, tx, told, u.PhaseAt)
	return err
}

// stuckIncident finds the open incident of a service that an update has broken, or opens one.
func (s *kernel) stuckIncident(ctx context.Context, tx db.Querier, u ops.Update, title string) (int64, error) {
	id, err := db.One(ctx, tx, db.ScanInt, `SELECT id FROM incidents WHERE environment = ? AND service = ? AND resolved_at IS NULL
		ORDER BY id DESC LIMIT 1`, u.Environment, u.Service)
	if !errors.Is(err, ops.ErrNotFound) {
		return id, err
	}
	title = strings.TrimPrefix(title, "Claude Ops: ")
	report := db.JSON(ops.IncidentReport{
		Title: title, Level: ops.LevelCritical, Class: ops.ClassUpdate, Services: []string{u.Service}, Seen: u.Result,
		Tried: u.Words() + ", and its way back", Recommendation: s.words.UpdateAdvice(u),
	})
	at := db.Time(u.PhaseAt)
	err = tx.QueryRowContext(ctx, `INSERT INTO incidents (environment, service, "check", class, fingerprint, title, level, status, report,
		opened_at, updated_at, called_at, probe_failed_at) VALUES (?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		u.Environment, u.Service, ops.ClassUpdate, strings.Join([]string{u.Environment, u.Service, "", ops.ClassUpdate}, "|"), title,
		ops.LevelCritical, ops.IncidentOpen, report, at, at, at, at).Scan(&id)
	return id, err
}

// Versions returns what was last seen of the images of an environment.
func (s *Acts) Versions(ctx context.Context, environment string) ([]ops.Version, error) {
	out, err := db.List(ctx, s.db.Reader(), func(r db.Row, v *ops.Version) error {
		return r.Scan(&v.Environment, &v.Service, db.ToJSON(&v.Image), &v.Newest, &v.Unknown, db.ToTime(&v.At))
	}, `SELECT environment, service, image, newest, unknown, at FROM versions WHERE environment = ? ORDER BY service`, environment)
	return ops.Returning(out, err, "list versions")
}

// SeeVersion records what was seen of the image of a service.
func (s *Acts) SeeVersion(ctx context.Context, v ops.Version) error {
	err := s.db.WriteIn(ctx, "see_version", db.InEnvironment(v.Environment), func(tx db.Querier) error {
		return db.Exec(ctx, tx, `INSERT INTO versions (environment, service, image, newest, unknown, at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (environment, service) DO UPDATE SET image = excluded.image, newest = excluded.newest,
				unknown = excluded.unknown, at = excluded.at`,
			v.Environment, v.Service, db.JSON(v.Image), v.Newest, v.Unknown, db.Time(s.orNow(v.At)))
	})
	return ops.Wrapped(err, "record version of %s", v.Service)
}
