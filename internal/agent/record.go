package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"claudeops/internal/ops"
)

const (
	flushLines = 256
	flushBytes = 256 << 10
	flushAfter = 50 * time.Millisecond
	// pendingLines is how many lines may wait; then readers wait, and with them the agent itself.
	pendingLines = 64
	storeTime    = 30 * time.Second
)

// recording hands the lines of a session to its recorder, in batches and in order, from one
// goroutine. After a failure nothing more is stored.
type recording struct {
	rec    ops.Recorder
	clock  ops.Clock
	failed func(error)

	mu    sync.Mutex // numbers are in the order of the lines
	seq   int64
	lines chan ops.Line
	done  chan struct{} // closed when nothing more is stored
	err   error         // why
}

// startRecording starts to store lines. failed is called at most once, from the storing goroutine.
func startRecording(ctx context.Context, rec ops.Recorder, clock ops.Clock, failed func(error)) *recording {
	r := &recording{rec: rec, clock: clock, failed: failed, lines: make(chan ops.Line, pendingLines), done: make(chan struct{})}
	go r.run(ctx)
	return r
}

// add takes one line. It waits while too much is not stored yet.
func (r *recording) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	select {
	case r.lines <- ops.Line{Seq: r.seq, At: r.clock(), Text: text}:
	case <-r.done:
	}
}

// close stores what is left and returns why lines could not be stored, if so. No line is added any more.
func (r *recording) close() error {
	close(r.lines)
	<-r.done
	return r.err
}

func (r *recording) run(ctx context.Context) {
	for line := range r.lines {
		if r.err = r.store(ctx, r.batch(line)); r.err != nil {
			break
		}
	}
	if r.err != nil {
		r.failed(r.err)
	}
	close(r.done)
}

// batch waits a moment for the lines that follow the first one.
func (r *recording) batch(first ops.Line) []ops.Line {
	out, size := append(make([]ops.Line, 0, flushLines), first), len(first.Text)
	timer := time.NewTimer(flushAfter)
	defer timer.Stop()
	for len(out) < flushLines && size < flushBytes {
		select {
		case line, more := <-r.lines:
			if !more {
				return out
			}
			out, size = append(out, line), size+len(line.Text)
		case <-timer.C:
			return out
		}
	}
	return out
}

func (r *recording) store(ctx context.Context, batch []ops.Line) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storeTime, fmt.Errorf("storing output took longer than %v", storeTime))
	defer cancel()
	return r.rec.Lines(ctx, batch)
}
