package web

import (
	"cmp"
	"context"

	"claudeops/internal/api"
)

// setupView is the list of what is left to set up.
type setupView struct {
	Done  int
	Steps []setupStep
}

type setupStep struct {
	api.SetupRow

	Title string
	Badge badge
	Todo  bool
	Test  bool   // it is done by a test that this page can send
	Copy  string // a command, or lines of the configuration
	Link  *pageLink
}

// addSetup adds the steps of the set-up until none is left to do.
func (v *overviewView) addSetup(ctx context.Context, s *server) {
	if s.Setup == nil || s.HideSetup {
		return
	}
	rows := s.Setup(ctx, false)
	if !api.SetupIncomplete(rows) {
		return
	}
	// The title of each step, and the link to where it is done.
	words := map[string][2]string{
		api.StepAgent: {"Agent"}, api.StepKey: {"Key"}, api.StepService: {"First service", "Add a service"},
		api.StepTrust: {"What it may do", "Trust"}, api.StepNotifications: {"Who is told", "Add a target"},
		api.StepDryRun: {"Dry run", "Setting"},
	}
	v.Setup = &setupView{}
	for _, row := range rows {
		step := setupStep{SetupRow: row, Title: words[row.Step][0], Copy: cmp.Or(row.Command, row.Lines)}
		step.Badge = badge{"ok", "circle-check", "Done"}
		switch row.State {
		case api.SetupDone:
			v.Setup.Done++
		case api.SetupUnknown:
			step.Badge = badge{"unknown", "circle-question-mark", "Not testable"}
		case api.SetupTodo:
			step.Todo, step.Badge = true, badge{"warn", "triangle-alert", "To do"}
			if row.Blocks {
				step.Badge = badge{"bad", "octagon-x", "To do"}
			}
		}
		step.Test = row.Step == api.StepNotifications && row.Command != "" && !row.Blocks
		if row.Page != "" && words[row.Step][1] != "" {
			step.Link = &pageLink{row.Page, words[row.Step][1]}
		}
		v.Setup.Steps = append(v.Setup.Steps, step)
	}
}
