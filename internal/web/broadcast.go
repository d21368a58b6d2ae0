package web

import (
	"sync"
	"time"
)

// broadcaster passes changes on to all streams. It is one subscriber of the hub, however many streams are open: it collects
// changes for a moment, and then wakes all streams by closing one channel.
type broadcaster struct {
	hub *Hub // nil: streams only poll

	mu      sync.Mutex
	readers int
	changed chan struct{} // closed at the next change
	stop    func()        // ends the goroutine that waits for changes
}

// join counts a reader until it leaves. The first one starts the subscription, the last one ends it.
func (b *broadcaster) join() (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers++; b.readers == 1 {
		b.changed = make(chan struct{})
		if b.hub != nil {
			b.stop = b.watch()
		}
	}
	return b.leave
}

func (b *broadcaster) leave() {
	b.mu.Lock()
	stop := func() {}
	if b.readers--; b.readers == 0 && b.stop != nil {
		stop, b.stop = b.stop, nil
	}
	b.mu.Unlock()
	stop()
}

// next returns a channel that is closed at the next change.
func (b *broadcaster) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// watch waits for changes until the returned function is called, which waits for its goroutine.
func (b *broadcaster) watch() (stop func()) {
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
			// Counters read after this delay include the change, so readers can share them.
			timer := time.NewTimer(batchWindow)
			select {
			case <-quit:
				timer.Stop()
				return
			case <-timer.C:
			}
			b.wake()
		}
	})
	return func() {
		unsubscribe()
		close(quit)
		running.Wait()
	}
}

func (b *broadcaster) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}
