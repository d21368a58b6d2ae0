package command

import (
	"encoding/json"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// maxWhole bounds how much of the output is kept to be read as one document.
const maxWhole = 1 << 20

// decoder keeps what a program printed so far, as far as it matters for its end.
type decoder struct {
	model   string
	object  json.RawMessage // the last line that is an outcome
	last    string          // the last line that is not empty
	figures figures
	whole   strings.Builder
	dropped bool // whole is incomplete
}

// figures are what a program may report about its cost. Later lines add to earlier ones.
type figures struct {
	CostUSD    *float64 `json:"cost_usd"`
	Turns      *int64   `json:"num_turns"`
	Input      *int64   `json:"input_tokens"`
	Output     *int64   `json:"output_tokens"`
	CacheRead  *int64   `json:"cache_read_tokens"`
	CacheWrite *int64   `json:"cache_write_tokens"`
}

// Line reads one line. No tool calls of a program are known.
func (d *decoder) Line(text string) agent.Progress {
	if d.whole.Len()+len(text) < maxWhole {
		d.whole.WriteString(text + "\n")
	} else {
		d.dropped = true
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return agent.Progress{}
	}
	d.last = strings.Clone(text)
	if !strings.HasPrefix(trimmed, "{") {
		return agent.Progress{}
	}
	var line struct {
		Type string `json:"type"`
		figures
	}
	switch {
	case isOutcome(trimmed):
		d.object = json.RawMessage(strings.Clone(trimmed))
	case json.Unmarshal([]byte(trimmed), &line) == nil && line.Type == "figures":
		d.figures.add(line.figures)
	}
	return agent.Progress{}
}

// Activities are what a line tells: nothing, whatever it says.
func (d *decoder) Activities(string) []ops.Activity { return nil }

// Finish adds the outcome and the figures. The exit code decides whether there is a result.
func (d *decoder) Finish(res *ops.RunResult, _ string) {
	res.Model = d.model
	res.ResultRead = res.Stop == ops.StopNone && *res.ExitCode == 0
	raw, summary := d.outcome()
	if res.ResultRead {
		res.Structured = raw
	}
	if summary == "" {
		summary = d.last
	}
	res.Text = strings.TrimSpace(summary)
	d.figures.fill(res)
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
func (d *decoder) outcome() (raw json.RawMessage, summary string) {
	raw = d.object
	if whole := strings.TrimSpace(d.whole.String()); raw == nil && !d.dropped && isOutcome(whole) {
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
		{&f.Turns, &more.Turns},
		{&f.Input, &more.Input},
		{&f.Output, &more.Output},
		{&f.CacheRead, &more.CacheRead},
		{&f.CacheWrite, &more.CacheWrite},
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
