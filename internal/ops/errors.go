package ops

import "errors"

// Errors a caller acts upon.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("conflict")
	// ErrSlotBusy means another cycle of the environment is running.
	ErrSlotBusy = errors.New("another cycle of this environment is running")
	// ErrFenced means the writer no longer owns what it writes.
	ErrFenced = errors.New("this process no longer owns the journal it writes")
	// ErrBudget means that nothing is left to spend.
	ErrBudget = errors.New("the budget is spent")
)
