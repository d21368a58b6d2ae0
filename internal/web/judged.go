package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// judgedRows is how many decisions of each kind a page shows, the newest ones.
	judgedRows = 50
	judgedText = 300
)

// judgedView is what the guard decided in a session.
type judgedView struct {
	Summary string
	Count   int
	Rows    []judgedRow
}

type judgedRow struct {
	At       stamp
	Badge    badge
	Gate     string
	Tool     string
	Input    string
	Rest     string // the whole input where it is long
	Rule     string
	Reason   string
	Reserved bool
}

func (m moment) judged(summary store.GuardSummary) judgedView {
	view := judgedView{Summary: fmt.Sprintf("%d allowed, %d denied", summary.Allowed, summary.Denied), Count: summary.Allowed + summary.Denied}
	if view.Count == 0 {
		view.Summary = ""
	}
	if summary.Allowed+summary.Denied > len(summary.Records) {
		view.Summary += fmt.Sprintf("; the newest %d of each are shown", judgedRows)
	}
	slices.SortFunc(summary.Records, func(a, b ops.GuardRecord) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range summary.Records {
		view.Rows = append(view.Rows, m.judgedRow(r))
	}
	return view
}

func (m moment) judgedRow(r ops.GuardRecord) judgedRow {
	row := judgedRow{
		At: m.stamp(r.At), Badge: judgedBadge(r.Allowed), Gate: gateText(r.Gate), Tool: plain(r.Tool), Rule: plain(r.Rule), Reason: plain(r.Reason),
		Reserved: r.Allowed && r.Mutating,
	}
	whole := plain(commandOf(r.Input))
	short, cut := clip(whole, judgedText)
	row.Input = short
	if cut {
		row.Input, row.Rest = short+"…", whole
	}
	return row
}

// commandOf shows a shell command as it was written, and every other input as it is.
func commandOf(input string) string {
	var in map[string]any
	if json.Unmarshal([]byte(input), &in) != nil {
		return input
	}
	if command, ok := in["command"].(string); ok {
		return command
	}
	return input
}

func judgedBadge(allowed bool) badge {
	if allowed {
		return badge{"ok", "circle-check", "Allowed"}
	}
	return badge{"bad", "ban", "Denied"}
}

func gateText(g ops.Gate) string {
	switch g {
	case ops.GateHook:
		return "before the tool call"
	case ops.GateShell:
		return "before the shell"
	default:
		return plain(string(g))
	}
}
