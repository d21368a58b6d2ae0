package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
)

// Explainer says what the guard thinks of a shell command.
type Explainer func(environment ops.Environment, tier ops.Tier, command string, dryRun bool) (Verdict, error)

// Verdict is what the guard thinks of one shell command.
type Verdict struct {
	Verdict string          `json:"verdict" enum:"allow,deny"`
	Rule    string          `json:"rule"`
	Reason  string          `json:"reason"`
	Effects []VerdictEffect `json:"effects" doc:"What the command would count as."`
}

// VerdictEffect is a restart or a redeployment that a command would count as.
type VerdictEffect struct {
	Kind    string `json:"kind" enum:"restart,redeployment"`
	Service string `json:"service"`
}

// ConfigCheck is the result of a check of the configuration.
type ConfigCheck struct {
	Valid        bool     `json:"valid"`
	File         *string  `json:"file" doc:"Null without a file."`
	Environments int      `json:"environments"`
	Problems     []string `json:"problems" doc:"Each with file, line, key and how to fix it."`
	Notes        []string `json:"notes" doc:"What works, but may not be meant."`
}

type explainQuery struct {
	Tier        int    `query:"tier" required:"true" minimum:"1" maximum:"3" doc:"The tier that would run the command."`
	Command     string `query:"command" required:"true" minLength:"1" maxLength:"8000" doc:"The shell command."`
	DryRun      bool   `query:"dry_run" doc:"Check as in a dry run."`
	Environment string `query:"environment" doc:"Default: the first configured environment."`
}

func (s *server) registerChecks(api huma.API) {
	huma.Register(api, look("explain-guard", "/guard/explain", "Explain whether the guard would allow a shell command", "guard",
		"Nothing is run or recorded. A read-only tier, a rate limit or a rule of yours may be the reason."), s.explain)
	huma.Register(api, look("check-config", "/config/check", "Check the configuration as it is now", "config",
		"The files are read again, as claudeops config check does. The daemon keeps the configuration that it was started with."), s.checkConfig)
}

func (s *server) explain(_ context.Context, q *explainQuery) (*body[Verdict], error) {
	e, err := s.environment(q.Environment)
	if err != nil {
		return nil, err
	}
	if s.Guard == nil {
		return nil, huma.Error409Conflict("the guard is off: nothing checks what agents run")
	}
	v, err := s.Guard(e, ops.Tier(q.Tier), q.Command, q.DryRun)
	if err != nil {
		return nil, s.problem("explain a verdict", err)
	}
	return &body[Verdict]{v}, nil
}

func (s *server) checkConfig(ctx context.Context, _ *struct{}) (*body[ConfigCheck], error) {
	if s.CheckConfig == nil {
		return nil, huma.Error409Conflict("the configuration cannot be checked here: run claudeops config check on the host")
	}
	return &body[ConfigCheck]{s.CheckConfig(ctx)}, nil
}
