package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
)

// Cooldown is how often an action on a service is still allowed.
type Cooldown struct {
	Environment string     `json:"environment"`
	Service     string     `json:"service"`
	Action      string     `json:"action" doc:"restart, redeployment, or the name of an action with its own cooldown."`
	Left        int        `json:"left" doc:"How often the action is still allowed in the sliding window."`
	Until       *time.Time `json:"until" doc:"When the action is allowed again; null if it is allowed now."`
}

type cooldownsQuery struct {
	Environment string `query:"environment" doc:"Filter by environment."`
}

type clearInput struct {
	Keyed
	Body struct {
		Environment string `json:"environment,omitempty" doc:"Defaults to the first configured environment."`
		Service     string `json:"service"`
		Action      string `json:"action,omitempty" doc:"restart, redeployment, or an action with its own cooldown. Default: all."`
		Reason      string `json:"reason" doc:"Why the limit is reset, for the record. At most 500 characters."`
	}
}

type cleared struct {
	Cleared int `json:"cleared" doc:"Number of entries that no longer count."`
}

func (s *server) registerCooldowns(api huma.API) {
	huma.Register(api, look("list-cooldowns", "/cooldowns", "List services with a cooldown", "cooldowns",
		"Only services with an action in the sliding window. The others have their full limits."), s.cooldowns)
	huma.Register(api, act("clear-cooldown", "/cooldowns/clear", "Reset the rate limit of a service", "cooldowns",
		"Earlier restarts, redeployments or actions no longer count. A reason is required.", http.StatusNotFound), s.clearCooldown)
}

func (s *server) cooldowns(ctx context.Context, q *cooldownsQuery) (*body[list[Cooldown]], error) {
	asked, err := s.environments(q.Environment)
	if err != nil {
		return nil, err
	}
	out := list[Cooldown]{Items: []Cooldown{}}
	for _, e := range asked {
		rows, err := s.Store.Cooldowns(ctx, e.Name, e.Policy.AllCooldowns(), s.Clock())
		if err != nil {
			return nil, s.problem("list cooldowns", err)
		}
		for _, r := range rows {
			out.Items = append(out.Items, CooldownRow(e.Name, r))
		}
	}
	return &body[list[Cooldown]]{out}, nil
}

func (s *server) clearCooldown(ctx context.Context, in *clearInput) (*body[cleared], error) {
	n, err := s.desk.ClearCooldown(ctx, by(ctx), in.Body.Environment, in.Body.Service, in.Body.Action, in.Body.Reason)
	if err != nil {
		return nil, s.problem("cooldown of "+in.Body.Service, err)
	}
	return &body[cleared]{cleared{n}}, nil
}

// CooldownRow is how often an action on a service is still possible.
func CooldownRow(environment string, c ops.Cooldown) Cooldown {
	row := Cooldown{Environment: environment, Service: c.Service, Action: c.Action, Left: c.Left}
	if !c.Until.IsZero() {
		row.Until = &c.Until
	}
	return row
}
