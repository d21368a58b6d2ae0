package web

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// The rate limits. Normal use never reaches them.
const (
	wrongBurst = 10
	wrongEvery = 6 * time.Second
	// All addresses together, so that guesses from many addresses are limited too.
	allWrongBurst = 100
	allWrongEvery = 600 * time.Millisecond

	apiBurst   = 400
	apiEvery   = 20 * time.Millisecond
	alertBurst = 2000
	alertEvery = time.Millisecond

	maxBuckets     = 10_000
	maxStreams     = 2000
	maxPeerStreams = 64 // of one remote address
)

// rateLimits holds the rate limiters of the server.
type rateLimits struct {
	wrongTokens    *limiter // wrong tokens, by address
	allWrongTokens *limiter // wrong tokens from everywhere
	api            *limiter // API requests, by token
	alerts         *limiter // webhooks, by address
	streams        *streams
}

func newRateLimits() *rateLimits {
	return &rateLimits{
		wrongTokens: newLimiter(wrongBurst, wrongEvery), allWrongTokens: newLimiter(allWrongBurst, allWrongEvery),
		api:    newLimiter(apiBurst, apiEvery),
		alerts: newLimiter(alertBurst, alertEvery), streams: &streams{open: map[string]int{}},
	}
}

// limiter is a token bucket per key: burst at once, then one more per interval.
type limiter struct {
	burst float64
	every time.Duration

	mu      sync.Mutex
	buckets map[string]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

func newLimiter(burst int, every time.Duration) *limiter {
	return &limiter{burst: float64(burst), every: every, buckets: map[string]bucket{}}
}

func (l *limiter) filled(b bucket, now time.Time) float64 {
	return min(l.burst, b.left+max(0, float64(now.Sub(b.at))/float64(l.every)))
}

// take counts one request and returns how long to wait if the limit is reached.
func (l *limiter) take(key string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.burst
	if b, known := l.buckets[key]; known {
		left = l.filled(b, now)
	} else if len(l.buckets) >= maxBuckets {
		l.prune(now)
	}
	if left < 1 {
		return time.Duration((1 - left) * float64(l.every))
	}
	l.buckets[key] = bucket{left - 1, now}
	return 0
}

// prune removes full buckets, or all of them if none is full, to limit memory.
func (l *limiter) prune(now time.Time) {
	for key, b := range l.buckets {
		if l.filled(b, now) >= l.burst {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}

// streams counts open streams, in total and by address.
type streams struct {
	mu    sync.Mutex
	total int
	open  map[string]int
}

// enter counts a stream until leave is called. It fails if too many are open.
func (s *streams) enter(address string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= maxStreams || (s.open[address] >= maxPeerStreams && !local(address)) {
		return nil, false
	}
	s.total++
	s.open[address]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total--
		if s.open[address]--; s.open[address] <= 0 {
			delete(s.open, address)
		}
	}, true
}

// isStream reports whether a path is an event stream.
func isStream(path string) bool {
	return path == "/stream" || (strings.HasPrefix(path, "/sessions/") && strings.HasSuffix(path, "/stream"))
}

// limited enforces the limits on API requests and streams.
func (s *server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") || isMCP(r.URL.Path) {
			if wait := s.rateLimits.api.take(caller(r).Name, s.Clock()); wait > 0 {
				s.tooMany(w, r, wait, "Too many requests.")
				return
			}
		}
		if isStream(r.URL.Path) {
			leave, ok := s.rateLimits.streams.enter(peer(r))
			if !ok {
				s.tooMany(w, r, 10*time.Second, "Too many live pages are open.")
				return
			}
			defer leave()
		}
		next.ServeHTTP(w, r)
	})
}

func (s *server) tooMany(w http.ResponseWriter, r *http.Request, wait time.Duration, why string) {
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", fmt.Sprint(max(1, seconds)))
	s.refuse(w, r, http.StatusTooManyRequests, fmt.Sprintf("%s Try again in %s.", why, plural(max(1, seconds), "second", "seconds")))
}

// peer is the address a request comes from. Forwarding headers are not trusted, because anybody can send them.
func peer(r *http.Request) string { return hostname(r.RemoteAddr) }

// local reports whether an address is a loopback address.
func local(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.Unmap().IsLoopback()
}
