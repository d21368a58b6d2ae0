package web

import (
	"bufio"
	"bytes"
	"html/template"
	"net/url"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown renders hostile markdown as HTML. A library reads the text; what is written is decided here: the elements of blockTags and
// spanTags without attributes, links to http and https, and escaped text. Everything else that markdown can express is left out, above
// all raw HTML and images.
//
// The parser is made when a text with markdown is first shown.
type markdown struct {
	parser func() parser.Parser
}

func newMarkdown() *markdown {
	return &markdown{parser: sync.OnceValue(func() parser.Parser {
		return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Parser()
	})}
}

// html renders markdown from an agent.
func (w *markdown) html(source string) template.HTML {
	if !strings.ContainsAny(source, "*_`#[]<>|~\\\n") {
		return redactions("<p>" + template.HTMLEscapeString(source) + "</p>") // no markdown in it
	}
	raw := []byte(source)
	var out bytes.Buffer
	page := &markdownPage{source: raw, out: bufio.NewWriter(&out)}
	err := ast.Walk(w.parser().Parse(text.NewReader(raw)), page.visit)
	if err != nil || page.out.Flush() != nil {
		return redactions("<p>" + template.HTMLEscapeString(source) + "</p>")
	}
	return redactions(visible(out.String())) // the text may name characters by number
}

// blockTags are the elements of blocks. A heading becomes a bold line, because it would break the heading order of the page.
func blockTags(n ast.Node) []string {
	switch n.Kind() {
	case ast.KindParagraph:
		return []string{"p"}
	case ast.KindHeading:
		return []string{"p", "strong"}
	case ast.KindBlockquote:
		return []string{"blockquote"}
	case ast.KindListItem:
		return []string{"li"}
	case ast.KindList:
		if list, ok := n.(*ast.List); ok && list.IsOrdered() {
			return []string{"ol"}
		}
		return []string{"ul"}
	case extast.KindTable:
		return []string{"table"}
	case extast.KindTableHeader:
		return []string{"thead", "tr"}
	case extast.KindTableRow:
		return []string{"tr"}
	case extast.KindTableCell:
		if n.Parent() != nil && n.Parent().Kind() == extast.KindTableHeader {
			return []string{"th"}
		}
		return []string{"td"}
	}
	return nil
}

// spanTags are the elements inside a line.
func spanTags(n ast.Node) []string {
	switch n.Kind() {
	case ast.KindEmphasis:
		if e, ok := n.(*ast.Emphasis); ok && e.Level == 2 {
			return []string{"strong"}
		}
		return []string{"em"}
	case extast.KindStrikethrough:
		return []string{"del"}
	}
	return nil
}

// markdownPage writes one text.
type markdownPage struct {
	source []byte
	out    *bufio.Writer
}

// visit writes what begins or ends at a node. Of kinds that are not named here, only the children are written. The writer keeps its errors
// until it is flushed.
func (p *markdownPage) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	switch n := n.(type) {
	case *ast.Text:
		p.text(n, entering)
	case *ast.String:
		if entering {
			html.DefaultWriter.RawWrite(p.out, n.Value)
		}
	case *ast.CodeSpan:
		p.tags([]string{"code"}, entering, "")
		if entering {
			p.codeSpan(n)
		}
		return ast.WalkSkipChildren, nil
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		if entering {
			p.codeBlock(n)
		}
		return ast.WalkSkipChildren, nil
	case *ast.ThematicBreak:
		if entering {
			p.write("<hr>\n")
		}
	case *ast.AutoLink:
		if entering {
			p.autoLink(n)
		}
	case *ast.Link:
		if address := safeLink(n.Destination, true); address != "" {
			p.link(address, entering)
		}
	case *ast.Image, *ast.RawHTML, *ast.HTMLBlock:
		return ast.WalkSkipChildren, nil
	default:
		p.element(n, entering)
	}
	return ast.WalkContinue, nil
}

// element writes the elements of a node, and those around the rows of a table.
func (p *markdownPage) element(n ast.Node, entering bool) {
	row := n.Kind() == extast.KindTableRow
	if row && entering && n.PreviousSibling() != nil && n.PreviousSibling().Kind() == extast.KindTableHeader {
		p.write("<tbody>\n")
	}
	p.tags(spanTags(n), entering, "")
	p.tags(blockTags(n), entering, "\n")
	if row && !entering && n.NextSibling() == nil && n.PreviousSibling() != nil {
		p.write("</tbody>\n")
	}
	if n.Kind() == ast.KindTextBlock && !entering && n.NextSibling() != nil {
		p.write("\n")
	}
}

// tags opens the elements, or closes them in the opposite order with end behind them.
func (p *markdownPage) tags(names []string, open bool, end string) {
	if len(names) == 0 {
		return
	}
	if open {
		for _, name := range names {
			p.write("<" + name + ">")
		}
		return
	}
	for i := len(names) - 1; i >= 0; i-- {
		p.write("</" + names[i] + ">")
	}
	p.write(end)
}

// text writes a piece of a line. Every line break is kept: agents write as on a terminal.
func (p *markdownPage) text(n *ast.Text, entering bool) {
	if !entering {
		return
	}
	if value := n.Segment.Value(p.source); n.IsRaw() {
		html.DefaultWriter.RawWrite(p.out, value)
	} else {
		html.DefaultWriter.Write(p.out, value)
	}
	if n.SoftLineBreak() || n.HardLineBreak() {
		p.write("<br>\n")
	}
}

// codeSpan writes code in a line; a line break in it is a space.
func (p *markdownPage) codeSpan(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if piece, ok := c.(*ast.Text); ok {
			p.code(bytes.ReplaceAll(piece.Segment.Value(p.source), []byte("\n"), []byte(" ")))
		}
	}
}

func (p *markdownPage) codeBlock(n ast.Node) {
	p.write("<pre><code>")
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		p.code(line.Value(p.source))
	}
	p.write("</code></pre>\n")
}

func (p *markdownPage) code(text []byte) { html.DefaultWriter.RawWrite(p.out, text) }

func (p *markdownPage) autoLink(n *ast.AutoLink) {
	address := ""
	if n.AutoLinkType == ast.AutoLinkURL {
		address = safeLink(n.URL(p.source), false)
	}
	if address != "" {
		p.link(address, true)
	}
	p.code(n.Label(p.source))
	if address != "" {
		p.link(address, false)
	}
}

// link opens or closes a link to another site, which learns nothing about this one.
func (p *markdownPage) link(address string, open bool) {
	if !open {
		p.write("</a>")
		return
	}
	p.write(`<a href="` + template.HTMLEscapeString(address) + `" rel="nofollow noreferrer noopener" target="_blank">`)
}

func (p *markdownPage) write(markup string) { _, _ = p.out.WriteString(markup) }

// safeLink is the address of a link if it leads to another site, and otherwise empty. Escaped means that markdown may hide characters of
// it.
func safeLink(destination []byte, escaped bool) string {
	u, err := url.Parse(string(util.URLEscape(destination, escaped)))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.String()
}
