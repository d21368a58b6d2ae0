package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/decide"
	"claudeops/internal/decide/recovery"
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

func (a *app) recoveryCommand() *cobra.Command {
	c := &cobra.Command{Use: "recovery", Short: "Failure recovery: explain, schema"}
	c.AddCommand(a.recoveryExplain(), a.recoverySchema())
	return c
}

func (a *app) recoveryExplain() *cobra.Command {
	return &cobra.Command{
		Use: "explain FILE", Short: "Explain which recovery level a failure report starts at, with limits and reason",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			raw, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read failure report: %w", err)
			}
			f, report := recovery.ParseFailure(raw)
			if !report.OK() {
				for _, p := range report.Errors {
					fmt.Fprintf(a.Stderr, "%s: %s\n", args[0], p)
				}
				return fmt.Errorf("%s is not a valid failure report: see claudeops recovery schema failure", args[0])
			}
			cfg, err := a.load()
			if err != nil {
				return err
			}
			var policy ops.RecoveryPolicy
			if envs := cfg.Environments(); len(envs) > 0 {
				policy = envs[0].Policy.Recovery
			}
			rules, limits := decide.Ladder(policy)
			class := recovery.Classify(f, rules)
			return a.printOne(class, func(w io.Writer) { fmt.Fprint(w, recovery.Explain(f, rules, limits)) })
		},
	}
}

func (a *app) recoverySchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema failure|force-done", Short: "Print the JSON Schema of failure reports or of partial results", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var raw []byte
			switch args[0] {
			case "failure":
				raw = recovery.FailureSchema()
			case "force-done":
				raw = recovery.ForceDoneSchema()
			default:
				return usage(fmt.Errorf("%q is not a schema: use failure or force-done", args[0]))
			}
			_, err := a.Stdout.Write(raw)
			return err
		},
	}
}

// handlerGraph is which handler may hand work to which.
type handlerGraph struct {
	Entry string        `json:"entry"`
	Nodes []handlerNode `json:"nodes"`
	Edges []handlerEdge `json:"edges"`
}

type handlerNode struct {
	ID    string   `json:"id"`
	Label string   `json:"label"`
	Human bool     `json:"human,omitempty"`
	Roles []string `json:"roles,omitempty"`
}

type handlerEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind"` // handoff or fallback
	Note string `json:"note,omitempty"`
}

const (
	edgeHandoff  = "handoff"
	edgeFallback = "fallback"
)

func graphOf(p ops.Policy) handlerGraph {
	g := handlerGraph{Entry: p.Entry, Nodes: []handlerNode{}, Edges: []handlerEdge{}}
	for _, h := range p.Handlers {
		label := kindOfAgent(h)
		if h.Tier.Known() {
			label = h.Tier.String() + ", " + label
		}
		if h.May() != h.Tier && !h.Human() {
			label += ", may as " + h.May().String()
		}
		if h.Tier > p.MaxTier && !h.Human() {
			label += ", above the maximum tier"
		}
		g.Nodes = append(g.Nodes, handlerNode{ID: h.ID, Label: label, Human: h.Human(), Roles: p.RolesOf(h.ID)})
		for _, id := range h.HandsTo {
			g.Edges = append(g.Edges, handlerEdge{From: h.ID, To: id, Kind: edgeHandoff, Note: noteOf(p, h.ID, id)})
		}
		for _, id := range h.Fallback {
			g.Edges = append(g.Edges, handlerEdge{From: h.ID, To: id, Kind: edgeFallback})
		}
	}
	return g
}

// noteOf describes the conditions of a route.
func noteOf(p ops.Policy, from, to string) string {
	r := p.RouteOf(from, to)
	target, _ := p.Handler(to)
	var notes []string
	if !target.Human() && (r.Approval || p.ApprovalTier > 0 && target.Tier >= p.ApprovalTier) {
		notes = append(notes, "after approval")
	}
	if r.Independence == ops.IndependenceFamily {
		notes = append(notes, "other family")
	}
	if r.Mode != p.Mode {
		notes = append(notes, "by "+string(r.Mode))
	}
	return strings.Join(notes, ", ")
}

func (g handlerGraph) node(id string) handlerNode {
	return g.Nodes[slices.IndexFunc(g.Nodes, func(n handlerNode) bool { return n.ID == id })]
}

func (g handlerGraph) from(id, kind string) []handlerEdge {
	var out []handlerEdge
	for _, e := range g.Edges {
		if e.From == id && e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// ends are the handlers after which only a human is left.
func (g handlerGraph) ends() []string {
	var out []string
	handed := func(id string) bool {
		return id == g.Entry || slices.ContainsFunc(g.Edges, func(e handlerEdge) bool { return e.To == id })
	}
	for _, n := range g.Nodes {
		if !n.Human && handed(n.ID) && len(g.from(n.ID, edgeHandoff)) == 0 {
			out = append(out, n.ID)
		}
	}
	return out
}

func drawText(w io.Writer, g handlerGraph) {
	var below func(id, indent string)
	shown := map[string]bool{}
	below = func(id, indent string) {
		if shown[id] && len(g.from(id, edgeHandoff)) > 0 {
			fmt.Fprintf(w, "%s└─ as above\n", indent)
			return
		}
		shown[id] = true
		edges := append(g.from(id, edgeFallback), g.from(id, edgeHandoff)...)
		for i, e := range edges {
			branch, next := "├─ ", "│  "
			if i == len(edges)-1 {
				branch, next = "└─ ", "   "
			}
			text := fmt.Sprintf("%s (%s)", e.To, g.node(e.To).Label)
			if e.Kind == edgeFallback {
				fmt.Fprintf(w, "%s%sfalls back to %s\n", indent, branch, text)
				continue
			}
			if e.Note != "" {
				text += ", " + e.Note
			}
			fmt.Fprintf(w, "%s%s%s\n", indent, branch, text)
			below(e.To, indent+next)
		}
	}
	fmt.Fprintf(w, "%s (%s)\n", g.Entry, g.node(g.Entry).Label)
	below(g.Entry, "")
	for _, n := range g.Nodes {
		for _, role := range n.Roles {
			if role != "entry" && role != "fallback" {
				fmt.Fprintf(w, "%s: %s (%s)\n", role, n.ID, n.Label)
			}
		}
	}
	fmt.Fprintln(w, "Finally, a human.")
}

// Labels of the last step, which is not in the registry.
const (
	lastLabel = "finally, a human"
	lastNote  = "still broken"
)

func drawMermaid(w io.Writer, g handlerGraph) {
	name := map[string]string{} // an id may be a word of the language
	fmt.Fprintln(w, "flowchart TD")
	for i, n := range g.Nodes {
		name[n.ID] = fmt.Sprintf("h%d", i)
		left, right := "[", "]"
		if n.Human {
			left, right = "([", "])"
		}
		fmt.Fprintf(w, "  %s%s\"%s\"%s\n", name[n.ID], left, strings.Join(lines(n), "<br/>"), right)
	}
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Kind == edgeFallback {
			arrow, e.Note = "-.->", "fallback"
		}
		if e.Note != "" {
			arrow += "|" + e.Note + "|"
		}
		fmt.Fprintf(w, "  %s %s %s\n", name[e.From], arrow, name[e.To])
	}
	ends := g.ends()
	if len(ends) > 0 {
		fmt.Fprintf(w, "  last([\"%s\"])\n", lastLabel)
	}
	for _, id := range ends {
		fmt.Fprintf(w, "  %s -.->|%s| last\n", name[id], lastNote)
	}
}

func drawDOT(w io.Writer, g handlerGraph) {
	fmt.Fprintln(w, "digraph handlers {\n  node [shape=box];")
	for _, n := range g.Nodes {
		shape := ""
		if n.Human {
			shape = ", shape=ellipse"
		}
		fmt.Fprintf(w, "  \"%s\" [label=\"%s\"%s];\n", n.ID, strings.Join(lines(n), `\n`), shape)
	}
	for _, e := range g.Edges {
		label, style := e.Note, ""
		if e.Kind == edgeFallback {
			label, style = "fallback", ", style=dashed"
		}
		fmt.Fprintf(w, "  \"%s\" -> \"%s\" [label=\"%s\"%s];\n", e.From, e.To, label, style)
	}
	ends := g.ends()
	if len(ends) > 0 {
		fmt.Fprintf(w, "  \" last\" [label=\"%s\", shape=ellipse];\n", lastLabel) // no id begins with a blank
	}
	for _, id := range ends {
		fmt.Fprintf(w, "  \"%s\" -> \" last\" [label=\"%s\", style=dotted];\n", id, lastNote)
	}
	fmt.Fprintln(w, "}")
}

// lines are the label of a node; quotes would end it.
func lines(n handlerNode) []string {
	out := []string{n.ID, n.Label}
	if len(n.Roles) > 0 {
		out = append(out, strings.Join(n.Roles, ", "))
	}
	for i := range out {
		out[i] = strings.NewReplacer(`"`, "'", `\`, "/").Replace(out[i])
	}
	return out
}
