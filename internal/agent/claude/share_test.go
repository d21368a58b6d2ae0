package claude

import (
	"os"
	"path/filepath"
	"testing"

	"claudeops/internal/ops"
)

func TestTheShareOfAResumedRun(t *testing.T) {
	record := func(text string) ops.Fingerprint {
		path := filepath.Join(t.TempDir(), "c.jsonl")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return ops.Fingerprint{Path: path}
	}
	carries := record("{\"type\":\"user\"}\n{\"type\":\"cost-state\",\"total\":0.5}\n")
	tests := []struct {
		name   string
		result string
		before ops.Fingerprint
		spent  *float64
		cost   float64
		input  int64
	}{
		{"the total goes on", `"total_cost_usd":0.7`, carries, ops.Ptr(0.5), 0.2, 10},
		{"the total began again", `"total_cost_usd":0.2`, record("{\"type\":\"user\"}\n"), ops.Ptr(0.5), 0.2, 10},
		{"nothing is known of before", `"total_cost_usd":0.7`, carries, nil, 0.7, 10},
		{"the CLI tells its share", `"total_cost_usd":0.7,"model_usage_since_last_result":{"m":{"costUSD":0.2,"inputTokens":11}}`, carries, ops.Ptr(0.5), 0.2, 11},
		{"never below zero", `"total_cost_usd":0.4`, carries, ops.Ptr(0.5), 0, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &decoder{resumed: true, before: tt.before, spent: tt.spent}
			d.line(`{"type":"result","subtype":"success","is_error":false,"usage":{"input_tokens":10,"output_tokens":1},"modelUsage":{"m":{"inputTokens":99}},` + tt.result + `}`)
			res := ops.RunResult{Figures: d.figures(), ReportedUSD: price(d.result.total())}
			if d.own == nil {
				d.ownShare(&res)
			}
			if got := *res.CostUSD; got < tt.cost-1e-9 || got > tt.cost+1e-9 || *res.InputTokens != tt.input {
				t.Errorf("cost %v, input %d; want %v, %d", got, *res.InputTokens, tt.cost, tt.input)
			}
		})
	}
}
