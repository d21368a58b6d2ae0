package web

import (
	"bytes"
	"html/template"
	"net/url"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown renders hostile markdown as HTML. A library reads and writes the text; raw HTML, images, attributes and links other than to
// http and https are taken out in between. Every line break is kept: agents write as on a terminal.
//
// The library is set up when a text with markdown is first shown.
type markdown struct {
	library func() goldmark.Markdown
}

func newMarkdown() *markdown {
	return &markdown{library: sync.OnceValue(func() goldmark.Markdown {
		return goldmark.New(
			goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)), extension.Strikethrough),
			goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(harmless{}, 1000))),
			goldmark.WithRendererOptions(html.WithHardWraps()))
	})}
}

// html renders markdown from an agent.
func (w *markdown) html(source string) template.HTML {
	var out bytes.Buffer
	if !strings.ContainsAny(source, "*_`#[]<>|~\\\n") || w.library().Convert([]byte(source), &out) != nil {
		return redactions("<p>" + template.HTMLEscapeString(source) + "</p>") // no markdown in it
	}
	return redactions(visible(out.String())) // the text may name characters by number
}

// harmless takes out of a text what a page must not show.
type harmless struct{}

// Transform visits what is inside a node before the node.
func (harmless) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var nodes []ast.Node
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering && n != ast.Node(doc) {
			nodes = append(nodes, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range nodes {
		switch n := n.(type) {
		case *ast.Image, *ast.RawHTML, *ast.HTMLBlock:
			n.Parent().RemoveChild(n.Parent(), n)
		case *ast.Heading: // would break the heading order of the page
			line, bold := ast.NewParagraph(), ast.NewEmphasis(2)
			line.AppendChild(line, bold)
			become(n, line, bold)
		case *ast.FencedCodeBlock: // its language would be a class
			code := ast.NewCodeBlock()
			code.SetLines(n.Lines())
			become(n, code, code)
		case *ast.List:
			n.Start = 1
		case *ast.Link:
			n.Title = nil
			if !leadsElsewhere(n, util.URLEscape(n.Destination, true)) {
				unwrap(n)
			}
		case *ast.AutoLink:
			if n.AutoLinkType != ast.AutoLinkURL || !leadsElsewhere(n, util.URLEscape(n.URL(reader.Source()), false)) {
				label := ast.NewString(n.Label(reader.Source()))
				label.SetRaw(true)
				become(n, label, label)
			}
		}
	}
}

// become puts another node in the place of one, whose children go into one of its elements.
func become(n, instead, into ast.Node) {
	for n.FirstChild() != nil {
		into.AppendChild(into, n.FirstChild())
	}
	n.Parent().ReplaceChild(n.Parent(), n, instead)
}

// unwrap leaves of a node what is in it.
func unwrap(n ast.Node) {
	for n.FirstChild() != nil {
		n.Parent().InsertBefore(n.Parent(), n, n.FirstChild())
	}
	n.Parent().RemoveChild(n.Parent(), n)
}

// leadsElsewhere reports whether a link leads to another site, which then learns nothing about this one.
func leadsElsewhere(link ast.Node, address []byte) bool {
	link.SetAttributeString("rel", "nofollow noreferrer noopener")
	link.SetAttributeString("target", "_blank")
	u, err := url.Parse(string(address))
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
