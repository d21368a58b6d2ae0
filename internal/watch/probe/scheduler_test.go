package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

// gathered keeps what a scheduler delivers.
type gathered struct {
	mu      sync.Mutex
	batches [][]ops.Check
}

func (g *gathered) deliver(_ context.Context, checks []ops.Check) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.batches = append(g.batches, checks)
}

func (g *gathered) all() []ops.Check {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Concat(g.batches...)
}

func (g *gathered) sizes() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []int
	for _, b := range g.batches {
		out = append(out, len(b))
	}
	return out
}

func half() float64 { return 0.5 }

func watch(services ...string) []Watched {
	var out []Watched
	for _, s := range services {
		out = append(out, Watched{"home", &ops.ProbeSpec{Service: s, Type: "http", URL: "http://" + s}})
	}
	return out
}

// running starts a scheduler in a bubble; stop ends it and waits.
func running(t *testing.T, s *Scheduler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	reason := errors.New("test is over")
	return func() {
		cancel(reason)
		if err := <-ended; !errors.Is(err, reason) {
			t.Errorf("run ended with %v", err)
		}
	}
}

func TestProbesRunAtTheirIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gathered
		watched := watch("usual", "often", "rare")
		watched[1].Spec.Interval, watched[2].Spec.Interval = 10*time.Second, time.Hour
		s := NewScheduler(SchedulerOptions{Prober: faked(answer(0)), Deliver: g.deliver, Random: half, Watched: watched})
		stop := running(t, s)
		<-time.After(5*time.Minute + 7*time.Second)
		stop()
		count := map[string]int{}
		for _, c := range g.all() {
			count[c.Service]++
			if c.Environment != "home" || c.Purpose != ops.ProbeWatch || c.Status != ops.Healthy {
				t.Errorf("got %+v", c)
			}
		}
		// The first look comes after half an interval, or half a minute's half for the rare one.
		if count["usual"] != 10 || count["often"] != 31 || count["rare"] != 1 {
			t.Errorf("got %v", count)
		}
	})
}

func TestIntervalsAreSpreadByUpToATenth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		times := map[string][]time.Time{}
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			times[r.URL.Host] = append(times[r.URL.Host], time.Now())
			mu.Unlock()
			return answer(0)(r)
		})
		random := rand.New(rand.NewPCG(1, 2))
		var lock sync.Mutex
		var services []string
		for i := range 300 {
			services = append(services, fmt.Sprintf("s%d", i))
		}
		s := NewScheduler(SchedulerOptions{
			Prober: faked(transport), Deliver: func(context.Context, []ops.Check) {}, Watched: watch(services...),
			Random: func() float64 { lock.Lock(); defer lock.Unlock(); return random.Float64() },
		})
		start := time.Now()
		stop := running(t, s)
		<-time.After(10 * time.Minute)
		stop()
		perSecond := map[int]int{}
		for service, looks := range times {
			if first := looks[0].Sub(start); first > 30*time.Second {
				t.Errorf("%s was first looked at after %s", service, first)
			}
			for i, at := range looks[1:] {
				if gap := at.Sub(looks[i]); gap < 27*time.Second || gap > 33*time.Second {
					t.Errorf("%s: %s between looks", service, gap)
				}
				perSecond[int(at.Sub(start).Seconds())]++
			}
		}
		for second, n := range perSecond {
			if n > 40 { // ten on average
				t.Errorf("%d looks in second %d", n, second)
			}
		}
	})
}

func TestNoMoreThanTheLimitRunTogetherAndNoneOverlapsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		busy := sync.Map{}
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if _, twice := busy.LoadOrStore(r.URL.Host, true); twice {
				t.Errorf("%s overlaps itself", r.URL.Host)
			}
			defer busy.Delete(r.URL.Host)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return answer(8 * time.Second)(r)
		})
		var g gathered
		s := NewScheduler(SchedulerOptions{Prober: faked(transport), Deliver: g.deliver, Together: 3, Interval: 5 * time.Second, Watched: watch("a", "b", "c", "d", "e", "f", "g", "h")})
		stop := running(t, s)
		<-time.After(2 * time.Minute)
		stop()
		if most.Load() != 3 || now.Load() != 0 {
			t.Errorf("%d together, %d left", most.Load(), now.Load())
		}
		if n := len(g.all()); n < 40 || n > 45 { // 3 every 8 s
			t.Errorf("%d results", n)
		}
	})
}

func TestResultsComeInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gathered
		var services []string
		for i := range 300 {
			services = append(services, fmt.Sprintf("s%d", i))
		}
		watched := watch(services...) // all due at the same moment
		s := NewScheduler(SchedulerOptions{Prober: faked(answer(0)), Deliver: g.deliver, Random: half, Gather: 2 * time.Second, Watched: watched})
		stop := running(t, s)
		<-time.After(16 * time.Second)
		if sizes := g.sizes(); !slices.Equal(sizes, []int{fullBatch}) {
			t.Errorf("got batches of %d", sizes)
		}
		<-time.After(2 * time.Second)
		stop()
		if sizes := g.sizes(); !slices.Equal(sizes, []int{fullBatch, 300 - fullBatch}) {
			t.Errorf("got batches of %d", sizes)
		}
	})
}

func TestWhatWasFoundIsDeliveredAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gathered
		alive := false
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "slow" {
				return answer(time.Hour)(r)
			}
			return answer(0)(r)
		})
		s := NewScheduler(
			SchedulerOptions{Prober: faked(transport), Random: half, Gather: time.Minute, Deliver: func(ctx context.Context, c []ops.Check) {
				alive = ctx.Err() == nil
				g.deliver(ctx, c)
			}, Watched: watch("quick", "slow")},
		)
		stop := running(t, s)
		<-time.After(16 * time.Second)
		stop()
		if got := g.all(); len(got) != 1 || got[0].Service != "quick" || !alive {
			t.Errorf("got %+v with a living context: %t", got, alive)
		}
	})
}

func TestASlowReceiverSlowsTheProbesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int32
		transport := roundTrip(func(r *http.Request) (*http.Response, error) { looks.Add(1); return answer(0)(r) })
		release := make(chan struct{})
		s := NewScheduler(
			SchedulerOptions{
				Prober:   faked(transport),
				Interval: time.Second,
				Together: 4,
				Deliver:  func(context.Context, []ops.Check) { <-release },
				Watched:  watch("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"),
			},
		)
		stop := running(t, s)
		<-time.After(time.Hour)
		// One batch in the receiver's hands, a channel full of results, a probe per slot.
		if n := looks.Load(); n > 2*fullBatch+4 {
			t.Errorf("%d looks, though nobody took the results", n)
		}
		close(release)
		stop()
	})
}

func TestProbesThatBecameDueInAPauseAreSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := NewScheduler(SchedulerOptions{Random: random.Float64})
	probe := watch("web")[0]
	if wait := s.afterPause(probe, time.Second); wait != 0 {
		t.Errorf("a probe that is a second late waits %s", wait)
	}
	early := 0
	for range 100 {
		if after := s.afterPause(probe, time.Hour); after < 0 || after > defaultInterval {
			t.Errorf("a probe is due %s after the pause", after)
		} else if after < defaultInterval/10 {
			early++
		}
	}
	if early > 25 {
		t.Errorf("%d of 100 probes run within a tenth of the interval", early)
	}
}
