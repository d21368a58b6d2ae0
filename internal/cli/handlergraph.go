package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

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
		g.Nodes = append(g.Nodes, handlerNode{ID: h.ID, Label: label, Human: h.Human(), Roles: roles(p, h.ID)})
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
