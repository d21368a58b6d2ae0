package web

import (
	"bytes"
	"html/template"
	"strings"
	"sync"
	"unicode"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"

	"claudeops/internal/ops"
)

// terminalCode matches terminal escape sequences.
var terminalCode = ops.Pattern("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")

// plain makes foreign text safe to read: it removes terminal codes and replaces characters that reorder or hide
// other text. Templates escape it for HTML.
func plain(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.IndexByte(text, '\x1b') >= 0 {
		text = terminalCode().ReplaceAllString(text, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\r':
			return -1
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return '\uFFFD'
		}
		return r
	}, text)
}

// markdown renders hostile markdown as HTML. The renderer drops raw HTML, and its output is filtered by a list of allowed
// elements: no images, no frames, no attributes except the target of a link.
//
// Both are built when a text with markdown is first shown.
type markdown struct {
	parser func() goldmark.Markdown
	policy func() *bluemonday.Policy
}

func newMarkdown() *markdown {
	return &markdown{
		parser: sync.OnceValue(func() goldmark.Markdown {
			// Without WithUnsafe, raw HTML is dropped.
			return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough),
				goldmark.WithRendererOptions(html.WithHardWraps()))
		}),
		policy: sync.OnceValue(newPolicy),
	}
}

// newPolicy allows the elements that markdown has, and links to other sites which learn nothing about this one.
func newPolicy() *bluemonday.Policy {
	policy := bluemonday.NewPolicy()
	policy.AllowElements("p", "br", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "hr",
		"table", "thead", "tbody", "tr", "th", "td", "h1", "h2", "h3", "h4", "h5", "h6")
	policy.AllowAttrs("href").OnElements("a")
	policy.AllowURLSchemes("http", "https")
	policy.RequireParseableURLs(true)
	policy.RequireNoReferrerOnLinks(true)
	policy.RequireNoFollowOnLinks(true)
	policy.AddTargetBlankToFullyQualifiedLinks(true)
	return policy
}

// html renders markdown from an agent.
func (w *markdown) html(text string) template.HTML {
	if !strings.ContainsAny(text, "*_`#[]<>|~\\\n") {
		return redactions("<p>" + template.HTMLEscapeString(text) + "</p>") // no markdown in it
	}
	var out bytes.Buffer
	if err := w.parser().Convert([]byte(text), &out); err != nil {
		return redactions("<p>" + template.HTMLEscapeString(text) + "</p>")
	}
	return redactions(flatten(w.policy().SanitizeBytes(out.Bytes())))
}

// flatten turns headings into bold lines, because they would break the heading order of the page.
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
