package web_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

func TestASessionHasItsPartsBehindTabs(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	path := fmt.Sprintf("/sessions/%d", ids[0])
	mustContain(t, s.page(path), `data-tab="transcript">`, `data-tab="transcript" aria-current="page"`, path+"?tab=files", path+"/raw")
	for _, tab := range []string{"handoff", "result", "recovery", "guard"} {
		body := s.page(path + "?tab=" + tab)
		mustContain(t, body, fmt.Sprintf(`<html lang="en" data-theme="system" data-tab="%s">`, tab),
			fmt.Sprintf(`data-tab="%s" aria-current="page"`, tab),
			"panel-transcript", "panel-"+tab)
	}
	if got := s.get(path + "?tab=nothing").StatusCode; got != http.StatusNotFound {
		t.Errorf("a part that is not there: %d", got)
	}
	mustNotContain(t, s.page("/sessions"), "data-tab")
}

func TestTheRawTranscriptIsEveryLine(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy, Lines: append(numbered(1200), "<script>x</script>")})
	got := s.get(fmt.Sprintf("/sessions/%d/raw", ids[0]))
	if lines := strings.Count(got.body, "\n"); lines != 1201 || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d lines as %s", lines, got.Header.Get("Content-Type"))
	}
	mustContain(t, got.body, "line number 1200.", "<script>x</script>\n")
	if status := s.get("/sessions/99/raw").StatusCode; status != http.StatusNotFound {
		t.Errorf("a session that is not there: %d", status)
	}
}

func TestFewFactsStandAboveTheTranscriptAndTheRestIsFolded(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	_, figures, _ := strings.Cut(s.page(fmt.Sprintf("/sessions/%d", ids[0])), `aria-label="Figures"`)
	shown, folded, _ := strings.Cut(figures, "<details")
	folded, _, _ = strings.Cut(folded, "</details>")
	if n := strings.Count(shown, "<dt>"); n > 8 {
		t.Errorf("%d facts", n)
	}
	mustContain(t, shown, "Est. cost", "Turns", "Tokens", "Model", "Trigger")
	mustContain(t, folded, "Started", "Handler", "Context")
}

func TestWhatRunsCountsOn(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "",
		apitest.Run{Tier: 1, For: 17 * time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff, Figures: figures(0.02, 4, 17_000)},
		apitest.Run{Tier: 2, Status: ops.SessionRunning})
	s.Now = s.Now.Add(3 * time.Second)
	body := s.page(fmt.Sprintf("/sessions/%d", ids[1]))
	_, total, _ := strings.Cut(body, "Cycle total")
	since := s.Now.Add(-20 * time.Second).UTC().Format(time.RFC3339)
	mustContain(t, total, fmt.Sprintf(`data-since="%s">20s<`, since))
}

func TestARemovedTranscriptSaysSo(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.KeepTranscripts = 30 * 24 * time.Hour })
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy, Lines: numbered(300)})
	db, err := sql.Open("sqlite", s.Path)
	must(t, err)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `DELETE FROM transcript`); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "?end=1"} {
		body := s.page(fmt.Sprintf("/sessions/%d%s", ids[0], query))
		mustContain(t, body, "Transcript removed by retention (30 days).")
		mustNotContain(t, body, "300</span> lines", "Newest lines")
	}
	for removed, want := range map[time.Duration]string{31 * 24 * time.Hour: "(30 days)", time.Hour: "(total size limit reached)"} {
		at := s.Now.Add(removed).UTC()
		if _, err := db.ExecContext(t.Context(), `UPDATE sessions SET transcript_removed_at = ?`,
			at.Format("2006-01-02T15:04:05.000000Z")); err != nil {
			t.Fatal(err)
		}
		mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "Transcript removed by retention on "+at.Format(time.DateOnly)+" "+want)
	}
}

func TestASessionShowsWhatTheGuardDecided(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning})
	path := fmt.Sprintf("/sessions/%d", ids[0])
	mustContain(t, s.page(path), "The guard has checked no calls.")
	mustNotContain(t, s.page(path), "0 allowed")
	s.Judge(ids[0], ops.GuardRecord{
		Gate: ops.GateHook, Tool: "Bash", Input: `{"command":"ls && pwd"}`, Tier: 1, Allowed: true,
		Rule: "tool.Bash", Reason: "ls is allowed.",
	})
	s.Judge(ids[0], ops.GuardRecord{
		Gate: ops.GateShell, Tool: "Bash", Input: `{"command":"rm -rf / <script>alert(1)</script>` + strings.Repeat("x", 400) + `"}`, Tier: 1,
		Rule: "never.rm-root", Reason: "Nobody deletes the root.",
	})
	body := s.page(path)
	mustContain(t, body, "Guard decisions", "1 allowed, 1 denied", "Allowed", "Denied", "ls &amp;&amp; pwd", "before the tool call",
		"before the shell",
		"never.rm-root", "Nobody deletes the root.", "Show all")
	mustContain(t, body, `Guard <span class="tab-number">2</span>`)
	mustNotContain(t, body, "<script>alert", "The guard has checked no calls.")
}

func TestALongSessionStillShowsEveryRefusal(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning})
	s.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, Tool: "Bash", Input: "first refusal", Tier: 1, Rule: "R1", Reason: "No."})
	for i := range 210 {
		s.Judge(ids[0], ops.GuardRecord{
			Gate: ops.GateHook, Tool: "Bash", Input: fmt.Sprintf("look-%d.", i), Tier: 1, Allowed: true,
			Rule: "tool.Bash", Reason: "Yes.",
		})
	}
	body := s.page(fmt.Sprintf("/sessions/%d", ids[0]))
	mustContain(t, body, "210 allowed, 1 denied", "first refusal", "look-209.")
	mustNotContain(t, body, "look-3.")
}

func TestChildLinkNamesTheLastAttemptToWork(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleResolved, "done",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff},
		apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionFailed, Error: "boom"},
		apitest.Run{Tier: 2, Attempt: 2, Retry: true, For: time.Second, Outcome: ops.OutcomeResolved},
		apitest.Run{Tier: 2, Attempt: 3, Role: ops.RoleJudge, Model: "judge-model", For: time.Second})
	body := s.page(fmt.Sprintf("/sessions/%d", ids[0]))
	mustContain(t, body, fmt.Sprintf("Escalated to Session #%d (Tier 2)", ids[2]), `<span class="role">Judge</span>`)
	mustNotContain(t, body, fmt.Sprintf("Escalated to Session #%d ", ids[3]))
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[2])), fmt.Sprintf("Escalated from Session #%d (Tier 1)", ids[0]), fmt.Sprintf("Retry of Session #%d (attempt 2)", ids[1]))
	mustContain(t, s.page("/sessions"), "Tier 2 Judge")
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[3])), "Safe remediation · Judge")
}

func TestSessionPageShowsRecoveryAndVerdict(t *testing.T) {
	s := newSite(t)
	cycle, ids := s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionRunning})
	s.Step(cycle, ops.Step{
		Kind: ops.StepPause, Until: s.Now,
		Recovery: &ops.Recovery{
			SessionID: ids[0], Tier: 1, Level: ops.RecoveryNudge, Action: "nudge", ErrorType: "schema<b>", EnteredAt: s.Now,
			PreviousLevels: []ops.RecoveryLevel{ops.RecoveryRetry}, Handler: "tier1", Reason: "The outcome <i>did not fit.",
		},
		Verified: &ops.Verification{
			SessionID: ids[0], JudgeSessionID: ids[0], Verdict: "CONDITIONAL", Confidence: 0.72, TotalScore: 72, At: s.Now,
			Dimensions: map[string]int{"goalAlignment": 18}, Reasoning: "It <u>looks</u> well.", FailureReasons: []string{"no proof"},
			Recommendations: []string{"look again"},
		},
	})
	body := s.page(fmt.Sprintf("/sessions/%d", ids[0]))
	mustContain(t, body, "Level 2", "<strong>nudge</strong>", "schema&lt;b&gt;", "1 retry", "The outcome &lt;i&gt;did not fit.",
		"Judge's verdict", "Conditional", "72 points, confidence 72 %", "goalAlignment", "It &lt;u&gt;looks&lt;/u&gt; well.", "no proof",
		"look again")
}

func TestSessionPageSaysHowSureTheAgentIs(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleResolved, "done",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff},
		apitest.Run{Tier: 2, For: time.Second, Outcome: ops.OutcomeResolved, Report: `{"outcome":"resolved","summary":"done","confidence":0.4}`})
	mustNotContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "<dt>Confidence")
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[1])), "<dt>Confidence", "40 %")
}

func TestMarkdownIsRenderedAndHTMLIsNot(t *testing.T) {
	s := newSite(t)
	body := s.page(s.transcript(said("# Title\n\nSome **bold** `code`, [a link](https://example.org/x), [a bad one](javascript:alert(1)).\n\n" +
		"- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<div hx-get=\"/run\">raw</div> ![pixel](https://evil.example/p.png)\n\n```\nx < y\n```")))
	_, inside, _ := strings.Cut(body, `id="lines"`)
	mustContain(t, inside, "<p><strong>Title</strong></p>", "<strong>bold</strong>", "<code>code</code>",
		`<a href="https://example.org/x" rel="nofollow noreferrer noopener" target="_blank">a link</a>`,
		"<li>one</li>", "<td>1</td>", "x &lt; y")
	mustNotContain(t, inside, "<h1", "javascript:", `hx-get="/run"`, "<img", "evil.example")
}

func TestScenario_SessionDetailShowsParentLink(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	for i, child := range ids[1:] {
		body := s.page(fmt.Sprintf("/sessions/%d", child))
		parent := ids[i]
		mustContain(t, body,
			fmt.Sprintf("Escalated from Session #%d (Tier %d)", parent, i+1),
			fmt.Sprintf(`href="/sessions/%d"`, parent))
	}
	mustNotContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "Escalated from")
}

func TestScenario_SessionDetailShowsChildLink(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	for i, parent := range ids[:2] {
		body := s.page(fmt.Sprintf("/sessions/%d", parent))
		child := ids[i+1]
		mustContain(t, body,
			fmt.Sprintf("Escalated to Session #%d (Tier %d)", child, i+2),
			fmt.Sprintf(`href="/sessions/%d"`, child))
	}
	mustNotContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[2])), "Escalated to")
}

func TestScenario_SessionsListShowsEscalationIndicator(t *testing.T) {
	s := newSite(t)
	cycle, ids := s.threeTiers()
	_, alone := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy})
	body := s.page("/sessions")
	mustContain(t, body,
		fmt.Sprintf("C-%d", cycle), "jellyfin 502",
		"First session of the cycle",
		fmt.Sprintf("Escalated from session #%d:", ids[0]),
		fmt.Sprintf("Escalated from session #%d:", ids[1]),
		`<span class="arrow" aria-hidden="true">→</span><a class="tier tier-2"`, `<span class="arrow" aria-hidden="true">→</span><a class="tier tier-3"`)
	for _, id := range append(ids, alone...) {
		mustContain(t, body, fmt.Sprintf(`href="/sessions/%d" title=`, id), fmt.Sprintf(`<span class="hidden"> #%d</span></a>`, id))
	}
	if n := strings.Count(body, "First session of the cycle:"); n != 1 {
		t.Errorf("%d chains are marked, want only the one with more than one session", n)
	}
}

func TestScenario_EscalationChainCostRollup(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	body := s.page(fmt.Sprintf("/sessions/%d", ids[0]))
	facts, _, _ := strings.Cut(content(body), "</dl>")
	mustContain(t, facts, "Est. cost", "$0.02", "Cycle total", "$0.83")
}

func TestScenario_ChainCostBreakdownVisible(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	for _, id := range ids {
		body := s.page(fmt.Sprintf("/sessions/%d", id))
		_, chain, _ := strings.Cut(body, `<table role="table" class="chain">`)
		rows := strings.Split(chain, "<tr ")
		for i, want := range [][]string{
			{">17s<", ">4<", ">$0.02<"}, {">3m 05s<", ">22<", ">$0.31<"}, {">1m 00s<", ">11<", ">$0.50<"},
		} {
			mustContain(t, rows[i+2], append(want, fmt.Sprintf("#%d<", ids[i]))...)
		}
		mustContain(t, rows[5], "Cycle total", "4m 22s", ">37<", ">$0.83<")
	}
}

func TestUnknownCostIsNeverShownAsZero(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleFailed, "failed",
		apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionFailed, Error: "no result"})
	for _, path := range []string{"/sessions", fmt.Sprintf("/sessions/%d", ids[0]), "/"} {
		body := s.page(path)
		mustContain(t, body, "unknown")
		mustNotContain(t, body, "$0.00")
	}
}

func TestPartlyKnownChainCostIsMarkedAsALowerBound(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleNeedsHuman, "stopped",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff, Figures: figures(0.02, 4, 900)},
		apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionFailed, Error: "boom"})
	for _, path := range []string{"/sessions", fmt.Sprintf("/sessions/%d", ids[0])} {
		mustContain(t, s.page(path), "≥ $0.02", "without 1 session of unknown cost")
	}
}

func TestAKnownZeroCostIsShown(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy, Figures: figures(0, 1, 900)})
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "$0.00")
}

func (s *site) transcript(lines ...string) string {
	s.t.Helper()
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine", apitest.Run{Tier: 1, For: time.Minute, Lines: lines})
	return fmt.Sprintf("/sessions/%d", ids[0])
}

func TestTranscriptShowsEachKindOfEvent(t *testing.T) {
	s := newSite(t)
	body := s.page(s.transcript(
		`{"type":"system","subtype":"init","model":"claude-haiku","tools":["Bash","Read"]}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":"I look at the container."}]}}`,
		`{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"docker ps"}}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","content":"Up 3 days"}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","is_error":true,"content":[{"type":"text","text":"Exit code 3"}]}]}}`,
		`{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error":"server_error"}`,
		`{"type":"stderr","text":"npm warn \u001b[31mred\u001b[0m"}`,
		"not an event",
		`{"type":"result","subtype":"success","is_error":false,"result":"All is well.","num_turns":3,"duration_ms":1200,"total_cost_usd":0.0315}`,
		`{"type":"unheard_of","x":1}`,
	))
	mustContain(t, body,
		"claude-haiku with 2 tools: Bash, Read", "I look at the container.",
		`<strong class="part-name">Bash</strong>`, "docker ps", "Up 3 days",
		">Failed<", "Exit code 3", "Retrying, attempt 1 of 10", ">Stderr<", "npm warn red", ">Stdout<", "not an event",
		"3 turns · 1.2s · $0.03", "unheard_of", `Lines: <span id="line-count">10</span>`)
	result, _, _ := strings.Cut(body[strings.Index(body, `id="result"`):], "</section>")
	mustContain(t, result, "All is well.")
	raw := s.get("/sessions/1/lines/10")
	if raw.body != `{"type":"unheard_of","x":1}`+"\n" || raw.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the raw line is %q as %s", raw.body, raw.Header.Get("Content-Type"))
	}
}

const (
	callLine   = `{"type":"assistant","message":{"content":[{"type":"tool_use","id":%q,"name":"Bash","input":{"command":%q}}]}}`
	answerLine = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":%q,"content":%q,"is_error":%t}]}}`
)

func call(id, command string) string { return fmt.Sprintf(callLine, id, command) }
func answered(id, text string, failed bool) string {
	return fmt.Sprintf(answerLine, id, text, failed)
}

// row is the markup of one row of a transcript.
func row(body, id string) string {
	_, rest, _ := strings.Cut(body, `<li id="`+id+`"`)
	inside, _, _ := strings.Cut(rest, "</li>")
	return inside
}

func TestACallAndItsAnswerAreOneRow(t *testing.T) {
	s := newSite(t)
	body := s.page(s.transcript(call("a", "docker ps"), call("b", "curl -f x"), answered("b", "Exit code 22\nno route", true),
		answered("a", "Up 3 days", false)))
	mustContain(t, row(body, "l1-0"), "docker ps", "exit 0", "Up 3 days", "<details class=\"step\">")
	mustContain(t, row(body, "l2-0"), "curl -f x", "exit 22", "no route", "<details class=\"step\" open>", "is-bad")
	mustNotContain(t, body, `id="l3-0"`, `id="l4-0"`)
}

func TestADeniedCallSaysWhichRuleAndWhy(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning, Lines: []string{call("a", "docker stop x")}})
	s.Judge(ids[0], ops.GuardRecord{
		Gate: ops.GateHook, Tool: "Bash", ToolUseID: "a", Input: "docker stop x", Tier: 1, Rule: "R-7",
		Reason: "Tier 1 only looks.",
	})
	mustContain(t, row(s.page(fmt.Sprintf("/sessions/%d", ids[0])), "l1-0"), "Denied", "R-7", "Tier 1 only looks.", " open>")
}

// Codex asks no hook, so its refusals have no id of a call.
func TestADeniedCommandOfCodexIsToldFromOneThatFailed(t *testing.T) {
	s := newSite(t)
	ended := func(id, says string) string {
		return `{"type":"item.completed","item":{"id":"` + id + `","type":"command_execution","command":"/bin/bash -lc 'touch /x'",` +
			`"aggregated_output":"` + says + `","exit_code":126,"status":"failed"}}`
	}
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning, Lines: []string{ended("a", "Tier 1 only looks."), ended("b", "no space")}})
	s.Judge(ids[0], ops.GuardRecord{
		Gate: ops.GateShell, Tool: "Bash", Input: `{"command":"touch /x"}`, Tier: 1, Rule: "R-7", Reason: "Tier 1 only looks.",
	})
	body := s.page(fmt.Sprintf("/sessions/%d", ids[0]))
	mustContain(t, row(body, "l1-0"), "Refused")
	mustContain(t, row(body, "l2-0"), "Failed")
}

func TestRedactionsAreMarked(t *testing.T) {
	s := newSite(t)
	body := s.page(s.transcript(call("a", "curl -H [redacted: token] <b>"),
		`{"type":"assistant","message":{"content":[{"type":"text","text":"It is [redacted]."}]}}`))
	mustContain(t, body, `<mark class="redacted">[redacted: token]</mark> &lt;b&gt;`, `<mark class="redacted">[redacted]</mark>`)
}

func numbered(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("line number %d.", i+1)
	}
	return lines
}

func TestALongTranscriptComesInPieces(t *testing.T) {
	s := newSite(t)
	path := s.transcript(numbered(1230)...)
	first := s.page(path)
	mustContain(t, first, "Lines 1–<span>100</span> of 1230", "line number 100.", `hx-get="`+path+`/transcript?after=100"`,
		path+"?after=100#transcript", path+"?end=1#transcript")
	mustNotContain(t, first, "line number 101.", "Earlier lines…")
	// Whoever follows the pieces gets every line once.
	seen := strings.Count(first, "line number ")
	for at := 100; at < 1230; at += 150 {
		piece := s.page(fmt.Sprintf("%s/transcript?after=%d", path, at))
		mustContain(t, piece, fmt.Sprintf("line number %d.", at+1))
		seen += strings.Count(piece, "line number ")
	}
	if seen != 1230 {
		t.Errorf("%d lines were shown", seen)
	}
	last := s.page(path + "?end=1")
	mustContain(t, last, `Lines 1131–<span id="line-count">1230</span>`, "line number 1230.", `hx-get="`+path+`/transcript?before=1131"`)
	mustNotContain(t, last, "Later", "Newest lines", "More lines…")
	before := s.page(path + "/transcript?before=1131")
	mustContain(t, before, "line number 981.", "line number 1130.", "transcript?before=981")
	mustNotContain(t, before, "line number 980.", "line number 1131.", "More lines…")
}

func TestAnAnswerInTheNextPieceBelongsToItsCall(t *testing.T) {
	s := newSite(t)
	lines := numbered(200)
	lines[90], lines[130] = call("a", "sleep 5"), answered("a", "slept well", false)
	path := s.transcript(lines...)
	mustContain(t, row(s.page(path), "l91-0"), "sleep 5", "slept well")
	piece := s.page(path + "/transcript?after=100")
	mustNotContain(t, piece, "slept well")
	mustContain(t, piece, "line number 130.", "line number 132.")
}

func TestARunningSessionShowsItsNewestLines(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning, Lines: numbered(500)})
	path := fmt.Sprintf("/sessions/%d", ids[0])
	mustContain(t, s.page(path), "line number 500.", `stream?after=500&amp;`)
	// A page that shows another part follows the state alone.
	mustNotContain(t, s.page(path+"?after=0"), "stream?after=")
}

func TestLongTextsAreFetchedWhenAskedFor(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("x", 300<<10)
	path := s.transcript(long, long, long, "short")
	body := s.page(path)
	mustContain(t, body, `href="`+path+`/lines/1/0"`, "Show all (300.0 KB)", ">short<")
	if len(body) > 64<<10 {
		t.Errorf("the page has %d bytes", len(body))
	}
	if whole := s.page(path + "/lines/1/0"); whole != long+"\n" {
		t.Errorf("the whole text has %d bytes", len(whole))
	}
	for _, nowhere := range []string{"/lines/5", "/lines/0", "/lines/1/7", "/lines/1/x", "/transcript?after=x"} {
		if got := s.get(path + nowhere).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s gives %d", nowhere, got)
		}
	}
}

func TestFindShowsTheLinesThatMatch(t *testing.T) {
	s := newSite(t)
	lines := numbered(600)
	lines[498] = "a needle in 100% hay_stack"
	path := s.transcript(lines...)
	mustContain(t, s.page(path+"?find=NEEDLE"), "1 of 600 lines contain", "a needle in", "Show all lines")
	mustContain(t, s.page(path+"?find=100%25+hay_s"), "1 of 600 lines contain")
	mustContain(t, s.page(path+"?find=100_"), "No line contains")
	mustContain(t, s.page(path+"?find=number"), "The first 100 of 600 lines contain")
}

func TestTranscriptOfCodexIsReadable(t *testing.T) {
	s := newSite(t)
	body := s.page(s.transcript(
		`{"type":"thread.started","thread_id":"0199"}`,
		`{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"docker ps","status":"in_progress"}}`,
		`{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"docker ps","aggregated_output":"Up 3 days","exit_code":0}}`,
		`{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"All is **well**."}}`,
		`{"type":"turn.completed","usage":{"input_tokens":1200,"output_tokens":30}}`,
	))
	call := row(body, "l2-0")
	mustContain(t, call, `<strong class="part-name">Bash</strong>`, "docker ps", "Up 3 days", "exit 0")
	mustContain(t, body, "1,200 tokens read, 30 written")
	result, _, _ := strings.Cut(body[strings.Index(body, `id="result"`):], "</section>")
	mustContain(t, result, "<strong>well</strong>")
}

func fileCall(id, tool, field, path string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":%q,"name":%q,"input":{%q:%q}}]}}`, id, tool, field,
		path)
}

func TestASessionNamesTheFilesItTouched(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 2, Status: ops.SessionRunning, Lines: []string{
		said(`I will write "file_path" soon.`), fileCall("a", "Read", "file_path", "/etc/jellyfin.yaml"), fileCall("b", "Edit", "file_path",
			"/etc/<b>.yaml"),
		fileCall("c", "NotebookEdit", "notebook_path", "/srv/x.ipynb"), call("d", "cat /etc/passwd"),
	}})
	s.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, ToolUseID: "b", Tool: "Edit", Input: "{}", Tier: 2, Rule: "R1", Reason: "No."})
	path := fmt.Sprintf("/sessions/%d", ids[0])
	_, files, _ := strings.Cut(s.page(path+"?tab=files"), "panel-files")
	mustContain(t, files, "/etc/jellyfin.yaml", ">Read<", "/etc/&lt;b&gt;.yaml", "Denied", "/srv/x.ipynb", "Changed", path+"/lines/2")
	mustNotContain(t, files, "/etc/passwd", "<b>")
	mustNotContain(t, s.page(path), "panel-files")
	_, none := s.Chain(ops.NewCycle{Environment: "other"}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning})
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d?tab=files", none[0])), "No tool call named a file.")
}
