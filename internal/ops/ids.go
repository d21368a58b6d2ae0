package ops

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"
)

// CycleID names one cycle.
type CycleID int64

// SessionID names one session row; it is not the id the agent CLI uses for its conversation.
type SessionID int64

// Owner is the host that writes a journal, with the number of its current term.
// A write that carries an older term is refused.
type Owner struct {
	Host string
	Term int64
}

// Tier is a permission level.
type Tier int

// The three tiers, from looking to full repair.
const (
	Tier1 Tier = 1
	Tier2 Tier = 2
	Tier3 Tier = 3
)

// LastTier is the highest tier: its session ends the chain whatever it says.
const LastTier = Tier3

// HumanTier stands above every tier an agent can have. It is the place of a person, who needs no permissions.
const HumanTier = LastTier + 1

func (t Tier) String() string {
	if t == HumanTier {
		return "Human"
	}
	return fmt.Sprintf("Tier %d", int(t))
}

// Title says in the operator's words what the tier may do.
func (t Tier) Title() string {
	return cmp.Or(map[Tier]string{
		Tier1:     "Observe",
		Tier2:     "Safe remediation",
		Tier3:     "Full remediation",
		HumanTier: "Human",
	}[t], "Unknown tier")
}

// May says in one line what the tier may do. The pages say it in detail.
func (t Tier) May() string {
	return map[Tier]string{
		Tier1: "look, change nothing",
		Tier2: "restart services and make small, safe repairs, within their cooldowns",
		Tier3: "restart, stop and redeploy services, run Ansible and Helm, within their cooldowns",
	}[t]
}

// Known reports whether the tier is one of the three that agents have.
func (t Tier) Known() bool { return t >= Tier1 && t <= LastTier }

// Ptr returns a pointer to v: figures that were not reported are nil.
func Ptr[T any](v T) *T { return &v }

// Map is what f makes of each element of a list.
func Map[T, R any](list []T, f func(T) R) []R {
	var out []R
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

// Clock tells the time; decisions get their time from the caller.
type Clock func() time.Time

// Errors a caller acts upon.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("conflict")
	// ErrStopped means that somebody stopped everything; it is an ErrConflict.
	ErrStopped = fmt.Errorf("everything is stopped: %w", ErrConflict)
	// ErrRestart means that the daemon has to be started again first; it is an ErrConflict.
	ErrRestart = fmt.Errorf("a restart is needed: %w", ErrConflict)
	// ErrSlotBusy means another cycle of the environment is running.
	ErrSlotBusy = errors.New("another cycle of this environment is running")
	// ErrQueueFull means that too many cycles of the environment are queued.
	ErrQueueFull = errors.New("the queue is full")
	// ErrFenced means the writer no longer owns what it writes.
	ErrFenced = errors.New("this process no longer owns the journal it writes")
	// ErrBudget means that nothing is left to spend.
	ErrBudget = errors.New("the budget is spent")
)

// Wrapped says what was being done when an error came; nil stays nil.
func Wrapped(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// Returning is what was read or made, and nothing but the error where there is one.
func Returning[T any](out T, err error, format string, args ...any) (T, error) {
	if err != nil {
		var none T
		return none, Wrapped(err, format, args...)
	}
	return out, nil
}

// Pattern returns a regular expression that is compiled when it is first used: all of them together would slow the start of every command.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
