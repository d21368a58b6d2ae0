package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/transcript/atif"
)

// recorded has a transcript that is read in pages.
type recorded struct{ lines int }

func (r recorded) Transcript(_ context.Context, _ ops.SessionID, after int64, limit int) ([]api.Line, error) {
	var out []api.Line
	for seq := after + 1; seq <= int64(r.lines) && len(out) < limit; seq++ {
		out = append(out, api.Line{Seq: seq, At: time.Unix(seq, 0), Line: "line"})
	}
	return out, nil
}

func TestAnExportHasTheWholeTranscript(t *testing.T) {
	x := api.CycleReport{Cycle: api.Cycle{ID: 7, Title: "web is down", Status: ops.CycleResolved, Chain: api.Chain{Sessions: []api.Session{{ID: 3, Tier: ops.Tier1, Agent: "command"}}}}}
	story, err := storyOf(t.Context(), recorded{lines: 2500}, x, "1.2.3")
	if err != nil || len(story.Sessions) != 1 || len(story.Sessions[0].Lines) != 2500 {
		t.Fatalf("%d sessions, %v", len(story.Sessions), err)
	}
	doc := atif.Export(story)
	if steps := doc.Subagents[0].Steps; len(steps) != 1 || strings.Count(steps[0].Message, "line") != 2500 {
		t.Errorf("%d steps", len(steps))
	}
}
