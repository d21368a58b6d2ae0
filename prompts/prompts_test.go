package prompts_test

import (
	"regexp"
	"strings"
	"testing"

	"claudeops/internal/decide/handoff"
	"claudeops/internal/ops"
	"claudeops/prompts"
)

func data(tier ops.Tier, change ...func(*prompts.Data)) prompts.Data {
	d := prompts.Data{
		Environment: "home", StateDir: "/state", ReposDir: "/repos", HandoffFile: true, Example: handoff.Example(tier),
		Services: []ops.Service{{Name: "web", Aliases: []string{"nginx"}}},
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func fresh(t *testing.T, tier ops.Tier, change ...func(*prompts.Data)) string {
	t.Helper()
	text, err := prompts.Fresh(tier, data(tier, change...))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "<no value>") || strings.Contains(text, "{{") {
		t.Errorf("%s's prompt has holes:\n%s", tier, text)
	}
	return text
}

var taskTool = regexp.MustCompile(`(?i)task tool|\bTask\b`)

func TestScenario_Tier1PromptWritesHandoffInsteadOfSpawningTask(t *testing.T) {
	text := fresh(t, 1)
	for _, field := range []string{"$CLAUDEOPS_STATE_DIR/handoff.json", "schema_version", "recommended_tier", "services_affected", "check_results", "cooldown_state"} {
		if !strings.Contains(text, field) {
			t.Errorf("the prompt does not name %s", field)
		}
	}
	if taskTool.MatchString(text) {
		t.Error("the prompt speaks of the Task tool")
	}
}

func TestScenario_Tier2PromptWritesHandoffInsteadOfSpawningTask(t *testing.T) {
	text := fresh(t, 2)
	for _, field := range []string{"$CLAUDEOPS_STATE_DIR/handoff.json", "investigation_findings", "remediation_attempted"} {
		if !strings.Contains(text, field) {
			t.Errorf("the prompt does not name %s", field)
		}
	}
	if taskTool.MatchString(text) {
		t.Error("the prompt speaks of the Task tool")
	}
}

func TestTheExampleInThePromptIsValid(t *testing.T) {
	for _, tier := range []ops.Tier{1, 2} {
		text := fresh(t, tier)
		start := strings.Index(text, "```json\n") + len("```json\n")
		example := text[start : start+strings.Index(text[start:], "```")]
		if _, report := handoff.Parse([]byte(example), tier); !report.OK() {
			t.Errorf("%s is shown an invalid example: %v", tier, report.Err())
		}
	}
}

func TestEveryTierIsToldItsLimits(t *testing.T) {
	for tier := ops.Tier1; tier <= ops.Tier3; tier++ {
		text := fresh(t, tier)
		for _, word := range []string{"docker system prune", "git push --force", "/volumes/", "ie.yaml", "Do not repeat checks"} {
			if !strings.Contains(text, word) {
				t.Errorf("%s is not told about %q", tier, word)
			}
		}
		if dry := fresh(t, tier, func(d *prompts.Data) { d.DryRun = true }); !strings.Contains(dry, "Dry run is on") || strings.Contains(text, "Dry run is on") {
			t.Errorf("%s does not hear about dry run at the right time", tier)
		}
		if tier > 1 && !strings.Contains(text, "2 restarts per service in 4 hours") {
			t.Errorf("%s is not told the cooldowns", tier)
		}
	}
}

func TestAHandoffFileIsAskedForInHandoffModeOnly(t *testing.T) {
	for tier := ops.Tier1; tier <= ops.Tier3; tier++ {
		text := fresh(t, tier, func(d *prompts.Data) { d.HandoffFile = false })
		if strings.Contains(text, "handoff.json") || strings.Contains(text, "handoff file") {
			t.Errorf("%s is asked for a file although it reports by structured output", tier)
		}
	}
}

func TestEscalationPromptsAreShort(t *testing.T) {
	for _, tier := range []ops.Tier{2, 3} {
		text, err := prompts.Escalation(tier, data(tier, func(d *prompts.Data) { d.DryRun, d.HandoffFile = true, false }))
		if err != nil {
			t.Fatal(err)
		}
		// A token is rarely shorter than three characters of such text.
		if tokens := len(text) / 3; tokens >= 600 {
			t.Errorf("%s's escalation prompt may have %d tokens", tier, tokens)
		}
		for _, word := range []string{tier.String(), "do not repeat", "forbidden", "Cooldowns", "Dry run"} {
			if !strings.Contains(text, word) {
				t.Errorf("%s's escalation prompt does not say %q", tier, word)
			}
		}
		if strings.Contains(text, "handoff.json") {
			t.Errorf("%s's escalation prompt asks for a file", tier)
		}
		byFile, err := prompts.Escalation(tier, data(tier))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(byFile, "handoff.json"); got != (tier < ops.LastTier) {
			t.Errorf("%s, which reports by file, is told about it: %v", tier, got)
		}
	}
}
