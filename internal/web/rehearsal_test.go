package web

import (
	"html/template"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide/rehearse"
	"claudeops/internal/ops"
)

// A page that changes the configuration shows what it would have changed before it is saved.
func TestARehearsalIsShown(t *testing.T) {
	pages := loadPages(loadAssets(), time.Now, func(text string) template.HTML { return template.HTML(text) }) //nolint:gosec // not used here
	report := rehearse.Report{
		Counts: rehearse.Counts{Cycles: 7, ToolCalls: 3, NotJudged: 2},
		Differences: []rehearse.Difference{
			{Before: "starts tier2", After: "ends <needs_human>", Setting: "max_tier", Count: 4, Cycle: 12, Step: 3, At: time.Now(), CutShort: true},
			{Kind: rehearse.KindToolCall, Before: "allowed", After: "refused", Command: "docker logs web", Tier: ops.Tier1, Count: 500, Cycle: 9, At: time.Now()},
		},
		Notes: []string{"nothing is recorded of new"},
	}
	var page strings.Builder
	if err := pages["config"]().ExecuteTemplate(&page, "rehearsal", report); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"What would this change?", "2 different: 7 cycles", "2 tool calls cannot be judged", `href="/cycles/12"`, "step 3", "because of max_tier",
		"ends &lt;needs_human&gt;", "what follows cannot be rehearsed", "docker logs web", "500 ×", "nothing is recorded of new",
	} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("%q is missing in\n%s", part, page.String())
		}
	}
}
