package simulation

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/rehearse"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
	"claudeops/test/storytest"
)

// rule is what must hold after every step, and a query that finds what breaks it.
type rule struct{ name, query string }

const ended = `('healthy', 'resolved', 'needs_human', 'suppressed', 'blocked', 'partial', 'failed', 'cancelled')`

var rules = []rule{
	{"no row is lost", `SELECT t || ' has ' || n || ' rows of ' || m FROM (
		SELECT 'cycles' AS t, COUNT(*) AS n, MAX(id) AS m FROM cycles UNION ALL SELECT 'notifications', COUNT(*), MAX(id) FROM notifications
		UNION ALL SELECT 'approvals', COUNT(*), MAX(id) FROM approvals)
		WHERE n <> m`},
	{"a cycle waits for something", `SELECT 'cycle ' || c.id || ' waits for nobody: ' || c.reason FROM cycles c
		WHERE c.status = 'waiting_human' AND (c.reason = '' OR c.wake_at IS NULL
			AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.cycle_id = c.id AND a.status = 'pending')
			AND NOT EXISTS (SELECT 1 FROM incident_waits w JOIN incidents i ON i.id = w.incident_id WHERE w.cycle_id = c.id AND i.resolved_at IS NULL))`},
	{"nobody is asked about what has ended", `SELECT 'question ' || a.id || ' is open, and cycle ' || c.id || ' is ' || c.status
		FROM approvals a JOIN cycles c ON c.id = a.cycle_id WHERE a.status = 'pending' AND c.status IN ` + ended + ``},
	{"one slot", `SELECT environment || ' has ' || COUNT(*) || ' running cycles' FROM cycles WHERE status = 'running'
		GROUP BY environment HAVING COUNT(*) > 1`},
	{"one session at a time", `SELECT 'sessions of ' || s.environment || ' that run: ' || COUNT(*) FROM sessions s JOIN cycles c ON c.id = s.cycle_id
		WHERE s.status = 'running' AND c.status = 'running' GROUP BY s.environment HAVING COUNT(*) > 1`},
	{"one session for one place in the journal", `SELECT 'cycle ' || cycle_id || ' has ' || COUNT(*) || ' sessions of ' || handler || ' after session '
		|| COALESCE(retry_of_session_id, parent_session_id, 0) FROM sessions
		GROUP BY cycle_id, role, handler, COALESCE(parent_session_id, 0), COALESCE(retry_of_session_id, 0), attempt HAVING COUNT(*) > 1`},
	{"an approval is used once", `SELECT 'approval ' || a.id || ' started ' || COUNT(*) || ' sessions' FROM approvals a
		JOIN sessions s ON s.cycle_id = a.cycle_id AND s.parent_session_id = a.session_id AND s.role = 'work' AND s.retry_of_session_id IS NULL
		WHERE a.kind = 'tier' GROUP BY a.id HAVING COUNT(*) > 1`},
	{"a step of a plan runs once", `SELECT 'step ' || step || ' of approval ' || approval_id || ' ran ' || COUNT(*) || ' times' FROM action_runs
		WHERE approval_id > 0 GROUP BY approval_id, step HAVING COUNT(*) > 1`},
	{"a reflex is done once in a cycle", `SELECT reflex || ' ran ' || COUNT(*) || ' times in cycle ' || cycle_id FROM action_runs
		WHERE reflex <> '' AND undo_of IS NULL GROUP BY cycle_id, reflex, step HAVING COUNT(*) > 1`},
	{"a chain stays within its budget", `SELECT 'cycle ' || c.id || ' cost ' || SUM(s.cost_usd) || ' of ' || json_extract(c.policy, '$.budget_chain_usd')
		FROM cycles c JOIN sessions s ON s.cycle_id = c.id WHERE json_extract(c.policy, '$.budget_chain_usd') > 0
		GROUP BY c.id HAVING SUM(s.cost_usd) > json_extract(c.policy, '$.budget_chain_usd') + 0.051`},
	{"a day stays within its budget", `SELECT s.environment || ' cost ' || SUM(s.cost_usd) || ' on ' || substr(s.ended_at, 1, 10) FROM sessions s
		JOIN cycles c ON c.id = s.cycle_id WHERE json_extract(c.policy, '$.budget_day_usd') > 0
		GROUP BY s.environment, substr(s.ended_at, 1, 10) HAVING SUM(s.cost_usd) > MAX(json_extract(c.policy, '$.budget_day_usd')) + 0.051`},
	{"nobody is told the same twice", `SELECT 'notices ' || a.id || ' and ' || b.id || ': ' || b.title FROM notifications a JOIN notifications b
		ON b.id > a.id AND b.kind = a.kind AND b.title = a.title AND b.body = a.body AND b.environment = a.environment AND b.service = a.service
			AND b.cycle_id IS a.cycle_id AND b.incident_id IS a.incident_id WHERE a.kind <> 'reminder'`},
	{"a no lasts", `SELECT 'approval ' || b.id || ' asks about ' || json_extract(f.value, '$.service') || ', and approval ' || a.id || ' was denied'
		FROM approvals a, json_each(a.facts) f JOIN approvals b ON b.id > a.id AND b.environment = a.environment AND b.kind = a.kind AND b.tier >= a.tier
			AND b.requested_at > a.answered_at AND (b.plan IS NULL OR b.plan_hash = a.plan_hash) AND instr(b.facts, f.value) > 0
		WHERE a.status = 'denied' AND a.kind = 'tier' AND julianday(b.requested_at) < julianday(a.answered_at) + 1
		AND NOT EXISTS (SELECT 1 FROM approvals y, json_each(y.facts) g WHERE y.cycle_id = b.cycle_id AND y.status = 'approved' AND y.answered_at > a.answered_at
			AND json_extract(g.value, '$.service') = json_extract(f.value, '$.service'))`},
	{"verified means proven", `SELECT 'cycle ' || c.id || ' is verified by ' || c.verified_by FROM cycles c WHERE c.verified AND c.refuted_at IS NULL AND NOT CASE c.verified_by
		WHEN 'judge' THEN EXISTS (SELECT 1 FROM sessions s WHERE s.cycle_id = c.id AND s.role = 'judge' AND s.status = 'completed')
		WHEN 'human' THEN EXISTS (SELECT 1 FROM approvals a WHERE a.cycle_id = c.id AND a.kind = 'review' AND a.status = 'approved')
			OR EXISTS (SELECT 1 FROM incident_cycles x JOIN incidents i ON i.id = x.incident_id WHERE x.cycle_id = c.id AND i.resolved_by <> 'claudeops')
		WHEN 'plan' THEN EXISTS (SELECT 1 FROM action_runs r WHERE r.cycle_id = c.id AND r.status <> 'refused')
		WHEN 'reflex' THEN EXISTS (SELECT 1 FROM action_runs r WHERE r.cycle_id = c.id AND r.reflex <> '' AND r.status IN ('done', 'interrupted'))
			AND EXISTS (SELECT 1 FROM checks k WHERE k.cycle_id = c.id AND k.status = 'healthy' AND k.purpose = 'reflex')
			AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.cycle_id = c.id)
		WHEN 'probe' THEN EXISTS (SELECT 1 FROM checks k WHERE k.cycle_id = c.id AND k.status = 'healthy' AND k.purpose IN ('verify', 'recheck', 'plan', 'reflex'))
			OR EXISTS (SELECT 1 FROM incident_cycles x JOIN incidents i ON i.id = x.incident_id WHERE x.cycle_id = c.id AND i.resolved_by = 'claudeops')
		ELSE FALSE END`},
	{"what was verified was seen to fail", `SELECT 'cycle ' || c.id || ' is verified by a probe of ' || k.service || ' that saw nothing' FROM cycles c
		JOIN checks k ON k.cycle_id = c.id AND k.purpose IN ('verify', 'recheck') AND k.status = 'healthy'
		WHERE c.verified AND c.verified_by = 'probe' AND c.refuted_at IS NULL
		AND NOT EXISTS (SELECT 1 FROM checks b WHERE b.cycle_id = c.id AND b.service = k.service AND b.status <> 'healthy' AND b.purpose NOT IN ('alert', 'running'))
		AND NOT EXISTS (SELECT 1 FROM incidents i WHERE i.environment = c.environment AND i.service = k.service AND i.probe_failed_at IS NOT NULL)`},
	{"a chain verifies its charge", `SELECT 'cycle ' || id || ' verifies ' || service || ' after session ' || after FROM (
		SELECT c.id, k.service, k.after_session_id AS after, COALESCE((SELECT d.services FROM escalations d WHERE d.cycle_id = c.id
			AND d.session_id < k.after_session_id AND d.decision <> 'refused' AND json_array_length(d.services) > 0 ORDER BY d.id DESC LIMIT 1),
			CASE WHEN json_extract(c.charge, '$.open') IS NULL THEN json_extract(c.charge, '$.services') END) AS charge
		FROM cycles c JOIN checks k ON k.cycle_id = c.id AND k.purpose = 'verify')
		WHERE charge IS NOT NULL AND NOT EXISTS (SELECT 1 FROM json_each(charge) v WHERE v.value = service)`},
	{"a chain blames its charge", `SELECT 'incident ' || i.id || ' of ' || i.service || ' was called for by cycle ' || c.id FROM incidents i
		JOIN cycles c ON c.id = i.last_cycle_id WHERE i.called_at IS NOT NULL AND i.service <> '' AND i.class <> 'alert'
		AND json_extract(c.charge, '$.open') IS NULL AND NOT EXISTS (SELECT 1 FROM json_each(c.charge, '$.services') v WHERE v.value = i.service)
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.cycle_id = c.id AND s.outcome_json LIKE '%"' || i.service || '"%')`},
	{"a cycle that fails calls somebody", `SELECT 'cycle ' || c.id || ' is ' || c.status || ', and nobody was called for ' || v.value
		FROM cycles c, json_each(c.charge, '$.services') v WHERE c.status IN ('failed', 'partial') AND json_extract(c.charge, '$.open') IS NULL
		AND (SELECT k.status FROM checks k WHERE k.cycle_id = c.id AND k.service = v.value AND k.purpose <> 'running' ORDER BY k.id DESC LIMIT 1) <> 'healthy'
		AND NOT EXISTS (SELECT 1 FROM escalations d WHERE d.cycle_id = c.id AND d.decision <> 'refused' AND json_array_length(d.services) > 0)
		AND NOT EXISTS (SELECT 1 FROM incidents i WHERE i.environment = c.environment AND i.service = v.value
			AND (i.resolved_at IS NULL OR i.resolved_at >= c.created_at))`},
	{"a call for help is closed by its own findings", `SELECT 'incident ' || i.id || ' is ' || i.status || ', and ' || json_extract(f.value, '$.what') || ' is not over'
		FROM incidents i, json_each(i.findings) f WHERE i.resolved_by = 'claudeops' AND json_extract(f.value, '$.over_at') IS NULL
		UNION ALL SELECT 'incident ' || i.id || ': ' || json_extract(f.value, '$.how') || ' ended ' || json_extract(f.value, '$.what')
		FROM incidents i, json_each(i.findings) f WHERE json_extract(f.value, '$.by') = 'agent' AND json_extract(f.value, '$.type') = 'service'
			AND json_extract(f.value, '$.over_at') IS NOT NULL`},
	{"who is unknown has an owner", `SELECT p.service || ' of ' || p.environment || ' is unknown, and its engine answers' FROM probe_states p
		LEFT JOIN probe_states e ON e.environment = p.environment AND e.service = 'container-engine'
		WHERE p.service <> 'container-engine' AND json_extract(p.state, '$.unknown.Status') = 'unknown'
		AND (e.service IS NULL OR json_extract(e.state, '$.last.Status') = 'healthy' AND json_extract(e.state, '$.unknown.Status') IS NULL
			AND json_extract(e.state, '$.last.At') >= json_extract(p.state, '$.unknown.At'))`},
	{"an engine is one incident", `SELECT environment || ' has ' || COUNT(*) || ' open incidents of its engine' FROM incidents
		WHERE service = 'container-engine' AND resolved_at IS NULL GROUP BY environment HAVING COUNT(*) > 1`},
	{"people know what needs them", `SELECT 'incident ' || i.id || ' of ' || i.service || ' is open, and nobody was told' FROM incidents i
		WHERE i.resolved_at IS NULL AND i.status = 'open' AND i.class <> 'agent'
		AND NOT EXISTS (SELECT 1 FROM cycles c WHERE c.id = i.last_cycle_id AND (c.ended_at IS NULL OR c.status IN ('cancelled', 'suppressed')))
		AND NOT EXISTS (SELECT 1 FROM cycles c, json_each(c.charge, '$.services') v WHERE c.environment = i.environment AND c.ended_at IS NULL AND v.value = i.service)
		AND NOT EXISTS (SELECT 1 FROM incidents o WHERE o.environment = i.environment AND o.service = i.service AND o.id < i.id
			AND o.called_at IS NOT NULL AND (o.resolved_at IS NULL OR o.resolved_at >= i.opened_at)) -- closed after it was decided whom to call
		AND NOT EXISTS (SELECT 1 FROM notifications n WHERE n.kind <> 'resolved' AND (n.incident_id = i.id
			OR n.cycle_id IN (SELECT x.cycle_id FROM incident_cycles x WHERE x.incident_id = i.id) OR n.environment = i.environment AND n.service = i.service
			AND n.id > COALESCE((SELECT MAX(r.id) FROM notifications r WHERE r.kind = 'resolved' AND r.environment = i.environment AND r.service = i.service), 0)))`},
}

// check looks whether every rule holds.
func (s *simulation) check() {
	working := map[string]ops.SessionID{}
	for _, p := range s.processes {
		if p.host.up && (p.host.paused || p.host.holds() != nil) {
			continue // it stands still, or is being stopped
		}
		if other, twice := working[p.env]; twice {
			s.fail("one agent: sessions %d and %d work in %s", min(other, p.session), max(other, p.session), p.env)
		}
		working[p.env] = p.session
	}
	if !s.changed() {
		return
	}
	s.notices()
	s.each(s.rules, func(row *sql.Rows) error {
		var found string
		err := row.Scan(&found)
		s.fail("%s", found)
		return err
	})
}

// each reads the rows of a query.
func (s *simulation) each(query *sql.Stmt, read func(*sql.Rows) error, args ...any) {
	rows, err := query.QueryContext(s.ctx, args...)
	if err != nil {
		s.fail("read the journal: %v", err)
		return
	}
	defer func() { _ = rows.Close() }()
	for err == nil && rows.Next() {
		err = read(rows)
	}
	if err := errors.Join(err, rows.Err()); err != nil {
		s.fail("read the journal: %v", err)
	}
}

// changed reports whether anything was written that a rule could be about since the last time.
func (s *simulation) changed() bool {
	var now [4]int64
	err := s.marks.QueryRowContext(s.ctx).Scan(&now[0], &now[1], &now[2], &now[3])
	if err != nil {
		s.fail("read the newest rows: %v", err)
	}
	defer func() { s.newest = now }()
	return now != s.newest
}

const newestRows = `SELECT COALESCE((SELECT MAX(id) FROM steps), 0), COALESCE((SELECT MAX(id) FROM events), 0),
	COALESCE((SELECT MAX(id) FROM notifications), 0), (SELECT COUNT(*) FROM sessions WHERE status = 'running')`

const newNotices = `SELECT id, kind, environment, service, COALESCE(cycle_id, 0), title FROM notifications WHERE id > ? ORDER BY id`

// dump is what the journal says in the end, for whoever looks for the reason of a failure.
func (s *simulation) dump() {
	for _, query := range []string{
		`SELECT 'cycle ' || id || ' in ' || environment || ' by ' || "trigger" || ': ' || status || ' ' || reason || ' ' || COALESCE(verified_by, '') FROM cycles`,
		`SELECT 'incident ' || id || ' of ' || service || ' (' || class || ', last cycle ' || last_cycle_id || '): ' || status || ', opened ' || opened_at
			|| ', called ' || COALESCE(called_at, '-') || ', resolved by ' || resolved_by || ': ' || title FROM incidents`,
		`SELECT 'approval ' || id || ' of cycle ' || cycle_id || ' (' || kind || '): ' || status || ' ' || requested_at || ' to ' || COALESCE(answered_at, '-')
			|| ' ' || COALESCE(facts, '') FROM approvals`,
	} {
		s.each(s.prepare(query+" ORDER BY id"), func(row *sql.Rows) error {
			var line string
			err := row.Scan(&line)
			s.history = append(s.history, line)
			return err
		})
	}
}

// allRules is one query that finds everything that is broken: it is asked thousands of times.
func allRules() string {
	var all []string
	for _, r := range rules {
		all = append(all, "SELECT '"+r.name+": ' || found FROM (WITH r(found) AS ("+r.query+") SELECT found FROM r)")
	}
	return strings.Join(all, " UNION ALL ")
}

// notices looks at what people are told since the last time.
func (s *simulation) notices() {
	s.each(s.news, func(row *sql.Rows) error {
		var n ops.Notice
		var cycle int64
		err := row.Scan(&n.ID, &n.Kind, &n.Environment, &n.Service, &cycle, &n.Title)
		s.seen = n.ID
		s.trace("notice %d of cycle %d: %s in %s: %s", n.ID, cycle, n.Kind, n.Environment, n.Title)
		for _, v := range s.services {
			if v.env == n.Environment && (v.name == n.Service || n.Service == "" && n.Kind != ops.NoticeResolved) {
				s.told(v, n)
			}
		}
		return err
	}, s.seen)
}

// told is what people know of a service. They are told of its end once, and only if they were told of its beginning.
func (s *simulation) told(v *service, n ops.Notice) {
	switch n.Kind {
	case ops.NoticeReminder, ops.NoticeEscalated, ops.NoticeAction:
	case ops.NoticeResolved:
		switch {
		case s.setBack: // who is told what goes by the clock
		case v.over && !v.broke:
			s.fail("an end is told once: notice %d tells again: %s", n.ID, n.Title)
		case v.over:
			s.fail("an end has a beginning: nobody was told of what notice %d says is over: %s", n.ID, n.Title)
		}
		v.over, v.broke, v.known = v.problem == "" && !s.called(v), false, false // it may have broken again before they were told
	default:
		v.over, v.known = false, true
	}
}

// called reports whether an incident of a service is still open about which people were called: its end is news.
func (s *simulation) called(v *service) bool {
	open, err := s.store.People.Unresolved(s.ctx, v.env)
	if err != nil {
		s.fail("list incidents: %v", err)
	}
	return slices.ContainsFunc(open, func(i ops.Incident) bool { return i.Service == v.name && i.CalledAt != nil })
}

// launched is told that an agent starts, and returns what for.
func (s *simulation) launched(k *task, spec ops.SessionSpec) (charge []string) {
	session := spec.Session
	if s.launches[session.ID] {
		s.fail("a session starts once: session %d starts again on %s", session.ID, k.host.name)
	}
	s.launches[session.ID] = true
	s.processes[session.Key] = &process{host: k.host, env: spec.Environment, session: session.ID}
	return s.permitted(k, spec)
}

// permitted looks whether anything holds all services that a session starts for: trust, or a no to the same outage. What was said while
// the session was being started is heeded by the next one.
func (s *simulation) permitted(k *task, spec ops.SessionSpec) (services []string) {
	loaded, err := s.store.Journal.Load(s.ctx, spec.Session.CycleID)
	if err != nil || !spec.Session.Works() {
		return nil
	}
	services = loaded.Cycle.Charge.Services
	for _, d := range loaded.Journal.Decisions {
		if d.Verdict != ops.VerdictRefused && len(d.Services) > 0 {
			services = d.Services
		}
	}
	lowered, err := s.store.People.Lowered(s.ctx, spec.Environment)
	denials, failed := s.store.Watch.Denials(s.ctx, spec.Environment, s.clock())
	if err := errors.Join(err, failed); err != nil {
		s.fail("read what holds services: %v", err)
	}
	lowered = slices.DeleteFunc(lowered, func(l ops.Lowered) bool { return !l.At.Before(k.read) })
	yes := func(service string, since time.Time) bool {
		return slices.ContainsFunc(loaded.Journal.Approvals, func(a ops.Approval) bool {
			return a.Status == ops.ApprovalApproved && a.AnsweredAt.After(since) && slices.ContainsFunc(a.Facts, func(f ops.Fact) bool { return f.Service == service })
		})
	}
	trusted := func(name string) bool {
		trust := loaded.Cycle.Policy.Trusts(name, lowered)
		return trust != ops.TrustWatch && (trust != ops.TrustSuggest || spec.Session.May() <= ops.Tier1)
	}
	if len(services) > 0 && !slices.ContainsFunc(services, trusted) {
		s.fail("nothing starts against trust: session %d (%s) starts for %s", spec.Session.ID, spec.Session.Tier, services)
	}
	for _, name := range services {
		v := s.service(spec.Environment, name)
		wrong := ops.FactOf(ops.Check{Service: name, Probe: v.probe, Type: ops.CheckHTTP, Status: ops.Down, Error: v.problem})
		for _, no := range denials {
			about := slices.Contains(no.Facts, wrong)
			if about && no.Kind == ops.ApprovalTier && spec.Session.Tier >= no.Tier && v.since.Add(s.jumped).Before(*no.AnsweredAt) &&
				no.AnsweredAt.Before(k.read) && !s.setBack && !yes(name, *no.AnsweredAt) {
				s.fail("nothing starts against a no: session %d (%s) starts for %s, and approval %d was denied", spec.Session.ID, spec.Session.Tier, name, no.ID)
			}
		}
	}
	return services
}

// acted is told that a step of a plan or a reflex is carried out.
func (s *simulation) acted(what string) {
	if s.steps[what] {
		s.fail("an action runs once: %s runs again", what)
	}
	s.steps[what] = true
}

// rest looks at what is left at the end.
func (s *simulation) rest() {
	flaws, err := s.store.Journal.Verify(s.ctx, true)
	if err != nil || len(flaws) > 0 {
		s.fail("the journal: %v %v", flaws, err)
	}
	open, err := s.store.Journal.Unfinished(s.ctx)
	if err != nil {
		s.fail("list open cycles: %v", err)
	}
	for _, c := range open {
		waits := c.Status == ops.CycleWaitingHuman || c.WakeAt != nil && c.WakeAt.After(s.clock())
		if !waits && time.Since(s.moved[c.Environment]) > calm/2 {
			s.fail("every cycle ends or waits: cycle %d is %s: %s", c.ID, c.Status, c.Reason)
		}
	}
	for _, v := range s.services {
		long := v.problem != "" && v.probe != "" && time.Since(v.since) > calm*2/3 && !s.setBack
		switch {
		case v.name == ops.EngineService && !v.seen: // it belongs to the list of the set-up
		case v.hidden(): // its engine is cared for
		case long && (v.engine == nil || time.Since(v.engine.since) > calm*2/3):
			s.cared(v, open)
		}
	}
	notices, err := s.store.People.NoticeList(s.ctx, store.NoticeFilter{Limit: 200})
	if err != nil {
		s.fail("list notices: %v", err)
	}
	for _, n := range notices {
		if n.Status == ops.NoticePending && n.Attempts == 0 && s.clock().Sub(n.CreatedAt) > 10*time.Minute {
			s.fail("a notice is sent: notice %d is %s: %s", n.ID, n.Status, n.Title)
		}
		if n.Status == ops.NoticeSent && s.delivered[n.ID] == 0 {
			s.fail("a notice is sent: nobody got notice %d: %s", n.ID, n.Title)
		}
	}
}

// cared looks whether an outage is in somebody's hands: an open incident, a cycle that has it in its charge, or a hold by a person, trust
// or time.
func (s *simulation) cared(v *service, open []ops.Cycle) {
	charged := func(c ops.Cycle) bool {
		return c.Environment == v.env && (c.Charge.Open || slices.Contains(c.Charge.Services, v.name))
	}
	incidents, err := s.store.People.Unresolved(s.ctx, v.env)
	if err != nil || slices.ContainsFunc(open, charged) || slices.ContainsFunc(incidents, func(i ops.Incident) bool { return i.Service == v.name }) {
		return
	}
	onHold, err := s.store.Watch.Withheld(s.ctx, v.env)
	if err != nil || slices.ContainsFunc(onHold, func(h ops.Withheld) bool { return h.Service == v.name && h.Why != ops.HoldCovered }) {
		return
	}
	causes, err := s.store.Watch.Causes(s.ctx, v.env, s.clock())
	for _, c := range causes {
		cycle, failed := s.store.Journal.Cycle(s.ctx, c.Cycle)
		if err = errors.Join(err, failed); cycle.Status == ops.CycleCancelled && slices.Contains(c.Services, v.name) {
			return // by a person, who knows of it
		}
	}
	if err != nil {
		s.fail("read causes: %v", err)
	}
	s.fail("an outage is cared for: %s is down since %s, held back is %v", v.name, v.since.Format(time.TimeOnly), onHold)
}

// rehearse takes everything that was decided again: from the facts that are stored, the own configuration decides the same.
func (s *simulation) rehearse() {
	own := rehearse.Configuration{Policies: map[string]ops.Policy{}}
	for _, e := range s.envs {
		own.Policies[e.Name] = e.Policy
	}
	r := rehearse.New(nil, own)
	cycles, err := s.store.Reports.Recorded(s.ctx, store.RecordFilter{Limit: 1 << 20})
	if err != nil {
		s.fail("read the record: %v", err)
	}
	for _, c := range cycles {
		r.Cycle(c)
	}
	if got := r.Report(); !got.Equal || got.Counts.Unreadable+got.Counts.DecisionOnly > 0 || got.Counts.Cycles == 0 {
		s.fail("the own configuration is rehearsed: %s: %+v", got.Summary(), got.Differences)
	}
}

// stories tells every incident.
func (s *simulation) stories() {
	all, err := s.store.People.Incidents(s.ctx, store.IncidentFilter{Limit: 1000})
	for _, i := range all {
		var rows ops.IncidentStory
		if rows, err = s.store.Reports.IncidentStory(s.ctx, i.ID); err != nil {
			break
		}
		if wrong := storytest.Wrong(story.Tell(rows, s.clock())); wrong != "" {
			s.fail("incident %d: %s", i.ID, wrong)
		}
	}
	if err != nil {
		s.fail("tell stories: %v", err)
	}
}
