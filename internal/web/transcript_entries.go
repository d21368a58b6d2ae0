package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

const (
	// shownText and shownRows limit the text in a row; the rest is fetched on demand.
	shownText = 2000
	shownRows = 24
	// callLine limits the text of a call in the row itself.
	callLine = 300
)

// entry is one row of a transcript: a message, or a tool call with its answer.
type entry struct {
	look
	ID   string // of the row: its line number and the part of the line
	Seq  int64
	At   stamp
	Name string
	Line string // a call in one line
	Text passage
	Raw  string // URL of the raw line

	Call    bool
	Pending bool // no answer yet
	Answer  *answer
	Denied  *denial

	started time.Time
}

// answer is what a tool call returned.
type answer struct {
	Word   string
	Took   string
	Failed bool
	Text   passage
}

// denial is why a call did not run.
type denial struct {
	Rule, Reason string
}

// passage is a text as shown, with the URL of the full text if it was shortened.
type passage struct {
	HTML template.HTML
	Rest string
	Size string
}

// Bad reports whether the row is shown when only errors are shown.
func (e *entry) Bad() bool {
	return e.Tone == "bad" || e.Denied != nil || e.Answer != nil && e.Answer.Failed
}

// entries turns lines into rows. It remembers the calls that have no answer yet.
type entries struct {
	m        moment
	markdown *markdown
	session  ops.SessionID
	denied   ops.Refusals
	waiting  map[string]*entry
}

func (s *sessions) entries(m moment, session ops.SessionID, denied ops.Refusals) *entries {
	return &entries{m: m, markdown: s.markdown, session: session, denied: denied, waiting: map[string]*entry{}}
}

// add takes the next line. It returns the new rows, and the earlier rows that it changes.
func (t *entries) add(line ops.Line) (fresh, changed []*entry) {
	for i, p := range transcript.Read(line.Text) {
		if call := t.waiting[p.Answer]; p.Answer != "" && call != nil {
			delete(t.waiting, p.Answer)
			call.Pending = false
			call.Answer = t.answer(call, p, line, i)
			t.markDenied(call, p) // the guard may have recorded its decision after the call line
			if call.Answer.Failed {
				call.Tone = "bad"
			}
			changed = append(changed, call)
			continue
		}
		e := t.entry(p, line, i)
		if p.Call != "" {
			t.waiting[p.Call] = e
		}
		fresh = append(fresh, e)
	}
	return fresh, changed
}

func (t *entries) entry(p transcript.Part, line ops.Line, piece int) *entry {
	e := &entry{
		look: lookOf(p), ID: fmt.Sprintf("l%d-%d", line.Seq, piece), Seq: line.Seq, At: t.m.precise(line.At), Name: plain(p.Tool),
		Text: t.passage(p, line.Seq, piece), Raw: linePath(t.session, line.Seq), Call: p.Kind == transcript.Call, started: line.At,
	}
	t.markDenied(e, p)
	if !e.Call {
		return e
	}
	e.Line = firstLine(p.Text, callLine)
	e.Pending = p.Call != ""
	return e
}

// markDenied marks a call that did not run, by a part that makes or answers it.
func (t *entries) markDenied(e *entry, p transcript.Part) {
	if g, found := t.denied.Of(p.Call+p.Answer, p.Input, p.Text); found || p.Refused {
		e.Denied, e.Tone = &denial{Rule: plain(g.Rule), Reason: plain(g.Reason)}, "bad"
		if !e.Call {
			e.Kind, e.Icon = "Refused", "ban"
		}
	}
}

func (t *entries) answer(call *entry, p transcript.Part, line ops.Line, piece int) *answer {
	a := &answer{Word: answerWord(call.Name, p), Failed: p.Failed, Text: t.passage(p, line.Seq, piece)}
	if took := line.At.Sub(call.started); took > 0 {
		a.Took = span(took)
	}
	return a
}

// passage shortens a long text and links to the full text.
func (t *entries) passage(p transcript.Part, seq int64, piece int) passage {
	whole := plain(strings.TrimRight(partText(p), "\n"))
	short := ops.Start(whole, shownText)
	if rows := strings.SplitN(short, "\n", shownRows+1); len(rows) > shownRows {
		short = strings.Join(rows[:shownRows], "\n")
	}
	var out passage
	if short != whole {
		short += " …"
		out.Rest = fmt.Sprintf("%s/%d", linePath(t.session, seq), piece)
		out.Size = bytesText(len(whole))
	}
	if lookOf(p).Prose {
		out.HTML = t.markdown.html(short)
	} else {
		out.HTML = marked(short)
	}
	return out
}

// withheld matches the replacement of a redacted secret.
var withheld = ops.Pattern(`\[redacted(?:: [a-z ]+)?\]`)

// marked escapes a text and highlights its redactions.
func marked(text string) template.HTML {
	return redactions(template.HTMLEscapeString(text))
}

// redactions highlights redactions in escaped text.
func redactions(safe string) template.HTML {
	//nolint:gosec // the text is escaped, and redactions contain letters only
	return template.HTML(withheld().ReplaceAllStringFunc(safe, func(found string) string {
		return `<mark class="redacted">` + found + `</mark>`
	}))
}

func linePath(id ops.SessionID, seq int64) string {
	return fmt.Sprintf("/sessions/%d/lines/%d", id, seq)
}

// look is how a kind of part is shown.
type look struct {
	Kind  string // label in the margin
	Icon  string
	Tone  string // colour of the margin; may be empty
	Prose bool   // markdown text
	Code  bool   // preformatted text
}

// lookOf says how a part of a line is shown.
func lookOf(p transcript.Part) look {
	switch p.Kind {
	case transcript.Stdout:
		return look{Kind: "Stdout", Icon: "terminal", Code: true}
	case transcript.Stderr:
		return look{Kind: "Stderr", Icon: "terminal", Tone: "warn", Code: true}
	case transcript.Start:
		return look{Kind: "Start", Icon: "play"}
	case transcript.Retry:
		return look{Kind: "Retry", Icon: "rotate-ccw", Tone: "warn"}
	case transcript.Text:
		return look{Kind: "Text", Icon: "message-square-text", Prose: true}
	case transcript.Prompt:
		return look{Kind: "Prompt", Icon: "user"}
	case transcript.Thinking:
		return look{Kind: "Thinking", Icon: "brain", Prose: true}
	case transcript.Call:
		return look{Kind: "Call", Icon: "terminal", Code: true}
	case transcript.Output:
		if p.Failed {
			return look{Kind: "Failed", Icon: "octagon-x", Tone: "bad", Code: true}
		}
		return look{Kind: "Output", Icon: "corner-down-left", Code: true}
	case transcript.Result:
		if p.Failed {
			return look{Kind: "Result", Icon: "octagon-x", Tone: "bad", Prose: true}
		}
		return look{Kind: "Result", Icon: "flag", Tone: "ok", Prose: true}
	case transcript.Dropped:
		return look{Kind: "Dropped", Icon: "info", Tone: "warn"}
	case transcript.Withheld:
		return look{Kind: "Withheld", Icon: "shield", Tone: "warn"}
	case transcript.Event:
	}
	return look{Kind: "Event", Icon: "info"}
}

// partText is the text of a part, with its figures below.
func partText(p transcript.Part) string {
	var figures []string
	if p.Figures.Turns != nil {
		figures = append(figures, ops.Plural(int(*p.Figures.Turns), "turn", "turns"))
	}
	if p.Figures.Duration != nil {
		figures = append(figures, span(*p.Figures.Duration))
	}
	if p.Figures.CostUSD != nil {
		figures = append(figures, dollars(p.Figures.CostUSD).Text)
	}
	if t := p.Figures.Tokens; t != nil {
		figures = append(figures, fmt.Sprintf("%s tokens read, %s written", count(&t.Read).Text, count(&t.Written).Text))
	}
	if len(figures) == 0 {
		return p.Text
	}
	return strings.TrimSpace(p.Text + "\n\n" + strings.Join(figures, " · "))
}

// exitCode matches the start of the result of a failed command.
var exitCode = ops.Pattern(`^(?:Error: )?Exit code (\d+)`)

// answerWord is the result of a call in one word.
func answerWord(tool string, p transcript.Part) string {
	if found := exitCode().FindStringSubmatch(strings.TrimSpace(p.Text)); found != nil {
		return "exit " + found[1]
	}
	switch {
	case p.Failed:
		return "failed"
	case tool == "Bash":
		return "exit 0"
	}
	return "done"
}

// lineText is the full text of one part of a line.
func lineText(line ops.Line, piece int) (string, bool) {
	parts := transcript.Read(line.Text)
	if piece < 0 || piece >= len(parts) {
		return "", false
	}
	return plain(partText(parts[piece])), true
}

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
