package web

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"claudeops/internal/api/situation"
	"claudeops/internal/store"
)

// counterCache shares the change counters among all readers, so that a thousand open tabs cause one query.
type counterCache struct {
	store *store.Store
	state func() string // of this host, as pages show it; nil: none

	mu    sync.Mutex
	at    time.Time
	value store.PageState
	host  string
}

// read returns counters that are not older than age.
func (p *counterCache) read(ctx context.Context, age time.Duration) (store.PageState, error) {
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
	if p.state != nil {
		p.host = p.state()
	}
	return value, nil
}

// hostState is what pages show that is in no row: why no session can start, the walls, and the day of the budget. A banner about
// it disappears when this changes.
func (s *server) hostState() string {
	trouble := ""
	if s.Trouble != nil {
		trouble = s.Trouble()
	}
	walls, _ := situation.Walls(s.Walls())
	return trouble + "\n" + walls + "\n" + s.Clock().UTC().Format(time.DateOnly)
}

// revision identifies a state of the counters, so that a browser can report what it has seen.
func revision(p store.PageState) string { return digest(p, "") }

// revision identifies a state of the counters and of this host.
func (p *counterCache) revision(counts store.PageState) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return digest(counts, p.host)
}

func digest(counts store.PageState, host string) string {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, counts, host) // a hash never fails
	return hex.EncodeToString(sum.Sum(nil))
}

// costCache keeps today's cost, which changes only when a session ends.
type costCache struct {
	mu    sync.Mutex
	since time.Time
	ended string // end of the last session, from the counters
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
