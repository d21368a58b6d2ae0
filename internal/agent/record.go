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
	// Readers wait when this much is not stored yet, and with them the agent itself.
	pendingLines = 4 * flushLines
	pendingBytes = 4 * flushBytes
	storeTime    = 30 * time.Second
)

// recording hands the lines of a session to its recorder, in batches and in order, from one
// goroutine. After a failure nothing more is stored.
type recording struct {
	rec    ops.Recorder
	clock  ops.Clock
	failed func(error)

	mu      sync.Mutex
	room    *sync.Cond
	pending []ops.Line
	bytes   int
	seq     int64
	closed  bool
	err     error

	some chan struct{} // there is something to store
	full chan struct{} // there is enough to store it at once
	done chan struct{}
}

// startRecording starts to store lines. failed is called at most once, from the storing goroutine.
func startRecording(ctx context.Context, rec ops.Recorder, clock ops.Clock, failed func(error)) *recording {
	r := &recording{
		rec: rec, clock: clock, failed: failed,
		some: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{}),
	}
	r.room = sync.NewCond(&r.mu)
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r
}

// add takes one line. It waits while too much is not stored yet.
func (r *recording) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.err == nil && (len(r.pending) >= pendingLines || r.bytes >= pendingBytes) {
		r.room.Wait()
	}
	if r.err != nil {
		return
	}
	r.seq++
	if r.pending == nil {
		r.pending = make([]ops.Line, 0, flushLines)
	}
	r.pending = append(r.pending, ops.Line{Seq: r.seq, At: r.clock(), Text: text})
	r.bytes += len(text)
	if len(r.pending) == 1 {
		wake(r.some)
	}
	if len(r.pending) >= flushLines || r.bytes >= flushBytes {
		wake(r.full)
	}
}

// close stores what is left and returns why lines could not be stored, if so.
func (r *recording) close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	wake(r.some)
	wake(r.full)
	<-r.done
	return r.err
}

func (r *recording) run(ctx context.Context) {
	timer := time.NewTimer(flushAfter)
	defer timer.Stop()
	for {
		<-r.some
		timer.Reset(flushAfter)
		select {
		case <-r.full:
		case <-timer.C:
		}
		batch, last := r.take()
		if len(batch) > 0 {
			if err := r.store(ctx, batch); err != nil {
				r.fail(err)
				return
			}
		}
		if last {
			return
		}
	}
}

func (r *recording) take() (batch []ops.Line, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch, r.pending, r.bytes = r.pending, nil, 0
	r.room.Broadcast()
	select {
	case <-r.full: // it was meant for what is taken now
	default:
	}
	return batch, r.closed
}

func (r *recording) store(ctx context.Context, batch []ops.Line) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storeTime, fmt.Errorf("storing output took longer than %v", storeTime))
	defer cancel()
	return r.rec.Lines(ctx, batch)
}

func (r *recording) fail(err error) {
	r.mu.Lock()
	r.err = err
	r.pending = nil
	r.room.Broadcast()
	r.mu.Unlock()
	r.failed(err)
}

// wake wakes the goroutine that waits for the channel, now or later.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
