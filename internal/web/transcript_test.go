package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

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
