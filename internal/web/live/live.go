// Package live nudges readers. It carries no data: rows are the truth, and a reader that was nudged, or missed a nudge,
// reads on from the row it saw last.
package live

import "sync"

// Hub tells subscribers that something changed.
type Hub struct {
	mu   sync.Mutex
	subs map[chan struct{}]struct{}
}

// NewHub returns a hub without subscribers.
func NewHub() *Hub { return &Hub{subs: map[chan struct{}]struct{}{}} }

// Nudge wakes every subscriber; it never waits for one.
func (h *Hub) Nudge() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.subs {
		select {
		case c <- struct{}{}:
		default: // it has a wake-up waiting and will read this change with it
		}
	}
}

// Subscribe returns a channel of nudges and the function that ends the subscription.
func (h *Hub) Subscribe() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	h.subs[c] = struct{}{}
	h.mu.Unlock()
	return c, func() {
		h.mu.Lock()
		delete(h.subs, c)
		h.mu.Unlock()
	}
}
