package recovery

import "fmt"

// Level is a rung of the ladder. None means the failure does not enter it.
type Level int

// The levels of the ladder.
const (
	None      Level = 0
	Retry     Level = 1
	Nudge     Level = 2
	Replan    Level = 3
	Fallback  Level = 4
	ForceDone Level = 5
)

// Action is the name of what a level does, as it is stored.
type Action string

// The actions of the levels.
const (
	ActionNone      Action = ""
	ActionRetry     Action = "retry"
	ActionNudge     Action = "nudge"
	ActionReplan    Action = "replan"
	ActionFallback  Action = "fallback"
	ActionForceDone Action = "force-done"
)

// Action returns what the level does.
func (l Level) Action() Action {
	switch l {
	case Retry:
		return ActionRetry
	case Nudge:
		return ActionNudge
	case Replan:
		return ActionReplan
	case Fallback:
		return ActionFallback
	case ForceDone:
		return ActionForceDone
	case None:
		return ActionNone
	}
	return ActionNone
}

func (l Level) String() string {
	if a := l.Action(); a != ActionNone {
		return fmt.Sprintf("level %d (%s)", int(l), a)
	}
	return "no level"
}
