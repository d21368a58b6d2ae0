package metrics

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// The bounds of the buckets, in seconds and in turns.
func sessionBounds() []float64 { return []float64{5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600} }

func cycleBounds() []float64 { return []float64{15, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 86400} }
func turnBounds() []float64  { return []float64{1, 2, 5, 10, 20, 40, 80, 160} }
func waitBounds() []float64  { return []float64{30, 60, 300, 900, 3600, 14400, 86400} }

// distribution is a histogram: how many values there are, their sum, and how many are at most each bound.
type distribution struct {
	count int64
	sum   float64
	below []int64
}

func (d distribution) plus(count int64, sum float64, below []int64) distribution {
	out := distribution{count: d.count + count, sum: d.sum + sum, below: make([]int64, len(below))}
	copy(out.below, d.below)
	for i, n := range below {
		out.below[i] += n
	}
	return out
}

// observe adds one value.
func (d *distribution) observe(v float64, bounds []float64) {
	d.count++
	d.sum += v
	for i, b := range bounds {
		if v <= b {
			d.below[i]++
		}
	}
}

type (
	sessionKey struct{ tier, trigger, outcome string }
	lengthKey  struct{ tier, outcome string }
	costKey    struct{ tier, model string }
	pair       [2]string
	triple     [3]string
)

// totals are counters of what has ended.
type totals struct {
	sessions    map[sessionKey]float64
	durations   map[lengthKey]distribution
	turns       map[string]distribution
	tokens      map[triple]float64 // tier, model, type
	costs       map[costKey]float64
	escalations map[pair]float64
	cycles      map[string]float64
	cycleTimes  distribution
}

// newTotals begins at zero for every label that is known before: a rate over a counter that appears with its first event misses it.
func newTotals() totals {
	t := totals{
		sessions: map[sessionKey]float64{}, durations: map[lengthKey]distribution{}, turns: map[string]distribution{},
		tokens: map[triple]float64{}, costs: map[costKey]float64{}, escalations: map[pair]float64{}, cycles: map[string]float64{},
		cycleTimes: distribution{below: make([]int64, len(cycleBounds()))},
	}
	for _, s := range ops.CycleStatuses() {
		if s.Ended() {
			t.cycles[string(s)] = 0
		}
	}
	for from := ops.Tier1; from < ops.LastTier; from++ {
		t.escalations[pair{strconv.Itoa(int(from)), strconv.Itoa(int(from) + 1)}] = 0
	}
	return t
}

func (t totals) clone() totals {
	return totals{
		sessions: maps.Clone(t.sessions), durations: maps.Clone(t.durations), turns: maps.Clone(t.turns), tokens: maps.Clone(t.tokens),
		costs: maps.Clone(t.costs), escalations: maps.Clone(t.escalations), cycles: maps.Clone(t.cycles),
		cycleTimes: distribution{count: t.cycleTimes.count, sum: t.cycleTimes.sum, below: slices.Clone(t.cycleTimes.below)},
	}
}

// plus returns the totals including what ended in a time range.
func (t totals) plus(ctx context.Context, ended *store.Reports, span store.Span) (totals, error) {
	out := t.clone()
	groups, err := ended.SessionTotals(ctx, span, whole(sessionBounds(), 1000), whole(turnBounds(), 1))
	if err != nil {
		return t, err
	}
	for _, g := range groups {
		out.addSessions(g)
	}
	escalations, err := ended.EscalationTotals(ctx, span)
	if err != nil {
		return t, err
	}
	for _, c := range escalations {
		out.escalations[pair{c.Words[0], c.Words[1]}] += float64(c.Rows)
	}
	bounds := cycleBounds()
	err = ended.CycleEnds(ctx, span, func(c store.CycleEnd) {
		out.cycles[string(c.Status)]++
		if c.StartedAt != nil {
			out.cycleTimes.observe(c.EndedAt.Sub(*c.StartedAt).Seconds(), bounds)
		}
	})
	if err != nil {
		return t, err
	}
	return out, nil
}

func (t totals) addSessions(g store.Totals) {
	tier := strconv.Itoa(int(g.Tier))
	t.sessions[sessionKey{tier, string(g.Trigger), g.Outcome}] += float64(g.Sessions)
	length := lengthKey{tier, g.Outcome}
	t.durations[length] = t.durations[length].plus(g.Durations.Count, g.Durations.Sum/float64(time.Second/time.Millisecond), g.Durations.Below)
	t.turns[tier] = t.turns[tier].plus(g.Turns.Count, g.Turns.Sum, g.Turns.Below)
	t.costs[costKey{tier, g.Model}] += g.CostUSD
	for name, n := range map[string]int64{
		"input": g.InputTokens, "output": g.OutputTokens, "cache_read": g.CacheReadTokens, "cache_write": g.CacheWriteTokens,
	} {
		t.tokens[triple{tier, g.Model, name}] += float64(n)
	}
}

func whole(bounds []float64, unit float64) []int64 {
	return ops.Map(bounds, func(b float64) int64 { return int64(b * unit) })
}
