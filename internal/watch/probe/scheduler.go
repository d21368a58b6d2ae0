package probe

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"claudeops/internal/ops"
)

const (
	defaultInterval = 30 * time.Second
	defaultGather   = time.Second
	// defaultTogether is enough for a thousand probes every 30 s of which a tenth hang until their timeout.
	defaultTogether = 64
	// fullBatch is how many results are delivered without waiting for more.
	fullBatch = 256
)

// Watched is one probe of one environment.
type Watched struct {
	Environment string
	Spec        *ops.ProbeSpec
}

// SchedulerOptions are what a scheduler needs; prober and deliver are required.
type SchedulerOptions struct {
	Prober *Prober
	// Deliver takes results in the order in which probes ended. It is called by one goroutine at a time; while it works no more than a
	// batch is gathered, and then probes wait for it. The last call comes after ctx has ended, with a context that has not.
	Deliver  func(context.Context, []ops.Check)
	Interval time.Duration  // of probes without their own
	Gather   time.Duration  // how long a result may wait for others
	Together int            // how many probes run at once
	Random   func() float64 // in [0, 1)
}

// Scheduler runs probes at their intervals. A probe never overlaps itself: one that takes longer than its interval is
// due again when it ends. Intervals are moved by up to a tenth, so that probes do not run in step.
type Scheduler struct {
	o       SchedulerOptions
	changed chan struct{} // holds at most one wake-up

	mu    sync.Mutex
	items map[string][]*item
	due   dueHeap
}

// item is one watched probe. It is in the heap, or running, or gone.
type item struct {
	watched Watched
	due     time.Time
	gone    bool
	index   int // in the heap, or -1
}

// NewScheduler makes a scheduler that watches nothing yet.
func NewScheduler(o SchedulerOptions) *Scheduler {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	o.Gather = cmp.Or(o.Gather, defaultGather)
	o.Together = cmp.Or(o.Together, defaultTogether)
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Scheduler{o: o, changed: make(chan struct{}, 1), items: map[string][]*item{}}
}

// Watch replaces what is watched. Probes that stay the same keep their time; new ones are spread over their first
// interval, or the default one if that is shorter, so that they do not all run at once.
func (s *Scheduler) Watch(watched []Watched) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.items
	s.items = make(map[string][]*item, len(watched))
	for _, w := range watched {
		key := w.Environment + "\x00" + w.Spec.Service + "\x00" + Describe(*w.Spec)
		it := take(old, key, w)
		if it == nil {
			spread := min(s.interval(w.Spec), s.o.Interval)
			it = &item{watched: w, due: now.Add(time.Duration(s.o.Random() * float64(spread))), index: -1}
			heap.Push(&s.due, it)
		}
		s.items[key] = append(s.items[key], it)
	}
	for _, rest := range old {
		for _, it := range rest {
			it.gone = true
			if it.index >= 0 {
				heap.Remove(&s.due, it.index)
			}
		}
	}
	s.wake()
}

// take finds the item of an unchanged probe and removes it from the old ones.
func take(old map[string][]*item, key string, w Watched) *item {
	for i, it := range old[key] {
		if reflect.DeepEqual(it.watched, w) {
			old[key] = append(old[key][:i:i], old[key][i+1:]...)
			return it
		}
	}
	return nil
}

func (s *Scheduler) interval(spec *ops.ProbeSpec) time.Duration {
	if spec.Interval > 0 {
		return spec.Interval
	}
	return s.o.Interval
}

// Run runs probes until ctx ends; it returns after every probe has ended and every result was delivered. A probe that
// ctx cut short has no result; none is cut short because ctx was replaced.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.o.Prober == nil || s.o.Deliver == nil {
		return errors.New("run probe scheduler: it needs a prober and a function that takes the results")
	}
	results := make(chan ops.Check, fullBatch)
	var delivery, probes sync.WaitGroup
	delivery.Go(func() { s.deliver(ctx, results) })
	free := make(chan struct{}, s.o.Together)
	probing, end := ops.Lasting(ctx)
	defer end()
	for {
		it := s.next(ctx)
		if it == nil {
			break
		}
		free <- struct{}{} // a slot always becomes free: every probe has a timeout
		probes.Go(func() {
			defer func() { <-free }()
			s.once(probing, it, results)
		})
	}
	probes.Wait()
	close(results)
	delivery.Wait()
	return context.Cause(ctx)
}

// next waits for the next due probe and takes it out of the heap; nil after ctx has ended.
func (s *Scheduler) next(ctx context.Context) *item {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		wait := time.Hour // or until something changes
		s.mu.Lock()
		if len(s.due) > 0 {
			if wait = time.Until(s.due[0].due); wait <= 0 {
				it, _ := heap.Pop(&s.due).(*item)
				s.mu.Unlock()
				return it
			}
		}
		s.mu.Unlock()
		asked := time.Now()
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.changed:
		}
		if time.Since(asked) > wait+pauseSlack {
			s.spreadOverdue(time.Now())
		}
	}
	return nil
}

// pauseSlack is how late a timer may be before this process counts as having been paused.
const pauseSlack = 5 * time.Second

// spreadOverdue spreads the probes that became due during a pause as at a start, so that they do not all run at once.
func (s *Scheduler) spreadOverdue(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range s.due {
		if it.due.Before(now) {
			spread := min(s.interval(it.watched.Spec), s.o.Interval)
			it.due = now.Add(time.Duration(s.o.Random() * float64(spread)))
		}
	}
	heap.Init(&s.due)
}

// once runs a probe and makes it due again after its result was taken, so that results of a probe keep their order.
func (s *Scheduler) once(ctx context.Context, it *item, results chan<- ops.Check) {
	start := time.Now()
	check := s.o.Prober.one(ctx, it.watched.Environment, *it.watched.Spec, s.o.Prober.find)
	s.mu.Lock()
	gone := it.gone
	s.mu.Unlock()
	if gone {
		return
	}
	if check != nil {
		check.Environment, check.Purpose = it.watched.Environment, ops.ProbeWatch
		results <- *check
	}
	interval := s.interval(it.watched.Spec)
	jitter := (2*s.o.Random() - 1) / 10
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.gone {
		return
	}
	it.due = start.Add(interval + time.Duration(jitter*float64(interval)))
	heap.Push(&s.due, it)
	if it.index == 0 {
		s.wake()
	}
}

func (s *Scheduler) wake() {
	select {
	case s.changed <- struct{}{}:
	default: // it was woken already
	}
}

// deliver gathers results and passes them on until there are no more.
func (s *Scheduler) deliver(ctx context.Context, results <-chan ops.Check) {
	ctx = context.WithoutCancel(ctx) // results are kept
	for first := range results {
		batch := []ops.Check{first}
		timer := time.NewTimer(s.o.Gather)
		for open := true; open && len(batch) < fullBatch; {
			select {
			case c, ok := <-results:
				if open = ok; ok {
					batch = append(batch, c)
				}
			case <-timer.C:
				open = false
			}
		}
		timer.Stop()
		s.o.Deliver(ctx, batch)
	}
}

// dueHeap orders items by the time they are due.
type dueHeap []*item

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push adds an item.
func (h *dueHeap) Push(x any) {
	if it, ok := x.(*item); ok {
		it.index = len(*h)
		*h = append(*h, it)
	}
}

// Pop removes the last item.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	it := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	it.index = -1
	return it
}
