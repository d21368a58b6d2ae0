package cycle

import (
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// bytesPerToken is how much text a token holds, roughly.
const bytesPerToken = 4

// Estimate adds up what a running session has cost so far. It is not exact: while a call of the model runs, the CLI reports
// what it read but not what it writes, so the output is guessed from the length of the text, and what is not in the stream
// (hidden thinking, calls in the background) is missing. The result event reports the real cost. It belongs to one goroutine.
type Estimate struct {
	prices   ops.Prices
	messages map[string]messageCost
	total    float64
}

// messageCost is what is known of one call of the model. Several lines tell of it.
type messageCost struct {
	tokens  ops.Activity
	written int64
	usd     float64
}

// NewEstimate starts at zero. Prices are by model: by its full name, or by a part of it such as "haiku".
func NewEstimate(prices ops.Prices) *Estimate {
	return &Estimate{prices: prices, messages: map[string]messageCost{}}
}

// Add counts one activity and returns what the session has cost so far, in USD.
func (e *Estimate) Add(a ops.Activity) float64 {
	if a.Kind != ops.ActivityUsage {
		return e.total
	}
	m := e.messages[a.Message]
	t := &m.tokens
	// Each line of a call repeats its figures, which may grow; only the text is new every time.
	t.InputTokens, t.OutputTokens = max(t.InputTokens, a.InputTokens), max(t.OutputTokens, a.OutputTokens)
	t.CacheReadTokens, t.CacheWriteTokens = max(t.CacheReadTokens, a.CacheReadTokens), max(t.CacheWriteTokens, a.CacheWriteTokens)
	m.written += a.Written
	p := e.price(a.Model)
	const million = 1_000_000
	usd := (float64(t.InputTokens)*p.Input + float64(max(t.OutputTokens, m.written/bytesPerToken))*p.Output +
		float64(t.CacheReadTokens)*p.CacheRead + float64(t.CacheWriteTokens)*p.CacheWrite) / million
	e.total += usd - m.usd
	m.usd = usd
	e.messages[a.Message] = m
	return e.total
}

// price is that of the model, or of the entry whose name is the longest part of the model's. A model without a price counts as
// the most expensive one: a session that stops too early can be continued, spent money cannot be recovered.
func (e *Estimate) price(model string) ops.Price {
	model = baseModel(model)
	if p, ok := e.prices.Of(model); ok {
		return p
	}
	best, highest := "", ops.Price{}
	for name, p := range e.prices {
		short := baseModel(name)
		if part(model, short) && (len(short) > len(baseModel(best)) || best == "" || len(short) == len(baseModel(best)) && name < best) {
			best = name
		}
		highest.Input, highest.Output = max(highest.Input, p.Input), max(highest.Output, p.Output)
		highest.CacheRead, highest.CacheWrite = max(highest.CacheRead, p.CacheRead), max(highest.CacheWrite, p.CacheWrite)
	}
	if best == "" {
		return highest
	}
	return e.prices[best]
}

// baseModel strips what a CLI adds to a name, such as "[1m]".
func baseModel(name string) string {
	name, _, _ = strings.Cut(name, "[")
	return name
}

// part reports whether a name is part of a model's name in whole words: "haiku" is part of "claude-haiku-5-5".
func part(model, name string) bool {
	words, some := strings.Split(model, "-"), strings.Split(name, "-")
	for i := range len(words) - len(some) + 1 {
		if name != "" && slices.Equal(words[i:i+len(some)], some) {
			return true
		}
	}
	return false
}
