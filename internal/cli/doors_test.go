package cli

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

// send sends a request with the operator's token and returns what it says, without the marks of HTML.
func (e *elsewhere) send(path, kind string, body io.Reader) (int, string) {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url+path, body)
	must(e.t, err)
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Authorization", "Bearer secret")
	answer, err := http.DefaultClient.Do(r)
	must(e.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	must(e.t, err)
	return answer.StatusCode, html.UnescapeString(string(text))
}

// The same request that cannot be right is refused by every door with the same sentence.
func TestEveryDoorRefusesWithTheSameSentence(t *testing.T) {
	e := newElsewhere(t)
	e.Await(ops.NewCycle{}, ops.Policy{MaxTier: ops.LastTier, MaxDepth: 2}, ops.Step{
		Reason: "it is down", Incident: &ops.IncidentReport{Title: "web is down", Class: "down", Services: []string{"web"}},
		Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: 3, Handler: "tier3", Reason: "it is down", ExpiresAt: ops.Ptr(e.Now.Add(time.Hour))},
	}, apitest.Run{Tier: 2, Model: "sonnet", For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: "{}"})
	type fields = map[string]any
	long := strings.Repeat("x", 501)
	silence := func(change fields) fields {
		out := fields{"service": "web", "reason": "new disk", "for": "2h"}
		for name, value := range change {
			out[name] = value
		}
		return out
	}
	for name, tc := range map[string]struct {
		page, api string
		form      fields // as the API takes it; nil: as the page takes it
		sent      fields // to the page where its fields have other names
		command   string
		args      []string // further words, which may hold blanks
		says      string
	}{
		"a silence of everything": {
			page: "/silences", api: "/silences", form: silence(fields{"service": ""}), command: "silences add --for 2h --reason x",
			says: "it would mute everything: give a service, group, probe or labels; * matches any text",
		},
		"a silence without a reason": {
			page: "/silences", api: "/silences", form: silence(fields{"reason": " "}),
			says: "reason is missing: say why, for the record",
		},
		"a silence with a long reason": {
			page: "/silences", api: "/silences", form: silence(fields{"reason": long}), command: "silences add --service web --for 2h --reason " + long,
			says: "reason has 501 characters: use at most 500",
		},
		"a silence of a long name": {
			page: "/silences", api: "/silences", form: silence(fields{"service": long}), command: "silences add --for 2h --reason x --service " + long,
			says: "service has 501 characters: use at most 200",
		},
		"a silence by a long label": {
			api: "/silences", form: silence(fields{"labels": fields{"severity": long}}), command: "silences add --for 2h --reason x --label severity=" + long,
			says: "the pattern of a label has 501 characters: use at most 200",
		},
		"a silence for too long": {
			page: "/silences", api: "/silences", form: silence(fields{"for": "2161h"}), command: "silences add --service web --reason x --for 2161h",
			says: "a silence lasts at most 90 days: give an earlier end",
		},
		"a silence without an end": {
			page: "/silences", api: "/silences", form: silence(fields{"for": ""}), command: "silences add --service web --reason x",
			says: "the end is missing: give either until or for",
		},
		"a silence for less than nothing": {
			page: "/silences", api: "/silences", form: silence(fields{"for": "-1h0m0s"}), command: "silences add --service web --reason x --for -1h",
			says: `for is "-1h0m0s": give a duration such as 2h, or seconds`,
		},
		"a silence that is over": {
			page: "/silences", api: "/silences", form: fields{"service": "web", "reason": "x", "until": "2026-11-01T10:00:00Z"},
			sent:    fields{"service": "web", "reason": "x", "until": "2026-11-01 10:00"},
			command: "silences add --service web --reason x --until 2026-11-01T10:00:00Z",
			says:    "the end is in the past or before the start: give a later end",
		},
		"a silence elsewhere": {
			page: "/silences", api: "/silences", form: silence(fields{"environment": "lab"}),
			command: "silences add --service web --for 2h --reason x --environment lab", says: `no environment is called "lab"; configured: default`,
		},
		"a memory of nothing": {
			page: "/memory", api: "/memories", form: fields{"observation": " "}, command: "memory add", args: []string{" "},
			says: "observation is missing: say what is known",
		},
		"a long memory": {
			page: "/memory", api: "/memories", form: fields{"observation": strings.Repeat("x", 2001)}, command: "memory add " + strings.Repeat("x", 2001),
			says: "observation has 2001 characters: use at most 2000",
		},
		"a memory of a long kind": {
			page: "/memory", api: "/memories", form: fields{"observation": "x", "category": long}, command: "memory add x --category " + long,
			says: "category has 501 characters: use at most 50",
		},
		"a memory that is too sure": {
			api: "/memories", form: fields{"observation": "x", "confidence": 1.5}, command: "memory add x --confidence 1.5",
			says: "confidence is 1.5: use 0 to 1",
		},
		"a cleared cooldown that nothing has": {
			api: "/cooldowns/clear", form: fields{"service": "web", "action": "invented", "reason": "x"},
			command: "cooldowns clear web invented --reason x", says: "invented has no cooldown: use restart, redeployment or an action with its own cooldown",
		},
		"an action without a reason": {
			page: "/actions", api: "/actions/runs", form: fields{"service": "web", "action": "restart", "why": ""},
			sent: fields{"service": "web", "action": "restart", "reason": ""},
			says: "why is missing: say why, for the record",
		},
		"a long reason to acknowledge": {
			page: "/incidents/1/ack", api: "/incidents/1/ack", form: fields{"reason": long}, command: "incidents ack 1 --reason " + long,
			says: "reason has 501 characters: use at most 500",
		},
		"a long reason to deny": {
			page: "/approvals/1/deny", api: "/approvals/1/deny", form: fields{"reason": long}, command: "approvals deny 1 --reason " + long,
			says: "reason has 501 characters: use at most 500",
		},
		"a snooze without an end": {
			api: "/incidents/1/snooze", form: fields{"reason": "x"}, command: "incidents snooze 1", says: "the end is missing: give either until or for",
		},
		"a step without a plan": {
			page: "/approvals/1/approve", api: "/approvals/1/approve", form: fields{"plan_hash": "x", "steps": []int{1}},
			sent: fields{"plan_hash": "x", "step": "1"}, says: "approval 1 has no plan",
		},
		"a long prompt": {
			page: "/run", api: "/cycles", form: fields{"prompt": strings.Repeat("x", 20_001)}, command: "run " + strings.Repeat("x", 20_001),
			says: "prompt has 20001 characters: use at most 20000",
		},
		"a cycle elsewhere": {
			page: "/run", api: "/cycles", form: fields{"environment": "lab"}, command: "run --environment lab x",
			says: `no environment is called "lab"; configured: default`,
		},
	} {
		body, err := json.Marshal(tc.form)
		must(t, err)
		if code, text := e.send("/api/v1"+tc.api, "application/json", bytes.NewReader(body)); code != http.StatusUnprocessableEntity ||
			!strings.Contains(strings.ReplaceAll(text, `\"`, `"`), tc.says) {
			t.Errorf("%s: the API says %d %.600s", name, code, text)
		}
		if tc.page != "" {
			if tc.sent == nil {
				tc.sent = tc.form
			}
			form := url.Values{}
			for field, value := range tc.sent {
				form.Set(field, value.(string))
			}
			says := strings.ToUpper(tc.says[:1]) + tc.says[1:] + ". Nothing was "
			if code, text := e.send(tc.page, "application/x-www-form-urlencoded", strings.NewReader(form.Encode())); code != http.StatusUnprocessableEntity ||
				!strings.Contains(text, says) {
				t.Errorf("%s: the page says %d %.3000s", name, code, text)
			}
		}
		if tc.command != "" {
			if code, _, says := e.run(append(strings.Fields(tc.command), tc.args...)...); code != exitUsage ||
				strings.Replace(says, "claudeops: --", "claudeops: ", 1) != "claudeops: "+tc.says+"\n" { // a field is a flag here
				t.Errorf("%s: the command says %d %.600s", name, code, says)
			}
		}
	}
	for what, rows := range map[string]string{"silences": e.must("silences", "list", "--all"), "memories": e.must("memory", "list")} {
		if strings.Contains(rows, "x") {
			t.Errorf("%s were kept:\n%s", what, rows)
		}
	}
}
