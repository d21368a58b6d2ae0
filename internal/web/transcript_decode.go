package web

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

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
		figures = append(figures, plural(int(*p.Figures.Turns), "turn", "turns"))
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
