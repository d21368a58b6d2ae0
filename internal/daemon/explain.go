package daemon

import (
	"encoding/json"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/guard"
	"claudeops/internal/ops"
)

// Explainer returns the guard of a configuration for people who ask what it would say. The guard is made with the first question.
func Explainer(c *config.Config, judge func() (*guard.Guard, error)) api.Explainer {
	if !c.Guard.Enabled {
		return nil
	}
	return func(e ops.Environment, tier ops.Tier, command string, dryRun bool) (api.Verdict, error) {
		g, err := judge()
		if err != nil {
			return api.Verdict{}, err
		}
		facts := Facts(c, e)
		facts.DryRun = facts.DryRun || dryRun
		d := Verdict(g, tier, command, facts)
		out := api.Verdict{Verdict: string(d.Verdict), Rule: d.Rule, Reason: d.Reason, Effects: []api.VerdictEffect{}}
		for _, x := range d.Effects {
			out.Effects = append(out.Effects, api.VerdictEffect{Kind: string(x.Kind), Service: x.Service})
		}
		return out, nil
	}
}

// Verdict is what the guard says of one shell command.
func Verdict(g *guard.Guard, tier ops.Tier, command string, facts guard.Facts) guard.Decision {
	raw, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		raw = nil // a string always has a JSON form, and no input is denied
	}
	return g.Check(tier, "Bash", raw, facts)
}

// NewJudge makes the guard of a configuration.
func NewJudge(c *config.Config) (*guard.Guard, error) { return newJudge(c) }
