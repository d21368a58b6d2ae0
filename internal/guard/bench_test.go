package guard

import (
	"encoding/json"
	"testing"

	"claudeops/internal/ops"
)

// BenchmarkCheck gives the mean time of a verdict over the committed cases; it is to stay below 50 µs.
func BenchmarkCheck(b *testing.B) {
	g, facts := newGuard(b), testFacts()
	var inputs []json.RawMessage
	for _, c := range readCases(b) {
		inputs = append(inputs, bashInput(b, c.command))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		g.Check(ops.Tier2, "Bash", inputs[i%len(inputs)], facts)
		i++
	}
}

// BenchmarkNew gives the time to read the tables, which the start of a short command pays.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		newGuard(b)
	}
}
