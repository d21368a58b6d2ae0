package web

import (
	"context"
	"fmt"
	"html/template"
	"slices"

	"claudeops/internal/ops"
)

// graph shows what a service needs and what needs it.
type graph struct {
	SVG      template.HTML
	Needs    []graphNode
	NeededBy []graphNode
	// MoreNeeds and MoreNeededBy are how many are not shown.
	MoreNeeds, MoreNeededBy int
}

type graphNode struct {
	Name  string
	Path  string
	Badge badge
}

// maxNodes is how many services the graph shows on each side.
const maxNodes = 8

// The sizes of the graph, in pixels.
const (
	nodeWidth, nodeHeight = 200, 44
	nodeGap, graphGap     = 10, 70
	graphTop              = 20
)

// addGraph adds the dependencies of a service, with their states.
func (s *server) addGraph(ctx context.Context, m moment, view *serviceDetail, env ops.Environment, v ops.Service) error {
	inventory := env.Policy.Inventory
	var needs, neededBy []string
	for _, name := range v.DependsOn {
		canonical, _ := inventory.Canonical(name)
		if !slices.Contains(needs, canonical) {
			needs = append(needs, canonical)
		}
	}
	for _, other := range inventory.Services {
		for _, name := range other.DependsOn {
			if name == v.Name || slices.Contains(v.Aliases, name) {
				neededBy = append(neededBy, other.Name)
				break
			}
		}
	}
	if len(needs)+len(neededBy) == 0 {
		return nil
	}
	g := &graph{MoreNeeds: max(0, len(needs)-maxNodes), MoreNeededBy: max(0, len(neededBy)-maxNodes)}
	var err error
	if g.Needs, err = s.graphNodes(ctx, m, env.Name, needs); err != nil {
		return err
	}
	if g.NeededBy, err = s.graphNodes(ctx, m, env.Name, neededBy); err != nil {
		return err
	}
	g.SVG = g.draw(graphNode{Name: view.Name, Badge: view.Badge})
	view.Graph = g
	return nil
}

func (s *server) graphNodes(ctx context.Context, m moment, environment string, names []string) ([]graphNode, error) {
	var out []graphNode
	for _, name := range names[:min(len(names), maxNodes)] {
		checks, err := s.Store.ChecksOf(ctx, environment, name)
		if err != nil {
			return nil, err
		}
		entry := newServiceEntry(environment, name, checks, s.interval(environment), m.now)
		out = append(out, graphNode{entry.name, servicePath(environment, name), entry.badge})
	}
	return out, nil
}

// draw places what the service needs on its left and what needs it on its right. Arrows point to what is needed.
func (g graph) draw(here graphNode) template.HTML {
	rows := max(1, len(g.Needs), len(g.NeededBy))
	height := graphTop + rows*(nodeHeight+nodeGap)
	middle := graphTop + (height-graphTop-nodeGap)/2
	var d drawing
	at := 2
	left, right := 0, 0
	if len(g.Needs) > 0 {
		left, at = at, at+nodeWidth+graphGap
		d.text(px(float64(left)), "12", "start", "graph-head", "Depends on")
	}
	centre := at
	if len(g.NeededBy) > 0 {
		right = centre + nodeWidth + graphGap
		d.text(px(float64(right)), "12", "start", "graph-head", "Needed by")
		at = right
	}
	y := func(i, n int) int { return middle - (n*(nodeHeight+nodeGap)-nodeGap)/2 + i*(nodeHeight+nodeGap) }
	for i, n := range g.Needs {
		d.arrow(centre, middle, left+nodeWidth, y(i, len(g.Needs))+nodeHeight/2)
		d.node(n, left, y(i, len(g.Needs)), "")
	}
	for i, n := range g.NeededBy {
		d.arrow(right, y(i, len(g.NeededBy))+nodeHeight/2, centre+nodeWidth, middle)
		d.node(n, right, y(i, len(g.NeededBy)), "")
	}
	d.node(here, centre, middle-nodeHeight/2, " here")
	//nolint:gosec // every value was escaped when it was written
	return template.HTML(fmt.Sprintf(`<svg class="drawing" width="%d" height="%d" role="group" aria-label="%s">%s</svg>`,
		at+nodeWidth+2, height, esc("Dependencies of "+here.Name), d.body.String()))
}

// arrow draws a line with a point at its end, which is left of its start.
func (d *drawing) arrow(x1, y1, x2, y2 int) {
	half := (x1 - x2) / 2
	fmt.Fprintf(&d.body, `<path class="graph-line" d="M%d %d C%d %d %d %d %d %d"/>`, x1, y1, x1-half, y1, x2+half, y2, x2+7, y2)
	fmt.Fprintf(&d.body, `<path class="graph-arrow" d="M%d %d l8 -4.5 v9 z"/>`, x2, y2)
}

// node draws a service with its state, as a link if it has a page.
func (d *drawing) node(n graphNode, x, y int, class string) {
	name, cut := clip(n.Name, 24)
	if cut {
		name += "…"
	}
	if n.Path != "" {
		fmt.Fprintf(&d.body, `<a href="%s">`, esc(n.Path))
	}
	fmt.Fprintf(&d.body, `<g class="tone-%s"><title>%s</title><rect class="graph-box%s" x="%d" y="%d" width="%d" height="%d" rx="8"/>`,
		esc(n.Badge.Tone), esc(n.Name+", "+n.Badge.Word), class, x, y, nodeWidth, nodeHeight)
	d.text(px(float64(x+12)), px(float64(y+19)), "start", "", name)
	d.text(px(float64(x+12)), px(float64(y+35)), "start", "graph-state", stateMark(n.Badge)+" "+n.Badge.Word)
	d.body.WriteString(`</g>`)
	if n.Path != "" {
		d.body.WriteString(`</a>`)
	}
}

// stateMark is a state as a character, for places where an icon does not fit.
func stateMark(b badge) string {
	switch b.Tone {
	case "ok":
		return "✓"
	case "warn":
		return "▲"
	case "bad":
		return "✕"
	}
	return "?"
}
