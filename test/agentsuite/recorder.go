package agentsuite

import (
	"context"
	"os"
	"strings"
	"sync"

	"claudeops/internal/ops"
)

// Recorder keeps what a session printed.
type Recorder struct {
	fail bool

	mu      sync.Mutex
	pid     int
	started string
	lines   []ops.Line
}

// Started notes the process.
func (r *Recorder) Started(_ context.Context, pid int, started string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid, r.started = pid, started
	return nil
}

// Lines notes lines.
func (r *Recorder) Lines(_ context.Context, lines []ops.Line) error {
	if r.fail {
		return os.ErrInvalid
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, lines...)
	return nil
}

// Text is all of it.
func (r *Recorder) Text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, l := range r.lines {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}
