package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"claudeops/internal/ops"
)

// Adapter knows one agent CLI. The Runner asks it for everything that differs between CLIs.
type Adapter interface {
	// Able tells what the program can do. Env is the environment a session would have.
	Able(ctx context.Context, env []string) ops.Ability
	// Prepare makes everything a session needs except its process. Walls are nil where none are on; the Runner sets them up.
	Prepare(ctx context.Context, spec ops.SessionSpec, walls Walls) (*Prepared, error)
	// Activities reads from one stored line of output what the session did.
	Activities(line string) []ops.Activity
	// Gated reports whether the commands of a session are judged behind these walls, which may be nil, although the program asks nobody.
	Gated(spec ops.SessionSpec, walls Walls) bool
}

// Prepared is a session that is ready to be started.
type Prepared struct {
	Name    string // what the program is called in messages
	Program Program
	Decoder Decoder
	Files   []string // removed after the session
	// Attachments returns the folder of the files that the record of a conversation refers to; may be nil.
	Attachments func(record string) string
	Verify      func() error // called after the walls were set up, right before the start; may be nil
	Warnings    []string
	Attrs       []slog.Attr // for the log line of the start
}

// Decoder reads the output of one session. Line and Activities are called from one goroutine, Finish after it ended.
type Decoder interface {
	// Line reads one line as it was printed. It is not redacted.
	Line(text string) Progress
	// Activities reads from the same line, redacted, what the session did.
	Activities(line string) []ops.Activity
	// Finish adds what the program reported: its figures, its answer, and a failure that it reported. The exit code and the
	// reason of a stop are already set. LastError is the last line of the error output, redacted.
	Finish(res *ops.RunResult, lastError string)
}

// Progress is what one line changed.
type Progress struct {
	Changed bool     // Open or Ending is not what it was
	Open    []Call   // the tool calls that are not answered; only read when Changed is set
	Ending  bool     // the program gave its final answer and ends by itself; only read when Changed is set
	Ran     []string // the ids of the tool calls that ran
}

// Call is a tool call that was not answered yet.
type Call struct {
	ID    string
	Name  string
	Input string // JSON
}

// String names the tool and its most telling argument.
func (c Call) String() string {
	var fields struct {
		Command string `json:"command"`
		Path    string `json:"file_path"`
		URL     string `json:"url"`
		Pattern string `json:"pattern"`
	}
	// A field of another type is not shown.
	_ = json.Unmarshal([]byte(c.Input), &fields)
	for _, text := range []string{fields.Command, fields.Path, fields.URL, fields.Pattern} {
		if text != "" {
			return c.Name + ": " + text
		}
	}
	return c.Name
}

// startError is why a session could not be started.
type startError struct {
	class ops.FailureClass
	text  string
}

func (e *startError) Error() string { return e.text }

// Refuse is the error of a session that is not started.
func Refuse(class ops.FailureClass, format string, args ...any) error {
	return &startError{class: class, text: fmt.Sprintf(format, args...)}
}

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
