package report

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// edit returns a document with the value at a pointer replaced, or removed when value is empty.
func edit(t *testing.T, base, at, value string) string {
	t.Helper()
	var tree any
	must(t, json.Unmarshal([]byte(base), &tree))
	tokens := strings.Split(at, "/")[1:]
	last := tokens[len(tokens)-1]
	parent := tree
	for _, token := range tokens[:len(tokens)-1] {
		switch p := parent.(type) {
		case map[string]any:
			parent = p[token]
		case []any:
			parent = p[index(t, token)]
		}
	}
	switch p := parent.(type) {
	case map[string]any:
		delete(p, last)
		if value != "" {
			p[last] = json.RawMessage(value)
		}
	case []any:
		p[index(t, last)] = json.RawMessage(value)
	default:
		t.Fatalf("nothing at %s", at)
	}
	raw, err := json.Marshal(tree)
	must(t, err)
	return string(raw)
}

func index(t *testing.T, token string) int {
	t.Helper()
	var i int
	if _, err := fmt.Sscan(token, &i); err != nil {
		t.Fatal(err)
	}
	return i
}

func quoted(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func wantOutcome(t *testing.T, raw string, from ops.Tier, want ...string) {
	t.Helper()
	o, report := Outcome([]byte(raw), from)
	if got := problems(report); !slices.Equal(got, want) {
		t.Errorf("problems\n got %q\nwant %q", got, want)
	}
	if !report.OK() && !reflect.DeepEqual(o, ops.Outcome{}) {
		t.Errorf("a refused outcome was returned: %+v", o)
	}
}

var kinds = []ops.OutcomeKind{ops.OutcomeHealthy, ops.OutcomeResolved, ops.OutcomeEscalate, ops.OutcomeNeedsHuman}

// ending is how Tier 2 may end; the healthy one is in the words of Tier 1.
func ending(kind ops.OutcomeKind) string {
	if kind == ops.OutcomeHealthy {
		return OutcomeExample(ops.Tier1, kind)
	}
	return OutcomeExample(ops.Tier2, kind)
}

// full is an outcome with an entry in every list.
func full(t *testing.T) string {
	t.Helper()
	raw := edit(t, OutcomeExample(ops.Tier2, ops.OutcomeEscalate), "/memories",
		`[{"category":"config","service":"grafana","observation":"its volume holds 5 GB"}]`)
	wantOutcome(t, raw, ops.Tier2)
	return raw
}

func TestOutcome_ExamplesAreValidWithoutWarnings(t *testing.T) {
	published := compileText(t, string(OutcomeSchema()))
	for _, tier := range []ops.Tier{ops.Tier1, ops.Tier2, ops.Tier3} {
		inline := compileText(t, Inline(tier))
		for _, kind := range kinds {
			raw := OutcomeExample(tier, kind)
			if none := tier == ops.Tier1 && kind == ops.OutcomeResolved || tier == ops.Tier3 && kind == ops.OutcomeEscalate ||
				tier > ops.Tier1 && kind == ops.OutcomeHealthy; none {
				if raw != "" {
					t.Errorf("%s cannot end %s", tier, kind)
				}
				continue
			}
			o, report := Outcome([]byte(raw), tier)
			if !report.OK() || len(report.Warnings) > 0 || o.Kind != kind {
				t.Errorf("example of %s, %s: %+v", tier, kind, report)
			}
			if err := inline.Validate(tree(t, raw)); err != nil {
				t.Errorf("example of %s, %s breaks the inline schema: %v", tier, kind, err)
			}
			if err := published.Validate(tree(t, raw)); err != nil {
				t.Errorf("example of %s, %s breaks the published schema: %v", tier, kind, err)
			}
		}
	}
	for _, raw := range []string{
		OutcomeExample(0, ops.OutcomeHealthy), OutcomeExample(4, ops.OutcomeHealthy), OutcomeExample(ops.Tier1, ops.OutcomeInconclusive), OutcomeExample(ops.Tier1, ""),
	} {
		if raw != "" {
			t.Errorf("an example nobody can give: %s", raw)
		}
	}
}

func TestEveryFieldIsRead(t *testing.T) {
	raw := `{"schema_version":1.0,"outcome":"escalate","summary":"web is down","confidence":4e-1,
		"check_results":[{"service":"web","check_type":"http","status":"down","error":"HTTP 502","response_time_ms":3e1}],
		"handoff":{"schema_version":1,"recommended_tier":2,"target":"t2","reason":"not mine","services_affected":["web"],
			"check_results":[{"service":"web","check_type":"dns","status":"degraded","error":"slow"}],"cooldown_state":{"web":{"n":1}}},
		"actions":[{"service":"web","action":"looked","success":true,"detail":"once"}],
		"events":[{"level":"critical","service":"web","message":"down"},{"level":"info","service":"","message":"all else is fine"}],
		"memories":[{"category":"timing","service":"","observation":"mornings are slow"}]}`
	got, report := Outcome([]byte(raw), ops.Tier1)
	if !report.OK() || len(report.Warnings) > 0 {
		t.Fatalf("%+v", report)
	}
	want := ops.Outcome{
		SchemaVersion: 1, Kind: ops.OutcomeEscalate, Summary: "web is down", Confidence: ops.Ptr(0.4),
		CheckResults: []ops.CheckResult{{
			Service: "web", CheckType: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 502", ResponseTimeMS: ops.Ptr[int64](30),
		}},
		Handoff: &ops.Handoff{
			SchemaVersion: 1, RecommendedTier: ops.Tier2, Target: "t2", Reason: "not mine", ServicesAffected: []string{"web"},
			CheckResults:  []ops.CheckResult{{Service: "web", CheckType: ops.CheckDNS, Status: ops.Degraded, Error: "slow"}},
			CooldownState: json.RawMessage(`{"web":{"n":1}}`),
		},
		Actions: []ops.Action{{Service: "web", Action: "looked", Success: true, Detail: "once"}},
		Events: []ops.Remark{
			{Level: ops.LevelCritical, Service: "web", Message: "down"}, {Level: ops.LevelInfo, Message: "all else is fine"},
		},
		Memories: []ops.Lesson{{Category: "timing", Observation: "mornings are slow"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestWhatIsMissingOrOfTheWrongTypeIsRefused(t *testing.T) {
	const one = "/schema_version: is %s, but only version 1 is known here; write \"schema_version\": 1"
	cases := []struct{ at, value, want string }{
		{"/schema_version", "2", fmt.Sprintf(one, "2")},
		{"/schema_version", `"1"`, fmt.Sprintf(one, `"1"`)},
		{"/outcome", `"fixed"`, `/outcome: must be one of healthy, resolved, escalate, needs_human (is "fixed")`},
		{"/outcome", `"inconclusive"`, `/outcome: must be one of healthy, resolved, escalate, needs_human (is "inconclusive")`},
		{"/summary", `""`, "/summary: must not be blank"},
		{"/summary", `" \u200b\n"`, "/summary: must not be blank"},
		{"/summary", "7", "/summary: must be a string (is 7)"},
		{"/check_results", "[]", "/check_results: must not be empty"},
		{"/check_results", "{}", "/check_results: must be an array (is an object)"},
		{"/check_results/0/service", `""`, "/check_results/0/service: must not be blank"},
		{"/check_results/1/status", `"up"`, `/check_results/1/status: must be one of healthy, degraded, down (is "up")`},
		{"/check_results/0/response_time_ms", "-1", "/check_results/0/response_time_ms: must be at least 0 (is -1)"},
		{"/actions", "null", "/actions: must be an array (is null)"},
		{"/actions/0", "null", "/actions/0: must be an object (is null)"},
		{"/actions/0/action", `""`, "/actions/0/action: must not be blank"},
		{"/actions/0/success", `"yes"`, `/actions/0/success: must be a boolean (is "yes")`},
		{"/events/0/level", `"error"`, `/events/0/level: must be one of info, warning, critical (is "error")`},
		{"/events/0/message", `""`, "/events/0/message: must not be blank"},
		{"/memories/0/category", `""`, "/memories/0/category: must not be blank"},
		{"/memories/0/observation", `" "`, "/memories/0/observation: must not be blank"},
		{"/handoff", "", "/handoff: is missing: the outcome escalate needs the facts for the next tier"},
		{"/handoff", "null", "/handoff: must be an object (is null)"},
		{"/handoff/schema_version", "2", "/handoff" + fmt.Sprintf(one, "2")},
		{"/handoff/services_affected", "[]", "/handoff/services_affected: must not be empty"},
		{"/handoff/check_results", "[]", "/handoff/check_results: must not be empty"},
		{"/handoff/check_results/0/service", `""`, "/handoff/check_results/0/service: must not be blank"},
		{"/handoff/investigation_findings", `""`, "/handoff/investigation_findings: must not be blank"},
	}
	for _, at := range []string{
		"/schema_version", "/outcome", "/summary", "/check_results", "/actions", "/events", "/memories",
		"/check_results/0/service", "/check_results/0/check_type", "/check_results/0/status", "/check_results/0/error",
		"/actions/0/service", "/actions/0/action", "/actions/0/success", "/actions/0/detail",
		"/events/0/level", "/events/0/service", "/events/0/message",
		"/memories/0/category", "/memories/0/service", "/memories/0/observation",
		"/handoff/recommended_tier", "/handoff/cooldown_state", "/handoff/remediation_attempted",
	} {
		cases = append(cases, struct{ at, value, want string }{at, "", at + ": is missing"})
	}
	base := full(t)
	for _, c := range cases {
		t.Run(c.at+"="+c.value, func(t *testing.T) {
			wantOutcome(t, edit(t, base, c.at, c.value), ops.Tier2, c.want)
		})
	}
}

func TestConfidenceIsAShareOrAnError(t *testing.T) {
	for at, document := range map[string]string{"/confidence": OutcomeExample(ops.Tier2, ops.OutcomeResolved), "/handoff/confidence": full(t)} {
		for _, value := range []string{"0", "1", "0.5", "1e-3", "1.0"} {
			wantOutcome(t, edit(t, document, at, value), ops.Tier2)
		}
		for value, why := range map[string]string{
			"-0.1": "must be at least 0 (is -0.1)", "1.01": "must be at most 1 (is 1.01)", "40": "must be at most 1 (is 40)",
			`"0.4"`: `must be a number (is "0.4")`, "null": "must be a number (is null)", "true": "must be a number (is true)",
		} {
			wantOutcome(t, edit(t, document, at, value), ops.Tier2, at+": "+why)
		}
	}
}

// A tier that was called to a problem claims that it is over, whichever word it uses.
func TestHealthyFromAHigherTierIsTheClaimResolved(t *testing.T) {
	raw := OutcomeExample(ops.Tier1, ops.OutcomeHealthy)
	for tier, want := range map[ops.Tier]ops.OutcomeKind{
		ops.Tier1: ops.OutcomeHealthy, ops.Tier2: ops.OutcomeResolved, ops.Tier3: ops.OutcomeResolved,
	} {
		if o, report := Outcome([]byte(raw), tier); !report.OK() || o.Kind != want {
			t.Errorf("%s: %s, want %s (%v)", tier, o.Kind, want, report.Errors)
		}
	}
	wantOutcome(t, edit(t, raw, "/check_results/0/status", `"down"`), ops.Tier2,
		"/check_results/0/status: is down, which contradicts the outcome healthy; report the state at the end of the session, or another outcome")
}

func TestHandoffIsJudgedByTheTierThatWroteIt(t *testing.T) {
	raw := OutcomeExample(ops.Tier1, ops.OutcomeEscalate)
	wantOutcome(t, raw, ops.Tier1)
	for _, from := range []ops.Tier{ops.Tier2, ops.Tier3} {
		wantOutcome(t, raw, from, "/handoff/investigation_findings: is missing", "/handoff/remediation_attempted: is missing")
	}
}

func TestScenario_TwoDecisionsInOneOutcomeAreRefused(t *testing.T) {
	for _, kind := range []ops.OutcomeKind{ops.OutcomeHealthy, ops.OutcomeResolved, ops.OutcomeNeedsHuman} {
		for _, second := range []string{HandoffExample(ops.Tier2), "{}", "null", `"..."`} {
			raw := edit(t, ending(kind), "/handoff", second)
			wantOutcome(t, raw, ops.Tier2,
				"/handoff: must be left out when the outcome is "+string(kind)+": a session ends in one decision")
		}
	}
	twice := strings.Replace(ending(ops.OutcomeHealthy), "{", `{"outcome":"resolved",`, 1)
	wantOutcome(t, twice, ops.Tier2, "/outcome: is there more than once")
}

func TestClaimThatContradictsACheckIsRefused(t *testing.T) {
	for _, kind := range kinds {
		for _, status := range []ops.Health{ops.Healthy, ops.Degraded, ops.Down} {
			raw := edit(t, ending(kind), "/check_results/1/status", quoted(string(status)))
			var want []string
			if status == ops.Down && (kind == ops.OutcomeHealthy || kind == ops.OutcomeResolved) {
				want = []string{"/check_results/1/status: is down, which contradicts the outcome " + string(kind) +
					"; report the state at the end of the session, or another outcome"}
			}
			wantOutcome(t, raw, ops.Tier2, want...)
		}
	}
}

func TestEscalationOfAServiceNoCheckFoundWrongIsAWarning(t *testing.T) {
	base := edit(t, OutcomeExample(ops.Tier1, ops.OutcomeEscalate), "/handoff/services_affected", `["Grafana ","postgres","loki"]`)
	none := []string{
		`/handoff/services_affected/1: no check result shows "postgres" degraded or down`,
		`/handoff/services_affected/2: no check result shows "loki" degraded or down`,
	}
	for _, c := range []struct {
		at, value string
		want      []string
	}{
		{"/summary", `"as it is"`, none},
		{"/check_results/0/status", `"healthy"`, none}, // the handoff still says it
		{"/check_results/1/status", `"degraded"`, none[1:]},
		{"/handoff/check_results/1/status", `"down"`, none[1:]},
	} {
		_, report := Outcome([]byte(edit(t, base, c.at, c.value)), ops.Tier1)
		if !report.OK() || !slices.Equal(report.Warnings, c.want) {
			t.Errorf("%s = %s: %+v", c.at, c.value, report)
		}
	}
}

func TestOutcome_EveryErrorIsReportedInTheOrderOfTheDocument(t *testing.T) {
	raw := `{"schema_version":1,"outcome":"escalate","summary":"TODO","check_results":[
		{"service":"...","check_type":"tcp","status":"down","error":""}],
		"handoff":{"schema_version":1,"recommended_tier":3,"services_affected":["string",""],"check_results":[],
			"investigation_findings":"<findings>","cooldown_state":{}},
		"actions":[{"service":"web","action":"TBD","success":true,"detail":""}],"events":[],"memories":{}}`
	const hollow = ": is only a placeholder (is %q); write what is the case"
	wantOutcome(t, raw, ops.Tier2,
		"/actions/0/action"+fmt.Sprintf(hollow, "TBD"),
		`/check_results/0/check_type: must be one of http, dns, container, database, service (is "tcp")`,
		"/check_results/0/service"+fmt.Sprintf(hollow, "..."),
		"/handoff/check_results: must not be empty",
		"/handoff/investigation_findings"+fmt.Sprintf(hollow, "<findings>"),
		"/handoff/remediation_attempted: is missing",
		"/handoff/services_affected/0"+fmt.Sprintf(hollow, "string"),
		"/handoff/services_affected/1: must not be blank",
		"/memories: must be an array (is an object)",
		"/summary"+fmt.Sprintf(hollow, "TODO"),
	)
}
