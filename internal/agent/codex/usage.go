package codex

import "claudeops/internal/ops"

// usage are tokens as Codex counts them: what was cached is part of the input, reasoning is part of the output.
type usage struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
	Total      int64 `json:"total_tokens"`
}

func (u usage) minus(o usage) usage {
	return usage{
		Input: max(u.Input-o.Input, 0), Cached: max(u.Cached-o.Cached, 0),
		CacheWrite: max(u.CacheWrite-o.CacheWrite, 0), Output: max(u.Output-o.Output, 0),
	}
}

func (u usage) plus(o usage) usage {
	return usage{
		Input: u.Input + o.Input, Cached: u.Cached + o.Cached,
		CacheWrite: u.CacheWrite + o.CacheWrite, Output: u.Output + o.Output,
	}
}

// fresh is the input that was neither read from the cache nor written to it.
func (u usage) fresh() int64 { return max(u.Input-u.Cached-u.CacheWrite, 0) }

// cost is what the tokens cost.
func cost(p ops.Price, u usage) float64 {
	const million = 1_000_000
	if p.CacheWrite == 0 {
		p.CacheWrite = p.Input // a table for models that do not charge it apart leaves it out
	}
	return (float64(u.fresh())*p.Input + float64(u.Cached)*p.CacheRead +
		float64(u.CacheWrite)*p.CacheWrite + float64(u.Output)*p.Output) / million
}

// before is what the conversation that is continued had used. Codex goes on counting from there.
func before(spec ops.SessionSpec, home string) *usage {
	if spec.Resume == "" {
		return &usage{}
	}
	path := spec.Conversation.Path
	if path == "" {
		path = findRecord(home, spec.Resume)
	}
	return readRecord(path).thread
}

// figures are the numbers of this run only. The four kinds of tokens do not overlap, as with the other agents.
func (d *decoder) figures(res *ops.RunResult, kept ledger) {
	if kept.calls > 0 {
		res.NumTurns = ops.Ptr(kept.calls)
	}
	if kept.context > 0 {
		res.ContextTokens = ops.Ptr(kept.context)
	}
	if kept.window > 0 {
		res.ContextWindow = ops.Ptr(kept.window)
	}
	reported := d.usage
	own := kept.own // a turn that did not complete is only in the record
	if reported != nil && d.before != nil {
		own = ops.Ptr(reported.minus(*d.before))
	}
	if own == nil {
		if reported != nil {
			res.Warnings = append(res.Warnings,
				"the tokens of this run are not known: the record of the conversation it continues does not tell what that had used")
		}
		return
	}
	res.InputTokens, res.OutputTokens = ops.Ptr(own.fresh()), ops.Ptr(own.Output)
	res.CacheReadTokens, res.CacheWriteTokens = ops.Ptr(own.Cached), ops.Ptr(own.CacheWrite)
	if price, ok := d.prices.Of(d.spec.Session.Model); ok {
		res.CostUSD = ops.Ptr(cost(price, *own))
	}
}
