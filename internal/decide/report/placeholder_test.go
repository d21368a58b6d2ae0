package report

import (
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// placeholders are refused wherever a text is looked at.
func placeholders() []string {
	return []string{
		"...", "…", "....", ". . .", "……", "???", "!!", "---", "***", "___", "==", "✅", "'\"", "[]", "[...]", "{…}",
		"TODO", "Todo", "todo.", "TODO!", "[TODO]", "TODO TODO", "TODO/TBD", " TBD ", "tbd", "T\u200bBD",
		"string", "String", `"string"`, "string, string", "placeholder", "<placeholder>", "PLACEHOLDER...",
		"<…>", "<>", "<summary>", "<what you found>", "<service>: <reason>", "<<x>>", "TODO: <text>",
		"lorem ipsum", "Lorem ipsum dolor sit amet, consectetur", "*Lorem Ipsum*", strings.Repeat(".", 5000),
	}
}

// notApplicable is refused only where a text is owed.
func notApplicable() []string {
	return []string{"N/A", "n/a", "n.a.", "(N/A)", "N / A", "<N/A>", "-", " – ", "—"}
}

// speaking texts hold what a placeholder holds, and more.
func speaking() []string {
	return []string{
		"web", "nginx-1", "0", "7", "a", "x", "ß", "健康", "सेवा", "TODO: renew the certificate", "the string is too long", "strings",
		"a placeholder page is served", "<nginx> answers 502", "latency is < 5 ms, not > 3 ms", "see <https://example.org/x> again",
		"the page shows lorem ipsum", "lorem", "none", "NA", "N/A: the service has no database", "... and then it stopped", "C#", "№ 5",
		"[redacted: token]",
	}
}

func TestPlaceholdersAreToldFromTexts(t *testing.T) {
	var owed rule
	for _, c := range []struct {
		texts              []string
		inOwed, inOptional bool
	}{
		{placeholders(), true, true},
		{notApplicable(), true, false},
		{speaking(), false, false},
		{[]string{"", " ", "\u200b"}, false, false}, // the schema knows where a text must not be blank
	} {
		for _, s := range c.texts {
			if got := owed.isPlaceholder(s, false); got != c.inOwed {
				t.Errorf("%q as an owed text: %v", s, got)
			}
			if got := owed.isPlaceholder(s, true); got != c.inOptional {
				t.Errorf("%q as an optional text: %v", s, got)
			}
		}
	}
}

func TestPlaceholdersAreRefusedInEveryText(t *testing.T) {
	base := full(t)
	refused := func(at, value string) bool {
		_, report := Outcome([]byte(edit(t, base, at, quoted(value))), ops.Tier2)
		for _, p := range report.Errors {
			if p.Pointer != at || len(p.Message) > 200 {
				t.Errorf("%s = %.50q: %s", at, value, p)
			}
		}
		return !report.OK()
	}
	for at, optional := range map[string]bool{
		"/summary": false, "/check_results/0/service": false, "/check_results/1/service": false,
		"/actions/0/service": false, "/actions/0/action": false, "/actions/0/detail": true,
		"/events/0/service": true, "/events/0/message": false,
		"/memories/0/category": false, "/memories/0/service": true, "/memories/0/observation": false,
		"/handoff/reason": true, "/handoff/services_affected/0": false, "/handoff/check_results/1/service": false,
		"/handoff/investigation_findings": false, "/handoff/remediation_attempted": false,
	} {
		for value, want := range map[string]bool{
			"TODO": true, "<text>": true, strings.Repeat(".", 5000): true, "": !optional, "N/A": !optional, "web-1": false,
		} {
			if got := refused(at, value); got != want {
				t.Errorf("%s = %.50q: refused %v", at, value, got)
			}
		}
	}
}

func TestServiceMayBeCalledTodo(t *testing.T) {
	base := full(t)
	for at, ok := range map[string]bool{
		"/check_results/0/service": true, "/handoff/services_affected/0": true, "/events/0/service": true,
		"/summary": false, "/memories/0/category": false,
	} {
		if _, report := Outcome([]byte(edit(t, base, at, `"todo"`)), ops.Tier2); report.OK() != ok {
			t.Errorf("%s: %+v", at, report)
		}
	}
}

func TestObserverMaySayThatFindingsDoNotApply(t *testing.T) {
	for _, name := range []string{"investigation_findings", "remediation_attempted"} {
		at := "/handoff/" + name
		for value, ok := range map[string]bool{"N/A": true, "": true, "...": false, "TODO": false} {
			raw := edit(t, OutcomeExample(ops.Tier1, ops.OutcomeEscalate), at, quoted(value))
			if _, report := Outcome([]byte(raw), ops.Tier1); report.OK() != ok {
				t.Errorf("%s = %q: %+v", at, value, report)
			}
		}
	}
}

func TestErrorOfACheckMayBeAnything(t *testing.T) {
	for _, value := range []string{"", "-", "N/A", "..."} { // it quotes what a service said
		wantOutcome(t, edit(t, full(t), "/check_results/1/error", quoted(value)), ops.Tier2)
	}
}
