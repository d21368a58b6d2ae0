package agent

import (
	"cmp"

	"claudeops/internal/ops"
)

// watcher passes on what the session does, and keeps a stop that waits for a boundary.
type watcher struct {
	tell    func(ops.Activity) *ops.Halt
	clock   ops.Clock
	tools   map[string]string // of the calls that are open, by id
	pending *ops.Halt         // waits for a boundary
}

// newWatcher makes a watcher, or none without a function to call.
func newWatcher(tell func(ops.Activity) *ops.Halt, clock ops.Clock) *watcher {
	if tell == nil {
		return nil
	}
	return &watcher{tell: tell, clock: clock, tools: map[string]string{}}
}

// saw passes on what a line says and returns the stop that is due, if any. Busy says that no boundary is reached after it.
func (w *watcher) saw(activities []ops.Activity, busy bool) *ops.Halt {
	for _, a := range activities {
		a.At = w.clock()
		switch a.Kind {
		case ops.ActivityCall:
			w.tools[a.UseID] = a.Tool
		case ops.ActivityResult:
			a.Tool = cmp.Or(a.Tool, w.tools[a.UseID])
			delete(w.tools, a.UseID)
		case ops.ActivityUsage:
		}
		halt := w.tell(a)
		switch {
		case halt == nil:
		case !halt.Boundary:
			return halt
		case w.pending == nil:
			w.pending = halt
		}
	}
	if busy {
		return nil
	}
	return w.pending
}
