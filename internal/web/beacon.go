package web

import (
	"sync"
	"time"

	"claudeops/internal/web/live"
)

// beacon passes nudges on to all streams at once. Whoever writes rows wakes it alone, however many read: it gathers what comes
// together, and then everybody is told by closing one channel.
type beacon struct {
	hub *live.Hub // nil: nobody nudges, and streams look by themselves

	mu      sync.Mutex
	readers int
	lit     chan struct{} // closed with the next change
	stop    func()        // ends the goroutine that waits for nudges
}

// join counts a reader until it leaves. The first one starts the waiting for nudges, the last one ends it.
func (b *beacon) join() (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers++; b.readers == 1 {
		b.lit = make(chan struct{})
		if b.hub != nil {
			b.stop = b.watch()
		}
	}
	return b.leave
}

func (b *beacon) leave() {
	b.mu.Lock()
	stop := func() {}
	if b.readers--; b.readers == 0 && b.stop != nil {
		stop, b.stop = b.stop, nil
	}
	b.mu.Unlock()
	stop()
}

// next is closed when something has changed after this call.
func (b *beacon) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lit
}

// watch waits for nudges until the function it returns is called, which waits for its end.
func (b *beacon) watch() (stop func()) {
	nudges, unsubscribe := b.hub.Subscribe()
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-nudges:
			}
			// A look that is younger than this has seen the change, so that readers can share it.
			timer := time.NewTimer(gather)
			select {
			case <-quit:
				timer.Stop()
				return
			case <-timer.C:
			}
			b.light()
		}
	})
	return func() {
		unsubscribe()
		close(quit)
		running.Wait()
	}
}

func (b *beacon) light() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.lit)
	b.lit = make(chan struct{})
}
