package cycle

import (
	"math"
	"testing"

	"claudeops/internal/ops"
)

func TestAnEstimateCountsAMessageOnce(t *testing.T) {
	prices := ops.Prices{"haiku": {Input: 1, Output: 5, CacheRead: 0.1, CacheWrite: 1.25}, "claude-opus-4-8": {Input: 10, Output: 50}}
	use := func(message, model string, in, out, written int64) ops.Activity {
		return ops.Activity{Kind: ops.ActivityUsage, Message: message, Model: model, InputTokens: in, OutputTokens: out, Written: written}
	}
	for name, tt := range map[string]struct {
		acts []ops.Activity
		want float64
	}{
		"nothing":              {nil, 0},
		"a call is no cost":    {[]ops.Activity{{Kind: ops.ActivityCall, Model: "haiku", InputTokens: 1_000_000}}, 0},
		"all four figures":     {[]ops.Activity{{Kind: ops.ActivityUsage, Message: "m", Model: "claude-haiku-5-5", InputTokens: 1e6, OutputTokens: 1e6, CacheReadTokens: 1e6, CacheWriteTokens: 1e6}}, 7.35},
		"one message, 3 lines": {[]ops.Activity{use("m", "haiku", 1e6, 1, 0), use("m", "haiku", 1e6, 1, 0), use("m", "haiku", 1e6, 1, 0)}, 1 + 5e-6},
		"the text adds up":     {[]ops.Activity{use("m", "haiku", 0, 1, 400_000), use("m", "haiku", 0, 1, 400_000)}, 1},
		"told output, no sum":  {[]ops.Activity{use("m", "haiku", 0, 300_000, 400), use("m", "haiku", 0, 300_000, 400)}, 1.5},
		"two messages":         {[]ops.Activity{use("m", "haiku", 1e6, 0, 0), use("n", "haiku", 1e6, 0, 0)}, 2},
		"a window in the name": {[]ops.Activity{use("m", "claude-opus-4-8[1m]", 1e6, 0, 0)}, 10},
		"a dated name":         {[]ops.Activity{use("m", "claude-opus-4-8-20260101", 1e6, 0, 0)}, 10},
		"an unknown is dear":   {[]ops.Activity{use("m", "gpt-x", 1e6, 0, 0)}, 10},
		"no half words":        {[]ops.Activity{use("m", "claude-haikus", 1e6, 0, 0)}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			e, got := NewEstimate(prices), 0.0
			for _, a := range tt.acts {
				next := e.Add(a)
				if next < got {
					t.Errorf("it fell from %v to %v", got, next)
				}
				got = next
			}
			if math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if got := NewEstimate(nil).Add(use("m", "haiku", 1e6, 0, 0)); got != 0 {
		t.Errorf("without prices it is %v", got)
	}
}

func TestTheLongestNameSetsThePrice(t *testing.T) {
	e := NewEstimate(ops.Prices{"haiku": {Input: 1}, "haiku-5": {Input: 2}, "claude": {Input: 3}})
	if got := e.price("claude-haiku-5-5"); got.Input != 2 {
		t.Errorf("got %v", got)
	}
}
