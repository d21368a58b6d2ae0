package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

// hostile is text that an agent, a service or a caller could write.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`,
		`"><img src=x onerror=alert(1)>`,
		`' onmouseover='alert(1)`,
		`</title></style></textarea></pre></code><svg/onload=alert(1)>`,
		`javascript:alert(1)`,
		`{{.Token}}{{printf "x"}}`,
		`<!--<script>`,
		`]]><script>alert(1)</script>`,
		"\u202Egnp.exe\u202C <b>bold</b>",
		"\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07<i>",
		"<meta http-equiv=refresh content=0;url=//evil.example>",
	}
}

func TestHostileTextIsEscapedEverywhere(t *testing.T) {
	journal := newSite(t).Journal
	for i, text := range hostile() {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s := siteOver(t, journal)
			quoted, err := json.Marshal(text)
			must(t, err)
			line := fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":%s},`+
				`{"type":"tool_use","name":%s,"input":{"command":%s}},{"type":%s}]}}`, quoted, quoted, quoted, quoted)
			_, ids := s.Chain(ops.NewCycle{Prompt: text}, ops.CycleNeedsHuman, text,
				apitest.Run{
					Tier: 1, Model: text, For: time.Second, Outcome: ops.OutcomeEscalate,
					Handoff: fmt.Sprintf(`{"reason":%s,%s:1}`, quoted, quoted),
					Lines: []string{
						line, text, fmt.Sprintf(`{"type":"result","result":%s}`, quoted),
						fmt.Sprintf(`{"type":%s,"subtype":%s}`, quoted, quoted),
						fmt.Sprintf(`{"type":"user","message":{"content":[{"type":"tool_result","content":%s}]}}`, quoted),
					},
					Decision: &ops.Decision{
						SourceHandler: text, TargetHandler: text, Reason: text, Proposed: text, Path: []string{text},
						Verdict: ops.Verdict(text), Check: ops.Objection(text), ProcessMode: ops.ProcessTyped,
					},
					Events: []ops.Event{{Level: ops.Level(text), Verb: ops.Verb(text), Service: text, Reason: text}},
				},
				apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionFailed, Error: text, Failure: text, Handoff: text})
			err = s.Store.Watch.AddChecks(t.Context(), []ops.Check{{
				At: s.Now, Environment: "default", Service: text, Probe: text, Type: ops.CheckHTTP, Status: ops.Down,
				Error: text, Purpose: ops.ProbeObserve,
			}})
			must(t, err)
			for _, path := range []string{
				"/", "/sessions", fmt.Sprintf("/sessions/%d", ids[0]), fmt.Sprintf("/sessions/%d", ids[1]),
			} {
				mustBeHarmless(t, s.page(path))
			}
		})
	}
}

func TestHostileAddressesAreEscaped(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{
		"/%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/sessions?status=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
		"/sessions?environment=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E", "/?queued=%3Cscript%3E",
		"/sessions/1?after=%3Cscript%3E",
	} {
		mustBeHarmless(t, s.get(path).body)
	}
}

// mustBeHarmless looks for any markup that the templates did not write.
func mustBeHarmless(t *testing.T, body string) {
	t.Helper()
	lower := strings.ToLower(body)
	for _, ours := range []string{"htmx.min.js", "hx-sse.min.js", "app.js"} {
		if start := strings.Index(lower, `<script src="/assets/`+ours); start >= 0 {
			end := start + strings.Index(lower[start:], "</script>") + len("</script>")
			lower = lower[:start] + lower[end:]
		}
	}
	for _, bad := range []string{
		"<script", "hx-get=\"//", "<hx-", "<img", "<b>", "<i>", "<iframe", "onerror=alert(1)>", "<svg/", "<!--", "<meta http-equiv=refresh",
		" style=", "<style", "</pre></code>",
		`href="javascript`, "\u202e", "\x1b", "\x07",
	} {
		if at := strings.Index(lower, bad); at >= 0 {
			t.Errorf("the page contains %q: …%s…", bad, lower[max(0, at-80):min(len(lower), at+80)])
		}
	}
	for _, tag := range strings.Split(lower, "<")[1:] {
		inside, _, _ := strings.Cut(tag, ">")
		if strings.Contains(inside, " on") && strings.Contains(inside, "onmouseover='") {
			t.Errorf("a tag has a handler: <%s>", inside)
		}
	}
}
