package store

import (
	"context"
	"fmt"
	"strings"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// invariant is a rule of the journal, and a query that finds what breaks it.
type invariant struct{ name, query string }

// ended are the statuses of a cycle that has ended.
const ended = `('healthy', 'resolved', 'needs_human', 'suppressed', 'blocked', 'partial', 'failed', 'cancelled')`

func invariants() []invariant {
	return []invariant{
		{
			"a cycle that has ended runs nothing",
			`SELECT 'session ' || s.id || ' is running, and its cycle ' || c.id || ' is ' || c.status FROM sessions s
				JOIN cycles c ON c.id = s.cycle_id WHERE s.status = 'running' AND c.status IN ` + ended + ` ORDER BY s.id`,
		},
		{
			"a cycle that has ended plans nothing",
			`SELECT 'session ' || s.id || ' is queued, and its cycle ' || c.id || ' is ' || c.status FROM sessions s
				JOIN cycles c ON c.id = s.cycle_id WHERE s.status = 'queued' AND c.status IN ` + ended + ` AND c.status <> 'cancelled' ORDER BY s.id`,
		},
		{
			"one cycle of an environment runs at a time",
			`SELECT 'environment ' || environment || ' has ' || COUNT(*) || ' running cycles' FROM cycles WHERE status = 'running'
				GROUP BY environment HAVING COUNT(*) > 1 ORDER BY environment`,
		},
		{
			"one session of a cycle runs at a time",
			`SELECT 'cycle ' || cycle_id || ' has ' || COUNT(*) || ' running sessions' FROM sessions WHERE status = 'running'
				GROUP BY cycle_id HAVING COUNT(*) > 1 ORDER BY cycle_id`,
		},
		{
			"a running cycle has an owner",
			`SELECT 'cycle ' || id || ' is running without an owner' FROM cycles
				WHERE status = 'running' AND (owner IS NULL OR owner = '') ORDER BY id`,
		},
		{
			"what has ended says when",
			`SELECT 'cycle ' || id || ' is ' || status || ' and has ' || CASE WHEN ended_at IS NULL THEN 'no end' ELSE 'an end' END FROM cycles
				WHERE (status IN ` + ended + `) <> (ended_at IS NOT NULL) ORDER BY id`,
		},
		{
			"a session that ran says from when to when",
			`SELECT 'session ' || id || ' is ' || status || ' without its times' FROM sessions WHERE (status = 'running' AND started_at IS NULL)
				OR (status NOT IN ('queued', 'running') AND ended_at IS NULL) OR (status IN ('queued', 'running') AND ended_at IS NOT NULL)
				ORDER BY id`,
		},
		{
			"a chain stays within its cycle",
			`SELECT 'session ' || s.id || ' of cycle ' || s.cycle_id || ' follows session ' || p.id || ' of cycle ' || p.cycle_id FROM sessions s
				JOIN sessions p ON p.id = s.parent_session_id OR p.id = s.retry_of_session_id WHERE p.cycle_id <> s.cycle_id ORDER BY s.id`,
		},
		{
			"a decision is about a session of its cycle",
			`SELECT 'decision ' || e.id || ' of cycle ' || e.cycle_id || ' is about session ' || s.id || ' of cycle ' || s.cycle_id
				FROM escalations e
				JOIN sessions s ON s.id = e.session_id WHERE s.cycle_id <> e.cycle_id ORDER BY e.id`,
		},
		{
			"nobody is asked about what has ended",
			`SELECT 'question ' || a.id || ' is open, and its cycle ' || c.id || ' is ' || c.status FROM approvals a
				JOIN cycles c ON c.id = a.cycle_id WHERE a.status = 'pending' AND c.status IN ` + ended + ` ORDER BY a.id`,
		},
		{
			"a resolved incident says when",
			`SELECT 'incident ' || id || ' is ' || status || ' and has ' || CASE WHEN resolved_at IS NULL THEN 'no end' ELSE 'an end' END
				FROM incidents
				WHERE (status = 'resolved') <> (resolved_at IS NOT NULL) ORDER BY id`,
		},
		{
			"what was taken down and brought up again belongs together",
			`SELECT 'action ' || a.id || ' is covered by action ' || b.id || ' of another cycle' FROM cooldown_actions a
				JOIN cooldown_actions b ON b.id = a.covered_by WHERE a.cycle_id <> b.cycle_id ORDER BY a.id`,
		},
		{
			"output belongs to a session",
			`SELECT 'output of session ' || t.session_id || ', which does not exist' FROM (SELECT DISTINCT session_id FROM transcript) t
				WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = t.session_id) ORDER BY t.session_id`,
		},
	}
}

// wrongCosts finds the rows of cost_days that differ from the sessions.
func wrongCosts() string {
	differ := ops.Map(costFigures(), func(column string) string { return `SUM(` + column + `) <> 0` })
	return `SELECT 'the costs of tier ' || tier || ' in ' || environment || ' on ' || day || ' differ by ' || SUM(sessions) || ' sessions and '
		|| SUM(cost) || ' billionths of a dollar' FROM (SELECT ` + costKey + `, ` + strings.Join(costFigures(), `, `) + ` FROM cost_days
		UNION ALL ` + addedCosts(`TRUE`, `-`) + `) AS d GROUP BY ` + costKey + ` HAVING ` + strings.Join(differ, ` OR `) + ` ORDER BY ` + costKey
}

// Verify looks for damage and for rows that break a rule of the journal. With full it reads every page and index and counts every
// line of output.
func (s *Journal) Verify(ctx context.Context, full bool) ([]Flaw, error) {
	out, err := s.db.Flaws(ctx, full)
	if err != nil || len(out) > 0 {
		return out, err // the rows of a damaged file prove nothing
	}
	rules := invariants()
	if full {
		rules = append(rules, invariant{
			"a transcript has all its lines",
			`SELECT 'session ' || l.id || ' has ' || l.found || ' of ' || l.want || ' lines' FROM (
				SELECT s.id, s.transcript_lines - s.transcript_dropped AS want, (SELECT COUNT(*) FROM transcript t WHERE t.session_id = s.id) AS found
				FROM sessions s WHERE s.transcript_removed_at IS NULL AND s.ended_at IS NOT NULL AND s.transcript_bytes >= 0
			) AS l WHERE l.found <> l.want ORDER BY l.id`,
		}, invariant{"the costs of a day are those of its sessions", wrongCosts()}, invariant{
			"the cost of a cycle is that of its sessions",
			`SELECT 'cycle ' || cycle_id || ' is counted with ' || cost || ' billionths of a dollar on ' || day FROM (
				SELECT day, cost, cycle_id, environment, 1 AS n FROM cycle_cost_days
				UNION ALL SELECT day, cost, id, environment, -1 FROM (` + endedCycleCosts(`TRUE`) + `) AS r) AS d
				GROUP BY day, cost, cycle_id, environment HAVING SUM(n) <> 0 ORDER BY cycle_id, day`,
		})
	}
	err = s.db.ReadLong(ctx, func(tx db.Querier) error {
		for _, rule := range rules {
			found, err := db.List(ctx, tx, db.ScanString, rule.query+fmt.Sprintf(` LIMIT %d`, db.MaxFlaws))
			if err != nil {
				return fmt.Errorf("%s: %w", rule.name, err)
			}
			for _, detail := range found {
				out = append(out, Flaw{Check: rule.name, Detail: detail})
			}
		}
		return nil
	})
	return ops.Returning(out, err, "check journal %s", s.db.Name())
}
