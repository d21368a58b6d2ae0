package realcli_test

import (
	"strings"
	"testing"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
	"claudeops/test/messagesapi"
)

func TestAStructuredOutputEndsTheRun(t *testing.T) {
	t.Parallel()
	healthy := raw(`{"schema_version":1,"outcome":"healthy","summary":"All services answer.","check_results":` +
		`[{"service":"web","check_type":"http","status":"healthy","error":""}],"actions":[],"events":[],"memories":[]}`)
	c := newCLI(t, messagesapi.Turns(
		messagesapi.Structured("toolu_bad", raw(`{"outcome":"fine"}`)),
		messagesapi.Structured("toolu_good", healthy),
		messagesapi.Text("never said"),
	))
	out := c.fresh(first, "look around", "haiku", "Bash", "--json-schema", report.Inline(ops.Tier1))
	r := out.succeeded()
	if string(r.Structured) != string(healthy) || r.Text != string(healthy) {
		t.Errorf("structured output %s, text %s", r.Structured, r.Text)
	}
	if len(c.api.Requests()) != 2 {
		t.Errorf("%d requests", len(c.api.Requests()))
	}
	fed, _ := c.last().Result("toolu_bad")
	if !fed.IsError || !strings.Contains(fed.Text, "must have required property 'summary'") || !strings.Contains(fed.Text, "/outcome: must be equal to one of the allowed values") {
		t.Errorf("fed back: %+v", fed)
	}
	if strings.Contains(out.stderr, "strict mode") {
		t.Errorf("the schema is not to its taste: %s", out.stderr)
	}
}

func TestAModelThatGivesNoStructuredOutputEndsWell(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.InOrder(messagesapi.Text("I looked"), messagesapi.Text("I will not")))
	r := c.fresh(first, "look around", "haiku", "Bash", "--json-schema", `{"type":"object"}`).succeeded()
	if r.Structured != nil || r.Text != "I will not" || len(c.api.Requests()) != 2 {
		t.Errorf("structured output %s, text %q, %d requests", r.Structured, r.Text, len(c.api.Requests()))
	}
}

func TestFiveInvalidStructuredOutputsFailTheRun(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.InOrder(messagesapi.Structured("", raw(`{}`))))
	out := c.fresh(first, "look around", "haiku", "Bash", "--json-schema", `{"type":"object","required":["a"]}`)
	r := out.result()
	if out.code != 1 || !r.IsError || r.Subtype != "error_max_structured_output_retries" ||
		r.Reason != "structured_output_retry_exhausted" || r.Structured != nil || len(c.api.Requests()) != 5 {
		t.Errorf("%d requests\n%s", len(c.api.Requests()), out)
	}
}

func TestTheSchemaMayUseDraft7(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","additionalProperties":false,
		"$defs":{"count":{"type":"integer","minimum":3}},
		"properties":{"version":{"const":1},"name":{"type":"string","minLength":3},"word":{"type":"string","pattern":"^\\S+$"},
			"count":{"$ref":"#/$defs/count"},"list":{"type":"array","minItems":1},"kind":{"enum":["a","b"]}},
		"if":{"properties":{"kind":{"const":"a"}},"required":["kind"]},"then":{"required":["more"]}}`
	c := newCLI(t, messagesapi.Turns(
		messagesapi.Structured("toolu_bad", raw(`{"version":2,"name":"x","word":"a b","count":1,"list":[],"kind":"a","other":1}`)),
		messagesapi.Structured("toolu_good", raw(`{"version":1,"name":"xyz","word":"ab","count":3,"list":[1],"kind":"b"}`)),
	))
	c.fresh(first, "look around", "haiku", "Bash", "--json-schema", schema).succeeded()
	fed, _ := c.last().Result("toolu_bad")
	for _, want := range []string{
		"/version: must be equal to constant: 1", "/name: must NOT have fewer than 3 characters", "/word: must match pattern",
		"/count: must be >= 3", "/list: must NOT have fewer than 1 items", "must have required property 'more'",
		"must NOT have additional properties ('other' is not allowed)",
	} {
		if !strings.Contains(fed.Text, want) {
			t.Errorf("%q is missing in %q", want, fed.Text)
		}
	}
}

func TestAForeignSchemaIsRefusedBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ schema, why string }{
		"a newer draft":      {`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`, "no schema with key or ref"},
		"a newer keyword":    {`{"type":"object","unevaluatedProperties":false}`, "unknown keyword"},
		"an unknown keyword": {`{"type":"object","x-note":"n"}`, "unknown keyword"},
		"no JSON":            {`schema.json`, "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCLI(t, messagesapi.Turns(messagesapi.Text("done")))
			out := c.fresh(first, "look around", "haiku", "Bash", "--json-schema", tc.schema)
			if out.code != 1 || len(out.events) != 0 || len(c.api.Requests()) != 0 || !strings.Contains(out.stderr, tc.why) {
				t.Errorf("%d requests\n%s", len(c.api.Requests()), out)
			}
		})
	}
}
