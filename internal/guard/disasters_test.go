package guard

import (
	"os"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// TestDisastersAreRefused asks about every command of docs/disasters.md again.
func TestDisastersAreRefused(t *testing.T) {
	page, err := os.ReadFile("../../docs/disasters.md")
	must(t, err)
	g, asked := newGuard(t), 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 || !strings.HasPrefix(cells[1], "`") {
			continue
		}
		asked++
		command, why := strings.Trim(cells[1], "`"), strings.TrimSuffix(cells[3], " |")
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			if d := g.Check(tier, "Bash", bashInput(t, command), Facts{Cwd: "/srv"}); d.Allowed() || !strings.Contains(d.Reason, why) {
				t.Errorf("%s: %q: %s %q, not %q", tier, command, d.Verdict, d.Reason, why)
			}
		}
	}
	if asked < 15 {
		t.Errorf("only %d commands were found", asked)
	}
}
