package web

import (
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// spentFigure distinguishes no sessions from sessions without a reported cost.
func spentFigure(c store.Cost) figure {
	if c.Sessions == 0 {
		return figure{Text: "No sessions"}
	}
	return atLeast(c)
}

// atLeast is a cost, marked if some sessions reported none.
func atLeast(c store.Cost) figure {
	f := dollars(c.USD)
	if silent := c.Sessions - c.Reported; f.Known && silent > 0 {
		f.Text = "≥ " + f.Text
		f.Exact += ", without " + plural(silent, "session", "sessions") + " of unknown cost"
	}
	return f
}

func add(a, b *float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return ops.Ptr(*a + *b)
}

func value(usd *float64) float64 {
	if usd == nil {
		return -1
	}
	return *usd
}

// tokens is the sum of all token counts.
func tokens(c store.Cost) *int64 {
	var sum *int64
	for _, n := range []*int64{c.InputTokens, c.OutputTokens, c.CacheReadTokens, c.CacheWriteTokens} {
		if n == nil {
			continue
		}
		if sum == nil {
			sum = new(int64)
		}
		*sum += *n
	}
	return sum
}

func tokenFacts(c store.Cost) []fact {
	var out []fact
	for _, one := range []struct {
		name string
		n    *int64
	}{{"Input", c.InputTokens}, {"Output", c.OutputTokens}, {"Cache read", c.CacheReadTokens}, {"Cache write", c.CacheWriteTokens}} {
		f := count(one.n)
		out = append(out, fact{Name: one.name, Value: f.Text, Faint: !f.Known})
	}
	return out
}
