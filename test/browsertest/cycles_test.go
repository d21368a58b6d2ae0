package browsertest

import (
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/agenttest"
)

// cycleOf is the cycle of a session.
func (f *fixture) cycleOf(id ops.SessionID) ops.CycleID {
	f.t.Helper()
	s, err := f.store.Journal.Session(f.t.Context(), id)
	f.must(err)
	return s.CycleID
}

func TestThePagesOfCyclesAreAccessibleInBothThemesAndWidths(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	opened := `for (const d of document.querySelectorAll('details')) d.open = true`
	lookAtAll(t, serve(t, f.store).base(), []sight{
		{name: "cycles", path: "/cycles"},
		{name: "filtered cycles", path: "/cycles?status=resolved&tier=2", again: true},
		{name: "cycle with every role", path: path("/cycles/%d", f.cycleOf(f.repaired[0])), then: opened},
		{name: "cycle that waits", path: path("/cycles/%d", f.approval.CycleID)},
		{name: "question to stop a cycle", path: path("/cycles/%d", f.approval.CycleID), then: `document.querySelector('#stop').showModal()`},
		{name: "running cycle", path: path("/cycles/%d", f.cycleOf(f.running)), again: true},
		{name: "cycle with denials", path: path("/cycles/%d", f.cycleOf(f.denied)), again: true},
		{name: "session before a question", path: path("/sessions/%d?tab=handoff", f.approval.SessionID), then: opened, again: true},
		{name: "result of a session", path: path("/sessions/%d?tab=result", f.repaired[6]), then: opened, again: true},
	})
}

func TestAScreenShowsTwentyCyclesInOneLineEach(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := open(t, serve(t, f.store, func(o *web.Options) { o.Environments = environments() }).base())
	b.resize(wide)
	for _, p := range []string{"/cycles", "/sessions"} {
		b.visit(p)
		shown := eval[int](b, `[...document.querySelectorAll('table.cycles tbody tr')].filter((r) => r.getBoundingClientRect().bottom <= innerHeight).length`)
		if shown < 18 {
			t.Errorf("%s: only %d cycles are on the screen", p, shown)
		}
		if high := eval[float64](b, `Math.max(...[...document.querySelectorAll('table.cycles tbody tr')].map((r) => r.getBoundingClientRect().height))`); high > 34 {
			t.Errorf("%s: a line is %g pixels high", p, high)
		}
		rows := eval[int](b, `new Set([...document.querySelectorAll('form.filter-row > input[type=search], form.filter-row select')].map((e) => Math.round(e.getBoundingClientRect().top))).size`)
		if rows != 1 {
			t.Errorf("%s: the filters take %d rows", p, rows)
		}
		gap := eval[float64](b, `document.querySelector('table.cycles').getBoundingClientRect().top - document.querySelector('form.filter-row').getBoundingClientRect().bottom`)
		if gap < 8 {
			t.Errorf("%s: the filters are %g pixels from the table", p, gap)
		}
	}
	b.follow(`table.cycles tbody tr#c` + path("%d", f.approval.CycleID) + ` th a`)
	b.sees("Review and answer")
	b.follow(`a[href^="/approvals/"].button`)
	b.sees("Approve once")
}

func TestTheHeaderOfASessionCollapsesWithoutAJump(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := open(t, serve(t, f.store).base())
	b.resize(wide)
	b.visit(path("/sessions/%d", f.long))
	title := `getComputedStyle(document.querySelector('.stick-title')).visibility`
	b.wait("the title is in the header only", title+` === 'hidden'`)
	high := eval[float64](b, `document.documentElement.scrollHeight`)
	eval[bool](b, `scrollTo(0, document.documentElement.scrollHeight); true`)
	b.wait("the tabs stay in view", `document.querySelector('#session-tabs').getBoundingClientRect().top === 0`)
	b.wait("the title is beside the tabs", title+` === 'visible'`)
	if now := eval[float64](b, `document.documentElement.scrollHeight`); now != high {
		t.Errorf("the page was %g pixels high and is %g", high, now)
	}
}

func TestACycleIsWatchedLiveOnItsPage(t *testing.T) {
	t.Parallel()
	gates := t.TempDir()
	d := startDaemon(t, gates, []agenttest.Play{
		{Tier: 1, Handoff: agenttest.Handoff(2, "web"), Steps: steps(agenttest.Init(), agenttest.Text("I look."), gate(gates, "look"),
			agenttest.Result(0.02, "web is down."))},
		{Tier: 2, Handoff: agenttest.Handoff(3, "web"), Steps: steps(agenttest.Init(), agenttest.Text("A restart did not help."),
			agenttest.Result(0.31, "Tier 3 must repair it."))},
		{Tier: 3, Steps: steps(agenttest.Init(), agenttest.Text("I repair it."), agenttest.Result(0.5, "Repaired."))},
	}, "CLAUDEOPS_APPROVAL_TIER=3")
	b := d.open(t)
	b.visit("/cycles/1")
	b.live()
	b.sees("Scheduled check", "Running", "Tier 1 is at work")
	b.mark()
	d.pass("look")
	b.wait("the problem becomes the title", `document.querySelector('h1').innerText.startsWith('web: ')`)
	b.sees("Review and answer", "May Tier 3 start?")
	b.same()
	person := d.open(t)
	person.visit("/cycles/1")
	person.follow(`a[href="/approvals/1"].button`)
	person.follow(`button[formaction$="/approve"]`)
	b.wait("the cycle ends", `document.querySelector('.state .badge').innerText.includes('Resolved')`)
	b.sees("approved Tier 3 after", "$0.83", "Resolved")
	b.same()
	b.follow(`form[action="/cycles/1/run"] button`)
	b.sees("Cycle C-2 is queued.")
}
