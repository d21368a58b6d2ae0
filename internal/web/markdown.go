package web

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
)

// writing turns markdown into HTML, for text that is hostile. HTML in the text is left out by the renderer, and what it makes
// passes a list of allowed elements: no images, no frames, no attribute but the address of a link.
type writing struct {
	parser goldmark.Markdown
	policy *bluemonday.Policy
}

func newWriting() *writing {
	policy := bluemonday.NewPolicy()
	policy.AllowElements("p", "br", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "hr",
		"table", "thead", "tbody", "tr", "th", "td", "h1", "h2", "h3", "h4", "h5", "h6")
	policy.AllowAttrs("href").OnElements("a")
	policy.AllowURLSchemes("http", "https")
	policy.RequireParseableURLs(true)
	policy.RequireNoReferrerOnLinks(true)
	policy.RequireNoFollowOnLinks(true)
	policy.AddTargetBlankToFullyQualifiedLinks(true)
	return &writing{
		// WithUnsafe is not among the options: raw HTML is dropped.
		parser: goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough), goldmark.WithRendererOptions(html.WithHardWraps())),
		policy: policy,
	}
}

// html shows what an agent wrote for reading.
func (w *writing) html(text string) template.HTML {
	if !strings.ContainsAny(text, "*_`#[]<>|~\\\n") {
		return redactions("<p>" + template.HTMLEscapeString(text) + "</p>") // nothing in it is markdown
	}
	var out bytes.Buffer
	if err := w.parser.Convert([]byte(text), &out); err != nil {
		return redactions("<p>" + template.HTMLEscapeString(text) + "</p>")
	}
	return redactions(flatten(w.policy.SanitizeBytes(out.Bytes())))
}

// flatten makes headings bold lines: the page has its own headings, in their own order.
func flatten(safe []byte) string {
	text := string(safe)
	if !strings.Contains(text, "<h") {
		return text
	}
	for _, level := range "123456" {
		text = strings.ReplaceAll(text, "<h"+string(level)+">", `<p><strong>`)
		text = strings.ReplaceAll(text, "</h"+string(level)+">", `</strong></p>`)
	}
	return text
}
