package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
)

// Cooldown is what is left of an action on a service.
type Cooldown struct {
	Environment string     `json:"environment"`
	Service     string     `json:"service"`
	Action      string     `json:"action" enum:"restart,redeployment"`
	Left        int        `json:"left" doc:"How often it is still possible within the sliding window."`
	Until       *time.Time `json:"until" doc:"When the next one becomes possible; null where it is possible now."`
}

type cooldownsQuery struct {
	Environment string `query:"environment" doc:"Leave it out for all."`
}

type clearInput struct {
	Keyed
	Body struct {
		Environment string `json:"environment,omitempty" doc:"Defaults to the first configured environment."`
		Service     string `json:"service" minLength:"1" maxLength:"200"`
		Action      string `json:"action,omitempty" enum:"restart,redeployment" doc:"Leave it out for both."`
		Reason      string `json:"reason" minLength:"1" maxLength:"500" doc:"Why it may be done again, for the record."`
	}
}

type cleared struct {
	Cleared int `json:"cleared" doc:"How many entries no longer count."`
}

func (s *server) registerCooldowns(api huma.API) {
	huma.Register(api, look("list-cooldowns", "/cooldowns", "List services with a cooldown", "cooldowns",
		"Only what was done within the sliding window; everything else is possible as often as the limits say."), s.cooldowns)
	huma.Register(api, act("clear-cooldown", "/cooldowns/clear", "Let what was done to a service count no longer", "cooldowns",
		"For a person who knows better than the counter. It needs a reason.", http.StatusNotFound), s.clearCooldown)
}

func (s *server) cooldowns(ctx context.Context, q *cooldownsQuery) (*body[list[Cooldown]], error) {
	asked, err := s.environments(q.Environment)
	if err != nil {
		return nil, err
	}
	out := list[Cooldown]{Items: []Cooldown{}}
	for _, e := range asked {
		rows, err := s.Store.Cooldowns(ctx, e.Name, e.Policy.Cooldowns, s.Clock())
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
	e, err := s.environment(in.Body.Environment)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Body.Reason) == "" {
		return nil, huma.Error422UnprocessableEntity("a reason is needed: say why it may be done again")
	}
	n, err := s.Store.ClearCooldown(ctx, e.Name, in.Body.Service, in.Body.Action, in.Body.Reason, who(ctx), s.Clock())
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
