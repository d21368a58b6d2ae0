package recovery

import (
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
)

// Offer is what is possible in this tier step, and how long recovery has taken.
type Offer struct {
	CanResume bool   // the failed session's conversation can be continued
	Planner   string // handler that plans first; empty for none
	// Fallbacks are the handlers that may take over, best first: installed, with credentials, with the gates of the tier.
	// Those that were tried in this tier step may be among them.
	Fallbacks   []string
	EarlierTime time.Duration // recovery in earlier tier steps of the cycle
	Seed        uint64        // of the jitter: see Seed
}

// Pass is a level that was passed over without being entered.
type Pass struct {
	Level  ops.RecoveryLevel
	Reason string
}

// Move is what happens next on the ladder.
type Move struct {
	Level     ops.RecoveryLevel // None: the ladder does not handle this failure
	Action    ops.RecoveryAction
	Wait      time.Duration
	NotBefore time.Time
	Deadline  time.Time
	Variant   int    // level 2: which text, from 1
	Handler   string // level 4: who takes over
	Planner   string // level 3: who plans first
	Outage    bool   // it waits for the provider
	Reason    string
	Because   string // why no lower level was taken; empty when the failure entered here
	Passed    []Pass
}

// walk is one way up the ladder.
type walk struct {
	failure Failure
	class   Class
	step    []ops.Recovery // of this tier step
	offer   Offer
	total   time.Duration
	now     time.Time
	move    Move
	left    string // why the level the step stood at was left
}

// Next decides what is done about a failure. History are the transitions of the cycle, oldest first; those of other tiers
// are left aside, because the next tier starts with none. Total is the time of all recovery in the cycle.
func Next(f Failure, c Class, history []ops.Recovery, o Offer, total time.Duration, now time.Time) Move {
	w := &walk{failure: f, class: c, offer: o, total: total, now: now}
	for _, t := range history {
		if t.Tier == f.Tier {
			w.step = append(w.step, t)
		}
	}
	from := max(c.Entry, w.highest())
	if c.Entry == ops.RecoveryNone {
		if c.ErrorType != TypeResume || w.highest() != ops.RecoveryNudge {
			return Move{Reason: c.Why}
		}
		// The nudge itself could not start: the conversation is gone, and so is the level.
		w.offer.CanResume = false
	}
	return w.from(from)
}

// highest is the level the tier step has reached.
func (w *walk) highest() ops.RecoveryLevel {
	top := ops.RecoveryNone
	for _, t := range w.step {
		top = max(top, t.Level)
	}
	return top
}

func (w *walk) from(level ops.RecoveryLevel) Move {
	if spent := w.overspent(); spent != "" {
		return w.forceDone(level, spent)
	}
	for ; level < ops.RecoveryForceDone; level++ {
		why := w.enter(level)
		if why == "" {
			w.move.Level, w.move.Action = level, level.Action()
			w.move.Reason, w.move.Because = w.reason(level), w.because()
			return w.move
		}
		w.pass(level, why)
	}
	if w.outlast() {
		return w.move
	}
	return w.forceDone(ops.RecoveryForceDone, "")
}

// outage: the provider fails for everybody, so other words or another plan for the same provider do not help.
func (w *walk) outage() bool {
	switch w.class.ErrorType {
	case TypeRateLimit, TypeServer, TypeNetwork:
		return true
	}
	return false
}

// outlast waits for the end of an outage when nothing else is left: at the lowest level that is safe to repeat, after a wait
// that doubles up to its limit, until the time of recovery is over.
func (w *walk) outlast() bool {
	level := max(w.highest(), ops.RecoveryRetry)
	if level == ops.RecoveryRetry && w.failure.Mutating {
		level = ops.RecoveryNudge
	}
	if level == ops.RecoveryNudge && !w.offer.CanResume {
		level = ops.RecoveryReplan
	}
	wait := max(w.asked(), w.jittered(outageWait(len(w.step))))
	left := w.total - w.offer.EarlierTime - w.elapsed()
	if !w.outage() || wait > left || w.expired(level) != "" {
		return false
	}
	switch level {
	case ops.RecoveryNudge:
		w.move.Variant = min(w.count(level)+1, mostNudges)
	case ops.RecoveryFallback:
		w.move.Handler = w.failure.Handler
	case ops.RecoveryNone, ops.RecoveryRetry, ops.RecoveryReplan, ops.RecoveryForceDone:
	}
	w.move.Outage, w.move.Level, w.move.Action = true, level, level.Action()
	w.schedule(level, wait)
	w.move.Reason, w.move.Because = w.reason(level), w.because()
	w.move.Passed = nil // they stay possible
	return true
}

// enter fills the move, or says why the level is of no use.
func (w *walk) enter(level ops.RecoveryLevel) string {
	if why := w.expired(level); why != "" {
		return why
	}
	switch level {
	case ops.RecoveryRetry:
		return w.retry()
	case ops.RecoveryNudge:
		return w.nudge()
	case ops.RecoveryReplan:
		return w.replan()
	case ops.RecoveryFallback:
		return w.fallback()
	case ops.RecoveryNone, ops.RecoveryForceDone:
	}
	return "this level starts no attempt"
}

func (w *walk) retry() string {
	n := w.count(ops.RecoveryRetry)
	switch {
	case w.failure.Mutating:
		return "the session had started something that may have taken effect, so the same call is not repeated"
	case n >= mostRetries:
		return ops.Plural(n, "retry", "retries") + " did not help"
	}
	wait := w.jittered(backoff(n))
	if asked := w.asked(); asked > 0 {
		wait = asked
	}
	if waited := w.waited(); waited+wait > retryTotal {
		return fmt.Sprintf("the wait of %s does not fit into the %s of level 1 (%s used)", ops.Span(wait), ops.Span(retryTotal), ops.Span(waited))
	}
	w.schedule(ops.RecoveryRetry, wait)
	return ""
}

func (w *walk) nudge() string {
	n := w.count(ops.RecoveryNudge)
	switch {
	case w.tooLong():
		return w.pointless()
	case w.outage() && !w.failure.Mutating:
		return "the provider is failing, so asking again in other words does not help"
	case n >= mostNudges:
		return ops.Plural(n, "nudge", "nudges") + " did not help"
	case !w.offer.CanResume:
		return "the conversation cannot be continued"
	}
	w.move.Variant = n + 1
	wait := w.asked()
	if w.outage() {
		wait = max(wait, w.jittered(outageWait(len(w.step))))
	}
	w.schedule(ops.RecoveryNudge, wait)
	return ""
}

func (w *walk) replan() string {
	switch {
	case w.count(ops.RecoveryReplan) > 0:
		return "the new plan did not help"
	case w.tooLong():
		return w.pointless()
	case w.outage():
		return "the provider is failing, so another plan does not help"
	}
	w.move.Planner = w.offer.Planner
	w.schedule(ops.RecoveryReplan, w.asked())
	return ""
}

func (w *walk) fallback() string {
	for _, handler := range w.offer.Fallbacks {
		if handler == "" || handler == w.failure.Handler || w.tried(handler) {
			continue
		}
		w.move.Handler = handler
		w.schedule(ops.RecoveryFallback, 0)
		return ""
	}
	if w.count(ops.RecoveryFallback) > 0 {
		return "no fallback handler is left"
	}
	return "no fallback handler is configured and ready"
}

func (w *walk) tried(handler string) bool {
	return slices.ContainsFunc(w.step, func(t ops.Recovery) bool { return t.Level == ops.RecoveryFallback && t.Handler == handler })
}

func (w *walk) count(level ops.RecoveryLevel) int {
	n := 0
	for _, t := range w.step {
		if t.Level == level {
			n++
		}
	}
	return n
}

// first is when the level was entered.
func (w *walk) first(level ops.RecoveryLevel) (time.Time, bool) {
	for _, t := range w.step {
		if t.Level == level {
			return t.EnteredAt, true
		}
	}
	return time.Time{}, false
}

// expired reports a level whose time is over. Downtime counts: the time stands in the row.
func (w *walk) expired(level ops.RecoveryLevel) string {
	entered, ok := w.first(level)
	limit := timeOf(level)
	if !ok || limit == 0 || w.now.Sub(entered) < limit {
		return ""
	}
	return fmt.Sprintf("the %s of %s are over", ops.Span(limit), level)
}

// overspent says that the whole of recovery may take no longer in this cycle.
func (w *walk) overspent() string {
	spent := w.offer.EarlierTime + w.elapsed()
	if spent < w.total {
		return ""
	}
	return fmt.Sprintf("recovery has taken %s in this cycle, and %s is the limit", ops.Span(spent), ops.Span(w.total))
}

// elapsed is how long this tier step has been recovering.
func (w *walk) elapsed() time.Duration {
	if len(w.step) == 0 {
		return 0
	}
	return max(0, w.now.Sub(w.step[0].EnteredAt))
}

// waited is how much of level 1's waiting time is used.
func (w *walk) waited() time.Duration {
	var sum time.Duration
	for _, t := range w.step {
		if t.Level == ops.RecoveryRetry && t.NotBefore != nil {
			sum += max(0, t.NotBefore.Sub(t.EnteredAt))
		}
	}
	return sum
}

// longestAsked: a longer wait would overflow, and means the same.
const longestAsked = 366 * 24 * time.Hour

// asked is how long the provider wants to be left alone.
func (w *walk) asked() time.Duration {
	return min(w.failure.RetryAfter, longestAsked)
}

// tooLong: what does not fit into level 1 makes every level pointless that calls the same provider.
func (w *walk) tooLong() bool { return w.asked() > 0 && w.waited()+w.asked() > retryTotal }

func (w *walk) pointless() string {
	return fmt.Sprintf("the provider asks to wait %s, which is too long", ops.Span(w.asked()))
}

func (w *walk) schedule(level ops.RecoveryLevel, wait time.Duration) {
	w.move.Wait, w.move.NotBefore = wait, w.now.Add(wait)
	if limit := timeOf(level); limit > 0 {
		entered, ok := w.first(level)
		if !ok {
			entered = w.now
		}
		w.move.Deadline = entered.Add(limit)
	}
	end := w.now.Add(w.total - w.offer.EarlierTime - w.elapsed())
	if w.move.Deadline.IsZero() || end.Before(w.move.Deadline) {
		w.move.Deadline = end
	}
}

// pass notes why a level is left: an event where it was never entered, a part of the reason where it was used up.
func (w *walk) pass(level ops.RecoveryLevel, why string) {
	if w.count(level) > 0 {
		w.left = why
		return
	}
	w.move.Passed = append(w.move.Passed, Pass{Level: level, Reason: why})
}

// forceDone ends the ladder. From is the first level that is not even tried.
func (w *walk) forceDone(from ops.RecoveryLevel, why string) Move {
	if why != "" {
		w.left = why
		for level := max(from, ops.RecoveryRetry); level < ops.RecoveryForceDone; level++ {
			if w.count(level) == 0 {
				w.move.Passed = append(w.move.Passed, Pass{Level: level, Reason: why})
			}
		}
	}
	return Move{
		Level: ops.RecoveryForceDone, Action: ops.ActionForceDone, NotBefore: w.now, Passed: w.move.Passed,
		Reason: w.reason(ops.RecoveryForceDone), Because: w.because(),
	}
}

// Record is the row of the move: what is stored in one transaction with the next intent.
func (m Move) Record(f Failure, c Class, history []ops.Recovery, now time.Time) ops.Recovery {
	r := ops.Recovery{
		SessionID: f.Session, Tier: f.Tier, Level: m.Level, Action: m.Action, ErrorType: c.ErrorType,
		PreviousLevels: entered(history, f.Tier, m.Level), EnteredAt: now, Variant: m.Variant, Handler: m.Handler, Reason: m.Reason,
	}
	if m.Wait > 0 {
		r.NotBefore = &m.NotBefore
	}
	if !m.Deadline.IsZero() {
		r.Deadline = &m.Deadline
	}
	return r
}

func entered(history []ops.Recovery, tier ops.Tier, below ops.RecoveryLevel) []ops.RecoveryLevel {
	out := []ops.RecoveryLevel{}
	for _, t := range history {
		if t.Tier == tier && t.Level > ops.RecoveryNone && t.Level < below && !slices.Contains(out, t.Level) {
			out = append(out, t.Level)
		}
	}
	slices.Sort(out)
	return out
}
