package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
)

// SetupState is how far a step of the set-up is.
type SetupState string

// The states of a step.
const (
	SetupDone    SetupState = "done"
	SetupTodo    SetupState = "todo"
	SetupUnknown SetupState = "unknown" // it cannot be tested, or is being tested
)

// The steps of the set-up, in their order.
const (
	StepAgent         = "agent"
	StepKey           = "credentials"
	StepService       = "services"
	StepTrust         = "trust"
	StepNotifications = "notifications"
	StepDryRun        = "dry run"
)

// SetupRow is one step of the set-up, as the process that runs the agents sees it.
type SetupRow struct {
	Step    string     `json:"step" enum:"agent,credentials,services,trust,notifications,dry run"`
	State   SetupState `json:"state" enum:"done,todo,unknown" doc:"unknown: it cannot be tested, or is being tested."`
	Blocks  bool       `json:"blocks" doc:"Nothing works before it is done."`
	Detail  string     `json:"detail"`
	Next    string     `json:"next" doc:"What to do, in a sentence; empty if nothing."`
	Command string     `json:"command" doc:"What to type for it in a shell; empty if nothing."`
	Lines   string     `json:"lines" doc:"What to add to the configuration file; empty if nothing."`
	Page    string     `json:"page" doc:"The page on which it is done; empty if there is none."`
}

// SetupIncomplete reports whether a step is left to do.
func SetupIncomplete(rows []SetupRow) bool {
	for _, r := range rows {
		if r.State == SetupTodo {
			return true
		}
	}
	return false
}

// Finding is the result of one check of the machine.
type Finding struct {
	Check  string `json:"check"`
	State  string `json:"state" enum:"ok,warning,problem,unknown"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Examination is what doctor prints.
type Examination struct {
	Setup  []SetupRow `json:"setup" doc:"The steps of the set-up."`
	Checks []Finding  `json:"checks" doc:"The other checks."`
}

func (s *server) registerSetup(api huma.API) {
	huma.Register(api, look("get-doctor", "/doctor", "Check what the daemon needs, as the daemon sees it", "config",
		"The steps of the set-up and the checks of claudeops doctor, with the PATH and the environment of the daemon. "+
			"The key of the model's API is tested with a free request unless that succeeded before."), s.doctor)
}

func (s *server) doctor(ctx context.Context, _ *struct{}) (*body[Examination], error) {
	if s.Setup == nil || s.Examine == nil {
		return nil, huma.Error409Conflict("nothing can be checked here: run claudeops doctor on the host")
	}
	return &body[Examination]{Examination{Setup: s.Setup(ctx, true), Checks: s.Examine(ctx)}}, nil
}
