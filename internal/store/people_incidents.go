package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const incidentColumns = `i.id, i.environment, i.service, i."check", i.class, i.fingerprint, i.title, i.level, i.status,
	i.occurrences, COALESCE(i.first_cycle_id, 0), COALESCE(i.last_cycle_id, 0),
	(SELECT MAX(w.cycle_id) FROM incident_waits w WHERE w.incident_id = i.id), i.report, i.opened_at, i.updated_at,
	i.acknowledged_at, i.acknowledged_by, i.snoozed_until, i.resolved_at, i.resolved_by, i.resolution, i.reminders, i.remind_at,
	i.called_at, i.unverified_at, i.probe_failed_at, i.probation_until, i.findings, CASE WHEN ` + handledAlone + ` THEN TRUE ELSE FALSE END,
	` + deniedUntil + `,
	(SELECT CASE WHEN COUNT(s.cost_usd) = 0 AND COUNT(s.id) > 0 THEN NULL ELSE COALESCE(SUM(s.cost_usd), 0.0) END
		FROM incident_cycles x JOIN sessions s ON s.cycle_id = x.cycle_id WHERE x.incident_id = i.id)`

const selectIncidents = `SELECT ` + incidentColumns + ` FROM incidents i`

func scanIncident(r db.Row, i *ops.Incident) error {
	err := r.Scan(&i.ID, &i.Environment, &i.Service, &i.Check, &i.Class, db.ToText(&i.Fingerprint), &i.Title, &i.Level, &i.Status,
		&i.Occurrences, &i.FirstCycle, &i.LastCycle, &i.Waiting, (*[]byte)(&i.Report), db.ToTime(&i.OpenedAt), db.ToTime(&i.UpdatedAt),
		db.ToOptTime(&i.AcknowledgedAt), &i.AcknowledgedBy, db.ToOptTime(&i.SnoozedUntil), db.ToOptTime(&i.ResolvedAt), &i.ResolvedBy,
		&i.Resolution, &i.Reminders, db.ToOptTime(&i.RemindAt), db.ToOptTime(&i.CalledAt), db.ToOptTime(&i.UnverifiedAt),
		db.ToOptTime(&i.ProbeFailedAt), db.ToOptTime(&i.ProbationUntil), db.ToJSON(&i.Findings), &i.Handled, db.ToOptTime(&i.DeniedUntil),
		&i.CostUSD)
	if err != nil {
		return err
	}
	// A probation that ended before the incident did ended with its being opened again.
	if p := i.ProbationUntil; p != nil && (i.ResolvedAt == nil || p.Before(*i.ResolvedAt)) {
		i.ReopenedAt, i.ProbationUntil = p, nil
	}
	return totalCost(i)
}

// totalCost puts the cost of all cycles into the report, which knows only the cost of the cycle that wrote it.
func totalCost(i *ops.Incident) error {
	if i.CostUSD == nil || *i.CostUSD == 0 || len(i.Report) == 0 {
		return nil
	}
	report, err := i.Known()
	if err != nil || report.CostUSD == *i.CostUSD {
		return nil //nolint:nilerr // a report that cannot be read is shown as it is
	}
	report.CostUSD = *i.CostUSD
	text, err := db.JSONText(report)
	i.Report = []byte(text)
	return err
}

// IncidentFilter chooses incidents; the zero value means all.
type IncidentFilter struct {
	Open        bool // only those that are not resolved
	NeedsYou    bool // only those that need a person
	Status      ops.IncidentStatus
	Environment string
	Service     string
	Before      int64     // only older ones: the last id of the page before
	Since       time.Time // opened since then
	Limit       int
}

// Incidents returns a page of incidents, newest first.
func (s *People) Incidents(ctx context.Context, f IncidentFilter) ([]ops.Incident, error) {
	var w db.Filter
	if f.Open {
		w.Add(`i.resolved_at IS NULL`)
	}
	if f.NeedsYou {
		now := db.Time(s.clock())
		w.Add(needsYou, now, now)
	}
	w.Given(`i.status = ?`, f.Status)
	w.Given(`i.environment = ?`, f.Environment)
	w.Given(`i.service = ?`, f.Service)
	w.Given(`i.id < ?`, f.Before)
	w.Given(`i.opened_at >= ?`, f.Since)
	out, err := db.List(ctx, s.db.Reader(), scanIncident, selectIncidents+w.Where()+` ORDER BY i.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	return ops.Returning(out, err, "list incidents")
}

// Incident returns one incident.
func (s *People) Incident(ctx context.Context, id int64) (ops.Incident, error) {
	i, err := incidentByID(ctx, s.db.Reader(), id)
	return ops.Returning(i, err, "read incident %d", id)
}

func incidentByID(ctx context.Context, q db.Querier, id int64) (ops.Incident, error) {
	return db.One(ctx, q, scanIncident, selectIncidents+` WHERE i.id = ?`, id)
}

// Unresolved returns the incidents of an environment that are not resolved, oldest first.
func (s *People) Unresolved(ctx context.Context, environment string) ([]ops.Incident, error) {
	var out []ops.Incident
	err := db.Together(ctx, s.db.Reader(), incidentsFor(&out, environment, 0))
	return ops.Returning(out, err, "list unresolved incidents")
}

// incidentsFor returns the unresolved incidents of an environment and those that the cycle waited for, oldest first. For an
// incident that this cycle waits for, Waiting names this cycle, even if others wait too.
func incidentsFor(to *[]ops.Incident, environment string, cycle ops.CycleID) db.Part {
	return db.Into(to, scanOwn(cycle), selectOwn+` WHERE (i.environment = ? AND i.resolved_at IS NULL)
		OR i.id IN (SELECT incident_id FROM incident_waits WHERE cycle_id = ?) ORDER BY i.id`, cycle, cycle, environment, cycle)
}

// selectOwn tells of incidents also whether a cycle waits for them, and whether one works on them.
const selectOwn = `SELECT ` + incidentColumns + `, EXISTS (SELECT 1 FROM incident_waits w WHERE w.incident_id = i.id AND w.cycle_id = ?),
	EXISTS (SELECT 1 FROM incident_cycles w WHERE w.incident_id = i.id AND w.cycle_id = ?) FROM incidents i`

func scanOwn(waiting ops.CycleID) func(db.Row, *ops.Incident) error {
	return func(r db.Row, i *ops.Incident) error {
		var waits, own bool
		err := scanIncident(longerRow{r, []any{&waits, &own}}, i)
		if waits {
			i.Waiting = &waiting
		}
		i.Own = own
		return err
	}
}

// maxHistory limits the history of one incident to its newest events.
const maxHistory = 100

// IncidentHistory returns the events of an incident, oldest first: the answers of people, and the questions and decisions of the
// cycle that opened it and of the last one that reported it.
func (s *Reports) IncidentHistory(ctx context.Context, i ops.Incident) ([]ops.Event, error) {
	out, err := db.List(ctx, s.db.Reader(), scanEvent, `SELECT * FROM (`+selectEvents+` WHERE v.cycle_id BETWEEN ? AND ? AND v.environment = ?
			AND (v.subject_kind = ? AND v.subject_id = ? OR v.kind IN ('approval', 'escalation') AND v.cycle_id IN (?, ?))
			ORDER BY v.id DESC LIMIT ?) AS newest ORDER BY id`,
		i.FirstCycle, max(i.FirstCycle, i.LastCycle), i.Environment, ops.SubjectIncident, strconv.FormatInt(i.ID, 10),
		i.FirstCycle, i.LastCycle, maxHistory)
	return ops.Returning(out, err, "read history of incident %d", i.ID)
}

const kindIncident = "incident"

// reporting records a problem as one incident per service.
type reporting struct {
	s        *kernel
	tx       db.Querier
	cycle    held
	report   ops.IncidentReport
	written  ops.IncidentReport // as it is stored with each incident
	called   *time.Time         // when a human is called; nil: nobody is
	quiet    bool               // no reminder follows: a dry run is told once, and alerts that fire on are repeated by a rule of their own
	at       time.Time
	notified bool     // the step tells people itself
	again    []string // the repairs that the report shows not to have held
}

// reportIncident opens an incident for every service of the report, or adds the report to the open incident with the same
// fingerprint. One that is on probation is opened again; what did not hold is returned, where the step tells people itself.
func (s *kernel) reportIncident(ctx context.Context, tx db.Querier, cycle held, step ops.Step, at time.Time) ([]string, error) {
	report := *step.Incident
	quiet := report.Handled || report.DryRun || report.Class == ops.ClassAlert
	p := reporting{s: s, tx: tx, cycle: cycle, report: report, written: report, quiet: quiet, at: at}
	p.notified = !report.Handled && len(step.Notices) > 0
	if !report.Handled {
		p.called = &at
	}
	if report.Waits {
		// The cycle no longer waits for what it waited for before.
		if err := dropWaits(ctx, tx, cycle.id); err != nil {
			return nil, err
		}
	}
	services := slices.Compact(slices.Sorted(slices.Values(report.Services)))
	for _, service := range services {
		if err := p.service(ctx, service); err != nil {
			return nil, fmt.Errorf("%q: %w", service, err)
		}
	}
	if len(services) == 0 || len(report.Unlisted) > 0 {
		// What belongs to no service is one incident of its own.
		if len(report.Unlisted) > 0 {
			p.report.Class = ops.ClassEnvironment
			p.report.Title = s.words.UnlistedTitle(report.Unlisted)
		}
		if err := p.service(ctx, ""); err != nil {
			return nil, err
		}
	}
	return p.again, nil
}

// onlyHandled: the report calls nobody, and somebody was called about the open incident before and not told since that it is over.
const onlyHandled = `(excluded.called_at IS NULL AND incidents.called_at IS NOT NULL AND incidents.unverified_at IS NULL)`

// seen is what is on record before a problem of a service is recorded.
type seen struct {
	claims []ops.Claim    // repairs that it may refute
	same   []openIncident // the one that it belongs to whatever check found it
	named  []openIncident // the one with its fingerprint
	bad    []int64        // how often the cycle's own probes found the service bad
	states []ops.CheckState
	policy []ops.Policy // of the cycle
}

type openIncident struct {
	check, fingerprint string
	findings           []ops.IncidentFinding
	own                bool // the cycle works on it
}

func scanOpen(r db.Row, i *openIncident) error {
	return r.Scan(&i.check, &i.fingerprint, db.ToJSON(&i.findings), &i.own)
}

// look reads what is known of a service. An incident on which this cycle works already stays the same one when a tier takes over, a human
// is called or no check is named, whichever check found it first. So does one whose claimed repair nobody has verified, and the open one
// of the service in a dry run, which finds it again in every cycle.
func (p *reporting) look(ctx context.Context, service, check, fingerprint string) (s seen, err error) {
	const open = `SELECT i."check", i.fingerprint, i.findings, x.cycle_id IS NOT NULL FROM incidents i
		LEFT JOIN incident_cycles x ON x.incident_id = i.id AND x.cycle_id = ?`
	err = db.AtOnce(ctx, p.tx,
		db.Into(&s.claims, scanClaim, selectClaims+` AND i.environment = ? AND i.service = ? AND i.class = ?
			AND (i."check" = ? OR i."check" = '' OR ? = '') ORDER BY i.id DESC LIMIT 1`,
			db.Time(p.at.Add(-longestClaim)), db.Time(p.at), p.cycle.environment, service, p.report.Class, check, check),
		db.Into(&s.same, scanOpen, open+` WHERE i.environment = ? AND i.service = ? AND i.class = ? AND i.resolved_at IS NULL
				AND i.fingerprint IS NOT NULL
				AND (? OR i.unverified_at IS NOT NULL OR x.cycle_id IS NOT NULL AND (i.called_at IS NULL OR ? = '' OR ?))
			ORDER BY x.cycle_id IS NULL, i.id DESC LIMIT 1`,
			p.cycle.id, p.cycle.environment, service, p.report.Class, p.report.DryRun, check, p.report.Handled),
		db.Into(&s.named, scanOpen, open+` WHERE i.fingerprint = ? AND i.resolved_at IS NULL`, p.cycle.id, fingerprint),
		db.Into(&s.bad, db.ScanInt, `SELECT COUNT(*) FROM checks WHERE cycle_id = ? AND service = ? AND purpose <> ?
			AND status NOT IN (?, ?)`, p.cycle.id, service, ops.ProbeAlert, ops.Healthy, ops.Unknown),
		db.Into(&s.states, scanState, `SELECT state FROM probe_states WHERE environment = ? AND service = ?`, p.cycle.environment, service),
		db.Into(&s.policy, func(r db.Row, v *ops.Policy) error { return r.Scan(db.ToJSON(v)) },
			`SELECT policy FROM cycles WHERE id = ?`, p.cycle.id))
	return s, err
}

// failed is now where a probe of the service failed in this cycle, or fails in the watch; nil where probes see nothing wrong.
func (p *reporting) failed(s seen) *time.Time {
	fails := func(s ops.CheckState) bool { return s.Failing() && s.Last.Purpose != ops.ProbeAlert }
	if s.bad[0] > 0 || slices.ContainsFunc(s.states, fails) {
		return &p.at
	}
	return nil
}

// remind is when the first reminder is due; nil: never.
func (p *reporting) remind(s seen) *time.Time {
	if every := s.policy[0].Approval.Remind; every > 0 && !p.quiet {
		return ops.Ptr(p.at.Add(every))
	}
	return nil
}

func (p *reporting) service(ctx context.Context, service string) error {
	check := failingCheck(p.report.Checks, service)
	fingerprint := strings.Join([]string{p.cycle.environment, service, check, p.report.Class}, "|")
	known, err := p.look(ctx, service, check, fingerprint)
	if err == nil && len(known.claims) > 0 && service != "" {
		if err = p.relapse(ctx, service, known.claims[0]); err == nil {
			known, err = p.look(ctx, service, check, fingerprint)
		}
	}
	if err != nil {
		return err
	}
	if len(known.same) > 0 {
		check, fingerprint, known.named = known.same[0].check, known.same[0].fingerprint, known.same
	}
	var id int64
	// A cycle that takes over an incident of which people know already changes nothing of what they were told.
	err = p.tx.QueryRowContext(ctx, `INSERT INTO incidents (environment, service, "check", class, fingerprint, title, level, status,
		first_cycle_id, last_cycle_id, report, opened_at, updated_at, remind_at, called_at, probe_failed_at, findings)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (fingerprint) WHERE resolved_at IS NULL DO UPDATE SET
			occurrences = CASE WHEN incidents.last_cycle_id = excluded.last_cycle_id OR `+onlyHandled+`
				THEN incidents.occurrences ELSE incidents.occurrences + 1 END,
			last_cycle_id = CASE WHEN `+onlyHandled+` THEN incidents.last_cycle_id ELSE excluded.last_cycle_id END,
			title = CASE WHEN `+onlyHandled+` THEN incidents.title ELSE excluded.title END,
			level = CASE WHEN `+onlyHandled+` THEN incidents.level ELSE excluded.level END,
			report = CASE WHEN `+onlyHandled+` THEN incidents.report ELSE excluded.report END,
			updated_at = excluded.updated_at,
			called_at = CASE WHEN incidents.unverified_at IS NOT NULL THEN excluded.called_at
				ELSE COALESCE(incidents.called_at, excluded.called_at) END,
			remind_at = CASE WHEN incidents.unverified_at IS NOT NULL OR incidents.status = 'open' AND (incidents.called_at IS NULL
				OR incidents.remind_at IS NULL AND incidents.reminders = 0) THEN excluded.remind_at ELSE incidents.remind_at END,
			status = CASE WHEN incidents.status = 'unverified' OR incidents.status = 'snoozed' AND incidents.snoozed_until <= excluded.updated_at
				THEN excluded.status ELSE incidents.status END,
			unverified_at = NULL,
			probe_failed_at = COALESCE(excluded.probe_failed_at, incidents.probe_failed_at), findings = excluded.findings
		RETURNING id`,
		p.cycle.environment, service, check, p.report.Class, fingerprint, p.report.TitleOf(service), p.report.Level, ops.IncidentOpen,
		p.cycle.id, p.cycle.id, db.JSON(p.written), db.Time(p.at), db.Time(p.at), db.OptTime(p.remind(known)), db.OptTime(p.called),
		db.OptTime(p.failed(known)), db.JSON(p.findings(service, known.named))).Scan(&id)
	if err != nil {
		return err
	}
	if len(known.named) == 0 || !known.named[0].own {
		err = countCycle(ctx, p.tx, id, p.cycle.id)
	}
	if err != nil || !p.report.Waits {
		return err
	}
	return db.Exec(ctx, p.tx, `INSERT INTO incident_waits (incident_id, cycle_id) VALUES (?, ?)`, id, p.cycle.id)
}

// findings adds what the report found to what is known of the incident, each thing once.
func (p *reporting) findings(service string, open []openIncident) []ops.IncidentFinding {
	all := []ops.IncidentFinding{}
	for _, i := range open {
		all = append(all, i.findings...)
	}
	for _, f := range p.report.Found {
		if f.Service != service {
			continue
		}
		same := func(o ops.IncidentFinding) bool {
			return o.By == f.By && o.Type == f.Type && (o.By != ops.FoundByAgent || o.What == f.What)
		}
		all = append(slices.DeleteFunc(all, same), f)
	}
	return all
}

// countCycle counts a cycle among those that worked on an incident.
func countCycle(ctx context.Context, tx db.Querier, incident int64, cycle ops.CycleID) error {
	return db.Exec(ctx, tx, `INSERT INTO incident_cycles (incident_id, cycle_id) VALUES (?, ?) ON CONFLICT DO NOTHING`, incident, cycle)
}

// failingCheck is the type of the first check of a service that is not healthy.
func failingCheck(checks []ops.CheckResult, service string) string {
	for _, c := range checks {
		if c.Service == service && c.Status != ops.Healthy {
			return string(c.CheckType)
		}
	}
	return ""
}

// dropWaits removes what a cycle waits for.
func dropWaits(ctx context.Context, tx db.Querier, cycle ops.CycleID) error {
	return db.Exec(ctx, tx, `DELETE FROM incident_waits WHERE cycle_id = ?`, cycle)
}

// endIncidents closes the incidents of a step that somebody proves to be over, and marks the others as unverified. People who were
// called about one are told once, either way.
func (s *kernel) endIncidents(ctx context.Context, tx db.Querier, cycle held, ended []ops.Recovered, at time.Time) error {
	var over, claimed []ops.Incident
	for _, r := range ended {
		i, err := db.One(ctx, tx, scanOwn(0), selectOwn+` WHERE i.id = ?`, 0, cycle.id, r.Incident)
		if err != nil {
			return fmt.Errorf("read incident %d: %w", r.Incident, err)
		}
		if i.ResolvedAt != nil || r.By == ops.ProofNone && i.UnverifiedAt != nil {
			continue // somebody else was first
		}
		verb, left := ops.VerbIncidentOver, ""
		if r.By == ops.ProofNone {
			verb, err = ops.VerbIncidentUnverified, unverify(ctx, tx, i.ID, at)
		} else if rest, failed := endFindings(ctx, tx, &i, r, at); failed != nil || rest {
			err = failed
			verb, left = ops.VerbIncidentEased, s.words.Remaining(i)
		} else {
			err = resolveIncident(ctx, tx, i.ID, ops.Supervisor, r.How, at)
		}
		if err != nil {
			return fmt.Errorf("end incident %d: %w", i.ID, err)
		}
		i.Resolution = r.How
		switch {
		case verb == ops.VerbIncidentEased:
		case i.CalledAt == nil || i.UnverifiedAt != nil: // nobody was told of it, or was told already that it should be over
		case r.By == ops.ProofNone:
			claimed = append(claimed, i)
		default:
			over = append(over, i)
		}
		if !i.Own {
			if err := countCycle(ctx, tx, i.ID, cycle.id); err != nil {
				return err
			}
		}
		err = s.insertEvent(ctx, tx, ops.Event{
			CycleID: &cycle.id, Environment: i.Environment, Level: ops.LevelInfo, Verb: verb,
			Subject: ops.About(ops.SubjectIncident, i.ID), Reason: r.How, Service: i.Service,
			Detail: ops.IncidentDetail{Title: i.Title, Left: left},
		}, at)
		if err != nil {
			return err
		}
	}
	if len(over) > 0 {
		if _, err := insertNotice(ctx, tx, resolvedNotice(cycle, over, s.words.Over(cycle.environment, over)), at); err != nil {
			return err
		}
	}
	if len(claimed) > 0 {
		_, err := insertNotice(ctx, tx, resolvedNotice(cycle, claimed, s.words.Unproven(cycle.environment, claimed)), at)
		return err
	}
	return nil
}

// endFindings records which findings of an incident are over, and reports whether others are not.
func endFindings(ctx context.Context, tx db.Querier, i *ops.Incident, r ops.Recovered, at time.Time) (rest bool, err error) {
	for n, f := range i.Findings {
		switch {
		case f.OverAt != nil:
		case r.Over(f):
			i.Findings[n].OverAt, i.Findings[n].How = &at, r.How
		default:
			rest = true
		}
	}
	return rest, db.Exec(ctx, tx, `UPDATE incidents SET findings = ? WHERE id = ?`, db.JSON(db.OrEmpty(i.Findings)), i.ID)
}

// unverify marks an incident whose repair is claimed and that nothing can confirm. Nobody is reminded of it.
func unverify(ctx context.Context, tx db.Querier, id int64, at time.Time) error {
	return db.Exec(ctx, tx, `UPDATE incidents SET status = ?, unverified_at = ?, updated_at = ?, remind_at = NULL WHERE id = ?`,
		ops.IncidentUnverified, db.Time(at), db.Time(at), id)
}

// resolveIncident ends an open incident and wakes the cycles that waited for it.
func resolveIncident(ctx context.Context, tx db.Querier, id int64, by, how string, at time.Time) error {
	ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE incidents SET status = ?, resolved_at = ?, resolved_by = ?, resolution = ?,
		updated_at = ?, remind_at = NULL WHERE id = ? AND resolved_at IS NULL`,
		ops.IncidentResolved, db.Time(at), by, how, db.Time(at), id))
	if err != nil {
		return err
	}
	if !ok {
		return incidentConflict(ctx, tx, id)
	}
	return wakeAfter(ctx, tx, id, at)
}

func resolvedNotice(cycle held, over []ops.Incident, text ops.Text) ops.Notice {
	n := ops.Notice{
		CycleID: &cycle.id, Kind: ops.NoticeResolved, Level: ops.LevelInfo, Title: text.Title, Body: text.Body, Environment: cycle.environment,
	}
	if len(over) == 1 {
		n.Service = over[0].Service
	}
	return n
}

const (
	// maxStoryCycles limits the cycles of one story to the newest.
	maxStoryCycles  = 20
	maxStoryNotices = 200
	maxStoryCalls   = 500
)

// IncidentStory returns everything on record about an incident. Cycles that were removed because of their age are left out.
func (s *Reports) IncidentStory(ctx context.Context, id int64) (ops.IncidentStory, error) {
	var out ops.IncidentStory
	err := s.db.Read(ctx, func(tx db.Querier) error {
		var err error
		if out.Incident, err = incidentByID(ctx, tx, id); err != nil {
			return err
		}
		cycles, err := db.List(ctx, tx, db.ScanInt, `SELECT cycle_id FROM incident_cycles WHERE incident_id = ? ORDER BY cycle_id DESC LIMIT ?`,
			id, maxStoryCycles)
		if err != nil {
			return err
		}
		slices.Reverse(cycles)
		for _, cycle := range cycles {
			one, err := s.cycleStory(ctx, tx, ops.CycleID(cycle))
			if errors.Is(err, ops.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			out.Cycles = append(out.Cycles, one)
		}
		out.Notices, err = db.List(ctx, tx, scanNotice, selectNotices+` WHERE n.cycle_id IN
			(SELECT cycle_id FROM incident_cycles WHERE incident_id = ?) ORDER BY n.id LIMIT ?`, id, maxStoryNotices)
		return err
	})
	if err == nil {
		out.Events, err = s.incidentEvents(ctx, out.Incident)
	}
	return ops.Returning(out, err, "read incident %d", id)
}

// incidentEvents returns what people did with an incident, oldest first.
func (s *Reports) incidentEvents(ctx context.Context, i ops.Incident) ([]ops.Event, error) {
	return db.List(ctx, s.db.Reader(), scanEvent, `SELECT * FROM (`+selectEvents+` WHERE v.subject_kind = ?
		AND v.subject_id = ? ORDER BY v.id DESC LIMIT ?) AS newest ORDER BY id`, ops.SubjectIncident, strconv.FormatInt(i.ID, 10), maxHistory)
}

// CycleStory returns everything on record about one cycle.
func (s *Reports) CycleStory(ctx context.Context, id ops.CycleID) (ops.IncidentStory, error) {
	var out ops.IncidentStory
	err := s.db.Read(ctx, func(tx db.Querier) error {
		one, err := s.cycleStory(ctx, tx, id)
		if err == nil {
			out.Cycles = []ops.CycleStory{one}
			out.Notices, err = db.List(ctx, tx, scanNotice, selectNotices+` WHERE n.cycle_id = ? ORDER BY n.id LIMIT ?`, id, maxStoryNotices)
		}
		return err
	})
	return ops.Returning(out, err, "read cycle %d", id)
}

// cycleStory reads a cycle with the calls of its agents, each once, as the first gate saw it, and with what people undid of it later.
func (s *Reports) cycleStory(ctx context.Context, tx db.Querier, id ops.CycleID) (ops.CycleStory, error) {
	known, err := cycleByID(ctx, tx, id)
	if err != nil {
		return ops.CycleStory{}, err
	}
	loaded, err := s.load(ctx, tx, known, s.clock())
	if err != nil {
		return ops.CycleStory{}, err
	}
	out := ops.CycleStory{Cycle: loaded.Cycle, Journal: loaded.Journal, Calls: map[ops.SessionID][]ops.GuardRecord{}}
	if err := tx.QueryRowContext(ctx, `SELECT MIN(began) FROM causes WHERE cycle_id = ?`, id).Scan(db.ToOptTime(&out.Began)); err != nil {
		return out, err
	}
	undone, err := db.List(ctx, tx, scanAction, selectActions+` WHERE r.cycle_id IS NULL AND r.undo_of IN
		(SELECT id FROM action_runs WHERE cycle_id = ?) ORDER BY r.id`, id)
	if err != nil {
		return out, err
	}
	out.Journal.Runs = slices.Concat(out.Journal.Runs, undone)
	calls, err := db.List(ctx, tx, scanGuard, selectGuard+` WHERE g.session_id IN (SELECT id FROM sessions WHERE cycle_id = ?)
		AND (g.verdict = ? OR g.tool_use_id = '' OR g.gate = ?) ORDER BY g.id LIMIT ?`, id, verdictDeny, ops.GateHook, maxStoryCalls)
	for _, g := range calls {
		out.Calls[g.SessionID] = append(out.Calls[g.SessionID], g)
	}
	return out, err
}

// AnswerCycle acknowledges the incidents that a cycle called people for, or snoozes them if there is an end. Those that somebody else
// answered before are left as they are, unless that is so for all.
func (s *People) AnswerCycle(ctx context.Context, id int64, by string, until *time.Time, why string, at time.Time) ([]ops.Incident, error) {
	var out []ops.Incident
	err := s.answer(ctx, "answer_incident", func(tx db.Querier) (ops.CycleID, string, error) {
		ids, err := db.List(ctx, tx, db.ScanInt, `SELECT id FROM incidents WHERE last_cycle_id = ? AND resolved_at IS NULL
			AND called_at IS NOT NULL ORDER BY id`, id)
		if err == nil && len(ids) == 0 {
			err = ops.NewConflict(ops.ConflictState, "its incidents are resolved")
		}
		for _, id := range ids {
			do := acknowledging(id, by, why, s.orNow(at))
			if until != nil {
				do = snoozing(id, by, *until, why, s.orNow(at))
			}
			var i ops.Incident
			if i, err = s.answerIncidentIn(ctx, tx, do); err == nil {
				out = append(out, i)
			} else if !errors.Is(err, ops.ErrConflict) {
				return 0, "", err
			}
		}
		if len(out) == 0 {
			return 0, "", err
		}
		return out[0].LastCycle, out[0].Environment, nil
	})
	return ops.Returning(out, err, "answer incidents of cycle %d", id)
}

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
		id: id, by: by, reason: reason, at: at, verb: ops.VerbIncidentResolved,
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
	until  *time.Time // how long it is put off
	change func(ctx context.Context, tx db.Querier) error
}

func acknowledging(id int64, by, reason string, at time.Time) incidentAnswer {
	return incidentAnswer{id: id, by: by, reason: reason, at: at, verb: ops.VerbIncidentAcknowledged, change: changing(id,
		`UPDATE incidents SET
		status = ?, acknowledged_at = ?, acknowledged_by = ?, snoozed_until = NULL, remind_at = NULL, updated_at = ?
		WHERE id = ? AND resolved_at IS NULL AND status <> ?`,
		ops.IncidentAcknowledged, db.Time(at), by, db.Time(at), id, ops.IncidentAcknowledged)}
}

func snoozing(id int64, by string, until time.Time, reason string, at time.Time) incidentAnswer {
	return incidentAnswer{id: id, by: by, reason: reason, at: at, verb: ops.VerbIncidentSnoozed, until: &until, change: changing(id,
		`UPDATE incidents SET
		status = ?, snoozed_until = ?, remind_at = ?, updated_at = ? WHERE id = ? AND resolved_at IS NULL`,
		ops.IncidentSnoozed, db.Time(until), db.Time(until), db.Time(at), id)}
}

// changing changes the row of an incident, or says who was first.
func changing(id int64, query string, args ...any) func(ctx context.Context, tx db.Querier) error {
	return func(ctx context.Context, tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, query, args...))
		if err == nil && !ok {
			err = incidentConflict(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return countAnswer(ctx, tx, id)
	}
}

// answerIncident changes an incident for a person and records the event, in one transaction.
func (s *People) answerIncident(ctx context.Context, verb string, id int64, a incidentAnswer) (ops.Incident, error) {
	var out ops.Incident
	err := s.answer(ctx, "answer_incident", func(tx db.Querier) (_ ops.CycleID, _ string, err error) {
		out, err = s.answerIncidentIn(ctx, tx, a)
		return out.LastCycle, out.Environment, err
	})
	return ops.Returning(out, err, "%s incident %d", verb, id)
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
	err = s.insertEvent(ctx, tx, ops.Event{
		CycleID: idOrNil(out.LastCycle), Environment: out.Environment, Level: ops.LevelInfo, Verb: a.verb, Actor: ops.Person(a.by),
		Subject: ops.About(ops.SubjectIncident, a.id), Reason: a.reason, Service: out.Service,
		Detail: ops.IncidentDetail{Title: out.Title, Until: a.until},
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
		return ops.Answered(i.ResolvedBy, "resolved it", *i.ResolvedAt)
	case i.Status == ops.IncidentAcknowledged && i.AcknowledgedAt != nil:
		return ops.Answered(i.AcknowledgedBy, "acknowledged it", *i.AcknowledgedAt)
	default:
		return ops.NewConflict(ops.ConflictState, "it is %s and no reminder is due", i.Status)
	}
}

// DueReminders returns the incidents with a due reminder, longest due first.
func (s *People) DueReminders(ctx context.Context, now time.Time, limit int) ([]ops.Incident, error) {
	out, err := db.List(ctx, s.db.Reader(), scanIncident, selectIncidents+` WHERE i.remind_at IS NOT NULL AND i.remind_at <= ?
		AND i.resolved_at IS NULL ORDER BY i.remind_at, i.id LIMIT ?`, db.Time(now), db.PageSize(limit))
	return ops.Returning(out, err, "list due reminders")
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
	return ops.Wrapped(err, "remind of incident %d", id)
}
