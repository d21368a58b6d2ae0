package agenttest

import (
	"context"
	"strings"
	"sync"

	"claudeops/internal/ops"
)

// Recorder keeps what a session printed.
type Recorder struct {
	Err    error  // what Lines answers
	Wanted string // Seen is closed once a line holds it
	Seen   chan struct{}
	mu     sync.Mutex

	PID     int
	Since   string // when the process started
	All     []ops.Line
	Batches int
}

// Waiting is a recorder that tells when a line with that text comes.
func Waiting(text string) *Recorder { return &Recorder{Wanted: text, Seen: make(chan struct{})} }

// Started notes the process.
func (r *Recorder) Started(_ context.Context, pid int, started string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.PID, r.Since = pid, started
	return nil
}

// Lines notes lines.
func (r *Recorder) Lines(_ context.Context, lines []ops.Line) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Err != nil {
		return r.Err
	}
	r.Batches++
	r.All = append(r.All, lines...)
	for _, l := range lines {
		if r.Wanted != "" && strings.Contains(l.Text, r.Wanted) {
			r.Wanted = ""
			close(r.Seen)
		}
	}
	return nil
}

// Text is all of it.
func (r *Recorder) Text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, l := range r.All {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}
