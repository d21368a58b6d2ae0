package web

import "sync"

// Hub tells subscribers that rows changed. It carries no data: a reader continues from the last row it read, even if it missed a signal.
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
		default: // a signal is already waiting and covers this change
		}
	}
}

// Subscribe returns a channel of signals and the function that ends the subscription.
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
