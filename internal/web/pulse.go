package web

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"claudeops/internal/store"
)

// pulse shares one look at the counters among all readers, so that a thousand open tabs ask the database once.
type pulse struct {
	store *store.Store

	mu    sync.Mutex
	at    time.Time
	value store.PageState
}

// look returns counters that are no older than age.
func (p *pulse) look(ctx context.Context, age time.Duration) (store.PageState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.at.IsZero() && now.Sub(p.at) <= age {
		return p.value, nil
	}
	value, err := p.store.PageState(ctx)
	if err != nil {
		return store.PageState{}, err
	}
	p.value, p.at = value, now
	return value, nil
}

// mark names what the counters tell, so that a browser can say later what it has seen.
func mark(p store.PageState) string {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, p) // a hash takes everything
	return hex.EncodeToString(sum.Sum(nil))
}

// costCache keeps what a day has cost so far. That changes only when a session ends.
type costCache struct {
	mu    sync.Mutex
	since time.Time
	ended string // when the last session ended, as the counters tell
	total float64
	known bool
}

func (c *costCache) upTo(ctx context.Context, s *store.Store, since time.Time, ended string) (float64, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ended != "" && c.ended == ended && c.since.Equal(since) {
		return c.total, c.known, nil
	}
	total, known, err := s.CostSince(ctx, "", since)
	if err != nil {
		return 0, false, err
	}
	c.since, c.ended, c.total, c.known = since, ended, total, known
	return total, known, nil
}
