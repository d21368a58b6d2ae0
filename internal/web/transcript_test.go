package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api/apitest"
	"claudeops/internal/ops"
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
		">Failed<", "Exit code 3", "Attempt 1 of 10 follows", ">Stderr<", "npm warn red", ">Stdout<", "not an event",
		"3 turns · 1.2s · $0.03", "unheard_of", "Lines 1–10 of 10")
	result, _, _ := strings.Cut(body[strings.Index(body, `id="result"`):], "</section>")
	mustContain(t, result, "All is well.")
	mustContain(t, body, "{&#34;type&#34;:&#34;unheard_of&#34;,&#34;x&#34;:1}")
}

func TestTranscriptIsPaged(t *testing.T) {
	s := newSite(t)
	lines := make([]string, 1230)
	for i := range lines {
		lines[i] = fmt.Sprintf("line number %d.", i+1)
	}
	path := s.transcript(lines...)
	first := s.page(path)
	mustContain(t, first, "Lines 1–500 of 1230", "line number 500.", path+"?after=500#transcript", path+"?after=730#transcript")
	mustNotContain(t, first, "line number 501.", "Earlier")
	mustContain(t, s.page(path+"?after=500"), "Lines 501–1000 of 1230", path+"#transcript", path+"?after=1000#transcript")
	last := s.page(path + "?after=730")
	mustContain(t, last, "Lines 731–1230 of 1230", "line number 1230.", path+"?after=230#transcript")
	mustNotContain(t, last, "Later", "Newest lines")
}

func TestLongLinesMakeAPageShorter(t *testing.T) {
	s := newSite(t)
	lines := make([]string, 12)
	for i := range lines {
		lines[i] = strings.Repeat("x", 300<<10)
	}
	path := s.transcript(lines...)
	body := s.page(path)
	mustContain(t, body, "Lines 1–3 of 12", path+"?after=3#transcript")
	if len(body) > 1<<20 {
		t.Errorf("the page has %d bytes", len(body))
	}
	// A line beyond any bound is still reached and shown, cut.
	mustContain(t, s.page(path+"?after=11"), "Lines 12–12 of 12", "the line has 300.0 KB")
}
