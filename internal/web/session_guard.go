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
	// guardRows is how many of the newest decisions of each kind a page shows.
	guardRows = 50
	guardText = 300
)

// guardView is what the guard decided in a session.
type guardView struct {
	Summary string
	Count   int
	Rows    []guardRow
}

type guardRow struct {
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

func (m moment) guardDecisions(summary store.GuardSummary) guardView {
	view := guardView{
		Summary: fmt.Sprintf("%d allowed, %d denied", summary.Allowed, summary.Denied), Count: summary.Allowed + summary.Denied,
	}
	if view.Count == 0 {
		view.Summary = ""
	}
	if summary.Allowed+summary.Denied > len(summary.Records) {
		view.Summary += fmt.Sprintf("; showing the newest %d of each", guardRows)
	}
	slices.SortFunc(summary.Records, func(a, b ops.GuardRecord) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range summary.Records {
		view.Rows = append(view.Rows, m.guardRow(r))
	}
	return view
}

func (m moment) guardRow(r ops.GuardRecord) guardRow {
	row := guardRow{
		At: m.stamp(r.At), Badge: guardBadge(r.Allowed), Gate: gateText(r.Gate), Tool: plain(r.Tool), Rule: plain(r.Rule),
		Reason: plain(r.Reason), Reserved: r.Allowed && r.Mutating,
	}
	whole := plain(commandOf(r.Input))
	short, cut := clip(whole, guardText)
	row.Input = short
	if cut {
		row.Input, row.Rest = short+"…", whole
	}
	return row
}

// commandOf returns the command of a shell call, and any other input unchanged.
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

func guardBadge(allowed bool) badge {
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
	case ops.GateDocker:
		return "before the Docker engine"
	case ops.GateAction:
		return "before the supervisor acts"
	default:
		return plain(string(g))
	}
}
