package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func (a *app) handlersCommand() *cobra.Command {
	c := &cobra.Command{Use: "handlers", Aliases: []string{"handler"}, Short: "Handlers and escalation routes: list, graph, prompt"}
	c.AddCommand(a.handlersList(), a.handlersGraph(), a.handlersPrompt())
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
		Roles: roles(p, h.ID), HandsTo: append([]string{}, h.HandsTo...), Fallback: append([]string{}, h.Fallback...),
		Command: h.Command, OwnPrompt: h.Prompt != "",
		Limits: handlerLimits{Session: limit(h.Limits.Wall), Idle: limit(h.Limits.Idle), Tool: limit(h.Limits.Tool), BudgetUSD: h.BudgetUSD},
	}
	if h.Human() {
		row.Title, row.Permissions = ops.HumanTier.Title(), 0
	}
	return row
}

// roles are the special roles of a handler.
func roles(p ops.Policy, id string) []string {
	out := []string{}
	for _, r := range []struct{ name, id string }{{"entry", p.Entry}, {"manager", p.Manager}, {"planner", p.Planner}, {"judge", p.Judge}} {
		if r.id == id {
			out = append(out, r.name)
		}
	}
	if slices.ContainsFunc(p.Handlers, func(h ops.Handler) bool { return slices.Contains(h.Fallback, id) }) {
		out = append(out, "fallback")
	}
	return out
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

func (a *app) handlersGraph() *cobra.Command {
	var format string
	drawings := map[string]func(io.Writer, handlerGraph){"text": drawText, "mermaid": drawMermaid, "dot": drawDOT}
	c := &cobra.Command{
		Use: "graph", Short: "Draw the escalation routes as text, Mermaid or DOT",
		Example: `  claudeops handlers graph
  claudeops handlers graph --format mermaid
  claudeops handlers graph --format dot | dot -Tsvg > handlers.svg`,
		RunE: func(*cobra.Command, []string) error {
			draw, ok := drawings[format]
			if !ok {
				return usage(fmt.Errorf("--format is %q: use text, mermaid or dot", format))
			}
			p, err := a.policy()
			if err != nil {
				return err
			}
			g := graphOf(p)
			return a.printOne(g, func(w io.Writer) { draw(w, g) })
		},
	}
	c.Flags().StringVar(&format, "format", "text", "output format: text, mermaid or dot")
	return c
}

// kindOfAgent describes the agent of a handler in a few words.
func kindOfAgent(h ops.Handler) string {
	switch {
	case h.Human():
		return "a human"
	case len(h.Command) > 0:
		return "command " + filepath.Base(h.Command[0])
	case h.Agent == h.Family:
		return strings.TrimSpace(h.Agent + " " + h.Model)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s by %s", h.Family, h.Model, h.Agent))
}
