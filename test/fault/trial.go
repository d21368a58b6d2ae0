package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"
)

// slow is when a recovery is worth a line: on a machine that has time for it, it takes a second or two.
const slow = 10 * time.Second

// trial is one fault and what must hold after it.
type trial struct {
	group  string
	name   string
	detail string
	alone  bool // nothing may run beside it
	run    func(ctx context.Context, t *trying) error
}

// trying is a trial while it is made.
type trying struct {
	program string
	typical time.Duration // how long a start of the program takes
	keep    bool
	seed    uint64

	detail   string
	missed   bool          // the fault did not happen
	recovery time.Duration // from the start after the fault to the end of all work
	found    string        // what is worth telling
	ends     []func(failed bool)
}

// failure ends a trial at once.
type failure struct{ err error }

// check ends the trial if something went wrong.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// attempt makes the trial, and afterwards ends what it started, the last thing first.
func (t *trying) attempt(ctx context.Context, run func(ctx context.Context, t *trying) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.err
		}
		for _, end := range slices.Backward(t.ends) {
			end(err != nil)
		}
	}()
	return run(ctx, t)
}

// box makes a box that is closed when the trial is over; that of a failure can be kept.
func (t *trying) box(ctx context.Context, s setup) *box {
	if s.program == "" {
		s.program = t.program
	}
	b := must(newBox(ctx, s))
	t.ends = append(t.ends, func(failed bool) {
		keep := t.keep && failed
		if b.close(keep); keep {
			t.detail += " (kept in " + b.dir + ")"
		}
	})
	return b
}

// start starts the program in a box. It is killed when the trial is over.
func (t *trying) start(ctx context.Context, b *box, m mode, env ...string) *process {
	p := must(b.start(ctx, m, env...))
	t.ends = append(t.ends, func(bool) { p.signal(syscall.SIGKILL) })
	return p
}

// tally is what came of the trials of one group.
type tally struct {
	tried, missed int
	failed        []string
	recovery      []time.Duration
	found         []string
}

// programme makes trials, several at a time, and tells how it goes.
type programme struct {
	trying   // what every trial starts with
	parallel int
	out      io.Writer
	begun    time.Time

	mu      sync.Mutex
	order   []string
	tallies map[string]*tally
	made    int
}

func (p *programme) make(ctx context.Context, trials []trial, skip int) {
	p.begun, p.tallies = time.Now(), map[string]*tally{}
	todo := make(chan int)
	var workers sync.WaitGroup
	for range p.parallel {
		workers.Go(func() {
			for i := range todo {
				p.try(ctx, trials, i)
			}
		})
	}
	for i := skip; i < len(trials) && ctx.Err() == nil; i++ {
		if !trials[i].alone {
			todo <- i
		}
	}
	close(todo)
	workers.Wait()
	for i := skip; i < len(trials) && ctx.Err() == nil; i++ {
		if trials[i].alone {
			p.try(ctx, trials, i)
		}
	}
}

func (p *programme) try(ctx context.Context, trials []trial, i int) {
	tr := trials[i]
	t := p.trying
	t.detail = tr.detail
	begun := time.Now()
	err := t.attempt(ctx, tr.run)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.tallies[tr.group]
	if s == nil {
		s = &tally{}
		p.tallies[tr.group] = s
		p.order = append(p.order, tr.group)
	}
	p.made++
	s.tried++
	if t.missed {
		s.missed++
	} else if t.recovery > 0 {
		s.recovery = append(s.recovery, t.recovery)
	}
	if t.found != "" {
		s.found = append(s.found, t.found)
	}
	if err != nil {
		s.failed = append(s.failed, tr.name)
		fmt.Fprintf(p.out, "FAIL %s (case %d; %s)\n%v\n     again: -seed %d -case '%s'\n", tr.name, i, t.detail, err, t.seed, tr.name)
	}
	if t.recovery > slow {
		fmt.Fprintf(p.out, "SLOW %s (case %d; %s): %s to the end of all work\n", tr.name, i, t.detail, t.recovery.Round(10*time.Millisecond))
	}
	if p.made%50 == 0 || tr.alone {
		fmt.Fprintf(p.out, "%s  %d of %d, %d failed; last %s (case %d) took %s %s\n", time.Since(p.begun).Round(time.Second), p.made, len(trials),
			p.failures(), tr.name, i, time.Since(begun).Round(10*time.Millisecond), t.found)
	}
}

func (p *programme) failures() (n int) {
	for _, s := range p.tallies {
		n += len(s.failed)
	}
	return n
}

// report prints what came of it.
func (p *programme) report() {
	fmt.Fprintf(p.out, "\n| fault | trials | fault came too late | failed | from start to the end of all work |\n|---|---|---|---|---|\n")
	for _, g := range p.order {
		s := p.tallies[g]
		fmt.Fprintf(p.out, "| %s | %d | %d | %d | %s |\n", g, s.tried, s.missed, len(s.failed), spread(s.recovery))
		for _, f := range s.found {
			fmt.Fprintf(p.out, "  %s: %s\n", g, f)
		}
	}
	for _, g := range p.order {
		for _, f := range p.tallies[g].failed {
			fmt.Fprintf(p.out, "failed: %s\n", f)
		}
	}
}

func spread(d []time.Duration) string {
	if len(d) == 0 {
		return ""
	}
	slices.Sort(d)
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	return fmt.Sprintf("p50 %s, p99 %s, longest %s", round(d[len(d)/2]), round(d[len(d)*99/100]), round(d[len(d)-1]))
}
