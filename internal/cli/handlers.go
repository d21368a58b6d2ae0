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
	c := &cobra.Command{Use: "handlers", Aliases: []string{"handler"}, Short: "Who owns work: list the handlers, draw who hands to whom"}
	c.AddCommand(a.handlersList(), a.handlersGraph())
	return c
}

// handlerRow is what programs read.
type handlerRow struct {
	ID          string        `json:"id"`
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

// handlerLimits are a handler's own; what is missing is as for all.
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
		ID: h.ID, Tier: h.Tier, Title: h.Tier.Title(), Family: h.Family, Agent: h.Agent, Model: h.Model, Permissions: h.May(),
		Roles: roles(p, h.ID), HandsTo: append([]string{}, h.HandsTo...), Fallback: append([]string{}, h.Fallback...), Command: h.Command, OwnPrompt: h.Prompt != "",
		Limits: handlerLimits{Session: limit(h.Limits.Wall), Idle: limit(h.Limits.Idle), Tool: limit(h.Limits.Tool), BudgetUSD: h.BudgetUSD},
	}
	if h.Human() {
		row.Title, row.Permissions = ops.HumanTier.Title(), 0
	}
	return row
}

// roles are the parts a handler plays besides owning work.
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
	return a.withSettings(&cobra.Command{
		Use: "list", Short: "List the registered handlers with tier, agent, model, and whom they may hand to",
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
	})
}

// policy is what the configuration says about handlers, which is the same in every environment.
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
	c := a.withSettings(&cobra.Command{
		Use: "graph", Short: "Draw who hands to whom, as text, Mermaid or DOT",
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
	})
	c.Flags().StringVar(&format, "format", "text", "how it is drawn: text, mermaid or dot")
	return c
}

// kindOfAgent says in a few words what works behind a handler.
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
