package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// steps are lines of an agent with gates between them.
func steps(parts ...any) []agenttest.Step {
	var out []agenttest.Step
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, agenttest.Step{Out: p})
		case agenttest.Step:
			out = append(out, p)
		}
	}
	return out
}

const probe = "curl -s http://127.0.0.1/healthz"

// TestAChainIsWatchedLiveFromStartToRepair opens the pages once and never again; everything else comes to them.
func TestAChainIsWatchedLiveFromStartToRepair(t *testing.T) {
	t.Parallel()
	gates := t.TempDir()
	d := startDaemon(t, gates, []agenttest.Play{
		{Tier: 1, Handoff: agenttest.Handoff(2, "web"), Steps: steps(agenttest.Init(), agenttest.Text("I look at **web**."), gate(gates, "look"),
			agenttest.Use("toolu_1", probe), gate(gates, "looked"), agenttest.Answer("toolu_1", "502 Bad Gateway"),
			agenttest.Text("web answers 502."), gate(gates, "hand-up"), agenttest.Result(0.02, "web is down, Tier 2 should restart it."))},
		{Tier: 2, Handoff: agenttest.Handoff(3, "web"), Steps: steps(agenttest.Init(), agenttest.Text("A restart did not help."),
			gate(gates, "give-up"), agenttest.Result(0.31, "Tier 3 must repair the database."))},
		{Tier: 3, Steps: steps(agenttest.Init(), agenttest.Text("I repair the database."), gate(gates, "repair"),
			agenttest.Text("web answers 200 again."), agenttest.Result(0.5, "Repaired the database; web answers 200."))},
	}, "CLAUDEOPS_APPROVAL_TIER=3")

	overview, first := d.open(t), d.open(t)
	overview.visit("/")
	overview.live()
	overview.sees("Now", "Session #1")
	overview.mark()
	first.visit("/sessions/1")
	first.live()
	first.sees("I look at web.", "Running", "Following")
	first.mark()

	d.pass("look")
	first.wait("the call is shown as running", `document.querySelector('#lines details.step .step-end')?.innerText.includes('running')`)
	d.pass("looked")
	first.wait("its answer comes to the same row", `document.querySelector('#lines details.step .step-end .tone-ok') && !document.querySelector('#lines .step-end .tone-run')`)
	first.sees("web answers 502.")
	d.pass("hand-up")
	first.sees("Escalated to Session #2 (Tier 2)", "web is down, Tier 2 should restart it.", "$0.02")
	first.wait("the stop button is gone", `!document.querySelector('#session-head button[commandfor]')`)
	first.wait("the handoff is there", `document.querySelector('#session-records .document')?.textContent.includes('recommended_tier')`)
	first.wait("the chain names both", `document.querySelectorAll('#session-chain table.chain tbody tr[id^="chain-"]').length === 2`)
	overview.sees("Session #2")

	d.pass("give-up")
	overview.sees("Needs you")
	overview.wait("the navigation counts the question",
		`document.querySelector('#rail-count')?.checkVisibility() && parseInt(document.querySelector('#rail-count').innerText) === 1`)
	person := d.open(t)
	person.visit("/incidents")
	person.sees("Approve: start Tier 3 for web", "Restarted the container; it did not help.")
	person.follow(`article.decision button[formaction$="/approve"]`)
	person.sees("Approval 1 is granted.")

	third := d.open(t)
	first.wait("the third tier is in the chain", `document.querySelectorAll('#session-chain table.chain tbody tr[id^="chain-"]').length === 3`)
	third.visit("/sessions/3")
	third.live()
	third.sees("I repair the database.", "Escalated from Session #2 (Tier 2)")
	third.mark()
	third.click(`#session-tabs a[data-tab="result"]`)
	third.sees("The session is still running.")
	ticks := eval[string](third, `document.querySelector('#session-chain tfoot [data-since]').innerText`)
	third.wait("the chain's total counts on", fmt.Sprintf(`document.querySelector('#session-chain tfoot [data-since]').innerText !== %s`,
		quoted(ticks)))
	d.pass("repair")
	third.sees("Repaired the database; web answers 200.")
	third.wait("the tab stays", `document.documentElement.dataset.tab === 'result' && document.querySelector('#session-tabs [aria-current]').dataset.tab === 'result'`)
	third.click(`#session-tabs a[data-tab="transcript"]`)
	third.sees("web answers 200 again.")
	third.wait("its head says that it is over", `document.querySelector('#session-head').dataset.status !== 'Running'`)
	third.wait("the result replaced its placeholder", `!document.querySelector('#session-records').innerText.includes('It has not ended yet')`)
	third.wait("the stream says that it is over", `document.querySelector('#stream').dataset.state === 'ended'`)
	for _, b := range []*tab{first, third} {
		b.wait("the chain is resolved", `document.querySelector('#session-chain .chain-end').innerText.includes('Resolved')`)
		b.wait("the chain's total is shown", `document.querySelector('#session-chain tfoot').innerText.includes('$0.83')`)
		b.same()
		b.noLineTwice()
	}
	overview.wait("nothing runs any more", `!document.querySelector('#now') && document.querySelector('main').innerText.includes('Resolved')`)
	overview.same()
	if got := strings.Join(third.lines(), "\n"); strings.Count(got, "web answers 200 again.") != 1 {
		t.Errorf("the transcript is\n%s", got)
	}
}

// lines are the rows of the transcript.
func (b *tab) lines() []string {
	b.t.Helper()
	return eval[[]string](b, `[...document.querySelectorAll('#lines > li.entry')].map((e) => e.id + ' ' + e.querySelector('.part-body, .step')?.innerText.trim())`)
}

func (b *tab) noLineTwice() {
	b.t.Helper()
	seen := map[string]bool{}
	lines := b.lines()
	if len(lines) == 0 {
		b.t.Error("no line is shown")
	}
	for _, line := range lines {
		id, _, _ := strings.Cut(line, " ")
		if seen[id] {
			b.t.Errorf("row %s is there twice", id)
		}
		seen[id] = true
	}
	if twice := eval[[]string](b, `[...document.querySelectorAll('[id]')].map((e) => e.id).filter((id, at, all) => all.indexOf(id) !== at)`); len(twice) > 0 {
		b.t.Errorf("ids that are not unique: %v", twice)
	}
}

func TestRunNowWithAPromptThenStop(t *testing.T) {
	t.Parallel()
	gates := t.TempDir()
	look := agenttest.Play{Tier: 1, Attempt: 1, Steps: steps(agenttest.Init(), agenttest.Result(0.01, "All services are healthy."))}
	hang := agenttest.Play{
		Tier: 1, Attempt: 2, OnInterrupt: "result",
		Steps: steps(agenttest.Init(), agenttest.Text("I watch the disk."), agenttest.Step{Hang: true}),
	}
	d := startDaemon(t, gates, []agenttest.Play{look, hang})
	b := d.open(t)
	b.visit("/")
	b.live()
	b.sees("Last check: Healthy")
	b.click(`.top-actions button[commandfor="run-now"]`)
	b.wait("the dialog is open", `document.querySelector('#run-now').open && document.querySelector('#run-now').matches(':modal')`)
	const prompt = "Is the disk of paperless full?"
	b.must(b.fill("#run-prompt", prompt))
	b.follow("#run-now button.primary")
	b.sees("Now", prompt)
	calls := func() []agenttest.Call { return agenttest.Calls(t, d.bin) }
	d.until("the agent is told", func() bool { return len(calls()) == 2 })
	told := calls()[1]
	if !strings.Contains(told.Stdin+strings.Join(told.Args, " "), prompt) {
		t.Errorf("the agent was not told: %q %q", told.Stdin, told.Args)
	}
	b.wait("it leads to the session", `document.querySelector('#now a[href^="/sessions/"]')`)
	b.follow(`#now a[href^="/sessions/"]`)
	b.live()
	b.sees("I watch the disk.")

	// A second thought leaves it alone.
	b.click(`#session-head button[commandfor]`)
	b.wait("it asks first", `document.querySelector('dialog:modal')?.innerText.includes('Stop')`)
	b.click(`dialog:modal button[command="close"]`)
	b.wait("it is left alone", `!document.querySelector('dialog:modal')`)
	b.wait("it runs on", `document.querySelector('#session-head').dataset.status === 'Running'`)

	b.click(`#session-head button[commandfor]`)
	b.follow(`dialog:modal button.danger`)
	b.mark()
	b.wait("it is shown as stopped", `document.querySelector('#session-head').dataset.status === 'Cancelled'`)
	b.sees("Why it stopped")
	b.same()
	b.noLineTwice()
}

// TestAPageComesBackAfterTheServerRestarts loses the connection, misses lines meanwhile, and gets each of them once.
func TestAPageComesBackAfterTheServerRestarts(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	id := j.play(j.begin(ops.NewCycle{}), ops.Step{}, run{
		handler: observer, status: ops.SessionRunning,
		lines: []string{said("line 1"), said("line 2"), said("line 3")},
	})[0]
	w := serve(t, j.store)
	b, list := open(t, w.base()), open(t, w.base())
	for _, page := range []*tab{b, list} {
		page.excuse("net::ERR_")
		page.excuse("Failed to fetch")
		page.excuse("network error")
	}
	b.visit(path("/sessions/%d", id))
	b.live()
	list.visit("/sessions")
	list.live()
	b.mark()
	list.mark()
	j.say(id, said("line 4"))
	b.sees("line 4")

	w.stop()
	for _, page := range []*tab{b, list} {
		page.wait("the loss is told", `document.querySelector('#lost').checkVisibility() && document.querySelector('#lost').innerText.includes('Connection lost. Showing data from')`)
		page.wait("nothing can be done meanwhile", `[...document.querySelectorAll('[data-act]')].every((e) => e.disabled)`)
		page.wait("the chip says so", `document.querySelector('#stream').dataset.state === 'wait'`)
	}
	j.say(id, said("line 5"), said("line 6"))
	w.start()
	b.sees("line 5", "line 6")
	for _, page := range []*tab{b, list} {
		page.live()
		page.wait("the banner is gone", `!document.querySelector('#lost').checkVisibility()`)
		page.wait("things can be done again", `[...document.querySelectorAll('[data-act]')].every((e) => !e.disabled)`)
	}
	var want []string
	for n := range 6 {
		want = append(want, fmt.Sprintf("line %d", n+1))
	}
	if got := b.said(); !slices.Equal(got, want) {
		t.Errorf("the transcript says %q", got)
	}
	b.noLineTwice()
	j.say(id, said("line 7"))
	b.sees("line 7")
	j.end(id, run{outcome: ops.OutcomeHealthy, cost: 0.01, turns: 2}, finish(ops.CycleHealthy, "All services are healthy."))
	list.wait("the list goes on too", `document.querySelector('main').innerText.includes('Healthy')`)
	b.wait("the end is told", `document.querySelector('#stream').dataset.state === 'ended'`)
	b.same()
	list.same()
}

// said are the texts of the transcript in order.
func (b *tab) said() []string {
	b.t.Helper()
	return eval[[]string](b, `[...document.querySelectorAll('#lines .prose')].map((e) => e.innerText.trim())`)
}

func TestWhoReadsEarlierLinesIsNotMoved(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	lines := make([]string, 60)
	for n := range lines {
		lines[n] = said(fmt.Sprintf("line %d", n+1))
	}
	id := j.play(j.begin(ops.NewCycle{}), ops.Step{}, run{handler: observer, status: ops.SessionRunning, lines: lines})[0]
	b := open(t, serve(t, j.store).base())
	b.visit(path("/sessions/%d", id))
	b.live()
	const atEnd = `document.querySelector('#log').scrollHeight - document.querySelector('#log').scrollTop - document.querySelector('#log').clientHeight < 2`
	b.wait("the newest line is in view", atEnd)
	j.say(id, said("line 61"))
	b.sees("line 61")
	b.wait("it is followed", atEnd)
	eval[float64](b, `document.querySelector('#log').scrollTop = 40`)
	b.wait("following is paused", `document.querySelector('[data-follow]').getAttribute('aria-pressed') === 'false'`)
	j.say(id, said("line 62"), said("line 63"))
	b.wait("what is new is counted", `document.querySelector('#jump').checkVisibility() && document.querySelector('#jump').innerText.includes('2 new lines')`)
	if got := eval[float64](b, `document.querySelector('#log').scrollTop`); got != 40 {
		t.Errorf("the reader was moved to %v", got)
	}
	b.click("#jump")
	b.wait("the end is in view again", atEnd)
	b.wait("it is followed again", `document.querySelector('[data-follow]').getAttribute('aria-pressed') === 'true'`)
}
