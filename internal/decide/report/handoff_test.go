package report

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// withField returns the Tier 1 example with one top-level field replaced, or removed when value is empty.
func withField(t *testing.T, base, name, value string) string {
	t.Helper()
	var object map[string]json.RawMessage
	must(t, json.Unmarshal([]byte(base), &object))
	if _, ok := object[name]; !ok && value == "" {
		t.Fatalf("no field %s to remove", name)
	}
	delete(object, name)
	if value != "" {
		object[name] = json.RawMessage(value)
	}
	raw, err := json.Marshal(object)
	must(t, err)
	return string(raw)
}

func tier1With(t *testing.T, name, value string) string {
	t.Helper()
	return withField(t, exampleTier1, name, value)
}

func check(body string) string {
	return `{"schema_version":1,"recommended_tier":2,"services_affected":["web"],"check_results":[` + body +
		`],"cooldown_state":{}}`
}

func problems(r Findings) []string {
	var out []string
	for _, p := range r.Errors {
		out = append(out, p.String())
	}
	return out
}

func wantProblems(t *testing.T, raw string, from ops.Tier, want ...string) {
	t.Helper()
	h, report := Handoff([]byte(raw), from)
	if got := problems(report); !slices.Equal(got, want) {
		t.Errorf("problems\n got %q\nwant %q", got, want)
	}
	if !report.OK() && h.SchemaVersion != 0 {
		t.Error("a refused handoff was returned")
	}
}

func TestScenario_Tier1WritesHandoffForTier2(t *testing.T) {
	h, report := Handoff([]byte(exampleTier1), ops.Tier1)
	must(t, report.Err())
	if h.SchemaVersion != 1 || h.RecommendedTier != ops.Tier2 || !slices.Equal(h.ServicesAffected, []string{"grafana"}) {
		t.Errorf("got %+v", h)
	}
	want := ops.CheckResult{Service: "grafana", CheckType: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 502 Bad Gateway", ResponseTimeMS: ops.Ptr[int64](31)}
	if len(h.CheckResults) != 2 || !sameResult(h.CheckResults[0], want) {
		t.Errorf("check results %+v", h.CheckResults)
	}
	if got := string(h.CooldownState); got != `{"grafana":{"last_restart":null,"restarts_last_4h":0}}` {
		t.Errorf("cooldown state %s", got)
	}
	for _, name := range []string{"schema_version", "recommended_tier", "services_affected", "check_results", "cooldown_state"} {
		wantProblems(t, tier1With(t, name, ""), ops.Tier1, "/"+name+": is missing")
	}
	wantProblems(t, tier1With(t, "services_affected", "[]"), ops.Tier1, "/services_affected: must not be empty")
	wantProblems(t, tier1With(t, "check_results", "[]"), ops.Tier1, "/check_results: must not be empty")
	wantProblems(t, tier1With(t, "cooldown_state", "null"), ops.Tier1, "/cooldown_state: must be an object (is null)")
}

func TestScenario_Tier2WritesHandoffForTier3(t *testing.T) {
	h, report := Handoff([]byte(exampleTier2), ops.Tier2)
	must(t, report.Err())
	if h.RecommendedTier != ops.Tier3 || h.InvestigationFindings == "" || h.RemediationAttempted == "" {
		t.Errorf("got %+v", h)
	}
	for _, name := range []string{"investigation_findings", "remediation_attempted"} {
		wantProblems(t, withField(t, exampleTier2, name, ""), ops.Tier2, "/"+name+": is missing")
		for _, blank := range []string{`""`, `" \t\n"`, `"\u00a0\u2003"`, `"\u200b"`} {
			wantProblems(t, withField(t, exampleTier2, name, blank), ops.Tier2, "/"+name+": must not be blank")
		}
		wantProblems(t, withField(t, exampleTier2, name, "7"), ops.Tier2, "/"+name+": must be a string (is 7)")
	}
}

func TestTierTwoFieldsAreNotOwedByTierOne(t *testing.T) {
	wantProblems(t, tier1With(t, "recommended_tier", "3"), ops.Tier1) // the route is judged elsewhere
	wantProblems(t, tier1With(t, "investigation_findings", `""`), ops.Tier1)
	missing := []string{"/investigation_findings: is missing", "/remediation_attempted: is missing"}
	wantProblems(t, exampleTier1, ops.Tier2, missing...)
	wantProblems(t, exampleTier1, ops.Tier3, missing...)
}

func TestUnknownWriterIsOneBelowTheRecommendedTier(t *testing.T) {
	wantProblems(t, exampleTier1, 0)
	wantProblems(t, tier1With(t, "recommended_tier", "3"), 0,
		"/investigation_findings: is missing", "/remediation_attempted: is missing")
	wantProblems(t, tier1With(t, "recommended_tier", `"3"`), 0, `/recommended_tier: must be an integer (is "3")`)
	wantProblems(t, `[]`, 0, "handoff must be an object (is an array)")
}

func TestScenario_CheckResultObjectStructure(t *testing.T) {
	for _, kind := range []string{"http", "dns", "container", "database", "service"} {
		for _, status := range []string{"healthy", "degraded", "down"} {
			wantProblems(t, check(fmt.Sprintf(`{"service":"web","check_type":%q,"status":%q,"error":""}`, kind, status)), ops.Tier1)
		}
	}
	whole := map[string]string{"service": `"web"`, "check_type": `"http"`, "status": `"down"`, "error": `"x"`}
	object := func(name, value string) string {
		var parts []string
		for _, key := range []string{"service", "check_type", "status", "error", "response_time_ms"} {
			v := whole[key]
			if key == name {
				v = value
			}
			if v != "" {
				parts = append(parts, fmt.Sprintf("%q:%s", key, v))
			}
		}
		return check("{" + strings.Join(parts, ",") + "}")
	}
	for name := range whole {
		wantProblems(t, object(name, ""), ops.Tier1, "/check_results/0/"+name+": is missing")
		wantProblems(t, object(name, "null"), ops.Tier1, "/check_results/0/"+name+": must be a string (is null)")
	}
	const at = "/check_results/0/"
	wantProblems(t, object("status", `"broken"`), ops.Tier1, at+`status: must be one of healthy, degraded, down (is "broken")`)
	wantProblems(t, object("status", `"Down"`), ops.Tier1, at+`status: must be one of healthy, degraded, down (is "Down")`)
	wantProblems(t, object("check_type", `"tcp"`), ops.Tier1, at+`check_type: must be one of http, dns, container, database, service (is "tcp")`)
	wantProblems(t, object("service", `"  "`), ops.Tier1, at+"service: must not be blank")
	wantProblems(t, object("response_time_ms", "12"), ops.Tier1)
	wantProblems(t, object("response_time_ms", "-1"), ops.Tier1, at+"response_time_ms: must be at least 0 (is -1)")
	wantProblems(t, object("response_time_ms", "1.5"), ops.Tier1, at+"response_time_ms: must be an integer (is 1.5)")
	wantProblems(t, object("response_time_ms", `"12"`), ops.Tier1, at+`response_time_ms: must be an integer (is "12")`)
	wantProblems(t, object("response_time_ms", "null"), ops.Tier1, at+"response_time_ms: must be an integer (is null)")
	wantProblems(t, object("response_time_ms", "1e300"), ops.Tier1, at+"response_time_ms: must be at most 9007199254740991 (is 1e300)")
	wantProblems(t, check("7"), ops.Tier1, "/check_results/0: must be an object (is 7)")
}

func TestScenario_InvalidHandoffFileRejected(t *testing.T) {
	unknown := "/schema_version: is 2, but only version 1 is known here; write \"schema_version\": 1"
	wantProblems(t, tier1With(t, "schema_version", "2"), ops.Tier1, unknown)
	wantProblems(t, tier1With(t, "schema_version", `"1"`), ops.Tier1,
		`/schema_version: is "1", but only version 1 is known here; write "schema_version": 1`)
	wantProblems(t, tier1With(t, "schema_version", "null"), ops.Tier1,
		`/schema_version: is null, but only version 1 is known here; write "schema_version": 1`)
	wantProblems(t, `{}`, ops.Tier1, "/check_results: is missing", "/cooldown_state: is missing",
		"/recommended_tier: is missing", "/schema_version: is missing", "/services_affected: is missing")
}

func TestEveryErrorIsReportedInTheOrderOfTheDocument(t *testing.T) {
	var bad []string
	for range 11 {
		bad = append(bad, `{"service":"web","check_type":"http","status":"down","error":""}`)
	}
	bad[2] = `{"service":"","check_type":"http","status":"up","error":1}`
	bad[10] = `{"service":"web","check_type":"http","status":"down"}`
	raw := `{"schema_version":2,"recommended_tier":1.5,"services_affected":["", 3],"check_results":[` +
		strings.Join(bad, ",") + `],"cooldown_state":[]}`
	wantProblems(t, raw, ops.Tier2,
		"/check_results/2/error: must be a string (is 1)",
		"/check_results/2/service: must not be blank",
		`/check_results/2/status: must be one of healthy, degraded, down (is "up")`,
		"/check_results/10/error: is missing",
		"/cooldown_state: must be an object (is an array)",
		"/investigation_findings: is missing",
		"/recommended_tier: must be an integer (is 1.5)",
		"/remediation_attempted: is missing",
		`/schema_version: is 2, but only version 1 is known here; write "schema_version": 1`,
		"/services_affected/0: must not be blank",
		"/services_affected/1: must be a string (is 3)",
	)
}

func TestStrictDecoding(t *testing.T) {
	valid := strings.TrimSpace(exampleTier1)
	deep := func(levels int) string { // levels counts the containers, the handoff itself included
		return tier1With(t, "cooldown_state", strings.Repeat(`{"a":`, levels-2)+"{}"+strings.Repeat("}", levels-2))
	}
	cases := []struct{ name, raw, want string }{
		{"empty", "", "handoff is empty"},
		{"blank", " \n", "handoff is empty"},
		{"byte order mark", "\ufeff" + valid, "handoff starts with a byte order mark; write plain UTF-8"},
		{"invalid UTF-8", strings.Replace(valid, "Bad", "B\xffd", 1), "handoff is not valid UTF-8 at byte 276"},
		{"half a surrogate pair", tier1With(t, "reason", `"\ud800"`), "handoff holds half of a surrogate pair at byte"},
		{"reversed surrogate pair", tier1With(t, "reason", `"\udc00\ud800"`), "handoff holds half of a surrogate pair at byte"},
		{"text behind", valid + "\nDone!", "handoff is not valid JSON: line 26, column 1: invalid character 'D' after top-level value"},
		{"second value", valid + valid, "handoff is not valid JSON: line 25, column 2: invalid character '{' after top-level value"},
		{"cut off", valid[:len(valid)-1], "handoff is not valid JSON: line 25, column 1: unexpected end of JSON input"},
		{"trailing comma", `{"schema_version":1,}`, "handoff is not valid JSON: line 1, column 21: invalid character '}' looking for beginning of object key string"},
		{"comment", `{/* */}`, "handoff is not valid JSON: line 1, column 2"},
		{"markdown fence", "```json\n" + valid + "\n```", "handoff is not valid JSON: line 1, column 1"},
		{"NaN", tier1WithText("recommended_tier", "NaN"), "handoff is not valid JSON"},
		{"too large", tier1With(t, "reason", `"`+strings.Repeat("a", MaxBytes)+`"`), "handoff is larger than 256 KiB"},
		{"too deep", deep(MaxDepth + 1), "handoff is nested deeper than 16"},
		{"far too deep", strings.Repeat("[", 100_000), "handoff is nested deeper than 16"},
		{"duplicate key", strings.Replace(valid, "{", `{"schema_version":1,`, 1), "/schema_version: is there more than once"},
		{"escaped duplicate key", strings.Replace(valid, "{", `{"schema\u005fversion":1,`, 1), "/schema_version: is there more than once"},
		{"duplicate unknown key", strings.Replace(valid, "{", `{"x":1,"x":1,`, 1), "/x: is there more than once"},
		{"nested duplicate key", tier1With(t, "cooldown_state", "") + "x", "handoff is not valid JSON"},
		{"huge exponent", tier1WithText("recommended_tier", "1e999999999"), "/recommended_tier: is a number out of range (is 1e999999999)"},
		{"tiny exponent", tier1WithText("recommended_tier", "1e-999999999"), "/recommended_tier: is a number out of range (is 1e-999999999)"},
		{"endless exponent", tier1WithText("recommended_tier", "1e"+strings.Repeat("9", 50)), "/recommended_tier: is a number out of range"},
		{"too many digits", tier1WithText("recommended_tier", "1"+strings.Repeat("0", 500)), "/recommended_tier: is a number out of range"},
		{"out of the range of tiers", tier1With(t, "recommended_tier", "1e99"), "/recommended_tier: must be at most 2147483647 (is 1e99)"},
		{"a string", `"handoff"`, `handoff must be an object (is "handoff")`},
		{"null", `null`, `handoff must be an object (is null)`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, report := Handoff([]byte(c.raw), ops.Tier1)
			if got := problems(report); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("got %q, want one problem %q", got, c.want)
			}
		})
	}
	for _, raw := range []string{
		deep(MaxDepth),
		"\n\t " + valid + " \r\n",
		tier1With(t, "reason", `"\ud83d\ude00 \\ud800 [[[[[[[[[[[[[[[[[[[[ \""`),
		tier1WithText("schema_version", "1.0"),
		tier1WithText("recommended_tier", "20e-1"),
	} {
		h, report := Handoff([]byte(raw), ops.Tier1)
		if err := report.Err(); err != nil || h.RecommendedTier != ops.Tier2 || h.SchemaVersion != 1 {
			t.Errorf("refused %s: %v (%+v)", raw, err, h)
		}
	}
}

// tier1WithText puts any text in a field's place, also what json.Marshal would not let through.
func tier1WithText(name, value string) string {
	first := map[string]string{"schema_version": "1", "recommended_tier": "2"}[name]
	return strings.Replace(exampleTier1, fmt.Sprintf("%q: %s", name, first), fmt.Sprintf("%q: %s", name, value), 1)
}

func TestEveryDuplicateKeyIsReported(t *testing.T) {
	raw := `{"schema_version":1,"schema_version":1,"recommended_tier":2,"services_affected":["web"],"check_results":[
		{"service":"a","service":"web","check_type":"http","status":"down","error":"","error":"","error":""}],
		"cooldown_state":{"web":{"a/b":1,"a/b":2}}}`
	wantProblems(t, raw, ops.Tier1,
		"/check_results/0/error: is there more than once",
		"/check_results/0/service: is there more than once",
		"/cooldown_state/web/a~1b: is there more than once",
		"/schema_version: is there more than once",
	)
}

func TestUnknownFieldsAreWarningsAndNeverTheField(t *testing.T) {
	raw := `{"Schema_Version":7,"schema_version":1,"recommended_tier":2,"Recommended_Tier":3,"services_affected":["web"],
		"check_results":[{"service":"web","check_type":"http","status":"down","STATUS":"healthy","error":"","note":"x"}],
		"cooldown_state":{"anything":{"goes":1}},"severity\n":"high"}`
	h, report := Handoff([]byte(raw), ops.Tier1)
	must(t, report.Err())
	if h.SchemaVersion != 1 || h.RecommendedTier != ops.Tier2 || h.CheckResults[0].Status != ops.Down {
		t.Errorf("a case variant was taken for the field: %+v", h)
	}
	want := []string{
		"/Recommended_Tier: unknown field, ignored; did you mean recommended_tier?",
		"/Schema_Version: unknown field, ignored; did you mean schema_version?",
		`/severity\n: unknown field, ignored`,
		"/check_results/0/STATUS: unknown field, ignored; did you mean status?",
		"/check_results/0/note: unknown field, ignored",
	}
	if !slices.Equal(report.Warnings, want) {
		t.Errorf("warnings\n got %q\nwant %q", report.Warnings, want)
	}

	only := strings.Replace(exampleTier1, `"schema_version"`, `"Schema_Version"`, 1)
	wantProblems(t, only, ops.Tier1, "/schema_version: is missing")
}

func TestWarningsAndErrorSentencesAreBounded(t *testing.T) {
	var fields, results []string
	for i := range 500 {
		fields = append(fields, fmt.Sprintf(`"%s%d":0`, strings.Repeat("x", 300), i))
		results = append(results, "0")
	}
	_, report := Handoff([]byte(`{"schema_version":1,"recommended_tier":2,"services_affected":["a"],"cooldown_state":{},`+
		strings.Join(fields, ",")+`,"check_results":[`+strings.Join(results, ",")+`]}`), ops.Tier1)
	if len(report.Errors) != 500 {
		t.Errorf("%d errors, want all 500", len(report.Errors))
	}
	if n := len(report.Warnings); n != shownWarnings+1 || report.Warnings[n-1] != "and 480 more warnings" {
		t.Errorf("%d warnings, last %q", n, report.Warnings[n-1])
	}
	if sentence := report.Err().Error(); len(sentence) > 2000 || !strings.HasSuffix(sentence, "; and 480 more") {
		t.Errorf("sentence of %d bytes: %s", len(sentence), sentence)
	}
}

func TestSchemaIsPublishedWithItsAddressAndDraft(t *testing.T) {
	const schemaID = "https://claudeops.dev/schemas/handoff/v1.json"
	var doc map[string]any
	must(t, json.Unmarshal(HandoffSchema(), &doc))
	if doc["$id"] != schemaID || doc["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("$id %v, $schema %v", doc["$id"], doc["$schema"])
	}
	HandoffSchema()[0] = 'x'
	if HandoffSchema()[0] != '{' {
		t.Error("a caller can change the schema")
	}
	// Others read the document with an ordinary regular expression engine.
	c := jsonschema.NewCompiler()
	tree, err := jsonschema.UnmarshalJSON(strings.NewReader(string(HandoffSchema())))
	must(t, err)
	must(t, c.AddResource(schemaID, tree))
	plain := c.MustCompile(schemaID)
	for raw, ok := range map[string]bool{exampleTier1: true, exampleTier2: true, tier1With(t, "services_affected", `[" "]`): false} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
		must(t, err)
		if err := plain.Validate(value); (err == nil) != ok {
			t.Errorf("validate %s: %v", raw, err)
		}
	}
}

func TestExamplesAreValidWithoutWarnings(t *testing.T) {
	for _, tier := range []ops.Tier{ops.Tier1, ops.Tier2} {
		h, report := Handoff([]byte(HandoffExample(tier)), tier)
		if !report.OK() || len(report.Warnings) > 0 {
			t.Errorf("example of %s: %+v", tier, report)
		}
		if h.RecommendedTier != tier+1 {
			t.Errorf("example of %s recommends %s", tier, h.RecommendedTier)
		}
	}
	if HandoffExample(ops.Tier3) != "" {
		t.Error("Tier 3 hands over to nobody")
	}
}

// A handoff with any single damage is refused; the seed is fixed so that a failure can be repeated.
func TestTenThousandDamagedHandoffsAreRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	garbage := []string{`null`, `7`, `""`, `[]`, `{}`, `true`, `"x"`, `[[]]`, `[null]`, `1.5`, `-1e400`}
	damages := []func(string) string{
		func(s string) string { return s[:random.IntN(len(s)-2)] },
		func(s string) string { return s + string(rune('!'+random.IntN(90))) },
		func(s string) string { // a duplicate of a field, somewhere at the top
			return "{" + `"cooldown_state":{},` + s[1:]
		},
		func(s string) string {
			at := random.IntN(len(s))
			return s[:at] + string([]byte{byte(0x80 + random.IntN(0x40))}) + s[at:]
		},
		func(s string) string {
			name := []string{"schema_version", "services_affected", "check_results", "cooldown_state"}[random.IntN(4)]
			value := garbage[random.IntN(len(garbage))]
			if name == "cooldown_state" && value == "{}" || name == "services_affected" && value == "[]" {
				value = "0"
			}
			return withField(t, s, name, value)
		},
		func(s string) string {
			for _, name := range []string{"service", "check_type", "status", "error"} {
				if random.IntN(2) == 0 {
					return strings.Replace(s, `"`+name+`":`, `"`+strings.ToUpper(name)+`":`, 1)
				}
			}
			return strings.Replace(s, `"down"`, `"dead"`, 1)
		},
		func(s string) string { return strings.Repeat("[", random.IntN(50)+1) + s },
	}
	for i := range 10_000 {
		tier := ops.Tier(1 + i%2)
		base := strings.TrimSpace(HandoffExample(tier))
		damaged := damages[random.IntN(len(damages))](base)
		if h, report := Handoff([]byte(damaged), tier); report.OK() || h.SchemaVersion != 0 {
			t.Fatalf("round %d: accepted %s", i, damaged)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tier := range []ops.Tier{ops.Tier1, ops.Tier2} {
		f.Add([]byte(HandoffExample(tier)), int(tier))
	}
	f.Add([]byte(check(`{"service":"<&>\u2028","check_type":"dns","status":"down","error":"\u0000\ud83d\ude00","response_time_ms":1e1}`)), 1)
	f.Add([]byte(`{"schema_version":1,"schema_version":1}`), 2)
	f.Fuzz(func(t *testing.T, raw []byte, from int) {
		h, report := Handoff(raw, ops.Tier(from))
		if report.OK() != (h.SchemaVersion == Version) {
			t.Fatalf("report and handoff disagree: %+v, %+v", report, h)
		}
		if !report.OK() {
			return
		}
		again, err := json.Marshal(h)
		if err != nil {
			t.Fatalf("marshal: %v", err)
		}
		if len(again) > MaxBytes { // escapes can make it longer than it came
			return
		}
		second, report := Handoff(again, ops.Tier(from))
		if err := report.Err(); err != nil {
			t.Fatalf("accepted, but refused when written again: %v\n%s", err, again)
		}
		if len(report.Warnings) > 0 || len(second.CheckResults) != len(h.CheckResults) || string(second.CooldownState) != string(h.CooldownState) {
			t.Fatalf("changed when written again: %+v\n%+v", h, second)
		}
		if text, _ := Context(h, Source{Tier: ops.Tier(from)}, nil); !fits(text) {
			t.Fatalf("context of %d bytes", len(text))
		}
	})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
