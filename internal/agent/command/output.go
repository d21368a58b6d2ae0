package command

import (
	"encoding/json"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// maxWhole bounds how much of the output is kept to be read as one document.
const maxWhole = 1 << 20

// output is what a program printed so far, as far as it matters for its end.
type output struct {
	object  json.RawMessage // the last line that is an outcome
	last    string          // the last line that is not empty
	figures figures
	whole   strings.Builder
	dropped bool // whole is not whole
}

// figures are what a program may tell of its cost. Later lines add to earlier ones.
type figures struct {
	CostUSD    *float64 `json:"cost_usd"`
	Turns      *int64   `json:"num_turns"`
	Input      *int64   `json:"input_tokens"`
	Output     *int64   `json:"output_tokens"`
	CacheRead  *int64   `json:"cache_read_tokens"`
	CacheWrite *int64   `json:"cache_write_tokens"`
}

// Line reads one line. A program has no tool calls that we know of.
func (o *output) Line(text string) (open []agent.Call, changed bool) {
	if o.whole.Len()+len(text) < maxWhole {
		o.whole.WriteString(text + "\n")
	} else {
		o.dropped = true
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return nil, false
	}
	o.last = strings.Clone(text)
	if !strings.HasPrefix(trimmed, "{") {
		return nil, false
	}
	var line struct {
		Type string `json:"type"`
		figures
	}
	switch {
	case isOutcome(trimmed):
		o.object = json.RawMessage(strings.Clone(trimmed))
	case json.Unmarshal([]byte(trimmed), &line) == nil && line.Type == "figures":
		o.figures.add(line.figures)
	}
	return nil, false
}

// isOutcome tells an outcome from any other object a program may print.
func isOutcome(text string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil {
		return false
	}
	_, ok := fields["outcome"]
	return ok
}

// outcome returns the outcome and its summary: the last line that is one, or the whole output.
func (o *output) outcome() (raw json.RawMessage, summary string) {
	raw = o.object
	if whole := strings.TrimSpace(o.whole.String()); raw == nil && !o.dropped && isOutcome(whole) {
		raw = json.RawMessage(whole)
	}
	var said struct {
		Summary string `json:"summary"`
	}
	// One without a summary is refused later, by what reads outcomes.
	_ = json.Unmarshal(raw, &said)
	return raw, said.Summary
}

func (f *figures) add(more figures) {
	if more.CostUSD != nil && *more.CostUSD >= 0 {
		sum := *more.CostUSD
		if f.CostUSD != nil {
			sum += *f.CostUSD
		}
		f.CostUSD = &sum
	}
	for _, pair := range []struct{ to, by **int64 }{
		{&f.Turns, &more.Turns}, {&f.Input, &more.Input}, {&f.Output, &more.Output}, {&f.CacheRead, &more.CacheRead}, {&f.CacheWrite, &more.CacheWrite},
	} {
		if *pair.by == nil || **pair.by < 0 {
			continue
		}
		sum := **pair.by
		if *pair.to != nil {
			sum += **pair.to
		}
		*pair.to = &sum
	}
}

func (f figures) fill(res *ops.RunResult) {
	res.CostUSD, res.NumTurns = f.CostUSD, f.Turns
	res.InputTokens, res.OutputTokens = f.Input, f.Output
	res.CacheReadTokens, res.CacheWriteTokens = f.CacheRead, f.CacheWrite
}
