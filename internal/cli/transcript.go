package cli

import (
	"fmt"
	"io"
	"strings"

	"claudeops/internal/api"
	"claudeops/internal/transcript"
)

// shownLines is how many lines of one output are shown; --raw shows all.
const shownLines = 20

// labelOf is the label of a part and its colour.
func labelOf(p transcript.Part) (label, color string) {
	label = p.Word()
	switch p.Kind {
	case transcript.Stderr, transcript.Retry, transcript.Dropped, transcript.Withheld:
		color = yellow
	case transcript.Call:
		color = blue
	case transcript.Output:
		if p.Failed {
			color = red
		}
	case transcript.Result:
		color = green
		if p.Failed {
			color = red
		}
	case transcript.Stdout, transcript.Start, transcript.Text, transcript.Prompt, transcript.Thinking, transcript.Event:
	}
	return label, color
}

// partText is the text of a part, with its figures below.
func partText(p transcript.Part) string {
	text := p.Text
	if p.Kind == transcript.Call {
		text = p.Tool + " " + text
	}
	var figures []string
	if p.Figures.Turns != nil {
		figures = append(figures, turns(p.Figures.Turns))
	}
	if p.Figures.Duration != nil {
		figures = append(figures, duration(*p.Figures.Duration))
	}
	if p.Figures.CostUSD != nil {
		figures = append(figures, money(p.Figures.CostUSD))
	}
	if t := p.Figures.Tokens; t != nil {
		figures = append(figures, fmt.Sprintf("%d tokens read, %d written", t.Read, t.Written))
	}
	return strings.TrimSpace(text + "\n" + strings.Join(figures, " · "))
}

// printLine writes a line of a transcript for people: a time and a label in front, the text beside them.
func (s screen) printLine(w io.Writer, l api.Line) error {
	for _, p := range transcript.Read(l.Line) {
		name, color := labelOf(p)
		lines := strings.Split(strings.TrimRight(partText(p), "\n"), "\n")
		whole := p.Kind == transcript.Text || p.Kind == transcript.Result
		if more := len(lines) - shownLines; more > 1 && !whole {
			lines = append(lines[:shownLines], fmt.Sprintf("… %d more lines; --raw shows them", more))
		}
		for i, text := range lines {
			front := strings.Repeat(" ", len("15:04:05  "))
			label := fmt.Sprintf("%-8s", "")
			if i == 0 {
				front, label = l.At.Local().Format("15:04:05  "), fmt.Sprintf("%-8s", name)
				if s.color {
					label = paint(label, color)
				}
			}
			if _, err := fmt.Fprintln(w, strings.TrimRight(front+label+"  "+clean(strings.ReplaceAll(text, "\t", "    ")), " ")); err != nil {
				return err
			}
		}
	}
	return nil
}
