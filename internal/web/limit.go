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

// How much is let in. A person or a script in good order never meets these.
const (
	loginBurst = 5
	loginEvery = 12 * time.Second
	wrongBurst = 10
	wrongEvery = 6 * time.Second
	apiBurst   = 400
	apiEvery   = 20 * time.Millisecond
	alertBurst = 2000
	alertEvery = time.Millisecond

	mostBuckets     = 10_000
	mostStreams     = 2000
	mostPeerStreams = 64 // of one address that is not this machine's
)

// limits are what holds back those who ask too much.
type limits struct {
	logins  *limiter // attempts to log in, by address
	wrong   *limiter // wrong tokens, by address
	api     *limiter // requests of programs, by token
	alerts  *limiter // webhooks, by address
	streams *streams
}

func newLimits() *limits {
	return &limits{
		logins: newLimiter(loginBurst, loginEvery), wrong: newLimiter(wrongBurst, wrongEvery), api: newLimiter(apiBurst, apiEvery),
		alerts: newLimiter(alertBurst, alertEvery), streams: &streams{open: map[string]int{}},
	}
}

// limiter lets each key do a number of things at once, and one more each time that every has passed.
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

// take counts one thing and returns how long to wait where it is one too many.
func (l *limiter) take(key string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.burst
	if b, known := l.buckets[key]; known {
		left = l.filled(b, now)
	} else if len(l.buckets) >= mostBuckets {
		l.prune(now)
	}
	if left < 1 {
		return time.Duration((1 - left) * float64(l.every))
	}
	l.buckets[key] = bucket{left - 1, now}
	return 0
}

// prune forgets who has not come for long, or else everybody: memory has an end.
func (l *limiter) prune(now time.Time) {
	for key, b := range l.buckets {
		if l.filled(b, now) >= l.burst {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) >= mostBuckets {
		clear(l.buckets)
	}
}

// streams counts the open ones, in all and by address.
type streams struct {
	mu    sync.Mutex
	total int
	open  map[string]int
}

// enter takes a place; leave gives it back.
func (s *streams) enter(address string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= mostStreams || (s.open[address] >= mostPeerStreams && !local(address)) {
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

// isStream tells the addresses that are answered for as long as somebody reads.
func isStream(path string) bool {
	return path == "/stream" || (strings.HasPrefix(path, "/sessions/") && strings.HasSuffix(path, "/stream"))
}

// bounded holds back callers that ask too much, and streams that are too many.
func (s *server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			if wait := s.bounds.api.take(caller(r).Name, s.Clock()); wait > 0 {
				s.tooMany(w, r, wait, "Too many requests.")
				return
			}
		}
		if isStream(r.URL.Path) {
			leave, ok := s.bounds.streams.enter(peer(r))
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

// peer is the address a request comes from. What a proxy says about others is not believed: anybody can say it.
func peer(r *http.Request) string { return bareHost(r.RemoteAddr) }

// local reports whether an address is one of this machine's own.
func local(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.Unmap().IsLoopback()
}
