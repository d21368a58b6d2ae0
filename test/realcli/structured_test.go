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
