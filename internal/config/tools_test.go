package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestScenario_TaskToolRemovedFromAllowedTools(t *testing.T) {
	c, _ := mustLoad(t, setup{})
	for tier, lists := range c.Environments()[0].Tools {
		for _, name := range []string{"Task", "Agent"} {
			if slices.Contains(bareNames(lists.Allowed), name) || slices.Contains(lists.Tools, name) {
				t.Errorf("%s has %s", tier, name)
			}
			if !slices.Contains(lists.Disallowed, name) {
				t.Errorf("%s is not denied %s", tier, name)
			}
		}
	}
	for tier := 1; tier <= 2; tier++ {
		for _, entry := range []string{"Task", "Agent", "Task(explore)", "Agent(x,y)", "task"} {
			t.Run(fmt.Sprintf("tier %d %s", tier, entry), func(t *testing.T) {
				variable := fmt.Sprintf("CLAUDEOPS_TIER%d_ALLOWED_TOOLS", tier)
				_, _, err := load(t, setup{env: []string{variable + "=Read," + entry}})
				got := problems(t, err)
				if len(got) != 1 || got[0].Where != "environment variable "+variable || !strings.Contains(got[0].Message, fmt.Sprintf("not allowed at Tier %d", tier)) {
					t.Errorf("by variable: %v", err)
				}
				_, _, err = load(t, setup{yaml: fmt.Sprintf("tiers:\n  %d:\n    allowed_tools:\n      - Read\n      - %s\n", tier, entry)})
				if got := problems(t, err); len(got) != 1 || got[0].Where != "claudeops.yaml:5:9" {
					t.Errorf("by file: %v", err)
				}
			})
		}
	}
}

func TestDefaultToolListsPerTier(t *testing.T) {
	look := []string{"Bash", "Read", "Grep", "Glob", "WebFetch", "WebSearch"}
	byFile, _ := mustLoad(t, setup{yaml: "escalation: {mode: handoff}\n"})
	if got := byFile.Environments()[0].Tools[1].Tools; !slices.Equal(got, append(slices.Clone(look), "Write")) {
		t.Errorf("Tier 1 cannot write its handoff file with %q", got)
	}
	c, _ := mustLoad(t, setup{yaml: "guard: {enabled: false}\n"})
	lists := c.Environments()[0].Tools
	want := map[ops.Tier][]string{
		1: look,
		2: append(slices.Clone(look), "Write", "Edit"),
		3: append(slices.Clone(look), "Write", "Edit"),
	}
	for tier, tools := range want {
		if !slices.Equal(lists[tier].Tools, tools) || !slices.Equal(lists[tier].Allowed, tools) {
			t.Errorf("%s has %q, allowed %q", tier, lists[tier].Tools, lists[tier].Allowed)
		}
	}
	// From which tier on a command is no longer disallowed; 4 means never.
	for pattern, from := range map[string]ops.Tier{
		"Bash(docker restart:*)": 2, "Bash(docker compose up:*)": 2, "Bash(git commit:*)": 2, "Bash(git push:*)": 2, "Bash(gh pr create:*)": 2,
		"Bash(apprise:*)": 2, "Bash(rm:*)": 2,
		"Bash(ansible-playbook:*)": 3, "Bash(helm upgrade:*)": 3, "Bash(helm rollback:*)": 3, "Bash(docker compose down:*)": 3, "Bash(docker stop:*)": 3,
		"Bash(rm -rf /:*)": 4, "Bash(docker system prune:*)": 4, "Bash(git push --force:*)": 4, "Bash(git push -f:*)": 4, "Bash(docker volume rm:*)": 4,
		"Bash(docker compose down -v:*)": 4, "Bash(rm -rf /var/lib/docker/volumes:*)": 4, "Edit(//**/inventory.yml)": 4, "Edit(//**/hosts.yaml)": 4, "Edit(//var/lib/docker/volumes/**)": 4, "Bash(sudo:*)": 4,
	} {
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			if got := slices.Contains(lists[tier].Disallowed, pattern); got != (tier < from) {
				t.Errorf("%s disallows %s: %v", tier, pattern, got)
			}
		}
	}
	for tier, l := range lists {
		for _, entry := range l.Disallowed {
			if !toolEntry().MatchString(entry) {
				t.Errorf("%s: %q is not a tool pattern", tier, entry)
			}
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(l.Disallowed))); len(unique) != len(l.Disallowed) {
			t.Errorf("%s disallows something twice", tier)
		}
	}
}

func TestOwnToolListsReplaceTheDefaults(t *testing.T) {
	c, _ := mustLoad(t, setup{
		yaml: "tiers:\n  2:\n    disallowed_tools: []\n  3: {allowed_tools: [Task, Read]}\n",
		env:  []string{"CLAUDEOPS_TIER1_ALLOWED_TOOLS=Read, Bash(docker ps:*),Bash(sh -c 'a, b'),mcp__x__*", "CLAUDEOPS_TIER1_DISALLOWED_TOOLS=Task,Agent"},
	})
	lists := c.Environments()[0].Tools
	for _, tc := range []struct {
		name      string
		got, want []string
	}{
		{"allowed", lists[1].Allowed, []string{"Read", "Bash(docker ps:*)", "Bash(sh -c 'a, b')", "mcp__x__*"}},
		{"tools", lists[1].Tools, []string{"Read", "Bash", "mcp__x__*"}},
		{"disallowed", lists[1].Disallowed, []string{"Task", "Agent"}},
		{"nothing disallowed", lists[2].Disallowed, []string{}},
		{"Tier 2 keeps its tools", lists[2].Tools, defaultTools(2, ops.ContextHandoff).Tools},
		{"Task at Tier 3", lists[3].Allowed, []string{"Task", "Read"}},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, tc.got, tc.want)
		}
	}
	if got := shown(c, "tiers.1.allowed_tools"); got.Origin != "environment CLAUDEOPS_TIER1_ALLOWED_TOOLS" || !strings.HasPrefix(got.Value, "Read,Bash(docker ps:*)") {
		t.Errorf("shown as %+v", got)
	}
}

func TestWriteIsGivenToTier1OnlyForTheHandoffFile(t *testing.T) {
	if got := defaultTools(ops.Tier1, ops.ContextResume).Tools; slices.Contains(got, "Write") {
		t.Errorf("tools are %q", got)
	}
}

func TestWithTheGuardNothingRunsUnjudged(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "tiers: {3: {allowed_tools: [Bash, Read]}}\n"})
	lists := c.Environments()[0].Tools
	for tier, want := range map[ops.Tier][]string{1: {"Read", "Grep", "Glob"}, 2: {"Read", "Grep", "Glob"}, 3: {"Bash", "Read"}} {
		if !slices.Equal(lists[tier].Allowed, want) {
			t.Errorf("%s may use %q unasked", tier, lists[tier].Allowed)
		}
	}
	if !slices.Contains(lists[2].Tools, "Bash") {
		t.Errorf("Tier 2 has only %q", lists[2].Tools)
	}
	if got := c.Guard.Limits; len(got) != 2 || got[0].Count != 2 || got[1].Count != 1 {
		t.Errorf("limits are %+v", got)
	}
}
