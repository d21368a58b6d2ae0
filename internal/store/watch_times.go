package store

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Response times of an hour are kept as a histogram with five steps per factor of ten: results of other hours and states are added
// to it, which percentiles do not allow.
const (
	timeSteps    = 24 // the last one has no end: 40 seconds and more
	timesPerCell = 3  // counters in one column
	timeCells    = timeSteps / timesPerCell
	timeBits     = 21 // of a counter: two million checks in an hour
)

// timeStep is the step of a response time.
func timeStep(ms int64) int {
	if ms <= 1 {
		return 0
	}
	step := int(math.Ceil(5*math.Log10(float64(ms)) - 1e-9))
	return min(step, timeSteps-1)
}

// timeEnd is the longest response time of a step, in milliseconds.
func timeEnd(step int) float64 { return math.Pow(10, float64(step)/5) }

// times are response times in milliseconds, as they are kept.
type times struct {
	shortest, longest int64 // -1: none
	counts            [timeSteps]int64
}

func noTimes() times { return times{shortest: -1, longest: -1} }

func (t *times) measured(ms int64) {
	one := times{shortest: max(0, ms), longest: max(0, ms)}
	one.counts[timeStep(ms)] = 1
	t.add(one)
}

func (t *times) add(other times) {
	if other.shortest < 0 {
		return
	}
	if t.shortest < 0 || other.shortest < t.shortest {
		t.shortest = other.shortest
	}
	t.longest = max(t.longest, other.longest)
	for i, n := range other.counts {
		t.counts[i] += n
	}
}

func (t times) number() int64 {
	var n int64
	for _, count := range t.counts {
		n += count
	}
	return n
}

// percentile estimates the response time that a share of the results did not exceed.
func (t times) percentile(share float64) time.Duration {
	rank := share * float64(t.number())
	for step, n := range t.counts {
		if n == 0 || float64(n) < rank {
			rank -= float64(n)
			continue
		}
		from, to := 0.0, math.Min(timeEnd(step), float64(t.longest))
		if step > 0 {
			from = timeEnd(step - 1)
		}
		if step == timeSteps-1 {
			to = float64(t.longest)
		}
		from = math.Min(math.Max(from, float64(t.shortest)), to)
		ms := from + (to-from)*rank/float64(n)
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond)
	}
	return time.Duration(max(0, t.longest)) * time.Millisecond
}

// columns returns the values of timeColumns.
func (t times) columns() []any {
	out := []any{t.shortest, t.longest}
	for cells := range slices.Chunk(t.counts[:], timesPerCell) {
		var packed int64
		for i, n := range cells {
			packed |= min(n, 1<<timeBits-1) << (timeBits * i)
		}
		out = append(out, packed)
	}
	return out
}

// scanTimes returns where the values of timeColumns are read to, and what makes times of them.
func scanTimes() (into []any, read func() times) {
	t := noTimes()
	cells := make([]int64, timeCells)
	into = []any{&t.shortest, &t.longest}
	for i := range cells {
		into = append(into, &cells[i])
	}
	return into, func() times {
		for i := range t.counts {
			t.counts[i] = cells[i/timesPerCell] >> (timeBits * (i % timesPerCell)) & (1<<timeBits - 1)
		}
		return t
	}
}

// timeColumns are the columns of times.
func timeColumns() string {
	out := `time_min, time_max`
	for i := range timeCells {
		out += fmt.Sprintf(`, times_%d`, i+1)
	}
	return out
}

// addTimes are the assignments that add the times of a new row to those of an old one.
func addTimes(table string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `, time_min = CASE WHEN excluded.time_min < 0 OR (%[1]s.time_min >= 0 AND %[1]s.time_min < excluded.time_min)
		THEN %[1]s.time_min ELSE excluded.time_min END,
		time_max = CASE WHEN %[1]s.time_max > excluded.time_max THEN %[1]s.time_max ELSE excluded.time_max END`, table)
	for i := range timeCells {
		fmt.Fprintf(&out, `, times_%[2]d = %[1]s.times_%[2]d + excluded.times_%[2]d`, table, i+1)
	}
	return out.String()
}
