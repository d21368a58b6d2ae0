package cycle_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// attacks is a session that does what a hostile log says, and claims that all is well.
func attacks(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
	g, err := r.store.Acts.RecordGuard(r.t.Context(), r.owner, ops.GuardRecord{
		At: clock(), CycleID: spec.Session.CycleID, SessionID: spec.Session.ID, Tier: spec.Session.Tier, Gate: ops.GateHook, ToolUseID: "t1", Tool: "Bash",
		Input: `{"command":"pkill claudeops"}`, Rule: ops.RuleAttack, Reason: "pkill is refused at every tier",
	}, nil, nil)
	r.must(err)
	if !r.tape.dead {
		r.Gates.(*gates).alarm(g)
	}
	return says(ops.OutcomeResolved)(r, spec)
}

func attackChains() []chain {
	return []chain{
		{name: "an-agent-attacks-the-supervisor", ends: ops.CycleNeedsHuman, policy: policy(recovering), gated: true, acts: []act{hands(2), attacks}},
	}
}

// An attack ends its session and its cycle, whether or not the supervisor lives to see the end.
func TestAnAttackOnTheSupervisorCallsAHumanAtOnce(t *testing.T) {
	storetest.NewFile(t)
	for name, dies := range map[string]bool{"seen to its end": false, "the supervisor is killed after the record": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRehearsal(t, chain{
					policy: policy(recovering, probing("web")), gated: true, probes: finds("web", ops.Down), acts: []act{hands(2), func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
						r.tape.dead = dies
						return attacks(r, spec)
					}},
				})
				defer func() { r.must(r.store.Close()) }()
				r.submit(ops.NewCycle{})
				if dies {
					r.crash()
					r.reborn()
				} else {
					r.advance()
				}
				const says = "session 2 (Tier 2) for web attacked the supervisor: the guard refused Bash pkill claudeops"
				r.ended(ops.CycleNeedsHuman, says)
				c, err := r.store.Journal.Load(t.Context(), r.id)
				r.must(err)
				if s := c.Journal.Last(); r.ran != 2 || s.StopCause != ops.StopAttack || s.Status != ops.SessionFailed || len(s.OutcomeJSON) > 0 ||
					len(c.Journal.Recoveries)+len(c.Journal.Lowered) > 0 {
					t.Errorf("%d sessions ran; the last one %s, stopped by %q, says %s", r.ran, s.Status, s.StopCause, s.OutcomeJSON)
				}
				r.told(says)
				open, err := r.store.People.Unresolved(t.Context(), "default")
				r.must(err)
				var titles []string
				for _, i := range open {
					titles = append(titles, strings.TrimSpace(i.Service+" "+i.Class+": "+i.Title))
				}
				slices.Sort(titles)
				if want := []string{"attack: An agent attacked the supervisor", "web down: web: HTTP 502"}; !slices.Equal(titles, want) {
					t.Errorf("open are %q", titles)
				}
			})
		})
	}
}

// told: the only call for a human begins with the attack, and takes no word of the agent for a finding.
func (r *rehearsal) told(says string) {
	r.t.Helper()
	notices, err := r.store.People.NoticeList(r.t.Context(), store.NoticeFilter{})
	r.must(err)
	if len(notices) != 1 {
		r.t.Fatalf("%d notices", len(notices))
	}
	n := notices[0]
	if n.Level != ops.LevelCritical || !strings.HasSuffix(n.Title, "An agent attacked the supervisor") || !strings.HasPrefix(strings.ToLower(n.Body), strings.ToLower(says)) ||
		!strings.Contains(n.Body, "The outage: HTTP 502") {
		r.t.Errorf("%s: %s\n%s", n.Level, n.Title, n.Body)
	}
}

func TestASecondAttackForAServiceWithinADayStartsNothingThatRepairs(t *testing.T) {
	storetest.NewFile(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRehearsal(t, chain{
			policy: policy(probing("web")), gated: true, probes: finds("web", ops.Down), acts: []act{hands(2), attacks, hands(2), attacks, hands(2), hands(2), attacks, hands(2)},
		})
		defer func() { r.must(r.store.Close()) }()
		for n, want := range []struct {
			after time.Duration
			says  string
			ran   int
		}{
			{0, "session 2 (Tier 2) for web attacked", 2},
			{3 * time.Hour, "session 4 (Tier 2) for web attacked", 4},                             // one attack changes nothing for later cycles
			{3 * time.Hour, "twice within a day, so nothing above Tier 1 starts until ", 5},       // two do
			{19 * time.Hour, "session 7 (Tier 2) for web attacked", 7},                            // until the first is a day old
			{time.Hour, "twice within a day, so nothing above Tier 1 starts until 2000-01-02", 8}, // of the second and the third
		} {
			pass(want.after)
			r.submit(ops.NewCycle{})
			r.advance()
			r.ended(ops.CycleNeedsHuman, want.says)
			if r.ran != want.ran {
				t.Errorf("cycle %d: %d sessions ran, want %d", n+1, r.ran, want.ran)
			}
		}
	})
}
