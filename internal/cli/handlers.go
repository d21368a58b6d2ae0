package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func (a *app) handlersCommand() *cobra.Command {
	c := &cobra.Command{Use: "handlers", Aliases: []string{"handler"}, Short: "Handlers and escalation routes: list, prompt"}
	c.AddCommand(a.handlersList(), a.handlersPrompt())
	return c
}

// handlerRow is a handler as it is printed.
type handlerRow struct {
	ID          string        `json:"id"`
	Description string        `json:"description,omitempty"`
	GoodFor     string        `json:"good_for,omitempty"`
	Tier        ops.Tier      `json:"tier"`
	Title       string        `json:"title"`
	Family      string        `json:"family"`
	Agent       string        `json:"agent"`
	Model       string        `json:"model,omitempty"`
	Permissions ops.Tier      `json:"permissions,omitempty"`
	Roles       []string      `json:"roles"`
	HandsTo     []string      `json:"hands_to"`
	Fallback    []string      `json:"fallback"`
	Command     []string      `json:"command,omitempty"`
	OwnPrompt   bool          `json:"own_prompt,omitempty"`
	Limits      handlerLimits `json:"limits,omitzero"`
}

// handlerLimits are the limits of one handler; a missing one is the general limit.
type handlerLimits struct {
	Session   string  `json:"session,omitempty"`
	Idle      string  `json:"idle,omitempty"`
	Tool      string  `json:"tool,omitempty"`
	BudgetUSD float64 `json:"budget_usd,omitempty"`
}

func rowOf(p ops.Policy, h ops.Handler) handlerRow {
	limit := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	row := handlerRow{
		ID: h.ID, Description: h.Description, GoodFor: h.GoodFor,
		Tier: h.Tier, Title: h.Tier.Title(), Family: h.Family, Agent: h.Agent, Model: h.Model, Permissions: h.May(),
		Roles: p.RolesOf(h.ID), HandsTo: append([]string{}, h.HandsTo...), Fallback: append([]string{}, h.Fallback...),
		Command: h.Command, OwnPrompt: h.Prompt != "",
		Limits: handlerLimits{Session: limit(h.Limits.Wall), Idle: limit(h.Limits.Idle), Tool: limit(h.Limits.Tool), BudgetUSD: h.BudgetUSD},
	}
	if h.Human() {
		row.Title, row.Permissions = ops.HumanTier.Title(), 0
	}
	return row
}

func (a *app) handlersList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List handlers with tier, agent, model and escalation targets",
		RunE: func(*cobra.Command, []string) error {
			p, err := a.policy()
			if err != nil {
				return err
			}
			rows := api.Rows(p.Handlers, func(h ops.Handler) handlerRow { return rowOf(p, h) })
			header := tabbed("ID", "TIER", "AGENT", "FAMILY", "MODEL", "MAY", "HANDS TO", "FALLBACK", "ROLE")
			return printRows(a, rows, header, func(r handlerRow) string {
				tier, may := fmt.Sprint(int(r.Tier)), r.Permissions.Title()
				if r.Tier == ops.HumanTier {
					tier = "-"
				}
				if r.Agent == ops.AgentHuman {
					may = "everything"
				}
				return tabbed(r.ID, tier, r.Agent, r.Family, or(r.Model, "-"), may,
					or(strings.Join(r.HandsTo, ","), "-"), or(strings.Join(r.Fallback, ","), "-"), or(strings.Join(r.Roles, ","), "-"))
			})
		},
	}
}

// policy is the policy of the first environment; handlers are the same in all.
func (a *app) policy() (ops.Policy, error) {
	cfg, err := a.load()
	if err != nil {
		return ops.Policy{}, err
	}
	return cfg.Environments()[0].Policy, nil
}
