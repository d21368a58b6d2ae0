package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// Action is one tool call that has ended.
type Action struct {
	Tool       string    `json:"tool"`
	Args       string    `json:"args"` // JSON or text
	OutputHash string    `json:"output_hash"`
	Step       int       `json:"step,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// HashOutput is the hash of what a call returned. It is taken of the text as it is: a clock in it is a change.
func HashOutput(output string) string {
	sum := sha256.Sum256([]byte(output))
	return hex.EncodeToString(sum[:16])
}

// Thresholds are how many similar actions lead to which level of the recovery ladder.
type Thresholds struct {
	Replan    int `json:"replan"`     // level 3
	Fallback  int `json:"fallback"`   // level 4
	ForceDone int `json:"force_done"` // level 5
}

// Defaults returns the thresholds where nothing is configured.
func Defaults() Thresholds { return Thresholds{Replan: 3, Fallback: 5, ForceDone: 8} }

// Level is the level of the recovery ladder a count leads to; 0 for none.
func (t Thresholds) Level(count int) int {
	switch {
	case count >= t.ForceDone:
		return 5
	case count >= t.Fallback:
		return 4
	case count >= t.Replan:
		return 3
	}
	return 0
}

// Finding is what the detector knows after an action.
type Finding struct {
	Count  int    `json:"count"`  // similar actions, or full rounds of a cycle, without progress
	Period int    `json:"period"` // 1 for A,A,A; 2 for A,B,A,B; up to 4
	Level  int    `json:"level"`  // 0, 3, 4 or 5
	Call   string `json:"call"`   // the repeated call, fit to be shown
}

const (
	window     = 20 // actions that are remembered
	maxPeriod  = 4
	mostLoops  = 32 // loops that are remembered
	patience   = 8  // so many unchanged polls with a declared wait count as one repetition
	longestFit = 120
)

// seen is an action as it is compared.
type seen struct {
	call   call
	output string
}

func (s seen) repeats(o seen) bool { return s.output == o.output && s.call.similar(o.call) }

// run follows one period.
type run struct {
	first   []seen // the first round
	matched int    // actions since that repeat it
}

func (r run) count(period int) int {
	if r.matched == 0 {
		return 1
	}
	if slices.ContainsFunc(r.first, func(s seen) bool { return s.call.waits }) {
		return 1 + r.matched/(period*patience)
	}
	return 1 + r.matched/period
}

// past is a loop that was found and left. Whoever falls into it again goes on counting.
type past struct {
	round []seen
	count int
}

// Detector follows the actions of one tier step. It is not safe for concurrent use.
type Detector struct {
	thresholds Thresholds
	window     []seen
	runs       [maxPeriod + 1]run // by period; 0 is not used
	past       []past
	reported   int // level of the loop that is going on
}

// New returns a detector. Thresholds that are not set take their defaults.
func New(t Thresholds) *Detector {
	d := Defaults()
	if t.Replan <= 0 {
		t.Replan = d.Replan
	}
	if t.Fallback <= 0 {
		t.Fallback = d.Fallback
	}
	if t.ForceDone <= 0 {
		t.ForceDone = d.ForceDone
	}
	return &Detector{thresholds: t}
}

// Saw takes the next action. It returns true when a threshold is reached by this action, or the last one is exceeded.
func (d *Detector) Saw(a Action) (Finding, bool) {
	s := seen{call: parse(a.Tool, a.Args), output: a.OutputHash}
	if d.progress(s) {
		d.leave()
	}
	best := Finding{Count: 1, Period: 1}
	for period := 1; period <= maxPeriod; period++ {
		if n := d.follow(s, period); n > best.Count {
			best.Count, best.Period = n, period
		}
	}
	d.window = append(d.window, s)
	if len(d.window) > window {
		d.window = append([]seen{}, d.window[1:]...)
	}
	if best.Count == 1 {
		d.reported = 0
	}
	best.Level = d.thresholds.Level(best.Count)
	best.Call = d.show(best, s)
	// The round in which a loop is recognized again already counts it further, so a level can be skipped, never lost.
	reached := best.Level > d.reported || best.Level == 5
	d.reported = max(d.reported, best.Level)
	return best, reached
}

// NewAttempt says that another session begins. What it does first is no repetition of what the last one did; a loop that
// was found goes on counting if it falls into it again.
func (d *Detector) NewAttempt() {
	d.leave()
	d.window = nil
}

// progress reports whether the last similar call gave another output.
func (d *Detector) progress(s seen) bool {
	for i := len(d.window) - 1; i >= 0; i-- {
		if d.window[i].call.similar(s.call) {
			return d.window[i].output != s.output
		}
	}
	return false
}

// leave ends every run.
func (d *Detector) leave() {
	for period := range d.runs {
		d.end(period)
	}
	d.reported = 0
}

// end forgets a run, but not a loop it has become.
func (d *Detector) end(period int) {
	r := d.runs[period]
	d.runs[period] = run{}
	if period == 0 || d.thresholds.Level(d.total(r, period)) == 0 {
		return
	}
	for i := range d.past {
		if sameRound(d.past[i].round, r.first) {
			d.past[i].count += r.count(period)
			return
		}
	}
	if len(d.past) < mostLoops {
		d.past = append(d.past, past{round: r.first, count: r.count(period)})
	}
}

// follow continues the run of a period, or starts one, and returns its count.
func (d *Detector) follow(s seen, period int) int {
	r := &d.runs[period]
	n := len(d.window)
	if n < period {
		return 1
	}
	if !s.repeats(d.window[n-period]) {
		d.end(period)
		return 1
	}
	if r.matched > 0 && !s.repeats(r.first[r.matched%period]) {
		*r = run{} // it has drifted away from where it began, so it is no loop to be remembered
	}
	if r.matched == 0 {
		r.first = append([]seen{}, d.window[n-period:]...)
	}
	r.matched++
	return d.total(*r, period)
}

// total is the count of a run together with what was counted when the same loop was found before. One call alone is no
// loop again, so a single check of what is known to fail stays free.
func (d *Detector) total(r run, period int) int {
	n := r.count(period)
	if n < 2 {
		return n
	}
	for _, p := range d.past {
		if sameRound(p.round, r.first) {
			return n + p.count
		}
	}
	return n
}

// sameRound compares two rounds, wherever in the round they begin.
func sameRound(a, b []seen) bool {
	if len(a) != len(b) {
		return false
	}
	for shift := range a {
		same := true
		for i := range a {
			same = same && a[i].repeats(b[(i+shift)%len(b)])
		}
		if same {
			return true
		}
	}
	return false
}

// show names the repeated calls in one line.
func (d *Detector) show(f Finding, last seen) string {
	if f.Period == 1 {
		return last.call.show(longestFit)
	}
	text := ""
	for i, s := range d.runs[f.Period].first {
		if i > 0 {
			text += ", then "
		}
		text += s.call.show(longestFit / f.Period)
	}
	return text
}
